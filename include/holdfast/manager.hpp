// holdfast::manager: a persistent heap in a directory, with the vocabulary of Boost.Interprocess and Metall.
//
//     holdfast::manager heap(holdfast::open_or_create, "graph.hf");
//     auto* counts = heap.find_or_construct<holdfast::vector<int>>("counts")(heap.get_allocator<int>());
//     counts->push_back(1);
//     heap.commit();  // a crash leaves the heap as the last commit() left it
//
// In durability `atomic` every call survives a crash when it has returned (open_options.hpp has all promises):
//
//     holdfast::manager heap(holdfast::open_only, "graph.hf", {.durability = holdfast::durability::atomic});
//     node* fresh = heap.make_persistent<node>(list->head, 1);  // block and pointer: both survive a crash, or neither
//
// Thread safety: any number of threads may allocate, free, and call the functions on objects at once. During commit(),
// close(), snapshot() and collect() all others neither call the heap nor store to its memory. A store while commit()
// runs may be lost, but never what was committed before; calls that change what a commit writes wait for it, and a
// commit that notices a store fails (concurrent_modification). A thread is active until it is joined: at its end it
// returns the free blocks that it kept. Different managers are independent. A signal handler must not call the library:
// a call that would wait for its own, interrupted thread fails with errc::unsupported.
//
// Nothing in holdfast/detail/ is for users. While a heap is open, its directory may be renamed, and the working
// directory may change; path() and messages keep the path of the open.
//
// After fork() the heap is the parent's: commit(), close() and snapshot() of the child fail (errc::wrong_process). In
// durability `commit` the child has a copy of the pages stored to since the last commit; the others are those of the
// files, and show later what the parent commits. In the other durabilities the child has no mapping of the heap.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <holdfast/allocator.hpp>
#include <holdfast/closed_heaps.hpp>
#include <holdfast/collect.hpp>
#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/error.hpp>
#include <holdfast/extent_information.hpp>
#include <holdfast/heap_blocks.hpp>
#include <holdfast/heap_collection.hpp>
#include <holdfast/heap_destinations.hpp>
#include <holdfast/heap_information.hpp>
#include <holdfast/heap_objects.hpp>
#include <holdfast/lane_information.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/ptr.hpp>
#include <holdfast/statistics.hpp>
#include <holdfast/trace.hpp>

namespace holdfast {

/// Receives errors that a noexcept function cannot throw: of a bad free in a destructor, or a commit in ~manager.
using error_handler = std::function<void(const error&)>;
/// Sets the handler of the process, and returns the one before. Empty: the default, a line on standard error.
/// Thread-safe.
error_handler set_error_handler(error_handler handler);

/// An open heap. It has the calls for the heap as a whole, and those of its parts, one header each:
///
/// - heap_blocks: blocks of memory, roots, handles and pins
/// - heap_destinations: blocks whose pointers survive a crash with them, durable words, tickets
/// - heap_objects: named, unique and anonymous objects
/// - heap_collection: garbage collection, types, frees that are kept back
/// - heap_information: state, statistics, checks
/// - closed_heaps: heaps that are not open, by their paths
class manager : public heap_blocks,
                public heap_destinations,
                public heap_objects,
                public heap_collection,
                public heap_information,
                public closed_heaps {
public:
    /// Throw error; then media are unchanged, except that a crashed heap may be recovered. A new, empty heap is durable
    /// when the constructor returns.
    manager(create_only_t, const std::string& path, const open_options& options = {});
    manager(open_only_t, const std::string& path, const open_options& options = {});
    manager(open_or_create_t, const std::string& path, const open_options& options = {});
    manager(open_read_only_t, const std::string& path, const open_options& options = {});
    /// As Boost.Interprocess and Metall. A new heap reserves `size` bytes of user space on disk at once; its
    /// maximum_size is `size`, plus an eighth and 4 MiB for slabs and runs of pages. An existing heap keeps its limit.
    manager(create_only_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_or_create_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_only_t, const std::string& path, void* base_address);
    manager(manager&& other) noexcept;
    manager& operator=(manager&& other) noexcept;
    /// close(); a failure goes to the error handler, except in a child of fork().
    ~manager();

    /// Durability `commit`: makes the present state durable, atomically: a crash meanwhile leaves this state or that of
    /// the last commit. Throws error: no_space (try again); concurrent_modification (another thread stored to the
    /// heap); corrupt (a stray store has hit the heap's own tables, which are not written); poisoned (a sync failed:
    /// reopen the heap). All but the last leave the last commit.
    /// Durability `atomic` and `collect`: carries out what commit_later() left, and syncs the files. No crash leads
    /// back to this state.
    void commit();
    /// Durability `commit`: takes the present state, under commit()'s rules, and returns before it is durable: from
    /// then on threads may store, allocate and free again. sync() of the ticket writes what was taken, and so does the
    /// next commit, transact() or read(), whichever comes first; the threads need not stand still for it. Takes as much
    /// memory as what has changed. Where a commit would move space (the heap has grown, objects have got more room), a
    /// store or an index of the heap is open, memory is pinned, another process reads, or Linux does not note stores
    /// (heap_statistics::watched_bytes), it is commit(), and the ticket is durable. Gives no free space back. Throws as
    /// commit(). What sync() throws leaves all to the next commit, but `poisoned`.
    /// Durability `atomic` and `collect`: commit().
    [[nodiscard]] ticket commit_later();
    /// Runs `body(transaction&)` and commits; an exception aborts. Include <holdfast/transaction.hpp>.
    /// Durability `commit`: also `body()`. All that it stores to the heap by plain code, containers, objects and blocks
    /// included, is durable when transact() returns, and taken back where it throws (transact_scope.hpp).
    template <class Function>
    decltype(auto) transact(Function&& body);
    /// As transact(), but by transaction::commit_later() or transact_scope::commit_later().
    template <class Function>
    [[nodiscard]] ticket transact_later(Function&& body);
    /// Runs `body()` while no other thread is within transact(), in durability `commit`. Threads read side by side.
    template <class Function>
    decltype(auto) read(Function&& body) const;
    /// commit() in Metall and Boost.Interprocess; always synchronous.
    void flush(bool /*synchronous*/ = true) { commit(); }
    using heap_destinations::flush;
    /// Commits if `commit_changes` (default: open_options::commit_on_close), then unmaps the heap; a second call does
    /// nothing. Where it throws error, the heap stays open.
    void close();
    void close(bool commit_changes);
    /// The last commit through this manager; all zero where there was none.
    [[nodiscard]] commit_report last_commit() const;

    /// The commit that this heap shows: 1 is its creation. Of a writer: its last one.
    [[nodiscard]] std::uint64_t version() const;
    /// A heap that is open read-only beside a writer goes to the newest durable version, as a whole. Addresses stay,
    /// and pointers and references into the heap with them; what they lead to may have moved or gone, as in any
    /// container that changed. No other thread may use the heap meanwhile. Nothing happens where there is nothing
    /// newer. Throws error: invalid_argument while an index or a store of this heap is open; others close the heap.
    refresh_report refresh();
    /// Waits until a version is there that is newer than version(): true, or false when the time is over. Other threads
    /// may use the heap. Of a writer and of a heap that nobody writes: waits the whole time.
    [[nodiscard]] bool wait_for_change(std::chrono::nanoseconds longest) const;

    /// Gives unused space back to the file system: empty slabs and free extents become holes, segments at the end are
    /// removed; no block moves. A crash leaves part of it done. Durability `commit`: commits as commit() does; in the
    /// others other threads may go on. Throws error. Source: PAllocator 4.6.
    shrink_report shrink(const shrink_options& options = {});

    /// Commits (unless the heap is open read-only), then copies the heap to the new directory `destination`; durable
    /// when it returns. Throws error(already_exists) where something is there, and, in durability `commit` and
    /// `atomic`, error(concurrent_modification) where it notices other threads at work. The copy is sparse, with its
    /// own uuid and the heap's permissions, less the umask; in durability `commit` it shares blocks where the file
    /// system can.
    void snapshot(const std::string& destination);

    // Without a path: of this heap.
    using closed_heaps::get_description;
    using closed_heaps::get_uuid;
    using closed_heaps::get_version;
    using closed_heaps::lanes;
    using heap_information::get_description;
    using heap_information::get_uuid;
    using heap_information::get_version;
    using heap_information::lanes;

private:
    template <class Part>
    friend class detail::part_of_manager;
    friend struct detail::manager_access;
    explicit manager(detail::core_owner core);
    [[nodiscard]] detail::manager_core& core() const { return handle_.core(); }

    detail::heap_handle handle_;
};

template <class Part>
const detail::heap_handle& detail::part_of_manager<Part>::handle() const noexcept {
    return static_cast<const manager&>(static_cast<const Part&>(*this)).handle_;
}
template <class Part>
detail::heap_handle& detail::part_of_manager<Part>::handle() noexcept {
    return static_cast<manager&>(static_cast<Part&>(*this)).handle_;
}

/// Boost.Interprocess's name.
using managed_mapped_file = manager;

struct file_mapping {
    static bool remove(const char* path) { return manager::remove(path); }
};

}  // namespace holdfast
