#include "extent/extent_open.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "extent/page_entries.hpp"

namespace holdfast::extent {

using base::pages;
using base::result;
using segment::extent_kind;

result<void> open_extents(extent_map& map, pages frontier, extent_visitor each, std::vector<extent>& unwritten) {
    HF_TRY(map.entries().check_frontier(frontier));
    HF_TRY(map.reset());
    pages gap{};  // free extents, and reserved ones, which were never published
    pages gap_begin{};
    bool any_reserved = false;
    const auto end_gap = [&] {
        if (gap.value != 0) {
            if (any_reserved) {
                unwritten.push_back({gap_begin, gap, extent_kind::free});
            }
            map.index().add_free({gap_begin, gap, gap});
        }
        gap = {};
        any_reserved = false;
    };
    HF_TRY(map.entries().walk(frontier, [&](const extent& found) {
        if (found.kind == extent_kind::free || found.kind == extent_kind::reserved) {
            gap_begin = gap.value == 0 ? found.start : gap_begin;
            gap += found.length;
            any_reserved = any_reserved || found.kind == extent_kind::reserved;
            return;
        }
        end_gap();
        map.index().add(found.start, found.kind);
        each(found);
    }));
    end_gap();
    map.set_frontier(frontier);
    return {};
}

// A thread may begin anywhere: the first entry of a block that it meets is the start of an extent (EXT-6).

using base::failure;
using base::failure_code;

namespace {

/// 1 GiB, whose page entries take half a millisecond to read.
constexpr std::uint64_t least_part = base::gibibyte / base::page_size;
constexpr std::uint64_t most_parts = 16;
constexpr std::uint64_t part_unit = 512;

/// [begin, end), and what one thread found about extents that start there.
struct recovered_part {
    pages begin{};
    pages end{};
    pages first_block{};  ///< `end`: none
    pages end_of_last{};  ///< may lie beyond `end`
    std::vector<extent> slabs;
    std::vector<extent> gaps;  ///< between blocks; join_parts() handles the first and the last
    extent_index::kind_counts counts;
    std::optional<failure> fault;
};

/// No other thread touches the words of this part meanwhile.
void recover_part(extent_map& map, recovered_part& part, pages frontier) {
    part.first_block = part.end;
    part.end_of_last = part.begin;
    const auto block = [&](const extent& found) {
        if (part.first_block == part.end) {
            part.first_block = found.start;
        }
        map.index().note_start(found.start);
        ++part.counts[found.kind];
        if (found.kind == extent_kind::slab) {
            part.slabs.push_back(found);
        }
        part.end_of_last = found.start + found.length;
    };
    const auto gap = [&](pages start, pages length) {
        if (part.first_block != part.end && start + length != part.end) {
            map.entries().write_gap(start, length);
            part.gaps.push_back({start, length, extent_kind::free});
        }
    };
    try {
        if (auto walked = map.entries().walk_blocks(part.begin, part.end, frontier, block, gap); !walked) {
            part.fault = std::move(walked).error();
        }
    } catch (const std::bad_alloc&) {
        part.fault.emplace().code = failure_code::out_of_memory;
    }
}

result<void> join_parts(extent_map& map, std::vector<recovered_part>& parts, pages frontier, extent_visitor each) {
    pages end_of_last{};
    const auto add_gap = [&](pages start, pages end) {
        if (start < end) {
            map.entries().write_gap(start, end - start);
            map.index().add_free({start, end - start, end - start});
        }
    };
    for (recovered_part& part : parts) {
        if (part.fault) {
            return std::move(*part.fault);
        }
        if (part.first_block == part.end) {
            continue;  // all gap, or within an extent
        }
        if (part.first_block < end_of_last) {
            return make_failure(failure_code::corrupt, fmt::format("page entry {}", part.first_block.value),
                                fmt::format("{:#x}", map.entries().load(part.first_block)),
                                "EXT-6: no entry of a block inside the extent before it");
        }
        add_gap(end_of_last, part.first_block);
        for (const extent& gap : part.gaps) {
            map.index().add_free({gap.start, gap.length, gap.length});
        }
        for (const extent& slab : part.slabs) {
            each(slab);
        }
        map.index().add_counts(part.counts);
        end_of_last = part.end_of_last;
    }
    add_gap(end_of_last, frontier);
    return {};
}

}  // namespace

result<void> recover_extents(extent_map& map, pages frontier, extent_visitor each, unsigned parts_wanted) {
    HF_TRY(map.entries().check_frontier(frontier));
    HF_TRY(map.reset());
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
                helpers.emplace_back([&map, &part = parts[i], frontier] { recover_part(map, part, frontier); });
            } catch (const std::system_error&) {  // no thread can be started
                recover_part(map, parts[i], frontier);
            }
        }
        recover_part(map, parts.front(), frontier);
    }
    HF_TRY(join_parts(map, parts, frontier, each));
    map.set_frontier(frontier);
    return {};
}

}  // namespace holdfast::extent
