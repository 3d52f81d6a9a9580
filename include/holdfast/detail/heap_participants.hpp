// What is committed with a heap beside its own files, in its directory: stores (store_in_heap.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace holdfast {
class manager;
class transaction;
}  // namespace holdfast

namespace holdfast::detail {

class manager_core;

/// Is told of the heap's commits. In durability `commit` it holds its writers then; in the others before_commit() alone
/// is called, and threads may go on.
class heap_participant {
public:
    heap_participant() = default;
    heap_participant(const heap_participant&) = delete;
    heap_participant& operator=(const heap_participant&) = delete;
    virtual ~heap_participant() = default;

    /// Keeps transactions that write out until release_writers() of the same thread. False, and nothing is held, while
    /// one of another thread is open.
    [[nodiscard]] virtual bool try_hold_writers() noexcept = 0;
    virtual void release_writers() noexcept = 0;
    /// Null, or what failed: then the heap's memory does not become durable.
    [[nodiscard]] virtual const char* before_commit() noexcept = 0;
    virtual void after_commit() noexcept = 0;
    /// The durable state is the old or the new one.
    virtual void commit_failed() noexcept = 0;
    /// Whether others have what it opened.
    [[nodiscard]] virtual bool is_in_use() const noexcept = 0;
    /// The heap is closed, or the participant removed. The last call.
    virtual void leave() noexcept = 0;
};

/// Carried out whole, or not at all, or only a reopening of the heap tells.
enum class transaction_end : std::uint8_t { carried_out, dropped, unknown };

/// Counts if and only if a transaction of the heap does.
class transaction_participant {
public:
    transaction_participant() = default;
    transaction_participant(const transaction_participant&) = delete;
    transaction_participant& operator=(const transaction_participant&) = delete;
    virtual ~transaction_participant() = default;

    /// The participant's part counts if and only if the word of the heap has this value. Null: nothing was changed.
    struct word {
        std::uint64_t* place = nullptr;
        std::uint64_t value = 0;
    };
    /// Before the transaction is carried out, which stores the word. What it throws aborts the transaction.
    [[nodiscard]] virtual word prepare() = 0;
    /// Of one that was begun within another one: hands its changes over. end() follows, also where it throws.
    virtual void join() = 0;
    /// After prepare(), where the heap's memory is committed with the word: it is durable. end(carried_out) follows.
    virtual void accept() noexcept = 0;
    /// Called once, even where nothing else was called, or something threw.
    virtual void end(transaction_end how) noexcept = 0;
};

/// Throw error.
struct participant_access {
    using maker = std::function<std::shared_ptr<heap_participant>(manager_core&)>;
    /// Guests stay until the heap is closed, or they are removed.
    [[nodiscard]] static std::shared_ptr<heap_participant> find_or_make(manager& heap, const std::string& name,
                                                                        const maker& make);
    /// Ends the participant, if any, and calls `removal`; nobody finds or makes one meanwhile. False, and nothing is
    /// done, where somebody uses the participant.
    [[nodiscard]] static bool remove(manager& heap, const std::string& name, const std::function<void()>& removal);
    /// The number of a file store.NUMBER that does not exist.
    [[nodiscard]] static std::uint64_t unused_file(manager& heap);
    /// The path is right while the descriptor is open. The caller closes it.
    struct opened_file {
        int descriptor;
        std::string path;
    };
    [[nodiscard]] static opened_file open_file(manager& heap, std::uint64_t number, bool make);
    static void remove_file(manager& heap, std::uint64_t number) noexcept;
    /// In durability `commit` the file goes with the heap's next commit: the durable object names it.
    static void remove_named_file(manager& heap, std::uint64_t number);
    /// Left by crashes; at the first call for an open heap.
    static void remove_unnamed_files(manager& heap, const std::vector<std::uint64_t>& named);
    /// In a transaction of its own. `error`: why it was dropped, as errno.
    [[nodiscard]] static transaction_end set_word(manager_core& heap, std::uint64_t& word, std::uint64_t value,
                                                  int& error) noexcept;
    /// What a commit waits for in durability `commit`; it waits for one that runs. Null: nothing has begun.
    [[nodiscard]] static void* begin_change(manager_core& heap) noexcept;
    /// `begun`: by begin_change().
    static void end_change(manager_core& heap, void* begun) noexcept;
    /// Waits until what a transaction has stored there is as durable as the transaction.
    static void persist(manager_core& heap, const void* begin, std::uint64_t bytes) noexcept;

    /// Added with this key to this transaction, or null. Throws error(invalid_argument) for a transaction within
    /// another one, and for one around another one.
    [[nodiscard]] static std::shared_ptr<transaction_participant> find(const transaction& in, const void* key);
    /// Of the nearest transact() around this one; or null. Throws as find().
    [[nodiscard]] static std::shared_ptr<transaction_participant> find_around(const transaction& in, const void* key);
    static void add(const transaction& in, const void* key, std::shared_ptr<transaction_participant> participant);
    [[nodiscard]] static bool belongs_to(const transaction& one, const manager_core& heap);
};

}  // namespace holdfast::detail
