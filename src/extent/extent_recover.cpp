// Builds the index after a crash with several threads. After a crash only entries of blocks count, and none lies within
// an extent (EXT-6). So a thread may begin anywhere: the first such entry that it meets is the start of an extent.
#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "extent/extent_walk.hpp"

namespace holdfast::extent {

using base::failure;
using base::failure_code;
using base::pages;
using base::result;
using segment::extent_kind;

namespace {

/// The least pages for a thread: 1 GiB, whose page entries take half a millisecond to read.
constexpr std::uint64_t least_part = base::gibibyte / base::page_size;
constexpr std::uint64_t most_parts = 16;
/// Parts begin at the start of a word of page_bits and of a cache line of page entries.
constexpr std::uint64_t part_unit = 512;

}  // namespace

/// A part [begin, end) of the space, and what one thread found about extents that start there.
struct extent_allocator::recovered_part {
    pages begin{};
    pages end{};
    pages first_block{};  ///< `end` where there is none
    pages end_of_last{};  ///< may lie beyond `end`
    std::vector<extent> slabs;
    std::vector<extent> gaps;  ///< between blocks; join_parts() handles the first and the last
    std::array<std::uint64_t, 6> counts{};
    std::optional<failure> fault;
};

/// No other thread touches the words of this part meanwhile; recover() holds the lock.
void extent_allocator::recover_part(recovered_part& part, pages frontier) HF_NO_THREAD_SAFETY_ANALYSIS {
    part.first_block = part.end;
    part.end_of_last = part.begin;
    const auto block = [&](const extent& found) HF_NO_THREAD_SAFETY_ANALYSIS {
        if (part.first_block == part.end) {
            part.first_block = found.start;
        }
        starts_.set(found.start);
        ++part.counts[counter_of(found.kind)];
        if (found.kind == extent_kind::slab) {
            part.slabs.push_back(found);
        }
        part.end_of_last = found.start + found.length;
    };
    const auto gap = [&](pages start, pages length) {
        if (part.first_block != part.end && start + length != part.end) {
            write_gap(start, length);
            part.gaps.push_back({start, length, extent_kind::free});
        }
    };
    try {
        if (auto walked = walk_blocks(part.begin, part.end, frontier, block, gap); !walked) {
            part.fault = std::move(walked).error();
        }
    } catch (const std::bad_alloc&) {
        part.fault.emplace().code = failure_code::out_of_memory;
    }
}

result<void> extent_allocator::join_parts(std::vector<recovered_part>& parts, pages frontier, visitor each) {
    pages end_of_last{};
    const auto add_gap = [&](pages start, pages end) HF_NO_THREAD_SAFETY_ANALYSIS {  // the lock is held
        if (start < end) {
            write_gap(start, end - start);
            add_free({start, end - start, end - start});
        }
    };
    for (recovered_part& part : parts) {
        if (part.fault) {
            return std::move(*part.fault);
        }
        if (part.first_block == part.end) {
            continue;  // the part is all gap, or within an extent
        }
        if (part.first_block < end_of_last) {
            failure what;
            what.code = failure_code::corrupt;
            what.field = fmt::format("page entry {}", part.first_block.value);
            what.found = fmt::format("{:#x}", load(part.first_block));
            what.expected = "EXT-6: no entry of a block inside the extent before it";
            return what;
        }
        add_gap(end_of_last, part.first_block);
        for (const extent& gap : part.gaps) {
            add_free({gap.start, gap.length, gap.length});
        }
        for (const extent& slab : part.slabs) {
            each(slab);
        }
        for (std::size_t kind = 0; kind < counts_.size(); ++kind) {
            counts_[kind] += part.counts[kind];
        }
        end_of_last = part.end_of_last;
    }
    add_gap(end_of_last, frontier);
    return {};
}

result<void> extent_allocator::recover(pages frontier, visitor each, unsigned parts_wanted) {
    const base::scoped_lock lock(mutex_);
    HF_TRY(begin(frontier));
    const std::uint64_t suggested = std::min<std::uint64_t>(
        {frontier.value / least_part, most_parts, std::max(std::thread::hardware_concurrency(), 1U)});
    const std::uint64_t count = std::max<std::uint64_t>(parts_wanted != 0 ? parts_wanted : suggested, 1);
    const std::uint64_t length = base::align_up(base::divide_up(frontier.value, count), part_unit);
    std::vector<recovered_part> parts;
    for (std::uint64_t start = 0; start < frontier.value; start += length) {
        parts.emplace_back().begin = {start};
        parts.back().end = {std::min(frontier.value, start + length)};
    }
    {
        std::vector<std::jthread> helpers;
        helpers.reserve(parts.size());
        for (std::size_t i = 1; i < parts.size(); ++i) {
            try {
                helpers.emplace_back([this, &part = parts[i], frontier] { recover_part(part, frontier); });
            } catch (const std::system_error&) {  // no thread can be started
                recover_part(parts[i], frontier);
            }
        }
        recover_part(parts.front(), frontier);
    }
    HF_TRY(join_parts(parts, frontier, each));
    frontier_.store(frontier.value, std::memory_order_release);
    return {};
}

}  // namespace holdfast::extent
