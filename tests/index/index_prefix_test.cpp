// An index in durability `collect` whose process ends behind any of its stores: what the heap then holds is the stores
// up to there. The heap's memory is write-protected, so each store of a call is a step: a fault, one instruction, and
// the protection again.
//
// Oracle: all invariants hold, and the entries are those before the call or those after it.
#include "base/under_qemu.hpp"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <ucontext.h>

#include "base/process_test_support.hpp"
#include "index/index_test_support.hpp"
#include "support/scratch.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

constexpr int status_of_cut = 42;
constexpr greg_t trap_flag = 0x100;  // one instruction, then SIGTRAP

void* guarded = nullptr;
std::size_t guarded_bytes = 0;
std::uint64_t stores_left = 0;

void let_one_store_pass(int /*signal*/, siginfo_t* /*told*/, void* context) {
    if (stores_left-- == 0) {
        ::_exit(status_of_cut);
    }
    ::mprotect(guarded, guarded_bytes, PROT_READ | PROT_WRITE);
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] |= trap_flag;
}
void guard_again(int /*signal*/, siginfo_t* /*told*/, void* context) {
    static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
    ::mprotect(guarded, guarded_bytes, PROT_READ);
}
void on(int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction wanted {};
    wanted.sa_sigaction = handler;
    wanted.sa_flags = SA_SIGINFO;
    ::sigaction(signal, &wanted, nullptr);
}
/// The process ends at the store behind `stores` of them.
void end_behind(manager& heap, std::uint64_t stores) {
    guarded = heap.get_address();
    guarded_bytes = heap.get_size();
    stores_left = stores;
    on(SIGSEGV, let_one_store_pass);
    on(SIGTRAP, guard_again);
    ::mprotect(guarded, guarded_bytes, PROT_READ);
}
void guard_no_more() { ::mprotect(guarded, guarded_bytes, PROT_READ | PROT_WRITE); }

template <class Index>
class index_prefix : public testing::Test {
protected:
    using key = typename Index::key_type;
    using value = typename Index::mapped_type;
    using content = std::map<typename Index::owned_key, typename Index::owned_value>;

    /// `prepare(index)`, then `call(index)`, which is cut behind each of its stores.
    template <class Prepare, class Call>
    void cut_everywhere(const Prepare& prepare, const Call& call) {
        content before;
        content after;
        {
            manager made(create_only, path_, options());
            Index model(made, "model");
            prepare(model);
            before = content_of(model);
            call(model);
            after = content_of(model);
        }
        manager::remove(path_);
        bool was_cut = true;
        for (std::uint64_t stores = 0; was_cut && !this->HasFailure(); ++stores) {
            const auto end = base::run_in_child([&] {
                manager made(create_only, path_, options());
                Index index(made, "index");
                prepare(index);
                end_behind(made, stores);
                call(index);
                guard_no_more();
                ::_exit(0);
            });
            ASSERT_TRUE(end.succeeded() || end.exit_status() == status_of_cut) << end;
            was_cut = !end.succeeded();
            expect_one_of(before, after, stores);
            manager::remove(path_);
        }
    }

private:
    static void go_on_with(Index& index, std::size_t size) {
        for (std::uint64_t number = 50'000; number < 50'200; ++number) {
            const auto new_key = made_from<key>(number);
            const auto new_value = made_from<value>(number);
            ASSERT_TRUE(index.insert(new_key, new_value));
        }
        ASSERT_THAT(index.check(), IsEmpty());
        ASSERT_EQ(index.size(), size + 200);
        index.clear();
        ASSERT_THAT(index.check(), IsEmpty());
    }
    [[nodiscard]] static open_options options() {
        open_options wanted;
        wanted.durability = durability::collect;
        wanted.accept_process_crash_only = true;
        wanted.segment_size = std::uint64_t{2} << 20U;
        wanted.reservation = std::uint64_t{1} << 30U;
        return wanted;
    }
    [[nodiscard]] static content content_of(const Index& index) {
        content all;
        test::for_each_entry(index, [&](const key& k, const value& v) { all.emplace(k, v); });
        return all;
    }
    void expect_one_of(const content& before, const content& after, std::uint64_t stores) {
        try {
            manager heap(open_only, path_, options());
            Index index(heap, "index");
            ASSERT_THAT(index.check(), IsEmpty()) << "behind " << stores << " stores";
            const content found = content_of(index);
            ASSERT_TRUE(found == before || found == after) << found.size() << " entries behind " << stores << " stores";
            go_on_with(index, found.size());
        } catch (const std::exception& refused) {
            FAIL() << refused.what() << " behind " << stores << " stores";
        }
    }

    support::scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
};

using prefix_indexes =
    testing::Types<ordered_index<std::uint64_t, std::uint64_t>, ordered_index<std::string_view, std::uint64_t>,
                   ordered_index<wide_key, std::uint64_t>, ordered_index<std::uint64_t, std::string_view>,
                   ordered_index<std::string_view, std::string_view>>;
TYPED_TEST_SUITE(index_prefix, prefix_indexes);

template <class Index>
void insert(Index& to, std::uint64_t number) {
    const auto key = made_from<typename Index::key_type>(number);
    const auto value = made_from<typename Index::mapped_type>(number);
    to.insert(key, value);
}

template <class Index>
void remove(Index& from, std::uint64_t number) {
    const auto key = made_from<typename Index::key_type>(number);
    from.remove(key);
}

/// Numbers that are no multiple of 7: texts of them have one order with the numbers.
constexpr std::uint64_t number_at(std::uint64_t i) { return 7 * i + 1; }

/// Was: bits of entries came before their words, so that the index was damaged, or had an entry that was removed.
TYPED_TEST(index_prefix, MergeLeavesTheEntriesBeforeOrAfter) {
    const auto prepare = [](TypeParam& index) {
        const std::uint64_t slots = index.statistics().slots;
        for (std::uint64_t i = 0; i < slots + slots * 3 / 8; ++i) {
            insert(index, number_at(i));
        }
        const std::uint64_t few = (slots / 8 - 1) / 4 * 4;  // with so many a leaf is united with the next one
        for (std::uint64_t i = few + 1; i < slots; ++i) {
            remove(index, number_at(i));
        }
        EXPECT_EQ(index.statistics().leaves, 2U);
    };
    const auto unite = [](TypeParam& index) {
        remove(index, number_at(1));
        EXPECT_EQ(index.statistics().leaves, 1U);
    };
    this->cut_everywhere(prepare, unite);
}
TYPED_TEST(index_prefix, SplitLeavesTheEntriesBeforeOrAfter) {
    std::uint64_t slots = 0;
    const auto prepare = [&](TypeParam& index) {
        slots = index.statistics().slots;
        for (std::uint64_t i = 0; i < slots; ++i) {
            insert(index, number_at(2 * i));
        }
        EXPECT_EQ(index.statistics().leaves, 1U);
    };
    const auto split = [&](TypeParam& index) {
        insert(index, number_at(slots + 1));
        EXPECT_EQ(index.statistics().leaves, 2U);
    };
    this->cut_everywhere(prepare, split);
}

/// The new leaf is one that a merge has left.
TYPED_TEST(index_prefix, SplitIntoARetiredLeafLeavesTheEntriesBeforeOrAfter) {
    std::uint64_t slots = 0;
    const auto prepare = [&](TypeParam& index) {
        slots = index.statistics().slots;
        for (std::uint64_t i = 0; i < slots + slots * 3 / 8; ++i) {
            insert(index, number_at(2 * i));
        }
        for (std::uint64_t i = 1; i < slots; ++i) {
            remove(index, number_at(2 * i));
        }
        EXPECT_EQ(index.statistics().retired_leaves, 1U);
        for (std::uint64_t i = 1; index.size() < slots; ++i) {
            insert(index, number_at(2 * i));
        }
        EXPECT_EQ(index.statistics().leaves, 1U);
    };
    const auto split = [&](TypeParam& index) {
        insert(index, number_at(slots + 1));
        EXPECT_EQ(index.statistics().leaves, 2U);
        EXPECT_EQ(index.statistics().retired_leaves, 0U);
    };
    this->cut_everywhere(prepare, split);
}
TYPED_TEST(index_prefix, CallsLeaveTheEntriesBeforeOrAfter) {
    const auto nothing = [](TypeParam& /*index*/) {};
    const auto some = [](TypeParam& index) {
        for (std::uint64_t i = 0; i < 200; ++i) {
            insert(index, number_at(i));
        }
    };
    this->cut_everywhere(nothing, [](TypeParam& index) { insert(index, 1); });
    this->cut_everywhere(some, [](TypeParam& index) { remove(index, number_at(50)); });
    this->cut_everywhere(some, [](TypeParam& index) {
        const auto old_key = made_from<typename TypeParam::key_type>(number_at(60));
        const auto new_value = made_from<typename TypeParam::mapped_type>(3);
        index.update(old_key, new_value);
    });
}

}  // namespace
}  // namespace holdfast

#endif
