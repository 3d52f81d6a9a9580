// What an open transaction knows: copies of opened objects, words, and blocks that it makes and frees.
//
// Invariants:
//   TX-1: nothing in the heap changes before commit(), except the content of reserved blocks, which no crash keeps.
//   TX-2: a word of an opened object is stored if it differs from the copy's first state; a `ptr` among them is stored
//         relative to the object, with the stamp that its word has there.
//
// Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <holdfast/transaction.hpp>

#include "api/group_words.hpp"
#include "api/made_blocks.hpp"
#include "api/manager_core.hpp"
#include "api/opened_objects.hpp"
#include "api/transaction_checks.hpp"
#include "api/transaction_participants.hpp"
#include "base/hot.hpp"
#include "base/units.hpp"
#include "heap/operations/group_operations.hpp"

namespace holdfast::detail {

class transaction_core {
public:
    transaction_core() = default;
    transaction_core(const transaction_core&) = delete;
    transaction_core& operator=(const transaction_core&) = delete;
    ~transaction_core() {
        end();
        checks_.inspect_ended();
    }

    /// `part`: plain_transactions::part(). Throws error(read_only).
    void begin(manager_core& heap, unsigned part = 0) {
        if (checks_.keeps_copies() || heap.ranges() != nullptr || heap.pending().is_used() || !(heap.life() == life_))
            [[unlikely]] {
            begin_in(heap);
        }
        heap_ = &heap;
        part_ = part;
        static_cast<void>(operations());
    }
    /// Gives back the blocks that no commit() has made. Keeps this object's memory for the next begin().
    HF_HOT void end() noexcept {
        if (checks_.is_on() || !made_.empty() || !inner_.empty() || !participants_.empty()) [[unlikely]] {
            end_all();
        }
        if (!checks_.keeps_copies()) [[likely]] {
            opened_.memory().release();
        }
        opened_.clear();
        stored_.clear();
        freed_.clear();
        heap_ = nullptr;
    }

    [[nodiscard]] void* open(void* object, const shadow_type& type);
    /// Pointers in the copy stay relative to the places that it was made of.
    [[nodiscard]] void* open_range(void* begin, std::size_t bytes);
    [[nodiscard]] void* load_pointer(const void* place) const;
    /// What commit() would leave: a word as it lies, or where a `ptr` leads to.
    [[nodiscard]] std::uint64_t load_word(const void* place) const;
    [[nodiscard]] void* load_target(const void* place) const;
    /// `is_pointer`: of a `ptr` at the place.
    void store(void* place, std::uint64_t value, bool is_pointer = false);
    /// The place lies in the heap or, for ranges, in a copy.
    void store_pointer(void* place, const void* target);
    [[nodiscard]] void* allocate(std::size_t bytes, const allocation_traits& traits);
    void free(void* block);
    void commit();
    [[nodiscard]] ticket commit_later();

    // Transactions within this one.
    /// Without `copies` the caller of drop_inner() has put back what was opened or made before.
    void begin_inner(bool copies);
    void keep_inner() noexcept;
    /// No other thread sees what is dropped: it lies in copies and in blocks that this transaction has made.
    void drop_inner() noexcept;

private:
    friend struct transaction_access;

    /// When an inner transaction began.
    struct inner_begin {
        std::size_t opened;
        std::size_t stored;
        std::size_t made;
        std::size_t freed;
        bool has_copies;
        std::vector<std::uint64_t> copies;
        std::vector<std::byte> contents;  ///< of made blocks

        /// To where they were, so a `ptr` in them stays right.
        void put_contents_back(opened_objects& into, made_blocks& blocks, bool is_alive) const noexcept;
    };

    void begin_in(manager_core& heap);
    void end_all() noexcept;
    [[nodiscard]] heap::group_operations& operations() const {
        heap::engine& engine = heap().engine();
        if (engine.destinations() == nullptr) [[unlikely]] {
            throw_read_only(engine, "transaction");
        }
        return engine.destinations()->groups();
    }
    [[nodiscard]] std::uint64_t offset_of(const void* place, std::size_t bytes) const {
        static_cast<void>(heap());
        const std::uint64_t end = base::to_bytes(files_->frontier());
        const std::uint64_t offset = offset_in_heap(place);
        if (offset % sizeof(std::uint64_t) != 0 || offset >= end || bytes > end - offset) [[unlikely]] {
            refuse_place(place);
        }
        return offset;
    }
    /// Huge for a place below the heap.
    [[nodiscard]] std::uint64_t offset_in_heap(const void* place) const noexcept {
        return reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(base_);
    }
    [[noreturn, gnu::cold]] void refuse_place(const void* place) const;
    /// Throws error(invalid_argument).
    void expect_in_heap(std::uint64_t target) const {
        static_cast<void>(heap());
        if (target - reinterpret_cast<std::uintptr_t>(base_) > base::to_bytes(files_->frontier())) [[unlikely]] {
            refuse_target(target);
        }
    }
    [[noreturn, gnu::cold]] void refuse_target(std::uint64_t target) const;
    /// What this thread has left for a sync; null where it never did. Another transaction may begin to while this one
    /// is open.
    [[nodiscard]] pending_batch* waiting() const {
        if (batch_ == nullptr && heap().pending().count() != batches_seen_) [[unlikely]] {
            batches_seen_ = heap().pending().count();
            batch_ = heap().pending().find_own();
        }
        return batch_.get();
    }
    /// As it will be after a sync.
    [[nodiscard]] std::uint64_t word_with_waiting(const std::byte* place) const;
    void check_rules();
    [[nodiscard]] opened_object copy_with_waiting(std::byte* object, const shadow_type& type);
    void gather(bool made_too);
    void put_changes_of(const opened_object& each);
    void put_changes_by_type(const opened_object& each);
    void put_made();
    [[nodiscard]] bool may_overlap();
    void refuse_overlaps();
    [[nodiscard]] bool is_alive() const noexcept { return heap_ != nullptr && life_.goes_on(); }
    /// Throws error(invalid_argument) where the heap was closed meanwhile.
    [[nodiscard]] manager_core& heap() const {
        if (!life_.goes_on()) [[unlikely]] {
            throw_closed();
        }
        return *heap_;
    }

    manager_core* heap_ = nullptr;
    const segment::heap_files* files_ = nullptr;  ///< of heap_
    std::byte* base_ = nullptr;                   ///< of heap_
    heap_life::watch life_;
    mutable std::shared_ptr<pending_batch> batch_;  ///< of this thread and heap_, or null: see waiting()
    mutable std::size_t batches_seen_ = 0;          ///< pending_commits::count() when it was looked for
    transaction_checks checks_;
    opened_objects opened_;
    stored_words stored_;
    made_blocks made_;
    std::vector<void*> freed_;
    std::vector<inner_begin> inner_;
    transaction_participants participants_;
    unsigned part_ = 0;
    // Of commit().
    group_words words_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> by_offset_;  ///< ranges: first offset, and end
};

struct transaction_access {
    [[nodiscard]] static transaction_core& core(const transaction& of) { return of.core(); }
    [[nodiscard]] static bool is_of(const transaction_core& one, const manager_core& heap) noexcept {
        return one.heap_ == &heap;
    }

    // What counts together with a transaction (heap_participants.cpp).
    /// That commit() carries out.
    [[nodiscard]] static bool has_participants(const transaction_core& of) noexcept {
        return !of.participants_.empty();
    }
    /// Those of a transact() end with it (plain_transactions). Throws error(invalid_argument) while a transaction
    /// within it is open, whose part could not be dropped alone, and unless its transact() is the innermost.
    [[nodiscard]] static transaction_participants& participants(transaction_core& of);
    /// The part of a transact() that it belongs to; 0: it stands alone.
    [[nodiscard]] static unsigned part(const transaction_core& of) noexcept { return of.part_; }
    static void commit_with_participants(transaction_core& of, transaction& self);
};

}  // namespace holdfast::detail
