#include "heap/savepoints.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace holdfast::heap {

savepoints::savepoints(heap_operations& heap, heap_space& space) noexcept
    : heap_(heap), space_(space), pages_(heap.files().commits().last()) {}

base::result<void> savepoints::begin(segment::memory_is memory) {
    levels_.reserve(levels_.size() + 1);
    if (memory == segment::memory_is::as_committed) {
        pages_.begin_as_committed();
    } else {
        HF_TRY(pages_.begin([this](const std::byte* page) { return has_access(page); }));
    }
    try {
        slab::undo_of(heap_.blocks()).begin();
    } catch (const std::bad_alloc&) {
        pages_.keep();
        throw;
    }
    levels_.emplace_back();
    return {};
}

bool savepoints::has_access(const std::byte* page) const noexcept {
    const slab::guard_ranges& guards = heap_.blocks().slabs().source().guards();
    const base::heap_offset offset = heap_.files().view().offset(page);
    return !guards.active() || offset.value >= base::to_bytes(heap_.files().frontier()) ||
           !guards.contains(base::granule_of(offset));
}

void savepoints::make_room() {
    if (room_.empty()) {
        room_.emplace_back();
    }
}

void savepoints::keep() noexcept {
    level last = std::move(levels_.back());
    levels_.pop_back();
    if (!levels_.empty()) {
        std::list<changed_object>& outer = levels_.back().objects;
        outer.splice(outer.end(), last.objects);
    }
    pages_.keep();
    slab::undo_of(heap_.blocks()).keep();
}

/// The last change comes first: of an object that was made and is gone again, nothing comes back.
void savepoints::unpin_made(level& last) noexcept {
    for (auto each = last.objects.rbegin(); each != last.objects.rend(); ++each) {
        if (each->is_gone) {
            continue;
        }
        static_cast<void>(heap_.blocks().unpin(heap_.files().view().address({each->offset})));
        for (auto later = last.objects.rbegin(); later != each; ++later) {
            if (later->offset == each->offset) {
                later->pin = {};
            }
        }
    }
}

void savepoints::pin_gone(level& last) noexcept {
    for (changed_object& each : last.objects) {
        if (!each.pin.empty()) {
            heap_.blocks().pin(heap_.files().view().address({each.offset}), std::move(each.pin));
        }
    }
}

void savepoints::roll_back() noexcept {
    const std::lock_guard guard(heap_.object_mutex());
    const slab::block_allocator::pause pause(heap_.blocks());
    level last = std::move(levels_.back());
    levels_.pop_back();
    unpin_made(last);
    std::vector<std::span<std::byte>> removed;
    slab::undo_of(heap_.blocks())
        .roll_back(
            [this](std::uint64_t offset) {
                static_cast<void>(heap_.destinations()->cancel(heap_.files().view().address({offset})));
            },
            [&](std::uint64_t offset, std::uint64_t bytes) {
                try {
                    if (fills_) {
                        removed.emplace_back(heap_.files().view().address({offset}), bytes);
                    }
                } catch (const std::bad_alloc&) {  // an abort needs no memory
                    return;
                }
            });
    if (pages_.roll_back([this](const std::byte* page) { return has_access(page); })) {
        heap_.objects().forget();
    }
    for (const std::span<std::byte> each : removed) {
        std::ranges::fill(each, std::byte{gone});
    }
    pin_gone(last);
}

base::result<segment::commit_statistics> savepoints::commit() {
    const auto fail = [this](base::failure what) {
        if (!levels_.empty() && !heap_.files().commits().is_poisoned()) {
            roll_back();
        }
        forget_all();
        return what;
    };
    try {
        if (!levels_.empty() && slab::undo_of(heap_.blocks()).has_failed()) {
            throw std::bad_alloc();
        }
        const bool gives_back = levels_.empty();
        auto done = gives_back ? space_.commit(false) : space_.commit_with_savepoint();
        if (!done) {
            return fail(std::move(done).error());
        }
        forget_all();
        if (!gives_back) {
            space_.give_back_decayed();
        }
        return done;
    } catch (const std::bad_alloc&) {
        static_cast<void>(fail({}));
        throw;
    }
}

base::result<bool> savepoints::commit_later() {
    HF_TRY(heap_.refuse_scratch());
    HF_TRY_ASSIGN(const bool is_captured, space_.capture());
    if (!is_captured) {
        HF_TRY(space_.commit(false));
    }
    return is_captured;
}

void savepoints::forget_all() noexcept {
    levels_.clear();
    pages_.forget();
    if (slab::undo_of(heap_.blocks()).is_open()) {
        slab::undo_of(heap_.blocks()).carry_out();
    }
}

}  // namespace holdfast::heap
