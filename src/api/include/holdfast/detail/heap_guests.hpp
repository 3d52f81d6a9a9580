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

/// A heap tells its guests of its commits. In durability `commit` no other thread uses the heap then; in the others
/// before_commit() alone is called, and threads may go on.
class heap_guest {
public:
    heap_guest() = default;
    heap_guest(const heap_guest&) = delete;
    heap_guest& operator=(const heap_guest&) = delete;
    virtual ~heap_guest() = default;

    /// The memory of the heap is about to become durable. Null, or what failed: then it does not.
    [[nodiscard]] virtual const char* before_commit() noexcept = 0;
    virtual void after_commit() noexcept = 0;
    /// The heap's durable state is that of before or the one that was to be.
    virtual void commit_failed() noexcept = 0;
    /// Whether more than this object has what it opened.
    [[nodiscard]] virtual bool is_in_use() const noexcept = 0;
    /// The heap is closed, or the guest is removed from it. The last call.
    virtual void leave() noexcept = 0;
};

/// How a transaction of a heap ended: all of it is there, or nothing, or that is not known before the heap is reopened.
enum class transaction_end : std::uint8_t { carried_out, dropped, unknown };

/// What counts if and only if a transaction of the heap does.
class transaction_guest {
public:
    transaction_guest() = default;
    transaction_guest(const transaction_guest&) = delete;
    transaction_guest& operator=(const transaction_guest&) = delete;
    virtual ~transaction_guest() = default;

    /// The transaction is about to be carried out: stores in it what makes the guest's part count. What it throws
    /// aborts the transaction.
    virtual void prepare(transaction& in) = 0;
    /// Called once, even where prepare() was not called or threw.
    virtual void end(transaction_end how) noexcept = 0;
};

/// Its functions throw error.
struct guest_access {
    using maker = std::function<std::shared_ptr<heap_guest>(manager_core&)>;
    /// Makes the guest where there is none. Guests stay until the heap is closed, or they are removed.
    [[nodiscard]] static std::shared_ptr<heap_guest> find_or_make(manager& heap, const std::string& name,
                                                                  const maker& make);
    /// Ends the guest, where it is there, and calls `removal`. Nobody finds or makes a guest meanwhile. False where
    /// somebody uses the guest: then nothing is done.
    [[nodiscard]] static bool remove(manager& heap, const std::string& name, const std::function<void()>& removal);
    /// A file store.NUMBER of the heap that does not exist.
    [[nodiscard]] static std::uint64_t unused_file(manager& heap);
    /// The path is right while the descriptor is open, whatever directories are renamed; the caller closes it.
    struct opened_file {
        int descriptor;
        std::string path;
    };
    [[nodiscard]] static opened_file open_file(manager& heap, std::uint64_t number, bool make);
    static void remove_file(manager& heap, std::uint64_t number) noexcept;
    /// An object has named the file until now: in durability `commit` it goes with the heap's next commit, because
    /// until then the durable object names it.
    static void remove_named_file(manager& heap, std::uint64_t number);
    /// Removes what crashes left, the first time it is called for an open heap.
    static void remove_unnamed_files(manager& heap, const std::vector<std::uint64_t>& named);
    /// Stores a word in a transaction of its own. `error`: why it was dropped, as an error number of the system.
    [[nodiscard]] static transaction_end set_word(manager_core& heap, std::uint64_t& word, std::uint64_t value,
                                                  int& error) noexcept;
    /// Waits until what a transaction has stored there is as durable as the transaction is.
    static void persist(manager_core& heap, const void* begin, std::uint64_t bytes) noexcept;

    /// The guest that was added with this key, or null. Throws error(invalid_argument) for a transaction within another
    /// one.
    [[nodiscard]] static std::shared_ptr<transaction_guest> find(const transaction& in, const void* key);
    static void add(const transaction& in, const void* key, std::shared_ptr<transaction_guest> guest);
    [[nodiscard]] static bool belongs_to(const transaction& one, const manager_core& heap);
};

}  // namespace holdfast::detail
