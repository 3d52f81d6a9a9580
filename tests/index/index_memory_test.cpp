// Indexes whose process is out of memory: each allocation of a call fails once, and the index is as it was before, or
// as it is after.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "index/index_test_support.hpp"

namespace {

/// Allocations of this thread that succeed from here on; below 0: all.
thread_local std::int64_t allocations_left = -1;

void* allocate(std::size_t bytes) {
    if (allocations_left == 0) {
        throw std::bad_alloc();
    }
    allocations_left -= allocations_left > 0 ? 1 : 0;
    void* const made = std::malloc(bytes == 0 ? 1 : bytes);  // lint-allow(hand-memory): it is operator new
    if (made == nullptr) {
        throw std::bad_alloc();
    }
    return made;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
    try {
        return allocate(bytes);
    } catch (const std::bad_alloc& /*told*/) {
        return nullptr;
    }
}
void operator delete(void* block) noexcept { std::free(block); }               // lint-allow(hand-memory): as above
void operator delete(void* block, std::size_t) noexcept { std::free(block); }  // lint-allow(hand-memory): as above

namespace holdfast {
namespace {

using testing::IsEmpty;

/// Calls it with memory for one more allocation each time, until it succeeds.
template <class Call, class Look>
void fail_each(Call call, Look look) {
    constexpr std::int64_t most = 100'000;  // a call that fails for another reason would never succeed
    for (std::int64_t allowed = 0;; ++allowed) {
        ASSERT_LT(allowed, most);
        allocations_left = allowed;
        bool failed = false;
        try {
            call();
        } catch (const std::bad_alloc& /*wanted*/) {
            failed = true;
        }
        allocations_left = -1;
        if (failed) {
            look();
        }
        if (!failed || testing::Test::HasFailure()) {
            return;
        }
    }
}

template <class Index>
class index_memory_test : public testing::Test {
protected:
    using key = typename Index::key_type;
    using value = typename Index::mapped_type;
    static constexpr std::uint64_t entries = 20'000;

    [[nodiscard]] static auto key_of(std::uint64_t number) {
        if constexpr (std::is_same_v<key, std::string_view>) {
            return fmt::format("{:08}", number);
        } else {
            return number;
        }
    }
    static void fill(Index& tested) {
        for (std::uint64_t i = 0; i < entries; ++i) {
            tested.insert(key_of(i), value{});
        }
    }
    segment::test_directory directory_;
    manager heap_{create_only, directory_.path("heap"),
                  options_of({durability::atomic, open_options::domain_choice::emulated})};
};

using all_kinds =
    testing::Types<ordered_index<std::uint64_t, std::uint64_t>, ordered_index<std::string_view, std::uint64_t>,
                   hash_index<std::uint64_t, std::uint64_t>>;
TYPED_TEST_SUITE(index_memory_test, all_kinds);

/// Was: the entries were gone, and so was the way to the leaves: the next call crashed.
TYPED_TEST(index_memory_test, a_clear_without_memory_left_no_index) {
    TypeParam tested(this->heap_, "index");
    this->fill(tested);
    // Some leaves that splits would use again.
    for (std::uint64_t i = 0; i < this->entries / 2; ++i) {
        tested.remove(this->key_of(i));
    }
    fail_each([&] { tested.clear(); },
              [&] {
                  ASSERT_EQ(tested.size(), this->entries / 2);
                  ASSERT_THAT(tested.check(), IsEmpty());
              });
    EXPECT_EQ(tested.size(), 0U);
    this->fill(tested);
    EXPECT_EQ(tested.size(), this->entries);
    EXPECT_THAT(tested.check(), IsEmpty());
    tested.clear();
    EXPECT_EQ(this->heap_.statistics().allocated_blocks, 2U) << "the head and a leaf";
    EXPECT_THAT(this->heap_.check(false), IsEmpty());
}

/// Was: the same, behind the commit that made the entries those of the index.
TYPED_TEST(index_memory_test, a_bulk_load_without_memory_left_no_index) {
    TypeParam tested(this->heap_, "index");
    std::map<typename TypeParam::owned_key, typename TypeParam::owned_value> all;
    for (std::uint64_t i = 0; i < 1500; ++i) {
        all.emplace(this->key_of(i), i);
    }
    fail_each([&] { tested.bulk_load(all.begin(), all.end()); },
              [&] {
                  ASSERT_TRUE(tested.empty());
                  ASSERT_THAT(tested.check(), IsEmpty());
              });
    EXPECT_EQ(tested.size(), all.size());
    EXPECT_THAT(tested.check(), IsEmpty());
    EXPECT_EQ(tested.find(this->key_of(1000)), 1000U);
    tested.clear();
    EXPECT_EQ(this->heap_.statistics().allocated_blocks, 2U)
        << "the head and a leaf: no load that failed has left blocks";
    EXPECT_THAT(this->heap_.check(false), IsEmpty());
}

/// A thread keeps the memory of its last transaction. This one has none yet.
template <class Call, class Look>
void fail_each_in_thread(Call call, Look look) {
    const std::jthread fresh([&] { fail_each(call, look); });
}
/// Insertions and removals, with splits and merges, in random order.
template <class Index>
void change_without_memory(durability wanted, open_options::domain_choice domain) {
    using owned_key = typename Index::owned_key;
    constexpr std::uint64_t entries = 250;
    const segment::test_directory directory;
    const std::string path = directory.path("heap");
    std::map<owned_key, typename Index::owned_value> known;
    {
        manager heap(create_only, path, options_of({wanted, domain}));
        Index tested(heap, "index");
        const auto expect_known = [&] {
            ASSERT_EQ(tested.size(), known.size());
            ASSERT_THAT(tested.check(), IsEmpty());
        };
        for (std::uint64_t i = 0; i < entries; ++i) {
            const auto key = made_from<typename Index::key_type>(i * 7919 % entries);
            const auto value = made_from<typename Index::mapped_type>(i);
            fail_each_in_thread([&] { tested.insert(key, value); }, expect_known);
            known.emplace(key, value);
        }
        for (std::uint64_t i = 0; i < entries; ++i) {
            if (i % 25 != 0) {
                const auto key = made_from<typename Index::key_type>(i);
                if (i % 3 == 0) {
                    fail_each_in_thread([&] { tested.remove(key); }, expect_known);
                } else {
                    tested.remove(key);  // a merge waits for memory
                }
                known.erase(owned_key(key));
            }
        }
        EXPECT_GT(tested.statistics().retired_leaves, 0U);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    manager heap(open_only, path, options_of({wanted, domain}));
    Index tested(heap, "index");
    EXPECT_THAT(tested.check(), IsEmpty());
    std::map<owned_key, typename Index::owned_value> found;
    test::for_each_entry(tested, [&](const auto& key, const auto& value) { found.emplace(key, value); });
    EXPECT_EQ(found, known);
}
/// Was, in durability `collect` with texts: a removal that threw had taken the entry out on media, so that it was gone
/// after the next open; a split that threw lost later changes of the leaf likewise.
TEST(index_memory, ChangesWithoutMemoryLeaveTheIndexAsItWas) {
    using texts = ordered_index<std::string_view, std::string_view>;
    for (const auto& [wanted, domain] : {std::pair(durability::commit, open_options::domain_choice::detect),
                                         std::pair(durability::atomic, open_options::domain_choice::emulated),
                                         std::pair(durability::collect, open_options::domain_choice::page_cache)}) {
        change_without_memory<ordered_index<std::uint64_t, std::uint64_t>>(wanted, domain);
        change_without_memory<texts>(wanted, domain);
        change_without_memory<hash_index<std::string_view, std::uint64_t>>(wanted, domain);
    }
}

}  // namespace
}  // namespace holdfast
