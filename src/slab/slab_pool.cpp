#include "slab/slab_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "slab/slab_check.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// The most unloaded slabs that one request loads before it makes a new slab: bounds its time where all of them are
/// full.
constexpr int loads_a_take = 32;

}  // namespace

base::result<void> slab_pool::reset() {
    HF_TRY(table_.reset(space_));
    const unsigned nodes = extents_.nodes();
    const unsigned wanted = (std::max(std::thread::hardware_concurrency(), 1U) + nodes - 1) / nodes * nodes;
    arenas_ = std::min(wanted, maximum_arenas - maximum_arenas % nodes);
    bins_ = std::make_unique<bin[]>(std::size_t{arenas_} * class_count);
    unclaimed_ = std::make_unique<unclaimed[]>(std::size_t{nodes} * class_count);
    hands_ = std::make_unique<node_hands[]>(nodes);
    remote_.start(*this, table_, nodes, space_.shape().granules());
    pins_.clear();
    recorded_end_ = 0;
    threads_.store(0, std::memory_order_relaxed);
    space_is_short_.store(false, std::memory_order_relaxed);
    first_typed_.store(nullptr, std::memory_order_relaxed);
    {
        const base::scoped_lock lock(typed_mutex_);
        typed_bins_.clear();
    }
    for (unsigned i = 0; i < arenas_ * class_count; ++i) {
        bins_[i].arena = i / class_count;
        bins_[i].class_index = i % class_count;
    }
    return {};
}

void slab_pool::record(granule found) {
    const segment::slab_header_on_media& header = space_.slab_header(found);
    recorded_end_ = found.value + 1;
    if (!is_sound(header)) {
        table_.set_state(found, slab_state::quarantined);
        return;
    }
    const unsigned class_index = class_of_block_size(header.block_size);
    table_.set_second(found, second_of(header));
    if (header.type != 0) {
        const auto type = static_cast<std::uint32_t>(header.type);
        typed_bin_of(class_index, type).waiting.push_back(static_cast<std::uint32_t>(found.value));
        table_.set_type(found, type);
        table_.set_state(found, slab_state::unloaded(class_index));
        return;
    }
    table_.set_state(found, slab_state::unloaded(class_index));
    ++unclaimed_of(node_of(found), class_index).count;  // no lock: only the thread that opens is here
}

unsigned slab_pool::arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept {
    const unsigned nodes = extents_.nodes();
    if (nodes == 1) {
        return turn % arenas_;
    }
    // Where the heap has more nodes than the machine, each node of the machine serves several of the heap's.
    unsigned of = node % nodes;
    unsigned round = turn;
    if (machine_nodes < nodes) {
        const unsigned several = (nodes - of + machine_nodes - 1) / machine_nodes;
        of += machine_nodes * (turn % several);
        round = turn / several;
    }
    return round % (arenas_ / nodes) * nodes + of;
}

/// Puts the slab at the front of a list.
void slab_pool::push(std::uint32_t& head, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    twin.previous = 0;
    twin.next = head;
    if (head != 0) {
        table_.twin(linked(head)).previous = link_to(slab);
    }
    head = link_to(slab);
}

void slab_pool::take_out(std::uint32_t& head, granule slab) const noexcept {
    const slab_twin& twin = table_.twin(slab);
    (twin.previous != 0 ? table_.twin(linked(twin.previous)).next : head) = twin.next;
    if (twin.next != 0) {
        table_.twin(linked(twin.next)).previous = twin.previous;
    }
}

void slab_pool::link(bin& owner, granule slab, bool empty) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(!twin.listed() && !twin.rests());
    twin.set_listed(true);
    twin.is_empty = empty;
    push(empty ? owner.empty : owner.head, slab);
    if (empty && owner.empties++ == 0) {
        owner.oldest_empty = link_to(slab);
    }
}

void slab_pool::unlink(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(twin.listed());
    twin.set_listed(false);
    take_out(twin.is_empty ? owner.empty : owner.head, slab);
    if (twin.is_empty) {
        twin.is_empty = false;
        if (owner.oldest_empty == link_to(slab)) {
            owner.oldest_empty = twin.previous;
        }
        --owner.empties;
        owner.idle = std::min(owner.idle, owner.empties);
    }
}

/// From now on blocks of the slab are allocated and freed by their marks alone.
void slab_pool::unwatch(granule slab, unsigned class_index) const noexcept {
    if (!slab_state::is_unwatched(table_.state(slab))) {
        table_.set_state(slab, slab_state::loaded(class_index));  // a watched slab has its marks in the lower bank
    }
}

void slab_pool::hand_out(std::uint64_t offset) const noexcept {
    const unsigned kind = kind_in(base::granule_of(base::heap_offset{offset}));
    std::atomic_ref(*table_.mark_at(offset, kind)).store(live_mark::live, std::memory_order_release);
}

// --- blocks out -----------------------------------------------------------------------------------------------------

base::result<slab_part> slab_pool::check_out(unsigned arena, unsigned class_index) {
    bin& own = bin_of(arena, class_index);
    {
        const base::scoped_lock lock(own.mutex);
        std::optional<slab_part> got = check_out_listed(own);
        for (int loads = 0; !got && loads < loads_a_take && load_next(own); ++loads) {
            got = check_out_listed(own);
        }
        if (got) {
            return *got;
        }
    }
    if (is_space_short()) {
        if (const auto got = check_out_listed_anywhere(class_index)) {
            return *got;
        }
    }
    fetch_remote_frees(arena);
    look_at_some(arena);
    {
        const base::scoped_lock lock(own.mutex);
        if (const auto got = check_out_resting(own)) {
            return *got;
        }
    }
    morph_some(own);
    const base::scoped_lock lock(own.mutex);
    std::optional<slab_part> got = check_out_listed(own);
    if (!got) {
        HF_TRY(create(own));
        got = check_out_listed(own);
    }
    return *got;
}

std::optional<slab_part> slab_pool::check_out_listed_anywhere(unsigned class_index) noexcept {
    for (unsigned arena = 0; arena < arenas_; ++arena) {
        bin& from = bin_of(arena, class_index);
        const base::scoped_lock lock(from.mutex);
        if (const auto got = check_out_listed(from)) {
            return got;
        }
    }
    return std::nullopt;
}

std::optional<slab_part> slab_pool::check_out_anywhere(unsigned class_index) noexcept {
    space_is_short_.store(true, std::memory_order_relaxed);
    look_at_every_slab();  // earlier attempts may have skipped slabs with few free blocks
    for (unsigned arena = 0; arena < arenas_; ++arena) {
        bin& from = bin_of(arena, class_index);
        const base::scoped_lock lock(from.mutex);
        do {
            if (const auto got = check_out_listed(from)) {
                return got;
            }
        } while (loads_of_its_node(from) && load_next(from));  // however many unloaded slabs must be read
        if (const auto got = check_out_resting(from)) {        // some resting slabs may have space
            return got;
        }
    }
    return std::nullopt;
}

void slab_pool::check_in(slab_part from) noexcept {
    slab_twin& twin = table_.twin(from.slab);
    bin& owner = *twin.owner.load(std::memory_order_relaxed);
    {
        const base::scoped_lock lock(owner.mutex);
        twin.parts_out = static_cast<std::uint8_t>(twin.parts_out & ~from.mask());
        if (twin.listed()) {
            unlink(owner, from.slab);
        }
        settle(owner, from.slab, worth(owner));
    }
    fade_empty();
}

/// The first slab of a bin that has one in a list: an empty slab only where there is no other.
granule slab_pool::first_listed(const bin& from) const noexcept {
    return linked(from.head != 0 ? from.head : from.empty);
}

/// The free blocks of a word that lie in no part that is out, as bits.
std::uint64_t slab_pool::bits_at_hand(granule slab, unsigned class_index, std::size_t word) const noexcept {
    const size_class& kind = size_classes[class_index];
    std::uint64_t bits = table_.free_bits(slab, kind_in(slab), word);
    for (unsigned out = table_.twin(slab).parts_out; out != 0; out &= out - 1) {
        bits &= ~blocks_of_parts(kind, static_cast<unsigned>(std::countr_zero(out)), 1).bits(word);
    }
    return bits;
}

std::optional<slab_part> slab_pool::check_out_listed(bin& from) noexcept {
    const size_class& kind = size_classes[from.class_index];
    while ((from.head | from.empty) != 0) {
        const granule slab = first_listed(from);
        slab_twin& twin = table_.twin(slab);
        for (unsigned part = 0; part < parts_of(kind); ++part) {
            slab_part found{slab, part};
            if ((twin.parts_out >> part & 1U) != 0 || !has_free(found, from.class_index)) {
                continue;
            }
            if (gives_whole_slabs()) {
                found = widen(found, from.class_index);
            }
            twin.parts_out = static_cast<std::uint8_t>(twin.parts_out | found.mask());
            note_use(from, slab);
            return found;
        }
        unlink(from, slab);
        settle(from, slab, worth(from));
    }
    return std::nullopt;
}

/// Notes that a block or a part of the slab is handed out.
void slab_pool::note_use(bin& from, granule slab) const noexcept {
    if (table_.twin(slab).is_empty) {
        unlink(from, slab);
        link(from, slab, false);
    }
    unwatch(slab, from.class_index);
    from.last_use = wanted_.load(std::memory_order_relaxed);
}

bool slab_pool::has_free(slab_part of, unsigned class_index) const noexcept {
    const block_range blocks = of.blocks(size_classes[class_index]);
    const unsigned kind = kind_in(of.slab);
    for (std::size_t word = blocks.first_word(); word < blocks.end_word(); ++word) {
        if ((table_.free_bits(of.slab, kind, word) & blocks.bits(word)) != 0) {
            return true;
        }
    }
    return false;
}

/// The part together with the neighbouring parts that are not out.
slab_part slab_pool::widen(slab_part found, unsigned class_index) const noexcept {
    const unsigned out = table_.twin(found.slab).parts_out;
    while (found.part != 0 && (out >> (found.part - 1) & 1U) == 0) {
        --found.part;
        ++found.parts;
    }
    while (found.part + found.parts < parts_of(size_classes[class_index]) &&
           (out >> (found.part + found.parts) & 1U) == 0) {
        ++found.parts;
    }
    return found;
}

base::result<std::uint64_t> slab_pool::take_one(unsigned arena, unsigned class_index, std::uint32_t type) {
    bin& own = type == 0 ? bin_of(arena, class_index) : typed_bin_of(class_index, type);
    std::uint64_t taken = take_known(own, loads_a_take);
    if (taken == 0 && type == 0 && is_space_short()) {
        taken = take_listed_anywhere(class_index);
    }
    if (taken != 0) {
        return taken;
    }
    remote_.merge_all();  // slabs with a type may lie on any node
    const base::scoped_lock lock(own.mutex);
    taken = take_listed(own);
    if (taken == 0) {
        taken = take_resting(own);
    }
    if (taken == 0) {
        HF_TRY(create(own));
        taken = take_listed(own);
    }
    return taken;
}

std::uint64_t slab_pool::take_listed_anywhere(unsigned class_index) noexcept {
    std::uint64_t taken = 0;
    for (unsigned arena = 0; arena < arenas_ && taken == 0; ++arena) {
        bin& from = bin_of(arena, class_index);
        const base::scoped_lock lock(from.mutex);
        taken = take_listed(from);
    }
    return taken;
}

std::uint64_t slab_pool::take_one_anywhere(unsigned class_index, std::uint32_t type) noexcept {
    space_is_short_.store(true, std::memory_order_relaxed);
    look_at_every_slab();  // as check_out_anywhere()
    if (type != 0) {
        typed_bin* const only = find_typed_bin(class_index, type);
        return only == nullptr ? 0 : take_all_of(*only);
    }
    std::uint64_t taken = 0;
    for (unsigned arena = 0; arena < arenas_ && taken == 0; ++arena) {
        taken = take_all_of(bin_of(arena, class_index));
    }
    return taken;
}

/// Takes a block from the bin, loading as many slabs as it needs; 0 where there is none.
std::uint64_t slab_pool::take_all_of(bin& from) noexcept {
    const base::scoped_lock lock(from.mutex);
    std::uint64_t taken = take_listed(from);
    while (taken == 0 && loads_of_its_node(from) && load_next(from)) {
        taken = take_listed(from);
    }
    return taken != 0 ? taken : take_resting(from);
}

std::uint64_t slab_pool::take_listed(bin& from) noexcept {
    while ((from.head | from.empty) != 0) {
        const granule slab = first_listed(from);
        if (const std::uint64_t taken = take_from(from, slab); taken != 0) {
            return taken;
        }
        unlink(from, slab);
        settle(from, slab, worth(from));
    }
    return 0;
}

/// The offset of a block taken from the slab; 0 where it has none free.
std::uint64_t slab_pool::take_from(bin& from, granule slab) noexcept {
    const size_class& kind = size_classes[from.class_index];
    slab_twin& twin = table_.twin(slab);
    const std::size_t words = words_of(kind);
    for (std::size_t step = 0; step < words; ++step) {
        const std::size_t word = (twin.first_word + step) % words;
        const std::uint64_t free_blocks = bits_at_hand(slab, from.class_index, word);
        if (free_blocks != 0) {
            const std::size_t index = word * marks_a_word + static_cast<std::size_t>(std::countr_zero(free_blocks));
            std::atomic_ref(table_.marks(slab, kind_in(slab))[index]).store(live_mark::held, std::memory_order_relaxed);
            twin.first_word = static_cast<std::uint8_t>(word);
            twin.count_out(1);
            note_use(from, slab);
            return base::offset_of(slab).value + index * kind.block_size;
        }
    }
    return 0;
}

// --- slabs come and go ----------------------------------------------------------------------------------------------

/// Releases a slab that is in no list and has no block out. `backed`: all of it has space on disk.
void slab_pool::release(bin& owner, granule slab, bool backed) noexcept {
    table_.set_state(slab, slab_state::none);  // before the granule can become something else
    free_guard_of(slab);
    table_.set_second(slab, 0);
    auto kind = segment::extent_kind::slab;
    if (tracks_changes_) {
        table_.clear_bitmap(slab);
    }
    if (log_ != nullptr) {
        log_->slab_released(slab, size_classes[owner.class_index], owner.type);
        extents_.slab_withdrawn();
        kind = segment::extent_kind::reserved;
    }
    bool freed = false;
    try {
        freed = extents_.free(base::first_page(slab), kind, backed).ok();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
    if (!freed) {
        table_.set_state(slab, slab_state::quarantined);  // its page entry was overwritten; check() names it
    }
}

/// Whether the slab's bitmap matches what was committed.
bool slab_pool::admitted(granule slab) const noexcept {
    try {
        return admit(slab).ok();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return false;
    }
}

/// Reserves space on disk for the slab's bitmap.
base::result<void> slab_pool::back_bitmap(granule slab, segment::bitmap_guard::slab_is use) const noexcept {
    try {
        return guard_ == nullptr ? base::result<void>() : guard_->back(slab, use);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
}

void slab_pool::write_header(granule slab, const size_class& kind, std::uint32_t type) const noexcept {
    const segment::slab_header_on_media wanted{kind.block_size, kind.block_count, 0, type, {}};
    segment::slab_header_on_media& header = space_.slab_header(slab);
    if (std::memcmp(&header, &wanted, sizeof wanted) != 0) {  // a page without a store stays clean
        header = wanted;
    }
}

base::result<void> slab_pool::create(bin& owner) {
    const size_class& kind = size_classes[owner.class_index];
    wanted_.fetch_add(1, std::memory_order_relaxed);
    // The granule is a reserved extent until the slab is complete: after a crash it is free.
    const std::uint32_t node = owner.type == 0 ? owner.arena % extents_.nodes() : extent::any_node;
    HF_TRY_ASSIGN(const base::pages page, take_granule(node));
    const granule slab = base::granule_of(page);
    if (auto ready = back_bitmap(slab, segment::bitmap_guard::slab_is::made); !ready) {
        free_guard_of(slab);
        HF_TRY(extents_.free(page, segment::extent_kind::reserved));
        return ready;
    }
    const bool sound = admitted(slab);
    if (sound && log_ != nullptr) {
        log_->slab_created(slab, kind, owner.type);
    } else if (sound) {
        write_header(slab, kind, owner.type);
        table_.clear_bitmap(slab);  // is zero already, unless media breaks SLAB-4
    }
    extents_.slab_made(page);
    if (!sound) {
        table_.set_state(slab, slab_state::quarantined);
        return base::failure{base::failure_code::corrupt,
                             {},
                             "live bitmap",
                             fmt::format("damage in granule {}", slab.value),
                             "what was committed",
                             "holdfast check names the page",
                             0};
    }
    adopt(owner, slab);
    table_.set_second(slab, 0);
    table_.set_type(slab, owner.type);
    table_.set_state(slab, slab_state::loaded(owner.class_index));
    link(owner, slab, true);
    space_is_short_.store(false, std::memory_order_relaxed);
    return {};
}

/// Prepares the twin of a new slab, or of one that is being morphed under the lock of its old owner. The owner is
/// stored last: a thread that finds it finds everything that was done before.
void slab_pool::adopt(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    twin.countdown.store(0, std::memory_order_relaxed);
    twin.set_listed(false);
    twin.is_empty = false;
    twin.set_resting(false);
    twin.parts_out = 0;
    twin.first_word = 0;
    twin.empty_pages = 0;
    twin.hole_pages = 0;
    twin.old_taken = slab_twin::not_looked_at;
    twin.old_covered = 0;
    twin.owner.store(&owner, std::memory_order_release);
}

/// Tries to load one slab. False where no slab of the class (and type) is left unloaded, or where all that are left
/// were tried in this pass and their bitmaps got no space on disk; the next call then begins the next pass.
bool slab_pool::load_next(bin& owner) noexcept {
    if (owner.type != 0) {
        return load_next_typed(static_cast<typed_bin&>(owner));
    }
    const std::uint32_t node = owner.arena % extents_.nodes();
    unclaimed& waiting = unclaimed_of(node, owner.class_index);
    const base::scoped_lock lock(waiting.mutex);
    if (waiting.count == 0) {
        return false;
    }
    const std::uint8_t wanted = slab_state::unloaded(owner.class_index);
    while (waiting.cursor < recorded_end_ &&
           (table_.state({waiting.cursor}) != wanted || table_.type({waiting.cursor}) != 0 ||
            node_of({waiting.cursor}) != node)) {
        ++waiting.cursor;
    }
    if (waiting.cursor == recorded_end_) {
        if (waiting.first_refused < recorded_end_) {
            waiting.cursor = std::exchange(waiting.first_refused, unclaimed::none);
        } else {
            waiting.count = 0;
        }
        return false;
    }
    const granule next{waiting.cursor++};
    if (load_into(owner, next)) {
        --waiting.count;
    } else {
        waiting.first_refused = std::min(waiting.first_refused, next.value);
    }
    return true;
}

base::result<void> slab_pool::load(granule unloaded, unsigned arena) noexcept {
    const std::uint8_t state = table_.state(unloaded);
    if (!slab_state::is_unloaded(state)) {
        return {};
    }
    const unsigned class_index = slab_state::class_of(state);
    if (table_.type(unloaded) != 0) {
        return load_typed(unloaded, class_index);
    }
    const std::uint32_t node = node_of(unloaded);
    bin& owner = bin_of(arena - arena % extents_.nodes() + node, class_index);
    unclaimed& waiting = unclaimed_of(node, class_index);
    const base::scoped_lock lock(owner.mutex);
    const base::scoped_lock waiting_lock(waiting.mutex);
    if (table_.state(unloaded) == slab_state::unloaded(class_index)) {  // no other thread was faster
        HF_TRY(load_into(owner, unloaded));
        --waiting.count;
    }
    return {};
}

/// Loads or quarantines the slab. On failure it stays unloaded, and nothing was changed: its bitmap gets no space on
/// disk, for example in a copy of a heap, which has holes where nothing was written. That is no damage; there may be
/// space later.
base::result<void> slab_pool::load_into(bin& owner, granule slab) noexcept {
    HF_TRY(back_bitmap(slab, segment::bitmap_guard::slab_is::loaded));
    if (!admitted(slab) || !has_clean_bitmap(table_, slab) || !has_disjoint_blocks(table_, slab)) {
        table_.set_state(slab, slab_state::quarantined);
        return {};
    }
    adopt(owner, slab);
    load_marks(slab);
    if (segment::decode_slab_flags(space_.slab_header(slab).flags).may_have_holes) {
        rest(owner, slab);
        settle_resting(owner, slab);
    } else {
        settle(owner, slab, 1);
    }
    return {};
}

void slab_pool::release_empty() noexcept {
    const auto of_every_bin = [this](auto act) {
        for (unsigned i = 0; i < arenas_ * class_count; ++i) {
            act(bins_[i]);
        }
        for (typed_bin* each = first_typed_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
            act(*each);
        }
    };
    of_every_bin([this](bin& owner) {
        const base::scoped_lock lock(owner.mutex);
        while (loads_of_its_node(owner) && load_next(owner)) {
        }
    });
    look_at_every_slab();
    of_every_bin([this](bin& owner) {
        const base::scoped_lock lock(owner.mutex);
        while (owner.empties != 0) {
            release_oldest_empty(owner);
        }
    });
}

}  // namespace holdfast::slab
