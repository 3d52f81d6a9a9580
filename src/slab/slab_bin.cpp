#include "slab/slab_bin.hpp"

namespace holdfast::slab {

using base::granule;

/// Puts the slab at the front of a list.
void slab_lists::push(std::uint32_t& head, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    twin.previous = 0;
    twin.next = head;
    if (head != 0) {
        table_.twin(linked(head)).previous = link_to(slab);
    }
    head = link_to(slab);
}

void slab_lists::take_out(std::uint32_t& head, granule slab) const noexcept {
    const slab_twin& twin = table_.twin(slab);
    (twin.previous != 0 ? table_.twin(linked(twin.previous)).next : head) = twin.next;
    if (twin.next != 0) {
        table_.twin(linked(twin.next)).previous = twin.previous;
    }
}

void slab_lists::link(slab_bin& owner, granule slab, bool empty) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(!twin.listed() && !twin.rests());
    twin.set_listed(true);
    twin.is_empty = empty;
    push(empty ? owner.empty : owner.head, slab);
    if (empty && owner.empties++ == 0) {
        owner.oldest_empty = link_to(slab);
    }
}

void slab_lists::unlink(slab_bin& owner, granule slab) const noexcept {
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

void slab_lists::rest(slab_bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(!twin.listed() && !twin.rests() && twin.parts_out == 0);
    twin.set_resting(true);
    twin.empty_pages = 0;
    twin.hole_pages = 0;
    push(owner.resting, slab);
}

void slab_lists::end_rest(slab_bin& owner, granule slab) const noexcept {
    slab_twin& twin = table_.twin(slab);
    HF_ASSERT(twin.rests());
    twin.set_resting(false);
    twin.empty_pages = 0;
    twin.hole_pages = 0;
    take_out(owner.resting, slab);
}

/// Stores the owner last: a thread that finds it finds everything that was done before.
void slab_lists::adopt(slab_bin& owner, granule slab) const noexcept {
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

}  // namespace holdfast::slab
