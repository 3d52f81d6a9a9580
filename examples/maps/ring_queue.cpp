#include "ring_queue.hpp"

#include <algorithm>
#include <new>

namespace maps {

ring_queue::ring_queue(holdfast::manager& heap, const char* name, unsigned capacity_bits)
    : heap_(heap), head_(*heap.find_or_construct<head>(name)()) {
    if (head_.ring == nullptr) {
        heap_.transact([&](holdfast::transaction& tx) {
            head& made = tx.open(head_);
            made.capacity = std::uint64_t{1} << capacity_bits;
            constexpr bool zeroed = true;  // null pointers
            made.ring = static_cast<place*>(tx.allocate(made.capacity * sizeof(place), {alignof(place), zeroed}));
        });
    }
}

bool ring_queue::enqueue(std::string_view text) {
    if (count() == head_.capacity) {
        return false;
    }
    heap_.transact([&](holdfast::transaction& tx) {
        auto* const made = ::new (tx.allocate(sizeof(entry) + text.size())) entry{text.size()};
        std::copy(text.begin(), text.end(), reinterpret_cast<char*>(made + 1));
        tx.store(place_of(head_.back), made);
        tx.store(head_.back, head_.back + 1);
    });
    return true;
}

std::optional<std::string> ring_queue::dequeue() {
    if (count() == 0) {
        return std::nullopt;
    }
    place& from = place_of(head_.front);
    std::string text(text_of(*from));
    heap_.transact([&](holdfast::transaction& tx) {
        tx.destroy(from.get());
        tx.store(from, nullptr);
        tx.store(head_.front, head_.front + 1);
    });
    return text;
}

bool ring_queue::for_each(const visitor& visit) const {
    for (std::uint64_t i = head_.front; i != head_.back; ++i) {
        if (!visit(text_of(*place_of(i)))) {
            return false;
        }
    }
    return true;
}

std::string_view ring_queue::text_of(const entry& of) noexcept {
    return {reinterpret_cast<const char*>(&of + 1), of.length};
}

}  // namespace maps
