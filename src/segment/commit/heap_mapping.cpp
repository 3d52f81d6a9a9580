#include "segment/commit/heap_mapping.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/under_qemu.hpp"
#include "segment/files/kernel_limits.hpp"
#include "segment/files/private_memory.hpp"
#include "segment/format/page_runs.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;

/// A store in front of the first block must meet no metadata.
constexpr std::uint64_t guard_size = region_size;
#if defined(__has_feature)
#define HF_HAS_FEATURE(feature) __has_feature(feature)
#else
#define HF_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HF_HAS_FEATURE(thread_sanitizer)
constexpr std::uint64_t default_reservation = 64 * base::gibibyte;  // ThreadSanitizer's shadow leaves little room
#else
constexpr std::uint64_t default_reservation = base::under_qemu ? base::gibibyte : base::tebibyte;
#endif

/// The objects area begins at a round address.
std::uint64_t metadata_span(const geometry& shape, std::uint64_t reservation) noexcept {
    return base::align_up(shape.segments_in(reservation) * shape.metadata_size(), region_size);
}

/// The tables in memory take somewhat more than half of the user space's addresses (manager_limits_test.cpp); the rest
/// is for redo rings and for the program.
base::result<void> check_room_beside(std::uint64_t user) {
    constexpr std::uint64_t least = 64 * base::mebibyte;
    return try_to_reserve(least + user / 4 * 3);
}

}  // namespace

base::result<void> heap_mapping::reserve(const mapping_options& options, const superblock_on_media& superblock) {
    user_pages_ = options.user_pages;
    if (location_.directories() != nullptr && location_.directories()->addresses) {
        return take_addresses(std::move(*std::exchange(location_.directories()->addresses, std::nullopt)), superblock);
    }
    const geometry shape = geometry_of(superblock);
    const std::uint64_t asked = options.reservation != 0 ? options.reservation : superblock.reservation;
    const std::uint64_t needed = std::max(std::bit_ceil(superblock.frontier), shape.segment_size);
    if (asked != 0 && (!base::is_power_of_two(asked) || asked > maximum_reservation || asked < needed)) {
        return failure{failure_code::invalid_argument,
                       location_.paths().directory(),
                       "reservation",
                       fmt::format("{}", asked),
                       fmt::format("a power of two from {} to {}", needed, maximum_reservation),
                       {},
                       0};
    }
    std::uint64_t user = asked != 0 ? asked : std::max(default_reservation, std::min(maximum_reservation, 4 * needed));
    const bool fixed = options.base_address != nullptr || (superblock.flags & flag_same_address) != 0;
    std::byte* wanted = options.base_address;
    if ((superblock.flags & flag_same_address) != 0 && superblock.base_address != 0) {
        wanted = reinterpret_cast<std::byte*>(superblock.base_address);
    }
    if (reinterpret_cast<std::uintptr_t>(wanted) % region_size != 0) {
        return failure{failure_code::invalid_argument,
                       location_.paths().directory(),
                       "base address",
                       fmt::format("{}", static_cast<void*>(wanted)),
                       "a multiple of 2 MiB",
                       {},
                       0};
    }
    for (;; user /= 2) {
        auto reserved = reserve_range(user, fixed ? wanted : nullptr, shape, superblock.objects_size);
        if (reserved || options.reservation != 0 || reserved.error().code != failure_code::limit || user / 2 < needed) {
            return reserved;
        }
    }
}

base::result<void> heap_mapping::take_addresses(kept_addresses left, const superblock_on_media& superblock) {
    if (superblock.frontier > left.user) {
        return failure{failure_code::limit,
                       location_.paths().directory(),
                       "reservation",
                       fmt::format("{}", left.user),
                       fmt::format("at least {}", superblock.frontier),
                       "the heap has outgrown the addresses that this process has reserved: open it again",
                       0};
    }
    HF_TRY(unmap(left.range.begin(), left.range.size()));
    range_ = std::move(left.range);
    std::byte* const user = range_.begin() + range_.size() - left.user;
    view_ = space_view(user, range_.begin(), geometry_of(superblock), left.user);
    objects_area_ = range_.begin() + metadata_span(geometry_of(superblock), left.user);
    objects_room_ = left.objects;
    return {};
}

/// With fewer objects where there is no room for all of them. `base` null: anywhere.
base::result<void> heap_mapping::reserve_range(std::uint64_t user, std::byte* base, const geometry& shape,
                                               std::uint64_t objects_now) {
    constexpr std::uint64_t least = 16 * base::mebibyte;
    const std::uint64_t few = std::max({least, base::align_up(2 * objects_now, region_size), user / 8});
    base::result<void> reserved;
    for (const std::uint64_t objects : {objects_area_size, std::min(few, objects_area_size)}) {
        const std::uint64_t before = metadata_span(shape, user) + objects + guard_size;
        // Integers wrap below a low address, and the range is then refused as taken.
        auto* const begin = reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) - before);
        auto range = base != nullptr ? address_range::exactly(begin, before + user)
                                     : address_range::anywhere(before + user, before, region_size);
        reserved = range ? check_room_beside(user) : std::move(range).error();
        if (reserved) {
            range_ = std::move(range).value();
            view_ = space_view(range_.begin() + before, range_.begin(), shape, user);
            objects_area_ = range_.begin() + metadata_span(shape, user);
            objects_room_ = objects;
            return reserved;
        }
        reserved.error().path = location_.paths().directory();
        if (reserved.error().code != failure_code::limit) {
            return reserved;
        }
    }
    return reserved;
}

base::result<void> heap_mapping::split_folios(std::uint64_t frontier_bytes) const {
    return folios_.split(location_.storage(), location_.paths(), frontier_bytes);
}

base::result<void> heap_mapping::map_committed(pages frontier) {
    frontier_ = committed_ = adopted_ = frontier;
    const std::uint64_t segments = segment_count(frontier);
    for (std::uint64_t i = 0; i < segments; ++i) {
        HF_TRY(map_segment(i, 0));
    }
    return {};
}

/// Within one segment.
base::result<void> heap_mapping::map_user_pages(persist::file& file, pages first, pages end, bool fresh) {
    const std::uint64_t index = first.value / view_.shape().pages();
    std::byte* const address = view_.address(base::offset_of(first));
    const std::uint64_t bytes = base::to_bytes(end - first);
    HF_TRY(map_file(address, bytes, file.native_handle(), first.value % view_.shape().pages() * page_size, file.path(),
                    location_.sharing()));
    if (reading_ == reading::page_by_page) {
        read_page_by_page(address, bytes, true);
    }
    place(index, address, bytes, fresh);
    return {};
}

void heap_mapping::set_reading(reading how) noexcept {
    if (how != reading_) {
        reading_ = how;
        read_page_by_page(view_.base(), base::to_bytes(adopted_), how == reading::page_by_page);
    }
}

/// With from_page 0, the segment's metadata, too. `fresh`: the space was just reserved on disk.
base::result<void> heap_mapping::map_segment(std::uint64_t index, std::uint64_t from_page, bool fresh,
                                             const free_runs& kept) {
    const geometry& shape = view_.shape();
    const std::string path = location_.paths().segment(index);
    HF_TRY_ASSIGN(auto file, location_.storage().open(
                                 path, location_.shared() ? access_mode::read_write : access_mode::read_only));
    const std::uint64_t end_page = std::min(shape.pages(), committed_.value - index * shape.pages());
    if (from_page < end_page) {
        const pages first{index * shape.pages()};
        for (const auto& run : without({{first + pages{from_page}, pages{end_page - from_page}}}, kept)) {
            HF_TRY(map_user_pages(*file, run.first, end_of(run), fresh));
        }
    }
    if (from_page == 0) {
        HF_TRY(map_file(view_.metadata_of(index), shape.metadata_size(), file->native_handle(), shape.segment_size,
                        path, location_.sharing()));
    }
    if (cover_.is_required()) {
        const std::array<mapped_window, 2> windows{
            {{view_.base() + index * shape.segment_size, 0, end_page * page_size},
             {view_.metadata_of(index), shape.segment_size, shape.metadata_size()}}};
        return cover_.cover(*file, windows);
    }
    return folios_.choose(*file, index, from_page, end_page, fresh);
}

void heap_mapping::place(std::uint64_t index, std::byte* address, std::uint64_t bytes, bool fresh) const noexcept {
    if (location_.has_place() && location_.sharing() != page_sharing::shared_sync) {
        location_.topology().prefer_memory(location_.node_of_segment(index), address, bytes);
    }
    // The first touch of a huge private page clears 2 MiB.
    if (location_.shared() || (fresh && user_pages_ == huge_pages::at_once) || user_pages_ == huge_pages::none) {
        choose_pages(address, bytes, user_pages_, fresh && location_.shared());
    }
}

std::byte* heap_mapping::address_of(std::uint64_t place) const noexcept {
    const std::uint64_t id = file_of(place);
    const std::uint64_t page = page_of_place(place);
    if (id == objects_file_id) {
        return objects_area_ + page * page_size;
    }
    return page < view_.shape().pages() ? view_.base() + id * view_.shape().segment_size + page * page_size
                                        : view_.metadata_of(id) + (page - view_.shape().pages()) * page_size;
}

std::uint64_t heap_mapping::place_at(const std::byte* page) const noexcept {
    const geometry& shape = view_.shape();
    if (page >= view_.base()) {
        const auto at = static_cast<std::uint64_t>(page - view_.base());
        return place_of(at / shape.segment_size, at % shape.segment_size / page_size);
    }
    if (page >= objects_area_ && page < objects_area_ + objects_room_) {
        return place_of(objects_file_id, static_cast<std::uint64_t>(page - objects_area_) / page_size);
    }
    const auto at = static_cast<std::uint64_t>(page - view_.metadata_of(0));
    return place_of(at / shape.metadata_size(), shape.pages() + at % shape.metadata_size() / page_size);
}

base::result<void> heap_mapping::apply_overlay(const log_content& overlay) {
    patch_reader reader(location_.storage(), location_.paths(), overlay);
    for (const log_content::patch& patch : overlay.patches()) {
        HF_TRY(reader.read(patch, {address_of(patch.place) + patch.offset, patch.length}));
    }
    return {};
}

base::result<void> heap_mapping::map_fresh(pages from, pages to) {
    HF_TRY(map_zeroed(view_.base() + base::to_bytes(from), base::to_bytes(to - from), false));
    const std::uint64_t per_segment = view_.shape().pages();
    for (pages page = from; page < to;) {
        const pages end{std::min(to.value, base::align_up(page.value + 1, per_segment))};
        place(page.value / per_segment, view_.base() + base::to_bytes(page), base::to_bytes(end - page), true);
        page = end;
    }
    for (std::uint64_t index = segment_count(from); index < segment_count(to); ++index) {
        HF_TRY(map_zeroed(view_.metadata_of(index), view_.shape().metadata_size(), false));
    }
    return {};
}

base::result<void> heap_mapping::map_grown(pages to) {
    const pages from = frontier_;
    committed_ = to;  // map_segment() maps up to here
    const std::uint64_t per_segment = view_.shape().pages();
    try {
        for (std::uint64_t page = from.value; page < to.value; page = (page / per_segment + 1) * per_segment) {
            if (auto mapped = map_segment(page / per_segment, page % per_segment, true); !mapped) {
                committed_ = from;
                return mapped;
            }
        }
    } catch (const std::bad_alloc&) {
        committed_ = from;
        throw;
    }
    return {};
}

void heap_mapping::lower(pages to) noexcept {
    set_frontier(to);
    committed_ = adopted_ = to;
}

void heap_mapping::unmap_user(pages to, pages from) noexcept {
    static_cast<void>(unmap(view_.base() + base::to_bytes(to), base::to_bytes(from - to)).ok());
}

void heap_mapping::unmap_metadata(std::uint64_t segment) noexcept {
    static_cast<void>(unmap(view_.metadata_of(segment), view_.shape().metadata_size()).ok());
}

void heap_mapping::commit_frontier() noexcept {
    committed_ = frontier_;
    adopted_ = std::min(adopted_, committed_);
}

/// Pages of memory_below() that no device stores to any more.
base::result<void> heap_mapping::map_let_go(const free_runs& kept) {
    const free_runs here = common(memory_below_, {{pages{}, committed_}});
    free_runs still = common(here, kept);
    const std::uint64_t per_segment = view_.shape().pages();
    for (const auto& run : without(here, kept)) {
        for (pages first = run.first; first < end_of(run);) {
            const std::uint64_t index = first.value / per_segment;
            const pages end{std::min(end_of(run).value, (index + 1) * per_segment)};
            HF_TRY_ASSIGN(auto file,
                          location_.storage().open(location_.paths().segment(index), access_mode::read_only));
            HF_TRY(map_user_pages(*file, first, end, false));
            first = end;
        }
    }
    memory_below_ = std::move(still);
    return {};
}

base::result<void> heap_mapping::map_adopted(const free_runs& kept) {
    HF_TRY(map_let_go(kept));
    const std::uint64_t per_segment = view_.shape().pages();
    while (adopted_ < committed_) {
        const std::uint64_t index = adopted_.value / per_segment;
        const pages end{std::min(committed_.value, (index + 1) * per_segment)};
        free_runs stay = either(memory_below_, common(kept, {{adopted_, end - adopted_}}));
        HF_TRY(map_segment(index, adopted_.value % per_segment, false, kept));
        memory_below_ = std::move(stay);
        adopted_ = end;
    }
    return {};
}

base::result<void> heap_mapping::protect(pages start, pages length, rights left) {
    std::byte* const address = view_.base() + base::to_bytes(start);
    if (!location_.shared()) {
        // A commit reads every dirty page.
        watch_.set_guarded();
        HF_TRY(try_to_drop_private_pages(address, base::to_bytes(length)));
    }
    return set_rights(address, base::to_bytes(length), left == rights::none ? page_rights::none : page_rights::read);
}

base::result<void> heap_mapping::unprotect(pages start, pages length) {
    return set_rights(view_.base() + base::to_bytes(start), base::to_bytes(length), page_rights::read_write);
}

std::uint64_t heap_mapping::most_ranges() const { return most_mapped_ranges(); }

base::result<void> heap_mapping::show_to_child(bool shown) const {
    HF_TRY(show_range_to_child(view_.base(), base::to_bytes(frontier_), shown));
    for (std::uint64_t i = 0; i < segment_count(frontier_); ++i) {
        HF_TRY(show_range_to_child(view_.metadata_of(i), view_.shape().metadata_size(), shown));
    }
    return {};
}

base::result<void> heap_mapping::copy_for_child(const free_runs& used, std::span<const base::granule> slabs) {
    const geometry& shape = view_.shape();
    std::vector<byte_range> ranges;
    for (const auto& [start, length] : used) {
        ranges.push_back({base::offset_of(start).value, base::to_bytes(length)});
    }
    HF_TRY(replace_by_copy(view_.base(), base::to_bytes(frontier_), ranges));
    auto slab = slabs.begin();
    for (std::uint64_t i = 0; i < segment_count(frontier_); ++i) {
        const std::uint64_t here = std::min(shape.pages(), frontier_.value - i * shape.pages());
        ranges.assign({{shape.slab_headers_at(), here / base::pages_per_granule * slab_header_size},
                       {shape.page_entries_at(), here * page_entry_size}});
        for (; slab != slabs.end() && slab->value < (i + 1) * shape.granules(); ++slab) {
            ranges.push_back({shape.bitmaps_at() + slab->value % shape.granules() * bitmap_size, bitmap_size});
        }
        HF_TRY(replace_by_copy(view_.metadata_of(i), shape.metadata_size(), ranges));
    }
    return {};
}

}  // namespace holdfast::segment
