// stress.hpp on the functions of the drop-in, which are malloc's under other names: so the sanitizers see it, too. In a
// process of its own, for a process has one such heap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "heap/heap.hpp"
#include "malloc/drop_in.hpp"
#include "malloc/stress.hpp"
#include "segment/test_support.hpp"

namespace holdfast::drop_in {
namespace {

struct of_the_heap {
    static void* allocate(std::size_t bytes) { return drop_in::allocate(bytes); }
    static void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
        return drop_in::allocate(bytes, alignment);
    }
    static void* allocate_zeroed(std::size_t count, std::size_t bytes) {
        return drop_in::allocate_zeroed(count, bytes);
    }
    static void* reallocate(void* block, std::size_t bytes) { return drop_in::reallocate(block, bytes); }
    static void free(void* block) { drop_in::free(block); }
};

int stress_on(const std::string& path) {
    if (!open({path, 0, false})) {
        return 2;
    }
    stress::exercise<of_the_heap> all;
    const std::uint64_t wrong = all.run({4, 3, 5'000});
    close();
    return wrong == 0 ? 0 : 1;
}

TEST(malloc_stress_test, threads_that_hand_blocks_over_and_end_at_random) {
    const segment::test_directory directory;
    for (const std::string& path : {std::string(), directory.path("heap")}) {
        const base::process_end end = base::run_in_child([&] { return stress_on(path); });
        EXPECT_TRUE(end.succeeded()) << end << " " << path;
    }
    const auto heap = segment::must(heap::engine::open(directory.path("heap"), persist::access_mode::read_only, {}));
    EXPECT_THAT(heap->check(false), testing::IsEmpty());
    EXPECT_TRUE(heap->blocks().inspect().all_free()) << "all was given back";
}

}  // namespace
}  // namespace holdfast::drop_in
