#include "slab/calls/block_undo.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "slab/calls/thread_cache.hpp"
#include "slab/supply/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;
using base::pages;
using segment::extent_kind;

/// The words of all kinds of blocks that the slab has, and of what lies between them.
void block_undo::save(granule slab, level& to) const {
    const slab_table& table = pool_.table();
    const auto kinds = table.kinds_in(slab, table.state(slab));
    std::size_t first = bitmap_words;
    std::size_t end = 0;
    for (const slab_kind kind : kinds) {
        first = std::min(first, kind.first_word());
        end = std::max(end, kind.first_word() + kind.words());
    }
    const std::size_t count = end - std::min(first, end);
    to.slabs.push_back({slab, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count), to.words.size()});
    to.words.resize(to.words.size() + count);
    std::uint64_t* const words = to.words.data() + to.slabs.back().at;
    for (const slab_kind kind : kinds) {
        const std::uint8_t* const states = table.block_states(slab, kind);
        for (std::size_t word = 0; word < kind.words(); ++word) {
            words[kind.first_word() - first + word] = live_bits_of(states + word * states_a_word);
        }
    }
}

block_undo::bits block_undo::on_media(granule slab) const noexcept {
    bits live;
    for (std::size_t word = 0; word < bitmap_words; ++word) {
        live[word] = pool_.table().live_word(slab, word).load(std::memory_order_relaxed);
    }
    return live;
}

void block_undo::begin() {
    pool_.remote().merge_all();
    level fresh;
    {
        const base::scoped_lock lock(mutex_);
        fresh.slabs.swap(spare_slabs_);
        fresh.words.swap(spare_words_);
    }
    pool_.table().for_each_dirty(pool_.end(), [&](granule slab) { save(slab, fresh); });
    const base::scoped_lock lock(mutex_);
    levels_.push_back(std::move(fresh));
    pool_.set_keeps_slabs(true);
    count_.store(levels_.size(), std::memory_order_relaxed);
}

/// Of a level that has ended.
void block_undo::keep_room(level& of) noexcept {
    constexpr std::size_t most_words = 64 * bitmap_words;
    if (of.words.capacity() <= most_words && of.words.capacity() > spare_words_.capacity()) {
        of.slabs.clear();
        of.words.clear();
        spare_slabs_.swap(of.slabs);
        spare_words_.swap(of.words);
    }
}

void block_undo::keep() noexcept {
    if (levels() == 1) {
        carry_out();
        return;
    }
    const base::scoped_lock lock(mutex_);
    level last = std::move(levels_.back());
    keep_room(last);
    levels_.pop_back();
    count_.store(levels_.size(), std::memory_order_relaxed);
    level& outer = levels_.back();
    outer.has_failed = outer.has_failed || last.has_failed;
    for (auto each = last.freed.begin(); each != last.freed.end();) {
        const auto next = std::next(each);
        if (outer.taken.erase(each->first) != 0) {
            release(each->second, extent_kind::reserved);
        } else {
            outer.freed.insert(last.freed.extract(each));
        }
        each = next;
    }
    outer.taken.merge(last.taken);
}

void block_undo::carry_out() noexcept {
    const base::scoped_lock lock(mutex_);
    for (const level& each : levels_) {
        for (const auto& [start, freed] : each.freed) {
            release(freed, extent_kind::reserved);
        }
    }
    if (!levels_.empty()) {
        keep_room(levels_.front());
    }
    levels_.clear();
    count_.store(0, std::memory_order_relaxed);
    pool_.set_keeps_slabs(false);
}

void block_undo::release(const extent::extent& freed, extent_kind kind) noexcept {
    try {
        // Fails where the page entry was overwritten, which check() reports.
        static_cast<void>(extents_.free(freed.start, kind).ok());
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
}

void block_undo::roll_back(base::function_ref<void(std::uint64_t)> reserved,
                           base::function_ref<void(std::uint64_t, std::uint64_t)> removed) noexcept {
    pool_.remote().merge_all();
    level last;
    {
        const base::scoped_lock lock(mutex_);
        last = std::move(levels_.back());
        levels_.back() = {};
    }
    for_each_slab(last, [&](const live_blocks& each) { find_reserved(each, reserved); });
    // Lists may have blocks that were freed since, and are live again.
    thread_cache_registry::return_all(caches_);
    for_each_slab(last, [&](const live_blocks& each) { restore(each, removed); });
    const base::scoped_lock lock(mutex_);
    for (const std::uint64_t start : last.taken) {
        release({{start}, {}, extent_kind::used, 0}, extent_kind::used);
    }
    for (const auto& [start, freed] : last.freed) {
        extents_.hand_out(freed.start, freed.length, freed.type);
    }
    keep_room(last);
    levels_.pop_back();
    count_.store(levels_.size(), std::memory_order_relaxed);
    pool_.set_keeps_slabs(!levels_.empty());
}

/// A slab that was clean then has on media what it had.
void block_undo::for_each_slab(const level& to, base::function_ref<void(const live_blocks&)> each) const noexcept {
    const auto show = [&](const saved_slab& saved) {
        each({saved.slab, saved.first, std::span(to.words).subspan(saved.at, saved.count)});
    };
    auto next = to.slabs.begin();
    pool_.table().for_each_dirty(pool_.end(), [&](granule slab) {
        for (; next != to.slabs.end() && next->slab < slab; ++next) {
            show(*next);  // a commit that failed has made it clean
        }
        if (next != to.slabs.end() && next->slab == slab) {
            show(*next++);
        } else {
            const bits live = on_media(slab);
            each({slab, 0, live});
        }
    });
    for (; next != to.slabs.end(); ++next) {
        show(*next);
    }
}

void block_undo::find_reserved(const live_blocks& to, base::function_ref<void(std::uint64_t)> reserved) const noexcept {
    const slab_table& table = pool_.table();
    for (const slab_kind kind : table.kinds_in(to.slab, table.state(to.slab))) {
        const std::uint8_t* const states = table.block_states(to.slab, kind);
        for (std::size_t word = 0; word < kind.words(); ++word) {
            std::uint64_t gone = to[kind.first_word() + word] & ~live_bits_of(states + word * states_a_word);
            for (; gone != 0; gone &= gone - 1) {
                const std::size_t index = word * states_a_word + static_cast<std::size_t>(std::countr_zero(gone));
                if (holds(states[index], block_state::held)) {
                    reserved(base::offset_of(to.slab).value + index * kind.size().block_size);
                }
            }
        }
    }
}

void block_undo::restore(const live_blocks& to,
                         base::function_ref<void(std::uint64_t, std::uint64_t)> removed) noexcept {
    const slab_table& table = pool_.table();
    if (!slab_state::is_loaded(table.state(to.slab))) {
        return;
    }
    pool_.upkeep().note_change(to.slab);
    bool has_changed = false;
    for (const slab_kind kind : table.kinds_in(to.slab, table.state(to.slab))) {
        std::uint8_t* const states = table.block_states(to.slab, kind);
        for (std::size_t word = 0; word < kind.words(); ++word) {
            const std::uint64_t wanted = to[kind.first_word() + word];
            std::uint64_t changed = live_bits_of(states + word * states_a_word) ^ wanted;
            has_changed = has_changed || changed != 0;
            for (; changed != 0; changed &= changed - 1) {
                const auto bit = static_cast<unsigned>(std::countr_zero(changed));
                const std::size_t index = word * states_a_word + bit;
                const bool is_live = (wanted >> bit & 1U) != 0;
                std::atomic_ref(states[index])
                    .store(is_live ? block_state::live : block_state::free, std::memory_order_release);
                if (!is_live) {
                    const std::uint64_t bytes = kind.size().block_size;
                    removed(base::offset_of(to.slab).value + index * bytes, bytes);
                }
            }
        }
    }
    if (has_changed) {
        pool_.upkeep().inspect(to.slab, 1);
    }
}

void block_undo::note_bitmaps() {
    const base::scoped_lock lock(mutex_);
    level& known = levels_.front();
    std::vector<saved_slab> more;
    auto next = known.slabs.begin();
    pool_.table().for_each_dirty(pool_.end(), [&](granule slab) {
        while (next != known.slabs.end() && next->slab < slab) {
            ++next;
        }
        if (next == known.slabs.end() || next->slab != slab) {
            const bits live = on_media(slab);
            more.push_back({slab, 0, bitmap_words, known.words.size()});
            known.words.insert(known.words.end(), live.begin(), live.end());
        }
    });
    if (more.empty()) {
        return;
    }
    std::vector<saved_slab> all;
    all.reserve(known.slabs.size() + more.size());
    std::ranges::merge(known.slabs, more, std::back_inserter(all), {}, &saved_slab::slab, &saved_slab::slab);
    known.slabs = std::move(all);
}

bool block_undo::has_failed() noexcept {
    const base::scoped_lock lock(mutex_);
    return std::ranges::any_of(levels_, &level::has_failed);
}

bool block_undo::note_taken(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    try {
        if (!levels_.empty()) {
            levels_.back().taken.insert(start.value);
        }
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

void block_undo::forget_taken(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    for (level& each : levels_) {
        each.taken.erase(start.value);
    }
}

void block_undo::note_kept(pages start) noexcept {
    if (!note_taken(start)) {
        const base::scoped_lock lock(mutex_);
        levels_.back().has_failed = true;
    }
}

bool block_undo::has_taken(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    return !levels_.empty() && levels_.back().taken.contains(start.value);
}

block_undo::freeing block_undo::free(pages start) noexcept {
    const base::scoped_lock lock(mutex_);
    if (levels_.empty() || levels_.back().taken.erase(start.value) != 0) {
        return freeing::at_once;
    }
    const std::optional<segment::page_entry> entry = extents_.find(start);
    const auto claimed = entry ? extents_.claim(start, {1}, {std::numeric_limits<std::uint64_t>::max()}) : std::nullopt;
    if (!claimed) {
        return freeing::refused;
    }
    try {
        levels_.back().freed.emplace(start.value, extent::extent{start, entry->length, extent_kind::used, entry->type});
    } catch (const std::bad_alloc&) {
        extents_.hand_out(start, entry->length, entry->type);  // nobody may take a free for one that failed
        levels_.back().has_failed = true;
    }
    return freeing::deferred;
}

}  // namespace holdfast::slab
