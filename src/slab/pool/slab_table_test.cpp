// What a free reads of a slab while another thread morphs the slab.
#include "slab/pool/slab_table.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "extent/fake_space.hpp"

namespace holdfast::slab {
namespace {

constexpr base::granule slab{3};

/// Offsets in the slab at which blocks of both kinds begin, of one kind, and of none.
constexpr std::array<std::uint64_t, 5> offsets{0, 64 * 48, 64 * 5, 48 * 7, 12};

TEST(slab_table_test, a_slab_whose_blocks_are_not_freed_by_their_states_has_no_start_of_a_block) {
    const extent::fake_space space;
    slab_table table;
    ASSERT_TRUE(table.reset(space.view()));
    const unsigned class_index = class_of_block_size(64);
    const std::uint64_t begin = base::offset_of(slab).value;
    for (const std::uint8_t state :
         {slab_state::none, slab_state::loaded(slab_kind(class_index, slab_bank::lower)), slab_state::quarantined,
          slab_state::unloaded(class_index), slab_state::clean(class_index)}) {
        table.set_state(slab, state);
        for (const std::uint64_t offset : offsets) {
            const bool is_start = slab_state::is_dirty(state) && offset % 64 == 0;
            EXPECT_EQ(slab_table::find_block_state_fast(table.entry(slab).fast, begin + offset).is_start, is_start)
                << int{state} << ", " << offset;
        }
    }
}

TEST(slab_table_test, the_place_of_a_state_is_of_one_kind_while_another_thread_changes_it) {
    const extent::fake_space space;
    slab_table table;
    ASSERT_TRUE(table.reset(space.view()));
    const std::array<slab_kind, 2> kinds{slab_kind(class_of_block_size(64), slab_bank::lower),
                                         slab_kind(class_of_block_size(48), slab_bank::upper)};
    table.set_state(slab, slab_state::loaded(kinds[0]));
    std::atomic<bool> stop{false};
    std::thread changes([&] {
        for (unsigned turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
            table.set_state(slab, slab_state::loaded(kinds.at(turn % kinds.size())));
        }
    });
    std::uint64_t found = 0;
    std::uint64_t wrong = 0;
    for (std::uint64_t turn = 0; found < 1'000'000; ++turn) {  // however long the other thread is stopped halfway
        const std::uint64_t offset = base::offset_of(slab).value + offsets.at(turn % offsets.size());
        const auto at = slab_table::find_block_state_fast(table.entry(slab).fast, offset);
        if (at.is_start) {
            ++found;
            wrong +=
                at.state != table.block_state_at(offset, kinds[0]) && at.state != table.block_state_at(offset, kinds[1])
                    ? 1U
                    : 0U;
        }
    }
    stop.store(true);
    changes.join();
    EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace holdfast::slab
