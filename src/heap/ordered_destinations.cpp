#include "heap/ordered/ordered_destinations.hpp"

#include <cstring>

#include "heap/heap_operations.hpp"
#include "heap/ordered/ordered_destinations_of.hpp"

namespace holdfast::heap {

namespace {

class open_heap {
public:
    explicit open_heap(heap_operations& of) noexcept : of_(of), changes_(of.changes()) {}

    [[nodiscard]] segment::space_view space() const noexcept { return of_.files().view(); }
    [[nodiscard]] slab::block_allocator& blocks() const noexcept { return of_.blocks(); }
    [[nodiscard]] slab::change_gate* changes() const noexcept { return changes_; }
    [[nodiscard]] void* allocate(const block_request& wanted) const noexcept {
        return of_.allocate(wanted.bytes, wanted.alignment, wanted.type);
    }
    [[nodiscard]] bool deallocate(void* block) const noexcept { return of_.try_deallocate(block); }
    void keep(const slab::held_block& held) const noexcept { of_.keep(held); }
    // The kernel keeps a killed process's stores in this order; release order binds the compiler.
    void store(std::uint64_t& word, std::uint64_t value) const noexcept {
        std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
    }
    void copy(void* to, const void* from, std::uint64_t bytes) const noexcept { std::memcpy(to, from, bytes); }
    void zero(void* to, std::uint64_t bytes, persist::site /*where*/) const noexcept {
        heap::zero(of_, to, bytes, zeros::durable);
    }
    void persist(const void* begin, std::uint64_t bytes, persist::site /*where*/) const noexcept {
        of_.persist(begin, bytes);
    }

private:
    heap_operations& of_;
    slab::change_gate* changes_;  ///< as long as the heap is open in its durability
};

}  // namespace

std::unique_ptr<destination_operations> make_ordered_destinations(heap_operations& heap) {
    return std::make_unique<ordered_destinations<open_heap>>(open_heap(heap));
}

}  // namespace holdfast::heap
