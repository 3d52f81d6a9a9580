// manager: blocks with their destinations.
//
// Durability `atomic`: a crash leaves each call done as a whole or not at all, and done if it has returned. Durability
// `commit`: the effect of a call is part of the next commit(). Durability `collect`: no crash leaves a destination that
// points to memory that is free or another block's. What allocate_to() and publish() store in it is durable after
// persist(); free_from() and realloc_to() write it back before they free.
//
// A destination is a `ptr` in this heap: a root, or a word in an allocated block that was durably initialised (zeroed
// memory is). It has one operation at a time; only these calls and the assignment of `ptr` write it. A program that
// moves a pointer (`head = tmp; tmp = nullptr`) persists `head` before it empties `tmp`, and `tmp` before it frees
// through `head` (docs/atomic-protocol.md, "What the program promises").
//
// Errors: holdfast::bad_alloc; error(bad_address) for a destination outside the heap or one that points to no allocated
// block; error(read_only). Then nothing has changed. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/persistable.hpp>
#include <holdfast/ptr.hpp>
#include <holdfast/ticket.hpp>

namespace holdfast {

/// What adjacent words of 8 bytes become; `place` is a multiple of 8.
struct word_run {
    void* place = nullptr;
    std::span<const std::uint64_t> values;
};

class heap_destinations : public detail::part_of_manager<heap_destinations> {
public:
    /// Allocates a block and lets `destination` point to it; the block that it pointed to is not freed.
    template <class T>
    T* allocate_to(ptr<T>& destination, std::size_t bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(allocate_to_word(&destination, bytes, traits));
    }
    /// Frees the block that `destination` points to and sets it to null. False where it was null.
    template <class T>
    bool free_from(ptr<T>& destination) {
        return free_from_word(&destination);
    }
    /// Replaces the block by one of `bytes` bytes with the same content as far as both reach, durably, and the same
    /// type where traits.type is 0. The copy holds no destinations. A block of whole pages that is long enough and not
    /// twice as long stays. A null destination: as allocate_to().
    template <class T>
    T* realloc_to(ptr<T>& destination, std::size_t bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(reallocate_to_word(&destination, bytes, traits));
    }
    /// A block that is not allocated yet: fill it, persist() it, publish() it. Until then usable_size() and
    /// deallocate() refuse it, for_each_block() skips it, a crash and a close free it, and it holds no destinations.
    [[nodiscard]] void* reserve(std::size_t bytes, const allocation_traits& traits = {});
    /// Allocates a reserved block, else error(bad_address), and lets `destination` point to it.
    template <class T>
    void publish(ptr<T>& destination, std::type_identity_t<T>* reserved) {
        publish_word(&destination, reserved);
    }
    /// Gives back a reserved block, else error(bad_address).
    void cancel(void* reserved);
    /// allocate_to() for many destinations, with one fence for up to 32. Each element is atomic, the batch is not: on
    /// failure the first are done and the others unchanged.
    template <class T>
    void allocate_batch(std::span<ptr<T>* const> destinations, std::size_t bytes,
                        const allocation_traits& traits = {}) {
        for_each_batch(destinations, [&](std::span<void* const> words) { allocate_words(words, bytes, traits); });
    }
    /// free_from(), as allocate_batch(). Null destinations are skipped.
    template <class T>
    void free_batch(std::span<ptr<T>* const> destinations) {
        for_each_batch(destinations, [this](std::span<void* const> words) { free_words(words); });
    }
    /// Reserves a block, constructs a T, persists and publishes it: two fences. Nothing is left if the constructor
    /// throws. A `ptr` in T can then be a destination.
    template <class T, class... Args>
    T* make_persistent(ptr<T>& destination, Args&&... args) {
        static_assert(detail::require_persistable<T>());
        pending_block pending(*this, reserve(sizeof(T), {alignof(T), false}));
        T* const made = ::new (pending.block) T(std::forward<Args>(args)...);
        persist(made, sizeof(T));
        publish(destination, made);
        pending.block = nullptr;
        return made;
    }
    /// Runs the destructor of the target, then free_from(). False where `destination` is null.
    template <class T>
    bool destroy_persistent(ptr<T>& destination) {
        if (destination == nullptr) {
            return false;
        }
        std::destroy_at(destination.get());
        return free_from(destination);
    }

    /// For the program's own data: flush() starts to write a range back, drain() waits until what this thread flushed
    /// is durable, persist() does both. No-ops in the domain page-cache and in durability `commit`.
    void flush(const void* begin, std::size_t bytes) const noexcept;
    void drain() const noexcept;
    void persist(const void* begin, std::size_t bytes) const noexcept {
        flush(begin, bytes);
        drain();
    }
    /// The cheapest transaction (<holdfast/transaction.hpp>), with the same promises and rules: stores all runs or none
    /// (durability `collect`: in order), with one record for each four words of a run and one fence. Throws
    /// error(bad_address) for words outside the heap, error(invalid_argument) for runs that overlap, error(read_only),
    /// bad_alloc. Up to 8 records need no memory.
    void store_words(std::span<const word_run> runs);

    /// Waits until the transaction of a ticket (transaction::commit_later()) and the earlier ones of its thread are
    /// durable and stored in the heap. By any thread. Throws error(poisoned) where the disk failed, now or before: the
    /// next open finds none of them or all; what a commit throws: they go on waiting; error(invalid_argument) for a
    /// ticket of another heap.
    void sync(const ticket& of);
    /// Waits for the tickets of all threads.
    void sync();

    /// Durability `atomic`: writes back what completed calls have changed, so that a recovery has less to do. Another
    /// thread's call that does not end, for 40 ms on a disk, leaves its part to the next one.
    void checkpoint();

private:
    friend class manager;
    heap_destinations() noexcept = default;

    void* allocate_to_word(void* destination, std::size_t bytes, const allocation_traits& traits);
    bool free_from_word(void* destination);
    void* reallocate_to_word(void* destination, std::size_t bytes, const allocation_traits& traits);
    void publish_word(void* destination, void* reserved);
    void allocate_words(std::span<void* const> destinations, std::size_t bytes, const allocation_traits& traits);
    void free_words(std::span<void* const> destinations);
    template <class T, class Function>
    static void for_each_batch(std::span<ptr<T>* const> destinations, Function&& function) {
        constexpr std::size_t most = 32;
        void* words[most];
        while (!destinations.empty()) {
            const std::size_t some = destinations.size() < most ? destinations.size() : most;
            for (std::size_t i = 0; i < some; ++i) {
                words[i] = destinations[i];
            }
            function(std::span<void* const>(words, some));
            destinations = destinations.subspan(some);
        }
    }
    struct pending_block {
        pending_block(heap_destinations& of, void* reserved) : owner(of), block(reserved) {}
        pending_block(const pending_block&) = delete;
        pending_block& operator=(const pending_block&) = delete;
        ~pending_block() {
            if (block != nullptr) {
                owner.cancel(block);
            }
        }
        heap_destinations& owner;
        void* block;
    };
};

}  // namespace holdfast
