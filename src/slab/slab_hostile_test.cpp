// Media that break the format: either open fails, or the heap works as well as it can. Nothing crashes, hangs or
// reaches beyond the frontier.
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {
namespace {

constexpr std::uint64_t capacity = std::uint64_t{8} << 20;

class vandal {
public:
    explicit vandal(std::uint64_t seed) : random_(seed) {}

    void damage(const segment::space_view& view, base::pages frontier) {
        const std::uint64_t granules = frontier.value / base::pages_per_granule;
        for (std::uint64_t times = 1 + below(4); times > 0; --times) {
            const base::granule granule{below(granules)};
            switch (below(4)) {
                case 0: view.page_entry_word({below(frontier.value)}) = word(); break;
                case 1: view.live_bitmap(granule)[below(bitmap_words)] = random_(); break;
                case 2: {
                    auto& header = view.slab_header(granule);
                    auto* const bytes = reinterpret_cast<std::byte*>(&header);
                    bytes[below(sizeof header)] = static_cast<std::byte>(random_());
                    break;
                }
                default: {
                    const size_class& size = size_classes[below(class_count)];
                    const std::uint64_t type = below(2) == 0 ? 0 : below(2 * segment::type_limit);
                    view.slab_header(granule) = {size.block_size, size.block_count, 0, type, {}};
                    break;
                }
            }
        }
    }
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

private:
    std::uint64_t word() {
        const auto type = static_cast<std::uint32_t>(below(2) * below(segment::type_limit));
        return below(3) == 0 ? random_()
                             : segment::encode({static_cast<segment::extent_kind>(below(6)), {below(64)}, type});
    }

    std::mt19937_64 random_;
};

/// Expects every block of a damaged heap to lie below the frontier and to be writable.
void use(test_heap& heap, vandal& choose) {
    std::vector<void*> blocks;
    const auto& view = heap.space().view();
    for (int i = 0; i < 300; ++i) {
        const std::size_t bytes = 1 + choose.below(choose.below(8) == 0 ? 100'000 : 2000);
        const auto type = static_cast<std::uint32_t>(choose.below(4));
        if (void* const block =
                type == 0 ? heap.blocks().allocate(bytes, 8) : heap.blocks().allocate_typed(bytes, 8, type)) {
            ASSERT_LE(view.offset(block).value + bytes, base::to_bytes(heap.extents().frontier()));
            std::memset(block, 0x5a, bytes);
            blocks.push_back(block);
        }
        static_cast<void>(
            heap.blocks().try_free(view.base() + 8 * choose.below(base::to_bytes(heap.extents().frontier()) / 8)));
        if (!blocks.empty() && choose.below(2) == 0) {
            static_cast<void>(heap.blocks().try_free(blocks.back()));
            blocks.pop_back();
        }
    }
    heap.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t) {
        ASSERT_LE(offset.value + size, base::to_bytes(heap.extents().frontier()));
        static_cast<void>(heap.blocks().try_free(view.address(offset)));
    });
    heap.blocks().small().flush_this_thread();
    std::vector<std::string> problems;
    heap.blocks().inspect().check(problems);
    static_cast<void>(heap.blocks().inspect().statistics());
}

TEST(slab_hostile_test, arbitrary_metadata_neither_crashes_nor_hangs) {
    vandal choose(11);
    int opened = 0;
    for (int round = 0; round < 400; ++round) {
        test_heap heap(capacity, capacity, segment::region_size, segment::minimum_segment_size);
        use(heap, choose);
        for (int i = 0; i < 200; ++i) {
            static_cast<void>(heap.blocks().allocate(1 + choose.below(3000), 8));
        }
        choose.damage(heap.space().view(), heap.space().frontier());
        const auto reopened = heap.reopen();
        if (!reopened) {
            EXPECT_EQ(reopened.error().code, base::failure_code::corrupt);
            EXPECT_FALSE(reopened.error().field.empty());
            continue;
        }
        ++opened;
        std::vector<std::string> problems;
        heap.blocks().inspect().check(problems);
        use(heap, choose);
    }
    EXPECT_GT(opened, 100);
}

/// A stray pointer of the program could do this.
TEST(slab_hostile_test, damage_to_an_open_heap_neither_crashes_nor_hangs) {
    vandal choose(12);
    for (int round = 0; round < 200; ++round) {
        test_heap heap(capacity, capacity, segment::region_size, segment::minimum_segment_size);
        use(heap, choose);
        for (int i = 0; i < 5; ++i) {
            auto& view = heap.space().view();
            view.live_bitmap({choose.below(32)})[choose.below(4)] &= choose.below(~std::uint64_t{0});
            view.slab_header({choose.below(32)}).block_size = static_cast<std::uint32_t>(choose.below(20'000));
            use(heap, choose);
        }
    }
}

}  // namespace
}  // namespace holdfast::slab
