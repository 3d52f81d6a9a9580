// Makes a used extent longer or shorter in place, so that realloc need not copy.
#include "extent/extent.hpp"

namespace holdfast::extent {

using base::pages;
using segment::extent_kind;
using segment::page_entry;

bool extent_allocator::resize(pages start, pages wanted) {
    const base::scoped_lock lock(mutex_);
    if (wanted.value == 0 || refusal(start, extent_kind::used)) {
        return false;
    }
    const page_entry now = segment::decode_page_entry(load(start));
    return wanted > now.length ? extend(start, now, wanted) : trim(start, now, wanted);
}

/// The one store that changes the extent. False where another thread frees it at this moment, by mistake.
bool extent_allocator::change_length(pages start, const page_entry& now, pages wanted) noexcept {
    std::uint64_t word = segment::encode(now);
    return std::atomic_ref<std::uint64_t>(space_.page_entry_word(start))
        .compare_exchange_strong(word, segment::encode({now.kind, wanted, now.type}), std::memory_order_acq_rel);
}

/// Takes the missing pages from the free extent behind. At the end of the space, the heap grows by them.
bool extent_allocator::extend(pages start, const page_entry& now, pages wanted) {
    const pages end = start + now.length;
    const pages more = wanted - now.length;
    if (layout_.nodes > 1 && start + wanted > layout_.segment_end(start)) {
        return false;  // the pages behind belong to another node
    }
    const auto behind = [&]() HF_REQUIRES(mutex_) { return end < frontier() ? free_.length_at(end) : pages{}; };
    if (behind() < more && (end + behind() != frontier() || !grow_for(more, {1}) || behind() < more)) {
        return false;
    }
    if (!back({{end, behind(), {}}, end}, more)) {
        return false;
    }
    const free_index::run taken = remove_free(end);
    if (const pages rest = taken.length - more; rest.value != 0) {
        store(end + more, {extent_kind::free, rest});  // inside the free extent until the next store
        add_free({end + more, rest, taken.backed - more});
    }
    if (!change_length(start, now, wanted)) {
        unite({end, more, more});
        return false;
    }
    store(end, {});
    return true;
}

/// Frees the pages that are no longer wanted.
bool extent_allocator::trim(pages start, const page_entry& now, pages wanted) noexcept {
    const pages cut = now.length - wanted;
    if (cut.value == 0) {
        return true;
    }
    const pages end = start + wanted;
    const pages behind = start + now.length < frontier() ? free_.length_at(start + now.length) : pages{};
    store(end, {extent_kind::free, cut + behind});  // inside the used extent until the next store
    if (!change_length(start, now, wanted)) {
        return false;
    }
    note_backed(end, cut);
    unite({end, cut, cut});
    return true;
}

}  // namespace holdfast::extent
