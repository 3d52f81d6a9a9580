// holdfast::transaction: changes of objects, blocks and roots that count together or not at all.
//
//     heap.transact([&](holdfast::transaction& tx) {
//         account& from = tx.open(heap_from);  // a copy in DRAM
//         account& to = tx.open(heap_to);
//         from.balance -= 10;
//         to.balance += 10;
//     });                                      // both are changed, or neither
//
// Nothing in the heap changes before commit(). An exception, abort() and the destructor drop copies, new blocks and
// frees.
//
// Durability `atomic`: when commit() has returned, the changes survive what the domain survives; a crash before leaves
// none of them. Costs one fence; docs/transactions.md says when more. Durability `commit` and `collect`: all or nothing
// in memory; a crash leaves what these durabilities leave.
//
// The program promises (open_options::check_transactions finds offenders) that while a transaction is open, no other
// thread changes or opens its objects, by a lock that is held until commit() has returned (holdfast::section). Nothing
// else changes words that transactions change, until the heap was closed or a checkpoint() has passed: a crash may take
// another store back.
//
// Not part of a transaction: named objects, and what containers allocate. An opened object holds no container.
//
// Thread safety: a transaction belongs to one thread; any number of threads have one each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <holdfast/manager.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/persistable.hpp>
#include <holdfast/ptr.hpp>
#include <holdfast/ticket.hpp>
#include <holdfast/transact_scope.hpp>

namespace holdfast {

namespace detail {

class transaction_core;
struct transaction_access;
/// Of manager::transact().
struct within_transact {};
/// Of an inner transaction: where it is aborted, its caller has put back what was opened or made before it, so that its
/// begin copies nothing.
struct contents_by_caller {};

struct shadow_type {
    std::size_t size = 0;
    std::size_t alignment = 0;
    void (*copy)(void* to, const void* from) = nullptr;  ///< null: byte by byte
    const char* name = nullptr;
};
template <class T>
[[nodiscard]] const shadow_type& shadow_type_of() {
    static_assert(std::is_copy_constructible_v<T>, "holdfast: an object that a transaction opens can be copied");
    static_assert(std::is_trivially_destructible_v<T>,
                  "holdfast: an object that a transaction opens owns nothing: its destructor is trivial");
    static_assert(require_persistable<T>());
    static const shadow_type type{sizeof(T), alignof(T),
                                  std::is_trivially_copyable_v<T>
                                      ? nullptr
                                      : +[](void* to, const void* from) { ::new (to) T(*static_cast<const T*>(from)); },
                                  typeid(T).name()};
    return type;
}

}  // namespace detail

class transaction {
public:
    /// Throws error(read_only) for a heap opened so, and in durability `commit` error(invalid_argument) within
    /// manager::transact(), which gives one to its function. Closing the heap aborts it; then commit() throws
    /// error(invalid_argument).
    explicit transaction(manager& heap);
    /// A transaction within another: its abort() drops what was done since, its commit() hands it to the outer one. It
    /// must end before the outer one commits, and ends where that aborts. Throws error(invalid_argument) where another
    /// is open within the outer one.
    explicit transaction(transaction& outer);  // NOLINT(google-explicit-constructor): it copies nothing
    transaction(manager& heap, detail::within_transact);
    transaction(transaction& outer, detail::contents_by_caller);
    transaction(const transaction&) = delete;
    transaction& operator=(const transaction&) = delete;
    ~transaction();

    /// The copy in which the transaction reads and writes an object, the same for each call; the object itself where
    /// this transaction has made it. Throws error(bad_address) unless the object lies in the heap at a multiple of 8;
    /// error(invalid_argument) for one that holds a container.
    template <class T>
        requires(!detail::is_instance<T, ptr>)
    [[nodiscard]] T& open(T& object) {
        return *static_cast<T*>(open_object(&object, detail::shadow_type_of<T>()));
    }
    template <class T>
    [[nodiscard]] T& open(const ptr<T>& object) {
        return open(*object);
    }
    /// Stores 8 bytes in a place that is not opened: a root, a counter. Until commit() the place has the old value,
    /// except in a block that this transaction has made; a copy that is opened later has the new one.
    template <class T>
        requires(sizeof(T) == sizeof(std::uint64_t) &&  // NOLINT(misc-redundant-expression)
                 alignof(T) == alignof(std::uint64_t) && std::is_trivially_copyable_v<T>)
    void store(T& place, const std::type_identity_t<T>& value) {
        std::uint64_t word = 0;
        __builtin_memcpy(&word, &value, sizeof word);
        store_word(&place, word);
    }
    template <class T>
    void store(ptr<T>& place, std::type_identity_t<T>* target) {
        store_pointer(&place, target);
    }
    /// What commit() would leave in these 8 bytes: what this transaction has stored there or in the copy around them,
    /// what one of this thread has left for a sync, or else what is there.
    template <class T>
        requires(!detail::is_instance<T, ptr> && sizeof(T) == sizeof(std::uint64_t) &&
                 alignof(T) == alignof(std::uint64_t) && std::is_trivially_copyable_v<T>)
    [[nodiscard]] T load(const T& place) const {
        const std::uint64_t word = load_word(&place);
        T value;
        __builtin_memcpy(&value, &word, sizeof word);
        return value;
    }
    template <class T>
    [[nodiscard]] T* load(const ptr<T>& place) const {
        return static_cast<T*>(load_target(&place));
    }
    /// A block that becomes allocated with commit(): fill it, and let an object or a root point to it.
    [[nodiscard]] void* allocate(std::size_t bytes, const allocation_traits& traits = {});
    /// Constructs a T in such a block; none is left if the constructor throws.
    template <class T, class... Args>
    [[nodiscard]] T* make(Args&&... args) {
        static_assert(detail::require_persistable<T>());
        void* const block = allocate(sizeof(T), {alignof(T), false});
        try {
            return ::new (block) T(std::forward<Args>(args)...);
        } catch (...) {
            free(block);
            throw;
        }
    }
    /// Frees a block with commit(), or at once if this transaction has made it; null is ignored. For anything else, or
    /// a second free, commit() throws error(bad_address).
    void free(void* block);
    template <class T>
    void destroy(T* object) {
        static_assert(std::is_trivially_destructible_v<T>, "holdfast: destroy what the object owns before");
        free(const_cast<std::remove_cv_t<T>*>(object));
    }

    /// Carries everything out, or throws bad_alloc or error: then nothing is changed, and the transaction is aborted.
    /// error(invalid_argument): opened objects overlap; a pointer leads out of the heap, as to the copy of an opened
    /// object; a transaction within this one is open.
    void commit();
    /// As commit(), but in the domain `disk` without waiting for the disk: durable when manager::sync() of the ticket
    /// has returned, after a later commit() of this thread, or when the heap was closed. A crash before leaves all or
    /// nothing of what the thread had waiting. Until then:
    ///   - the heap shows what was before, also to this thread, except by open() and load();
    ///   - the program keeps the locks of what was changed;
    ///   - transactions alone free a block in which a change waits: otherwise the sync stores into another block.
    /// Where objects hold `ptr`s that wait, open() syncs first. Calls outside of transactions are not ordered with
    /// tickets. In other domains and durabilities it is commit(). Throws as commit(), and error(invalid_argument) for a
    /// transaction within another one.
    [[nodiscard]] ticket commit_later();
    void abort() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return core_ != nullptr; }
    [[nodiscard]] bool is_committed() const noexcept { return is_committed_; }

private:
    friend struct detail::transaction_access;

    void* open_object(void* object, const detail::shadow_type& type);
    void begin_inner(transaction& outer, bool copies);
    void store_word(void* place, std::uint64_t value);
    void store_pointer(void* place, const void* target);
    [[nodiscard]] std::uint64_t load_word(const void* place) const;
    [[nodiscard]] void* load_target(const void* place) const;
    [[nodiscard]] detail::transaction_core& core() const;
    void end() noexcept;

    std::unique_ptr<detail::transaction_core> owned_;
    detail::transaction_core* core_ = nullptr;
    transaction* outer_ = nullptr;
    transaction* inner_ = nullptr;
    bool is_committed_ = false;
};

template <class Function>
decltype(auto) manager::transact(Function&& body) {
    std::optional<transact_scope> all;
    if (this->durability() == holdfast::durability::commit) {
        all.emplace(*this);
    }
    if constexpr (std::is_invocable_v<Function, transaction&>) {
        transaction tx(*this, detail::within_transact());
        const auto end = [&] {
            if (tx.is_open()) {
                tx.commit();
            }
            if (all && tx.is_committed()) {
                all->commit();
            }
        };
        if constexpr (std::is_void_v<std::invoke_result_t<Function, transaction&>>) {
            std::forward<Function>(body)(tx);
            end();
        } else {
            auto result = std::forward<Function>(body)(tx);
            end();
            return result;
        }
    } else {
        if (!all) {
            detail::refuse_plain_code(*this);
        }
        if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
            std::forward<Function>(body)();
            all->commit();
        } else {
            auto result = std::forward<Function>(body)();
            all->commit();
            return result;
        }
    }
}

template <class Function>
ticket manager::transact_later(Function&& body) {
    if (this->durability() != holdfast::durability::commit) {
        if constexpr (std::is_invocable_v<Function, transaction&>) {
            transaction tx(*this, detail::within_transact());
            std::forward<Function>(body)(tx);
            return tx.is_open() ? tx.commit_later() : ticket();
        } else {
            detail::refuse_plain_code(*this);
        }
    }
    transact_scope all(*this);
    if constexpr (std::is_invocable_v<Function, transaction&>) {
        transaction tx(*this, detail::within_transact());
        std::forward<Function>(body)(tx);
        if (tx.is_open()) {
            tx.commit();
        }
        return tx.is_committed() ? all.commit_later() : ticket();
    } else {
        std::forward<Function>(body)();
        return all.commit_later();
    }
}

template <class Function>
decltype(auto) manager::read(Function&& body) const {
    const read_scope others(*this);
    return std::forward<Function>(body)();
}

/// A transaction that holds locks until it is durable (strict two-phase locking), so others see only changes that
/// survive. Locks several mutexes without deadlock. Source: Atlas.
template <class... Mutexes>
class section {
public:
    explicit section(manager& heap, Mutexes&... mutexes) : locks_(mutexes...), tx_(heap) {}

    [[nodiscard]] transaction& operator*() noexcept { return tx_; }
    [[nodiscard]] transaction* operator->() noexcept { return &tx_; }

private:
    std::scoped_lock<Mutexes...> locks_;
    transaction tx_;  ///< ends before the locks are let go
};
template <class... Mutexes>
section(manager&, Mutexes&...) -> section<Mutexes...>;

}  // namespace holdfast
