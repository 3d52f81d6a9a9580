#include "slab/pool/slab_bin.hpp"

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

}  // namespace holdfast::slab
