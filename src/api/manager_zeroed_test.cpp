// allocation_traits::zeroed, in every durability: what a program finds behind the bytes that it had asked for.
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::Each;
using testing::IsEmpty;

class manager_zeroed_test : public manager_test, public testing::WithParamInterface<durability> {
protected:
    [[nodiscard]] manager create_heap() const {
        open_options wanted = small_options();
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        return {create_only, path(), wanted};
    }
    /// Leaves free memory that is full of ones.
    static void soil(manager& heap, std::size_t bytes) {
        for (std::size_t slot = 10; slot < 20; ++slot) {
            void* const block = heap.allocate_to(heap.root(slot), bytes);
            std::memset(block, 1, heap.usable_size(block));
        }
        for (std::size_t slot = 10; slot < 20; ++slot) {
            heap.free_from(heap.root(slot));
        }
    }
};

INSTANTIATE_TEST_SUITE_P(in, manager_zeroed_test,
                         testing::Values(durability::commit, durability::collect, durability::atomic),
                         [](const auto& each) {
                             return each.param == durability::commit    ? "commit"
                                    : each.param == durability::collect ? "collect"
                                                                        : "atomic";
                         });

TEST_P(manager_zeroed_test, a_zeroed_block_that_grows_zeroed_has_no_bytes_of_an_earlier_one) {
    manager heap = create_heap();
    constexpr allocation_traits zeroed{.zeroed = true};
    const std::vector<std::function<void(ptr<void>&, std::size_t)>> ways{
        [&](ptr<void>& root, std::size_t bytes) { heap.allocate_to(root, bytes, zeroed); },
        [&](ptr<void>& root, std::size_t bytes) { root = heap.allocate(bytes, zeroed); },
        [&](ptr<void>& root, std::size_t bytes) { heap.publish(root, heap.reserve(bytes, zeroed)); },
        [&](ptr<void>& root, std::size_t bytes) {
            transaction tx(heap);
            tx.store(root, tx.allocate(bytes, zeroed));
            tx.commit();
        },
    };
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{20'001}, std::size_t{200'001}}) {
        for (std::size_t way = 0; way < ways.size(); ++way) {
            soil(heap, bytes);
            soil(heap, 2 * bytes);
            ways[way](heap.root(0), bytes);
            const auto* const grown = static_cast<char*>(heap.realloc_to(heap.root(0), 2 * bytes, zeroed));
            EXPECT_THAT(std::vector<char>(grown, grown + 2 * bytes), Each(0)) << bytes << " bytes, way " << way;
            heap.free_from(heap.root(0));
        }
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast
