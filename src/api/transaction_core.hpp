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
#include <memory_resource>
#include <vector>

#include <holdfast/transaction.hpp>

#include "api/manager_core.hpp"
#include "heap/destination_operations.hpp"

namespace holdfast::detail {

class transaction_core {
public:
    /// Throws error(read_only).
    explicit transaction_core(manager_core& heap);
    transaction_core(const transaction_core&) = delete;
    transaction_core& operator=(const transaction_core&) = delete;
    /// Gives back the blocks that no commit() has made.
    ~transaction_core();

    [[nodiscard]] void* open(void* object, const shadow_type& type);
    void store(void* place, std::uint64_t value);
    void store_pointer(void* place, const void* target);
    [[nodiscard]] void* allocate(std::size_t bytes, const allocation_traits& traits);
    void free(void* block);
    void commit();

    // Transactions within this one.
    void begin_inner();
    void keep_inner() noexcept { inner_.pop_back(); }
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
    };
    /// What there was when an inner transaction began.
    struct inner_begin {
        std::size_t opened;
        std::size_t stored;
        std::size_t made;
        std::size_t freed;
        std::size_t dropped;
        std::vector<std::uint64_t> copies;
    };

    [[nodiscard]] heap::destination_operations& operations() const;
    [[nodiscard]] std::uint64_t offset_of(const void* place, std::size_t bytes) const;
    [[nodiscard]] std::uint64_t* new_copy(const void* from, const shadow_type& type);
    [[nodiscard]] bool is_made(const std::byte* object) const noexcept;
    void put(std::uint64_t offset, std::uint64_t value);
    void put_changes_of(const opened_object& each);
    void put_content_of(const made_block& each);
    void order_words();
    [[nodiscard]] std::vector<heap::data_piece> pieces() const;
    [[nodiscard]] std::vector<void*> kept_blocks();
    void cancel_all() noexcept;

    manager_core& heap_;
    std::pmr::monotonic_buffer_resource memory_;
    std::vector<opened_object> opened_;
    std::vector<stored_word> stored_;
    std::vector<made_block> made_;
    std::vector<void*> freed_;
    std::vector<void*> dropped_;  ///< made, and freed again
    std::vector<inner_begin> inner_;
    std::vector<stored_word> words_;  ///< of commit()
};

}  // namespace holdfast::detail
