#include "slab/pool/slab_bins.hpp"

#include <algorithm>
#include <thread>

namespace holdfast::slab {

using base::granule;

void slab_lists::push(std::uint32_t& head, granule slab) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    descriptor.previous = 0;
    descriptor.next = head;
    if (head != 0) {
        table_.descriptor(linked(head)).previous = link_to(slab);
    }
    head = link_to(slab);
}

void slab_lists::take_out(std::uint32_t& head, granule slab) const noexcept {
    const slab_descriptor& descriptor = table_.descriptor(slab);
    (descriptor.previous != 0 ? table_.descriptor(linked(descriptor.previous)).next : head) = descriptor.next;
    if (descriptor.next != 0) {
        table_.descriptor(linked(descriptor.next)).previous = descriptor.previous;
    }
}

void slab_lists::link(slab_bin& owner, granule slab, bool empty) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    HF_ASSERT(!descriptor.listed() && !descriptor.is_sparse());
    descriptor.set_listed(true);
    descriptor.is_empty = empty;
    push(empty ? owner.empty : owner.head, slab);
    if (empty && owner.empties++ == 0) {
        owner.oldest_empty = link_to(slab);
    }
}

void slab_lists::unlink(slab_bin& owner, granule slab) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    HF_ASSERT(descriptor.listed());
    descriptor.set_listed(false);
    take_out(descriptor.is_empty ? owner.empty : owner.head, slab);
    if (descriptor.is_empty) {
        descriptor.is_empty = false;
        if (owner.oldest_empty == link_to(slab)) {
            owner.oldest_empty = descriptor.previous;
        }
        --owner.empties;
        owner.idle = std::min(owner.idle, owner.empties);
    }
}

void slab_lists::link_sparse(slab_bin& owner, granule slab) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    HF_ASSERT(!descriptor.listed() && !descriptor.is_sparse() && descriptor.parts_out == 0);
    descriptor.set_sparse(true);
    descriptor.empty_pages = 0;
    descriptor.hole_pages = 0;
    push(owner.sparse, slab);
}

void slab_lists::unlink_sparse(slab_bin& owner, granule slab) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    HF_ASSERT(descriptor.is_sparse());
    descriptor.set_sparse(false);
    descriptor.empty_pages = 0;
    descriptor.hole_pages = 0;
    take_out(owner.sparse, slab);
}

/// Stores the owner last: who finds it finds what was done before.
void slab_lists::adopt(slab_bin& owner, granule slab) const noexcept {
    slab_descriptor& descriptor = table_.descriptor(slab);
    descriptor.frees_until_check.store(0, std::memory_order_relaxed);
    descriptor.set_listed(false);
    descriptor.is_empty = false;
    descriptor.set_sparse(false);
    descriptor.parts_out = 0;
    descriptor.first_word = 0;
    descriptor.empty_pages = 0;
    descriptor.hole_pages = 0;
    descriptor.old_taken = slab_descriptor::not_looked_at;
    descriptor.old_overlapped = 0;
    descriptor.owner.store(&owner, std::memory_order_release);
}

namespace {

constexpr std::uint64_t key_of(unsigned class_index, std::uint32_t type) noexcept {
    return std::uint64_t{type} * 64 + class_index;
}
static_assert(class_count <= 64);

}  // namespace

void slab_bins::reset(unsigned nodes) {
    nodes_ = nodes;
    const unsigned wanted = (std::max(std::thread::hardware_concurrency(), 1U) + nodes - 1) / nodes * nodes;
    arenas_ = std::min(wanted, maximum_arenas - maximum_arenas % nodes);
    bins_ = std::make_unique<slab_bin[]>(std::size_t{arenas_} * class_count);
    first_typed_.store(nullptr, std::memory_order_relaxed);
    {
        const base::scoped_lock lock(typed_mutex_);
        typed_bins_.clear();
    }
    for (unsigned i = 0; i < count(); ++i) {
        bins_[i].arena = i / class_count;
        bins_[i].class_index = i % class_count;
    }
}

unsigned slab_bins::arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept {
    if (nodes_ == 1) {
        return turn % arenas_;
    }
    // Where the heap has more nodes than the machine, each of these serves several.
    unsigned of = node % nodes_;
    unsigned round = turn;
    if (machine_nodes < nodes_) {
        const unsigned several = (nodes_ - of + machine_nodes - 1) / machine_nodes;
        of += machine_nodes * (turn % several);
        round = turn / several;
    }
    return round % (arenas_ / nodes_) * nodes_ + of;
}

typed_bin* slab_bins::find_typed(unsigned class_index, std::uint32_t type) noexcept {
    const base::scoped_lock lock(typed_mutex_);
    const auto found = typed_bins_.find(key_of(class_index, type));
    return found == typed_bins_.end() ? nullptr : found->second.get();
}

typed_bin& slab_bins::typed(unsigned class_index, std::uint32_t type) {
    const base::scoped_lock lock(typed_mutex_);
    std::unique_ptr<typed_bin>& place = typed_bins_[key_of(class_index, type)];
    if (place == nullptr) {
        try {
            place = std::make_unique<typed_bin>();
        } catch (...) {
            typed_bins_.erase(key_of(class_index, type));  // no entry is ever null
            throw;
        }
        place->class_index = class_index;
        place->type = type;
        place->next = first_typed_.load(std::memory_order_relaxed);
        first_typed_.store(place.get(), std::memory_order_release);
    }
    return *place;
}

}  // namespace holdfast::slab
