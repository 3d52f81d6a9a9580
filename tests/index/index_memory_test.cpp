// Indexes whose process is out of memory: each allocation of clear() and bulk_load() fails once, and the index is as it
// was before, or as it is after.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <string>

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
    for (std::int64_t allowed = 0;; ++allowed) {
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

}  // namespace
}  // namespace holdfast
