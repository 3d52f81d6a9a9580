// Slabs that rest: their pages without a live block have no space on disk.
//
// When a phase of a program ends, it may leave slabs with a few live blocks each. Where no other class can use them
// (morphing.cpp), each holds 64 KiB on disk as long as one of its blocks lives. So in durability `commit`, a commit
// lets slabs of idle classes rest: no part of such a slab is out, it is in no list to allocate from, its header says
// that it may have holes, and its empty pages are given to the commit like free extents.
//
// Why no live block is ever in a hole:
//
// - A page becomes a hole only after a commit is durable in which the slab's header has its mark and the page has no
//   live block. Before that, and where the commit fails, the file is as it was.
// - As long as the slab rests, no block of it is handed out: not in this process, and, because of its header, not in a
//   later process of any durability. Its live blocks only become fewer.
// - To allocate from it or to morph it, it is first woken: space on disk for the whole slab is reserved, and only then
//   is it listed. Where there is no space, it goes on resting, and nothing has changed.
// - When the last block of a resting slab is gone, its granule becomes a free extent that is not known to have space,
//   like all free extents after open(): the extent layer reserves space before it hands the granule out.
// - A page that was a hole and has a block again is written like a page of a free extent that is in use again (JRN-5):
//   the last commit has the page free and without a sum, so its old content means nothing.
//
// When the slab wakes, its header loses the mark by a store that the next commit writes. In durabilities `atomic` and
// `collect` that would need a record or an order of stores, so the mark stays: after the next open the slab rests once
// more, and to wake it costs a system call.
#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <vector>

#include "persist/mutant.hpp"
#include "slab/slab_check.hpp"
#include "slab/slab_pool.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// So many empty pages make it worth to let a slab rest: each slab costs a part of a system call, and a changed page of
/// metadata.
constexpr unsigned least_empty_pages = 4;
/// The most slabs that are tried, or woken, for one request.
constexpr int tries_a_take = 32;
constexpr unsigned all_pages = (1U << base::pages_per_granule) - 1;

void set_may_have_holes(const segment::space_view& space, granule slab, bool may_have) noexcept {
    std::uint64_t& flags = space.slab_header(slab).flags;
    const std::uint64_t wanted =
        may_have ? flags | segment::slab_flag_may_have_holes : flags & ~segment::slab_flag_may_have_holes;
    if (flags != wanted) {  // a page without a store stays clean
        std::atomic_ref(flags).store(wanted, std::memory_order_relaxed);
    }
}

/// Adds pages of the slab, one for each bit, to runs that lie before them.
void add_pages(segment::free_runs& runs, granule slab, unsigned bits) {
    for (unsigned page = 0; page < base::pages_per_granule; ++page) {
        if ((bits >> page & 1U) == 0) {
            continue;
        }
        const base::pages at = base::first_page(slab) + base::pages{page};
        if (!runs.empty() && runs.back().first + runs.back().second == at) {
            ++runs.back().second.value;
        } else {
            runs.emplace_back(at, base::pages{1});
        }
    }
}

bool any_bit(const std::array<std::uint64_t, bitmap_words>& bits, std::uint32_t first, std::uint32_t last) noexcept {
    for (std::uint32_t word = first / 64; word <= last / 64; ++word) {
        std::uint64_t found = bits[word];
        found &= word == first / 64 ? ~std::uint64_t{0} << (first % 64) : ~std::uint64_t{0};
        found &= word == last / 64 ? ~std::uint64_t{0} >> (63 - last % 64) : ~std::uint64_t{0};
        if (found != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

// --- which pages ----------------------------------------------------------------------------------------------------

/// The pages, as bits, that contain a part of a block of the kind that is not free. Covered blocks of the present kind
/// are left out: the older blocks that cover them count.
std::uint16_t slab_pool::pages_with_blocks(granule slab, unsigned kind, bool present) const noexcept {
    const size_class& size = size_classes[slab_state::class_of_kind(kind)];
    std::array<std::uint64_t, bitmap_words> taken{};
    const std::uint8_t* const marks = table_.marks(slab, kind);
    for (std::size_t word = 0; word < words_of(size); ++word) {
        const std::uint64_t covered = present ? covered_bits_of(marks + word * marks_a_word) : 0;
        taken[word] = ~table_.free_bits(slab, kind, word) & ~covered & valid_bits(size, word);
    }
    unsigned pages = 0;
    for (std::uint32_t page = 0; page < base::pages_per_granule; ++page) {
        const std::uint64_t begin = page * base::page_size;
        const std::uint32_t first = block_index(size, begin);
        const std::uint32_t last =
            HF_MUTANT("slab.rest.live_page") ? first : block_index(size, begin + base::page_size - 1);
        if (first < size.block_count && any_bit(taken, first, std::min<std::uint32_t>(last, size.block_count - 1U))) {
            pages |= 1U << page;
        }
    }
    return static_cast<std::uint16_t>(pages);
}

/// The pages, as bits, of a loaded slab in which all blocks are free.
std::uint16_t slab_pool::pages_without_blocks(granule slab) const noexcept {
    const slab_kinds kinds = table_.kinds_in(slab, table_.state(slab));
    unsigned taken = 0;
    for (unsigned i = 0; i < kinds.count; ++i) {
        taken |= pages_with_blocks(slab, kinds.kinds[i], i == 0);
    }
    return static_cast<std::uint16_t>(all_pages & ~taken);
}

// --- a slab rests, and wakes ----------------------------------------------------------------------------------------

/// Lets a slab rest that is in no list, has no part out, and whose header says that it may have holes.
void slab_pool::rest(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(!twin.listed() && !twin.rests() && twin.parts_out == 0);
    twin.set_resting(true);
    twin.empty_pages = 0;
    twin.hole_pages = 0;
    push(owner.resting, slab);
}

void slab_pool::end_rest(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(twin.rests());
    twin.set_resting(false);
    twin.empty_pages = 0;
    twin.hole_pages = 0;
    take_out(owner.resting, slab);
}

/// Settles a slab that rests, as settle() does for other slabs. Without a block it is released: empty slabs in a list
/// may be allocated from, and this one may have holes.
void slab_pool::settle_resting(bin& owner, granule slab) noexcept {
    slab_twin& twin = table_.twin(slab);
    const std::int32_t before = twin.countdown.load(std::memory_order_relaxed);
    const older_blocks older = uncover(slab);
    const std::uint32_t marked = table_.count_marked(slab, kind_in(slab));
    if (marked == 0 && older.live == 0) {
        end_rest(owner, slab);
        release(owner, slab, false);
        return;
    }
    const auto live = static_cast<std::int32_t>(marked - older.covered + older.live);
    const std::int32_t meanwhile = before - twin.countdown.load(std::memory_order_relaxed);
    twin.countdown.store(std::max(live - meanwhile, 1), std::memory_order_relaxed);
}

/// Reserves space on disk for the whole slab, and takes it out of the list of resting slabs. False where there is no
/// space: it rests as before.
bool slab_pool::wake(bin& owner, granule slab) noexcept {
    try {
        if (!extents_.back_used(base::first_page(slab), {base::pages_per_granule})) {
            return false;
        }
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return false;
    }
    if (is_private()) {
        set_may_have_holes(space_, slab, false);
    }
    end_rest(owner, slab);
    return true;
}

/// Wakes the first slab of the bin for which there is space. False where there is none.
bool slab_pool::wake_next(bin& owner) noexcept {
    std::uint32_t link = owner.resting;
    for (int tries = 0; link != 0 && tries < tries_a_take; ++tries) {
        const granule slab = linked(link);
        if (wake(owner, slab)) {
            wanted_.fetch_add(1, std::memory_order_relaxed);
            settle(owner, slab, 1);
            return true;
        }
        link = table_.twin(slab).next;
    }
    return false;
}

std::optional<slab_part> slab_pool::check_out_resting(bin& from) noexcept {
    for (int woken = 0; woken < tries_a_take && wake_next(from); ++woken) {
        if (const auto got = check_out_listed(from)) {
            return got;
        }
    }
    return std::nullopt;
}

/// The offset of a block of a slab that is woken for it; 0 where there is none.
std::uint64_t slab_pool::take_resting(bin& from) noexcept {
    for (int woken = 0; woken < tries_a_take && wake_next(from); ++woken) {
        if (const std::uint64_t taken = take_listed(from); taken != 0) {
            return taken;
        }
    }
    return 0;
}

// --- at a commit ----------------------------------------------------------------------------------------------------

/// The idle classes, as bits.
std::uint64_t slab_pool::idle_classes(std::uint64_t now) const noexcept {
    std::uint64_t idle = (std::uint64_t{1} << class_count) - 1;
    for (unsigned i = 0; i < arenas_ * class_count; ++i) {
        const base::scoped_lock lock(bins_[i].mutex);
        if (now - bins_[i].last_use < idle_after) {
            idle &= ~(std::uint64_t{1} << bins_[i].class_index);
        }
    }
    return idle;
}

/// Lets sparse slabs of these classes rest. Reads a state byte for each slab, and a cache line for slabs of these
/// classes.
void slab_pool::rest_slabs_of(std::uint64_t idle) noexcept {
    const std::uint64_t end = extents_.frontier().value / base::pages_per_granule;
    for (granule slab{0}; idle != 0 && slab.value < end; ++slab.value) {
        const std::uint8_t state = table_.state(slab);
        if (slab_state::is_loaded(state) && (idle >> slab_state::class_of(state) & 1U) != 0) {
            rest_if_sparse(slab);
        }
    }
}

void slab_pool::rest_if_sparse(granule slab) noexcept {
    slab_twin& twin = table_.twin(slab);
    if (!twin.listed() || table_.type(slab) != 0) {
        return;
    }
    bin& owner = *twin.owner.load(std::memory_order_acquire);
    const base::scoped_lock lock(owner.mutex);
    if (twin.parts_out != 0 || twin.is_empty) {
        return;
    }
    uncover(slab);
    const std::uint16_t empty = pages_without_blocks(slab);
    if (count_bits(empty) < least_empty_pages) {
        return;
    }
    unlink(owner, slab);
    if (empty == all_pages) {  // it was not looked at since its last free
        settle(owner, slab, 1);
        return;
    }
    if (!HF_MUTANT("slab.rest.flag")) {
        set_may_have_holes(space_, slab, true);
    }
    rest(owner, slab);
    twin.empty_pages = empty;
    settle_resting(owner, slab);
}

resting_pages slab_pool::rest_idle(bool all) {
    resting_pages found;
    if (!is_private()) {
        return found;
    }
    const std::uint64_t now = wanted_.load(std::memory_order_relaxed);
    if (all || now - looked_for_rest_ >= idle_after) {
        looked_for_rest_ = now;
        rest_slabs_of(all ? ~std::uint64_t{0} : idle_classes(now));
    }
    std::vector<granule> slabs;
    for (unsigned i = 0; i < arenas_ * class_count; ++i) {
        const base::scoped_lock lock(bins_[i].mutex);
        for (std::uint32_t link = bins_[i].resting; link != 0;) {
            const granule slab = linked(link);
            slab_twin& twin = table_.twin(slab);
            // A watched slab has not changed since the last commit, so its bits are still right.
            if (twin.empty_pages == 0 || slab_state::is_unwatched(table_.state(slab))) {
                twin.empty_pages = pages_without_blocks(slab);
            }
            slabs.push_back(slab);
            link = twin.next;
        }
    }
    std::ranges::sort(slabs, {}, &granule::value);
    for (const granule slab : slabs) {
        const slab_twin& twin = table_.twin(slab);
        add_pages(found.free, slab, twin.empty_pages);
        add_pages(found.holes, slab, twin.empty_pages & ~unsigned{twin.hole_pages});
    }
    return found;
}

void slab_pool::rested(const segment::free_runs& holes) noexcept {
    for (const auto& [start, length] : holes) {
        for (base::pages page = start; page < start + length; ++page.value) {
            slab_twin& twin = table_.twin(base::granule_of(page));
            if (twin.rests()) {
                twin.hole_pages =
                    static_cast<std::uint16_t>(twin.hole_pages | 1U << (page.value % base::pages_per_granule));
            }
        }
    }
}

}  // namespace holdfast::slab
