#include "slab/slab_pool.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "slab/slab_check.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

/// Unloaded slabs that one take() reads before it makes a new slab instead: a bound on its time where all of them are
/// full.
constexpr int loads_a_take = 32;

constexpr std::uint32_t link_to(granule slab) noexcept { return static_cast<std::uint32_t>(slab.value + 1); }
constexpr granule linked(std::uint32_t link) noexcept { return {std::uint64_t{link} - 1}; }
constexpr granule granule_at(std::uint64_t offset) noexcept { return base::granule_of(base::heap_offset{offset}); }

}  // namespace

base::result<void> slab_pool::reset() {
    HF_TRY(table_.reset(space_));
    const unsigned nodes = extents_.nodes();
    const unsigned wanted = (std::max(std::thread::hardware_concurrency(), 1U) + nodes - 1) / nodes * nodes;
    arenas_ = std::min(wanted, maximum_arenas - maximum_arenas % nodes);
    bins_ = std::make_unique<bin[]>(std::size_t{arenas_} * class_count);
    unclaimed_ = std::make_unique<unclaimed[]>(std::size_t{nodes} * class_count);
    recorded_end_ = 0;
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
    if (header.type != 0) {
        const auto type = static_cast<std::uint32_t>(header.type);
        typed_bin_of(class_index, type).waiting.push_back(static_cast<std::uint32_t>(found.value));
        table_.set_type(found, type);
        table_.set_state(found, slab_state::unloaded(class_index, true));
        return;
    }
    table_.set_state(found, slab_state::unloaded(class_index));
    ++unclaimed_of(node_of(found), class_index).count;  // alone: open() is not over
}

unsigned slab_pool::arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept {
    const unsigned nodes = extents_.nodes();
    if (nodes == 1) {
        return turn % arenas_;
    }
    // Where the heap has more nodes than the machine, each of the machine's has several of them.
    unsigned of = node % nodes;
    unsigned round = turn;
    if (machine_nodes < nodes) {
        const unsigned several = (nodes - of + machine_nodes - 1) / machine_nodes;
        of += machine_nodes * (turn % several);
        round = turn / several;
    }
    return round % (arenas_ / nodes) * nodes + of;
}

void slab_pool::link(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(twin.listed == 0 && twin.free_count > 0);
    twin.listed = 1;
    twin.previous = 0;
    twin.next = owner.head;
    if (owner.head != 0) {
        table_.twin(linked(owner.head)).previous = link_to(slab);
    }
    owner.head = link_to(slab);
}

void slab_pool::unlink(bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(twin.listed == 1);
    twin.listed = 0;
    (twin.previous != 0 ? table_.twin(linked(twin.previous)).next : owner.head) = twin.next;
    if (twin.next != 0) {
        table_.twin(linked(twin.next)).previous = twin.previous;
    }
}

base::result<std::size_t> slab_pool::take(unsigned arena, unsigned class_index, std::uint32_t type,
                                          std::span<std::uint64_t> out) {
    bin& own = type == 0 ? bin_of(arena, class_index) : typed_bin_of(class_index, type);
    const base::scoped_lock lock(own.mutex);
    std::size_t taken = take_listed(own, out);
    for (int loads = 0; taken == 0 && loads < loads_a_take && load_next(own); ++loads) {
        taken = take_listed(own, out);
    }
    if (taken == 0) {
        HF_TRY(create(own));
        taken = take_listed(own, out);
    }
    return taken;
}

std::size_t slab_pool::take_anywhere(unsigned class_index, std::uint32_t type, std::span<std::uint64_t> out) noexcept {
    if (type != 0) {
        typed_bin* const only = find_typed_bin(class_index, type);
        return only == nullptr ? 0 : take_all_of(*only, out);
    }
    std::size_t taken = 0;
    for (unsigned arena = 0; arena < arenas_ && taken == 0; ++arena) {
        taken = take_all_of(bin_of(arena, class_index), out);
    }
    return taken;
}

/// However many unloaded slabs must be read.
std::size_t slab_pool::take_all_of(bin& from, std::span<std::uint64_t> out) noexcept {
    const base::scoped_lock lock(from.mutex);
    std::size_t taken = take_listed(from, out);
    while (taken == 0 && load_next(from)) {
        taken = take_listed(from, out);
    }
    return taken;
}

std::size_t slab_pool::take_listed(bin& from, std::span<std::uint64_t> out) noexcept {
    std::size_t taken = 0;
    while (taken < out.size() && from.head != 0) {
        granule slab = linked(from.head);
        const slab_twin& first = table_.twin(slab);
        if (from.head == from.spare && first.next != 0) {
            slab = linked(first.next);  // leave the empty slab alone as long as there is another
        }
        if (from.spare == link_to(slab)) {
            from.spare = 0;
        }
        taken += take_from(from, slab, out.subspan(taken));
    }
    return taken;
}

std::size_t slab_pool::take_from(bin& from, granule slab, std::span<std::uint64_t> out) noexcept {
    const size_class& kind = size_classes[from.class_index];
    slab_twin& twin = table_.twin(slab);
    const std::span<std::uint64_t> taken_bits = table_.taken(slab, kind);
    const std::uint64_t start = base::offset_of(slab).value;
    std::size_t taken = 0;
    std::size_t word = twin.first_word;
    for (; word < taken_bits.size(); ++word) {
        std::uint64_t free_bits = ~taken_bits[word] & valid_bits(kind, word);
        while (free_bits != 0 && taken < out.size()) {
            const auto bit = static_cast<unsigned>(std::countr_zero(free_bits));
            free_bits &= free_bits - 1;
            taken_bits[word] |= std::uint64_t{1} << bit;
            out[taken++] = start + (word * 64 + bit) * kind.block_size;
        }
        if (free_bits != 0) {
            break;
        }
    }
    HF_ASSERT(taken > 0 && taken <= twin.free_count);
    twin.first_word = static_cast<std::uint8_t>(std::min(word, taken_bits.size() - 1));
    twin.free_count = static_cast<std::uint16_t>(twin.free_count - taken);
    if (twin.free_count == 0) {
        unlink(from, slab);
    }
    return taken;
}

void slab_pool::give(unsigned class_index, std::span<std::uint64_t> offsets) noexcept {
    while (!offsets.empty()) {
        // The owner of a slab is fixed while a block is out, and these blocks are.
        bin& owner = bin_of(table_.twin(granule_at(offsets.front())).arena, class_index);
        const base::scoped_lock lock(owner.mutex);
        std::size_t others = 0;
        for (const std::uint64_t offset : offsets) {
            if (table_.twin(granule_at(offset)).arena == owner.arena) {
                give_one(owner, offset);
            } else {
                offsets[others++] = offset;
            }
        }
        offsets = offsets.first(others);
    }
}

void slab_pool::give_one(bin& owner, std::uint64_t offset) noexcept {
    const size_class& kind = size_classes[owner.class_index];
    const granule slab = granule_at(offset);
    slab_twin& twin = table_.twin(slab);
    const std::uint32_t index = block_index(kind, offset % base::granule_size);
    const std::uint64_t mask = std::uint64_t{1} << (index % 64);
    std::uint64_t& taken_word = table_.taken(slab, kind)[index / 64];
    if ((taken_word & mask) == 0) {
        return;  // a live bit that was not ours was freed: something wrote over the bitmap; SLAB-5 names it
    }
    taken_word &= ~mask;
    twin.first_word = std::min(twin.first_word, static_cast<std::uint8_t>(index / 64));
    if (twin.free_count++ == 0) {
        link(owner, slab);
    }
    if (twin.free_count == kind.block_count) {
        settle_empty(owner, slab);
    }
}

void slab_pool::settle_empty(bin& owner, granule slab) noexcept {
    if (owner.spare == 0) {
        owner.spare = link_to(slab);
    } else {
        release(owner, slab);
    }
}

void slab_pool::release(bin& owner, granule slab) noexcept {
    unlink(owner, slab);
    table_.set_state(slab, slab_state::none);  // before the granule can become something else
    auto kind = segment::extent_kind::slab;
    if (log_ != nullptr) {
        log_->slab_released(slab, size_classes[owner.class_index], owner.type);
        extents_.slab_withdrawn();
        kind = segment::extent_kind::reserved;
    }
    bool freed = false;
    try {
        freed = extents_.free(base::first_page(slab), kind).ok();
    } catch (const std::bad_alloc&) {  // while a failure was worded
    }
    if (!freed) {
        table_.set_state(slab, slab_state::quarantined);  // its page entry was overwritten; check() names it
    }
}

/// Whether the slab's bitmap is what was committed.
bool slab_pool::admitted(granule slab) const noexcept {
    try {
        return admit(slab).ok();
    } catch (const std::bad_alloc&) {  // while a failure was worded
        return false;
    }
}

/// The slab's bitmap has space on disk.
base::result<void> slab_pool::back_bitmap(granule slab) const noexcept {
    try {
        return guard_ == nullptr ? base::result<void>() : guard_->back(slab);
    } catch (const std::bad_alloc&) {
        base::failure what;
        what.code = base::failure_code::out_of_memory;
        return what;
    }
}

void slab_pool::write_header(granule slab, const size_class& kind, std::uint32_t type) const noexcept {
    const segment::slab_header_on_media wanted{kind.block_size, kind.block_count, 0, type, {}};
    segment::slab_header_on_media& header = space_.slab_header(slab);
    if (std::memcmp(&header, &wanted, sizeof wanted) != 0) {  // a page that is not written is not dirty
        header = wanted;
    }
    for (std::size_t word = 0; word < bitmap_words; ++word) {  // zero already, unless media breaks SLAB-4
        const auto live = table_.live_word(slab, word);
        if (live.load(std::memory_order_relaxed) != 0) {
            live.store(0, std::memory_order_relaxed);
        }
    }
}

base::result<void> slab_pool::create(bin& owner) {
    const size_class& kind = size_classes[owner.class_index];
    constexpr base::pages size{base::pages_per_granule};
    // Nobody's until all is there that a slab needs: a crash leaves a free extent.
    const std::uint32_t node = owner.type == 0 ? owner.arena % extents_.nodes() : extent::any_node;
    HF_TRY_ASSIGN(const base::pages page, extents_.allocate(size, size, segment::extent_kind::reserved, 0, node));
    const granule slab = base::granule_of(page);
    if (auto ready = back_bitmap(slab); !ready) {
        HF_TRY(extents_.free(page, segment::extent_kind::reserved));
        return ready;
    }
    const bool sound = admitted(slab);
    if (sound && log_ != nullptr) {
        log_->slab_created(slab, kind, owner.type);
    } else if (sound) {
        write_header(slab, kind, owner.type);
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
    slab_twin& twin = table_.twin(slab);
    twin.free_count = kind.block_count;
    twin.first_word = 0;
    twin.arena = static_cast<std::uint8_t>(owner.arena);
    twin.listed = 0;
    std::ranges::fill(table_.taken(slab, kind), 0);
    if (owner.type != 0) {
        table_.set_type(slab, owner.type);
    }
    table_.set_state(slab, slab_state::loaded(owner.class_index, owner.type != 0));
    link(owner, slab);
    return {};
}

/// False where no slab of the class (and type) is left unloaded.
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
           (table_.state({waiting.cursor}) != wanted || node_of({waiting.cursor}) != node)) {
        ++waiting.cursor;
    }
    if (waiting.cursor == recorded_end_) {
        waiting.count = 0;
        return false;
    }
    --waiting.count;
    load_into(owner, {waiting.cursor++});
    return true;
}

void slab_pool::load(granule unloaded, unsigned arena) noexcept {
    const std::uint8_t state = table_.state(unloaded);
    if (!slab_state::is_unloaded(state)) {
        return;
    }
    const unsigned class_index = slab_state::class_of(state);
    if (slab_state::is_typed(state)) {
        load_typed(unloaded, class_index);
        return;
    }
    const std::uint32_t node = node_of(unloaded);
    bin& owner = bin_of(arena - arena % extents_.nodes() + node, class_index);
    unclaimed& waiting = unclaimed_of(node, class_index);
    const base::scoped_lock lock(owner.mutex);
    const base::scoped_lock waiting_lock(waiting.mutex);
    if (table_.state(unloaded) == slab_state::unloaded(class_index)) {  // nobody else was faster
        --waiting.count;
        load_into(owner, unloaded);
    }
}

void slab_pool::load_into(bin& owner, granule slab) noexcept {
    const size_class& kind = size_classes[owner.class_index];
    // A copy of a heap may have lost the space that was reserved and not written.
    if (!back_bitmap(slab) || !admitted(slab) || !has_clean_bitmap(table_, slab, &kind)) {
        table_.set_state(slab, slab_state::quarantined);
        return;
    }
    const std::span<std::uint64_t> taken = table_.taken(slab, kind);
    std::size_t live = 0;
    for (std::size_t word = 0; word < taken.size(); ++word) {
        taken[word] = table_.live_word(slab, word).load(std::memory_order_acquire);
        live += static_cast<std::size_t>(std::popcount(taken[word]));
    }
    if (table_.has_marks()) {
        table_.load_marks(slab, owner.class_index);
    }
    slab_twin& twin = table_.twin(slab);
    twin.free_count = static_cast<std::uint16_t>(kind.block_count - live);
    twin.first_word = 0;
    twin.arena = static_cast<std::uint8_t>(owner.arena);
    twin.listed = 0;
    table_.set_state(slab, slab_state::loaded(owner.class_index, owner.type != 0));
    if (twin.free_count != 0) {
        link(owner, slab);
    }
    if (live == 0) {
        settle_empty(owner, slab);
    }
}

void slab_pool::release_empty() noexcept {
    for (unsigned class_index = 0; class_index < class_count; ++class_index) {
        for (unsigned arena = 0; arena < arenas_; ++arena) {
            release_empty_of(bin_of(arena, class_index));
        }
    }
    for (typed_bin* each = first_typed_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
        release_empty_of(*each);
    }
}

void slab_pool::release_empty_of(bin& owner) noexcept {
    const base::scoped_lock lock(owner.mutex);
    while (load_next(owner)) {
    }
    if (owner.spare != 0) {
        const granule slab = linked(owner.spare);
        owner.spare = 0;
        release(owner, slab);
    }
}

}  // namespace holdfast::slab
