// A heap as in durability `commit`, on a disk that knows which pages have space.
#pragma once

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {

inline constexpr std::uint64_t all_pages = base::pages_per_granule;  ///< of a slab

class sparse_slabs_test : public ::testing::Test {
protected:
    sparse_slabs_test() { heap_.space().give_back_at_once(false); }  // as durability `commit`

    /// Null where the disk is full.
    [[nodiscard]] std::byte* try_allocate(std::size_t bytes) {
        auto* const block = static_cast<std::byte*>(heap_.blocks().allocate(bytes, 1));
        if (block != nullptr) {
            EXPECT_TRUE(is_backed(block, bytes));
        }
        return block;
    }
    [[nodiscard]] std::byte* allocate(std::size_t bytes) {
        std::byte* const block = try_allocate(bytes);
        EXPECT_NE(block, nullptr) << block_allocator::last_failure().message();
        return block;
    }
    void free(void* block) { ASSERT_TRUE(heap_.blocks().try_free(block)) << block_allocator::last_failure().message(); }
    [[nodiscard]] bool is_backed(const std::byte* block, std::size_t bytes) const {
        const std::uint64_t begin = heap_.space().view().offset(block).value;
        for (std::uint64_t page = begin / base::page_size; page <= (begin + bytes - 1) / base::page_size; ++page) {
            if (!heap_.space().is_backed({page})) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] std::uint64_t backed_pages(base::granule slab) const {
        std::uint64_t found = 0;
        for (std::uint64_t page = 0; page < base::pages_per_granule; ++page) {
            found += heap_.space().is_backed(base::first_page(slab) + base::pages{page}) ? 1U : 0U;
        }
        return found;
    }
    [[nodiscard]] bool may_have_holes(base::granule slab) const {
        return segment::decode_slab_flags(heap_.space().view().slab_header(slab).flags).may_have_holes;
    }
    /// Does what a commit does, and what a power loss shows: holes lose their content.
    sparse_pages commit(bool all = true) {
        sparse_pages going = heap_.blocks().slabs().make_sparse(all);
        heap_.blocks().slabs().write_bitmaps();
        expect_no_block_in(going.free);
        for (const auto& [start, length] : going.holes) {
            EXPECT_TRUE(heap_.space().give_back(start, length).ok());
            std::memset(heap_.space().view().address(base::offset_of(start)), 0xee, base::to_bytes(length));
        }
        heap_.blocks().slabs().sparse().note_holes(going.holes);
        return going;
    }
    void expect_no_block_in(const segment::free_runs& runs) const {
        EXPECT_TRUE(std::is_sorted(runs.begin(), runs.end(), [](auto& a, auto& b) { return a.first < b.first; }));
        heap_.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t bytes, std::uint32_t) {
            const base::pages first = base::page_of(offset);
            const base::pages last{(offset.value + bytes - 1) / base::page_size};
            for (const auto& [start, length] : runs) {
                EXPECT_TRUE(last < start || start + length <= first) << "block at " << offset.value;
            }
        });
    }
    [[nodiscard]] static std::uint64_t pages_in(const segment::free_runs& runs) {
        std::uint64_t pages = 0;
        for (const auto& run : runs) {
            pages += run.second.value;
        }
        return pages;
    }
    /// Only the blocks at the indices are live, and no thread has a part.
    [[nodiscard]] std::vector<std::byte*> sparse_slab(std::size_t bytes, const std::set<std::uint32_t>& indices) {
        const std::vector<std::byte*> all = heap_.whole_slab(bytes);
        std::vector<std::byte*> kept;
        for (std::uint32_t i = 0; i < all.size(); ++i) {
            if (indices.contains(i)) {
                std::memset(all[i], static_cast<int>(i % 200 + 1), bytes);
                kept.push_back(all[i]);
            } else {
                free(all[i]);
            }
        }
        heap_.blocks().small().flush_this_thread();
        return kept;
    }
    void fill_the_heap() {
        while (heap_.extents().free_pages().value != 0) {
            ASSERT_TRUE(heap_.extents().allocate({1}, {1}, segment::extent_kind::used).ok());
        }
        heap_.space().set_capacity(0);
    }
    static void expect_filled(const std::byte* block, std::size_t bytes, std::uint32_t index) {
        EXPECT_EQ(std::count(block, block + bytes, static_cast<std::byte>(index % 200 + 1)),
                  static_cast<std::ptrdiff_t>(bytes));
    }

    mutable test_heap heap_;
};

}  // namespace holdfast::slab
