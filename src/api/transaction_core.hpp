// What an open transaction knows: copies of opened objects, words, and blocks that it makes and frees.
//
// Invariants:
//   TX-1: nothing in the heap changes before commit(), except the content of reserved blocks, which no crash keeps.
//   TX-2: a word of an opened object is stored if it differs from the copy's first state; a `ptr` among them is stored
//         relative to the object, with the stamp that its word has there.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <unordered_map>
#include <utility>
#include <vector>

#include <holdfast/transaction.hpp>

#include "api/manager_core.hpp"
#include "api/transaction_checks.hpp"
#include "heap/destination_operations.hpp"

namespace holdfast::detail {

class transaction_core {
public:
    transaction_core() = default;
    transaction_core(const transaction_core&) = delete;
    transaction_core& operator=(const transaction_core&) = delete;
    ~transaction_core() {
        end();
        checks_.look_at_ended();
    }

    /// Throws error(read_only).
    void begin(manager_core& heap);
    /// Gives back the blocks that no commit() has made. Keeps the memory of this object for the next begin().
    void end() noexcept;

    [[nodiscard]] void* open(void* object, const shadow_type& type);
    /// open() for plain bytes. Pointers in the copy stay relative to the places that it was made of.
    [[nodiscard]] void* open_range(void* begin, std::size_t bytes);
    [[nodiscard]] void* load_pointer(const void* place) const;
    void store(void* place, std::uint64_t value);
    /// In the heap or, for ranges, in a copy.
    void store_pointer(void* place, const void* target);
    [[nodiscard]] void* allocate(std::size_t bytes, const allocation_traits& traits);
    void free(void* block);
    void commit();

    // Transactions within this one.
    void begin_inner();
    void keep_inner() noexcept;
    /// No other thread sees what is dropped: it lies in copies and in blocks that this transaction has made.
    void drop_inner() noexcept;

private:
    /// The copy, its first state, and a second copy made elsewhere: words in which the two copies differ are `ptr`s.
    struct opened_object {
        std::byte* object;
        std::uint64_t* copy;
        std::uint64_t* first;
        std::uint64_t* twin;
        const shadow_type* type;
        [[nodiscard]] std::size_t words() const noexcept { return (type->size + 7) / 8; }
    };
    struct stored_word {
        std::uint64_t offset;
        std::uint64_t value;
    };
    struct made_block {
        std::byte* block;
        std::size_t bytes;
        std::size_t dropped_in;  ///< freed again in the transaction of this depth; 0: it is kept
    };
    /// What there was when an inner transaction began.
    struct inner_begin {
        std::size_t opened;
        std::size_t stored;
        std::size_t made;
        std::size_t freed;
        std::vector<std::uint64_t> copies;
        std::vector<std::byte> contents;  ///< of made blocks
    };

    [[nodiscard]] heap::destination_operations& operations() const;
    [[nodiscard]] std::uint64_t offset_of(const void* place, std::size_t bytes) const;
    /// Throws error(invalid_argument) for a pointer that the heap must not hold: it leads out of the heap.
    void expect_in_heap(std::uint64_t target) const {
        const std::uint64_t base = reinterpret_cast<std::uintptr_t>(heap().engine().files().view().base());
        if (target - base > base::to_bytes(heap().engine().files().frontier())) [[unlikely]] {
            refuse_target(target);
        }
    }
    [[noreturn]] void refuse_target(std::uint64_t target) const;
    void refuse_double_frees();
    void check_rules();
    [[nodiscard]] std::uint64_t* new_copy(const void* from, const shadow_type& type);
    [[nodiscard]] std::uint64_t* find_opened(const std::byte* object, const shadow_type& type) const;
    /// The block of this transaction that the address lies in, or null.
    [[nodiscard]] made_block* find_made(const std::byte* address);
    /// What the place in the copy of a range is a copy of; null for all other places.
    [[nodiscard]] std::byte* original_of(const void* place) const;
    void put(std::uint64_t offset, std::uint64_t value);
    void put_changes_of(const opened_object& each);
    void put_content_of(const made_block& each);
    void refuse_overlaps();
    void put_words();
    [[nodiscard]] bool is_alive() const noexcept { return heap_ != nullptr && life_.goes_on(); }
    /// Throws error(invalid_argument) where the heap was closed meanwhile.
    [[nodiscard]] manager_core& heap() const {
        if (!life_.goes_on()) [[unlikely]] {
            throw_closed();
        }
        return *heap_;
    }
    /// In a child of fork the block is the parent's.
    void give_back(void* block) noexcept;

    manager_core* heap_ = nullptr;
    heap_life::watch life_;
    transaction_checks checks_;
    alignas(std::max_align_t) std::byte first_memory_[1024];
    std::pmr::monotonic_buffer_resource memory_{first_memory_, sizeof first_memory_};
    std::vector<opened_object> opened_;
    std::vector<stored_word> stored_;
    std::vector<made_block> made_;
    std::vector<void*> freed_;
    // Indexes of opened_ and made_, where they have more than a few.
    std::unordered_map<const std::byte*, std::size_t> opened_at_;
    std::map<const std::byte*, std::size_t, std::greater<>> made_at_;
    std::map<const std::byte*, std::size_t, std::greater<>> copies_at_;  ///< of ranges
    std::vector<inner_begin> inner_;
    // Of commit().
    std::vector<heap::data_piece> pieces_;
    heap::data_piece* last_ = nullptr;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> by_offset_;  ///< places of pieces, and their words
    std::vector<void*> kept_;
};

struct transaction_access {
    [[nodiscard]] static transaction_core& core(const transaction& of) { return of.core(); }
};

}  // namespace holdfast::detail
