#include "slab/calls/page_blocks.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "slab/calls/last_failure.hpp"

namespace holdfast::slab {

using base::failure;
using base::failure_code;
using base::heap_offset;
using base::pages;
using segment::extent_kind;

void* page_blocks::allocate(std::size_t bytes, std::size_t alignment, std::uint32_t type) noexcept {
    const slow_call call(core_.gate);
    if (!call.is_first()) {
        leave_interruption();
        return nullptr;
    }
    const extent::extent taken = take(bytes, alignment, extent_kind::used, type);
    if (taken.start.value == 0 || !note_taken(taken)) {
        return nullptr;
    }
    return core_.space.address(base::offset_of(taken.start));
}

bool page_blocks::hold(std::size_t bytes, std::size_t alignment, std::uint32_t type, held_block& held) noexcept {
    const slow_call call(core_.gate);
    if (!call.is_first()) {
        leave_interruption();
        return false;
    }
    extent::extent taken = take(bytes, alignment, extent_kind::reserved, 0);
    if (taken.start.value != 0 && !note_taken(taken)) {
        taken = {};
    }
    held.offset = base::offset_of(taken.start).value;
    held.block = {lane::block_kind::pages, taken.length.value, type};
    held.state = nullptr;
    held.place = lane::place_of(core_.space, held.offset, held.block);
    return taken.start.value != 0;
}

void page_blocks::keep(const held_block& held) noexcept {
    const slow_call call(core_.gate);
    const pages start = base::page_of(heap_offset{held.offset});
    core_.extents.hand_out(start, {held.block.length}, held.block.type);
    if (core_.undo.is_open()) [[unlikely]] {
        core_.undo.note_kept(start);
    }
}

/// False: there is no memory to take it back by, so it is free again.
bool page_blocks::note_taken(const extent::extent& taken) noexcept {
    if (!core_.undo.is_open() || core_.undo.note_taken(taken.start)) [[likely]] {
        return true;
    }
    try {
        static_cast<void>(core_.extents.free(taken.start, taken.kind).ok());
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
    leave_failure(failure_code::out_of_memory, out_of_memory);
    return false;
}

/// Where it fails, the extent begins at page 0, which holds the roots.
extent::extent page_blocks::take(std::size_t bytes, std::size_t alignment, extent_kind kind,
                                 std::uint32_t type) noexcept {
    if (bytes == 0 || !std::has_single_bit(alignment) || alignment > maximum_alignment) {
        leave_failure(failure_code::invalid_argument, [&] {
            failure what;
            what.code = failure_code::invalid_argument;
            what.field = "allocation";
            what.found = fmt::format("{} bytes at a multiple of {}", bytes, alignment);
            what.expected = fmt::format("at least 1 byte, alignment a power of two up to {}", maximum_alignment);
            return what;
        });
        return {};
    }
    const pages length = base::pages_for(bytes);
    const pages at_multiple_of{std::max<std::uint64_t>(alignment / base::page_size, 1)};
    if (core_.cached_extents.keeps(length)) {
        const auto cached = at_multiple_of.value == 1
                                ? core_.cached_extents.take(core_.arena(), length)
                                : core_.cached_extents.take_aligned(core_.arena(), length, at_multiple_of);
        if (cached) {
            if (kind == extent_kind::used) {
                core_.extents.hand_out(cached->start, cached->length, type);
            }
            return {cached->start, cached->length, kind, type};
        }
    }
    if (!slab::admit(core_.extents, length)) {  // cached pages were admitted before
        return {};
    }
    merge_at_home();
    core_.pool.upkeep().age();
    try {
        const std::uint32_t node =
            core_.extents.nodes() == 1 ? extent::any_node : core_.arena() % core_.extents.nodes();
        auto got = core_.extents.allocate(length, at_multiple_of, kind, type, node);
        if (!got) {
            small_.reclaim();
            got = core_.extents.allocate(length, at_multiple_of, kind, type, node);
        }
        if (got) {
            return {*got, length, kind, type};
        }
        leave_failure(got.error().code, [&] { return std::move(got).error(); });
    } catch (const std::bad_alloc&) {
        leave_failure(failure_code::out_of_memory, out_of_memory);
    }
    return {};
}

/// Longer extents are in no cache, which would merge before it takes more.
void page_blocks::merge_at_home() noexcept {
    if (extent::remote_of(core_.extents).active()) {
        const unsigned arena = core_.arena();
        const std::uint32_t home = arena % core_.extents.nodes();
        if (extent::remote_of(core_.extents).waiting(home).value != 0) {
            core_.cached_extents.merge(arena, home);
        }
    }
}

std::uint32_t page_blocks::node() noexcept {
    const thread_cache* const cache = core_.find_cache();
    return cache == nullptr ? extent::remote_extents::no_node : cache->arena % core_.extents.nodes();
}

bool page_blocks::is_elsewhere(pages start) noexcept {
    return extent::remote_of(core_.extents).active() && extent::remote_of(core_.extents).is_remote(node(), start);
}

/// At home, the claim of the home's own shadow ends when the entry is changed.
bool page_blocks::claim(const held_block& found) noexcept {
    const pages start = base::page_of(heap_offset{found.offset});
    extent::remote_extents& remote = extent::remote_of(core_.extents);
    return !remote.active() || remote.claim(is_elsewhere(start) ? node() : remote.home_of(start), start);
}

void page_blocks::end_claim(const held_block& found) noexcept {
    const pages start = base::page_of(heap_offset{found.offset});
    if (extent::remote_extents& remote = extent::remote_of(core_.extents); remote.active()) {
        remote.unclaim(is_elsewhere(start) ? node() : remote.home_of(start), start);
    }
}

bool page_blocks::clear_elsewhere(const held_block& found) noexcept {
    const pages start = base::page_of(heap_offset{found.offset});
    if (!is_elsewhere(start)) {
        return false;
    }
    extent::remote_of(core_.extents).clear(node(), start);
    return true;
}

bool page_blocks::clear_claimed(const held_block& found) noexcept {
    return extent::remote_of(core_.extents).active() &&
           extent::remote_of(core_.extents).clear_claimed(base::page_of(heap_offset{found.offset}));
}

void page_blocks::withdraw_line(
    const std::uint64_t* line,
    base::function_ref<void(std::uint64_t&, std::uint64_t, std::uint64_t)> replace) const noexcept {
    const pages first = core_.space.page_of_entry(line);
    for (std::uint64_t i = 0; i < base::cache_line_size / segment::page_entry_size; ++i) {
        const pages page = first + pages{i};
        const std::uint64_t word = core_.extents.entries().load(page);
        const segment::page_entry entry = segment::decode_page_entry(word);
        if (entry.kind == extent_kind::used && extent::remote_of(core_.extents).is_gone(page)) {
            replace(core_.space.page_entry_word(page), word, segment::encode({extent_kind::reserved, entry.length}));
        }
    }
}

void page_blocks::release_elsewhere(pages start, pages length) noexcept {
    if (extent::remote_of(core_.extents).release(node(), start, length)) {
        core_.cached_extents.merge(core_.arena(), extent::remote_of(core_.extents).home_of(start));
    }
    core_.pool.upkeep().age();
}

/// Apart from free(), whose frame is small without it.
[[gnu::noinline]] bool page_blocks::free_elsewhere(pages start) {
    if (!is_elsewhere(start) || start >= core_.extents.frontier() || !core_.extents.find(start) ||
        !extent::remote_of(core_.extents).claim(node(), start)) {
        return false;
    }
    release_elsewhere(start, core_.extents.entries().extent_at(start).length);
    return true;
}

bool page_blocks::free(pages start) {
    if (core_.undo.is_open()) [[unlikely]] {
        switch (core_.undo.free(start)) {
            case block_undo::freeing::at_once: break;
            case block_undo::freeing::deferred: return true;
            case block_undo::freeing::refused:
                leave_failure(failure_code::bad_address,
                              [&] { return inspector_.refusal(core_.space.address(base::offset_of(start))); });
                return false;
        }
    }
    if (has_nodes()) [[unlikely]] {
        if (free_elsewhere(start)) {
            return true;
        }
    }
    if (core_.cached_extents.keeps(extent::least_cached)) {
        if (const auto claimed = core_.extents.claim(start, extent::least_cached, extent::most_cached)) {
            core_.cached_extents.put(core_.arena(), *claimed);
            core_.pool.upkeep().age();
            return true;
        }
    }
    auto freed = core_.extents.free(start, extent_kind::used);
    core_.pool.upkeep().age();
    if (!freed) {
        leave_failure(failure_code::bad_address, [&] {
            const bool known_better =
                core_.cached_extents.contains(start) || core_.pool.source().guards().contains(base::granule_of(start));
            return known_better ? inspector_.refusal(core_.space.address(base::offset_of(start)))
                                : std::move(freed).error();
        });
    }
    return freed.ok();
}

bool page_blocks::resize(const held_block& found, std::size_t bytes) noexcept {
    if (found.class_index != no_class || core_.class_of(bytes, 1) != no_class) {
        return false;
    }
    const slow_call call(core_.gate);
    const pages start = base::page_of(heap_offset{found.offset});
    if (core_.undo.is_open() && !core_.undo.has_taken(start)) {
        return false;  // an abort must find its length and content
    }
    try {
        const pages wanted = base::pages_for(bytes);
        const pages now{found.block.length};
        return call.is_first() && (wanted <= now || extent::admit(core_.extents, wanted - now)) &&
               core_.extents.resize(start, wanted);
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void page_blocks::release(const thread_cache* cache, const held_block& held) noexcept {
    const pages start = base::page_of(heap_offset{held.offset});
    const pages length{held.block.length};
    if (core_.undo.is_open()) [[unlikely]] {
        core_.undo.forget_taken(start);
    }
    if (is_elsewhere(start) && extent::remote_of(core_.extents).is_cleared(node(), start)) {
        release_elsewhere(start, length);
        return;
    }
    if (core_.cached_extents.keeps(length)) {
        core_.cached_extents.put(cache == nullptr ? 0 : cache->arena, {start, length, extent_kind::reserved});
        core_.pool.upkeep().age();
        return;
    }
    try {
        // Fails where the page entry was overwritten, which check() reports.
        static_cast<void>(core_.extents.free(start, extent_kind::reserved).ok());
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
}

}  // namespace holdfast::slab
