#include "space.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace holdfast_cli {

namespace {

double missing_share(std::uint64_t part, std::uint64_t whole) noexcept {
    return whole == 0 ? 0 : 1 - static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

space_kind kind_of(const holdfast::extent_info& extent) noexcept {
    switch (extent.kind) {
        case holdfast::extent_kind::free: return space_kind::free;
        case holdfast::extent_kind::block: return extent.bytes > largest_big_block ? space_kind::huge : space_kind::big;
        case holdfast::extent_kind::slab: return space_kind::slab;
        case holdfast::extent_kind::roots: return space_kind::roots;
        case holdfast::extent_kind::reserved: break;
    }
    return space_kind::reserved;
}

void space_summary::add(const holdfast::extent_info& extent) noexcept {
    const space_kind kind = kind_of(extent);
    space_share& share = shares_.at(static_cast<std::size_t>(kind));
    ++share.extents;
    share.bytes += extent.bytes;
    share.backed_bytes += extent.backed_bytes;
    if (kind == space_kind::free) {
        largest_free_ = std::max(largest_free_, extent.bytes);
    } else if (kind == space_kind::slab) {
        live_slab_bytes_ += std::uint64_t{extent.live_blocks} * extent.block_size;
        damaged_slabs_ += extent.block_size == 0 ? 1 : 0;
    }
    backed_exactly_ = backed_exactly_ && extent.backed_exactly;
}

std::uint64_t space_summary::extents() const noexcept {
    std::uint64_t count = 0;
    for (const space_share& share : shares_) {
        count += share.extents;
    }
    return count;
}

double space_summary::external_fragmentation() const noexcept {
    return missing_share(largest_free_, of(space_kind::free).bytes);
}

double space_summary::slab_fragmentation() const noexcept {
    return missing_share(live_slab_bytes_, of(space_kind::slab).bytes);
}

space_summary space_of(const holdfast::manager& heap) {
    space_summary space;
    heap.for_each_extent([&space](const holdfast::extent_info& extent) { space.add(extent); });
    return space;
}

json shares_as_json(const space_summary& space) {
    json object;
    for (std::size_t i = 0; i < space_kind_names.size(); ++i) {
        const space_share& share = space.of(static_cast<space_kind>(i));
        object[std::string(space_kind_names.at(i))] = {
            {"extents", share.extents}, {"bytes", share.bytes}, {"backed", share.backed_bytes}};
    }
    return object;
}

json as_json_object(const space_summary& space) {
    return {{"extents", shares_as_json(space)},
            {"backed_exactly", space.backed_exactly()},
            {"largest_free_extent", space.largest_free()},
            {"slab_live_bytes", space.live_slab_bytes()},
            {"damaged_slabs", space.damaged_slabs()},
            {"fragmentation", {{"external", space.external_fragmentation()}, {"slabs", space.slab_fragmentation()}}}};
}

void print_space(const space_summary& space) {
    for (std::size_t i = 0; i < space_kind_names.size(); ++i) {
        const space_share& share = space.of(static_cast<space_kind>(i));
        if (share.extents != 0) {
            const bool least = !space.backed_exactly() && share.backed_bytes != share.bytes;
            print_line(fmt::format("extents, {}", space_kind_names.at(i)),
                       fmt::format("{}: {}, on disk {}{}", share.extents, size_text(share.bytes),
                                   least ? "at least " : "", size_text(share.backed_bytes)));
        }
    }
    print_line("largest free extent", size_text(space.largest_free()));
    print_line("live in slabs", size_text(space.live_slab_bytes()));
    if (space.damaged_slabs() != 0) {
        print_line("damaged slabs", fmt::format("{}", space.damaged_slabs()));
    }
    print_line("fragmentation", fmt::format("{:.1f} % external, {:.1f} % of the slabs",
                                            100 * space.external_fragmentation(), 100 * space.slab_fragmentation()));
}

}  // namespace holdfast_cli
