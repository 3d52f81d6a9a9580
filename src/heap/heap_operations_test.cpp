// Which durability the operations have while a heap is open, closed and abandoned; exact frees.
#include "heap/heap_operations.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "heap/heap.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using base::failure_code;
using persist::access_mode;
using segment::must;

class heap_operations_test : public testing::Test {
protected:
    [[nodiscard]] std::unique_ptr<engine> create(durability_kind durability, bool hardened = false) const {
        engine_options options;
        options.durability = durability;
        options.files.segment_size = segment::minimum_segment_size;
        options.files.mapping.reservation = base::gibibyte;
        options.accept_process_crash_only = true;
        options.hardened = hardened;
        return must(engine::create(path(), options));
    }
    [[nodiscard]] std::string path() const { return directory_.path("heap"); }

private:
    segment::test_directory directory_;
};

TEST_F(heap_operations_test, know_the_durability_until_the_heap_is_closed) {
    for (const auto durability : {durability_kind::commit, durability_kind::collect, durability_kind::atomic}) {
        auto heap = create(durability);
        EXPECT_EQ(heap->durability(), durability);
        EXPECT_EQ(heap->atomic() != nullptr, durability == durability_kind::atomic);
        EXPECT_EQ(heap->fast_path() == &slab::fast_path::of_no_heap(), durability == durability_kind::atomic);
        must(heap->close(true));
        EXPECT_EQ(heap->durability(), durability_kind::commit);
        EXPECT_EQ(heap->atomic(), nullptr);
        heap.reset();  // the lock goes with it
        must(remove(path()));
    }
}

TEST_F(heap_operations_test, of_a_reader_have_no_destinations) {
    must(create(durability_kind::atomic)->close(true));
    const auto reader = must(engine::open(path(), access_mode::read_only, {}));
    EXPECT_EQ(reader->durability(), durability_kind::commit);
    EXPECT_EQ(reader->destinations(), nullptr);
    EXPECT_EQ(reader->fast_path(), &slab::fast_path::of_no_heap());
}

TEST_F(heap_operations_test, refuse_a_second_free) {
    for (const auto durability : {durability_kind::commit, durability_kind::collect, durability_kind::atomic}) {
        for (const bool hardened : {false, true}) {
            auto heap = create(durability, hardened);
            for (const std::uint64_t bytes : {std::uint64_t{64}, base::mebibyte}) {
                void* const block = heap->allocate(bytes, 16);
                ASSERT_NE(block, nullptr);
                EXPECT_TRUE(heap->try_deallocate(block));
                EXPECT_FALSE(heap->try_deallocate(block));
                EXPECT_EQ(engine::last_failure().code, failure_code::bad_address);
            }
            EXPECT_TRUE(heap->blocks().inspect().all_free());
            must(heap->close(true));
            heap.reset();  // the lock goes with it
            must(remove(path()));
        }
    }
}

TEST_F(heap_operations_test, mark_a_held_block_allocated) {
    for (const auto durability : {durability_kind::commit, durability_kind::collect, durability_kind::atomic}) {
        auto heap = create(durability);
        slab::held_block held;
        ASSERT_TRUE(heap->blocks().hold(heap->blocks().this_cache(), 100, 16, held));
        void* const block = heap->files().view().address({held.offset});
        EXPECT_FALSE(heap->blocks().inspect().usable_size(block)) << "held, not allocated";
        heap->keep(held);
        EXPECT_EQ(must(heap->blocks().inspect().usable_size(block)), held.bytes());
        EXPECT_TRUE(heap->try_deallocate(block));
        must(heap->close(true));
        heap.reset();  // the lock goes with it
        must(remove(path()));
    }
}

TEST_F(heap_operations_test, leave_the_inlined_path_while_a_filter_sees_the_frees) {
    auto heap = create(durability_kind::commit);
    const slab::fast_path* const inlined = heap->fast_path();
    void* const block = heap->allocate(64, 16);
    int seen = 0;
    heap->set_free_filter([&](void* /*block*/) { return ++seen == 1; });
    EXPECT_NE(heap->fast_path(), inlined);
    EXPECT_TRUE(heap->try_deallocate(block));
    EXPECT_FALSE(heap->blocks().inspect().all_free()) << "the filter kept it";
    heap->set_free_filter({});
    EXPECT_EQ(heap->fast_path(), inlined);
    EXPECT_TRUE(heap->try_deallocate(block));
    EXPECT_EQ(seen, 1);
    must(heap->close(true));
}

}  // namespace
}  // namespace holdfast::heap
