// A small heap of durability `collect` in tracked memory with the real slabs, extents, operations, object directory and
// tracing. Space and facts are those of atomic_heap.hpp; a heap that is not `clean` is traced when it is opened.
//
// All metadata is watched, because extents and slabs store bitmaps and hints past the domain. The directory stores past
// the domain, too: its file is a copy of a part of tracked memory, and its stores are passed on whenever it makes
// something durable, which is after each store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "heap/collect/collect_operations_of.hpp"
#include "heap/objects/object_directory.hpp"
#include "heap/ordered/ordered_destinations_of.hpp"
#include "segment/heap_files.hpp"
#include "simulator/atomic/atomic_heap.hpp"

namespace holdfast::simulator {

using collect_space = atomic_space;

inline constexpr std::uint64_t heap_objects_at = heap_lanes_at;
inline constexpr std::uint64_t heap_objects_bytes = 2 * base::page_size;

[[nodiscard]] tracked_memory::layout collect_layout();

class object_file {
public:
    object_file();
    [[nodiscard]] segment::heap_files& files() noexcept { return *files_; }
    /// Maps it as a new process.
    void load(tracked_memory& memory);
    /// Passes on the stores made since, in any order.
    void store_to(tracked_memory& memory);
    /// Where a range of it lies in tracked memory.
    [[nodiscard]] const void* tracked(tracked_memory& memory, const void* begin) const noexcept;

private:
    std::unique_ptr<segment::heap_files> files_;
};

/// What ordered_destinations needs of a heap.
class collect_memory {
public:
    using operations = heap::collect_operations_of<tracked_domain>;
    /// Hears of every block before anything points to it.
    using allocation_listener = std::function<void(std::uint64_t offset)>;

    collect_memory(collect_space& space, slab::block_allocator& blocks, operations& of,
                   const allocation_listener& listener)
        : space_(space), blocks_(blocks), of_(of), listener_(listener), domain_(space.memory()) {}

    [[nodiscard]] segment::space_view space() const noexcept { return space_.view(); }
    [[nodiscard]] slab::block_allocator& blocks() const noexcept { return blocks_; }
    [[nodiscard]] static slab::change_gate* changes() noexcept { return nullptr; }
    [[nodiscard]] void* allocate(const heap::block_request& wanted) const noexcept;
    [[nodiscard]] bool deallocate(void* block) const noexcept { return of_.deallocate(block); }
    void keep(const slab::held_block& held) const noexcept { of_.keep(held); }
    void store(std::uint64_t& word, std::uint64_t value) noexcept { domain_.store(word, value, "program.destination"); }
    void copy(void* to, const void* from, std::uint64_t bytes) noexcept {
        domain_.copy(to, from, bytes, "program.destination.copy");
    }
    void zero(void* to, std::uint64_t bytes, persist::site where) noexcept {
        domain_.fill_zero(to, bytes, "program.destination.zero");
        persist(to, bytes, where);
    }
    void persist(const void* begin, std::uint64_t bytes, persist::site where) noexcept {
        domain_.flush(begin, bytes, where);
        domain_.fence(where);
    }

private:
    collect_space& space_;
    slab::block_allocator& blocks_;
    operations& of_;
    const allocation_listener& listener_;
    tracked_domain domain_;
};

/// One opening of the heap in durability `collect`, with recovery if it is not clean. The order is heap::engine's.
class collect_session {
public:
    using operations = collect_memory::operations;

    /// `format`: makes a new heap, clean and without operations.
    collect_session(collect_space& space, object_file& file, bool format = false);
    collect_session(const collect_session&) = delete;
    collect_session& operator=(const collect_session&) = delete;
    ~collect_session();

    [[nodiscard]] operations& heap() noexcept { return *operations_; }
    [[nodiscard]] heap::destination_operations& destinations() noexcept { return *destinations_; }
    /// Hears of the blocks that destinations() allocates. Empty: no listener.
    void set_listener(collect_memory::allocation_listener listener) { listener_ = std::move(listener); }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return blocks_; }
    [[nodiscard]] heap::object_directory& objects() noexcept { return objects_; }
    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }
    /// As engine::close(). The heap is clean, and the session must not be used any more.
    void close();
    /// As engine::shorten(), down to the last block.
    [[nodiscard]] bool shrink();
    /// What is wrong with blocks, slabs, extents or objects, or nothing.
    [[nodiscard]] std::string check();

private:
    [[nodiscard]] base::result<void> open();
    [[nodiscard]] base::result<void> trace();
    [[nodiscard]] base::result<void> repair_objects(bool blocks_are_known);
    [[nodiscard]] std::uint64_t bytes_at(std::uint64_t offset) const;
    void persist_objects(const void* begin, std::uint64_t bytes, bool recovery);

    collect_space& space_;
    object_file& file_;
    tracked_domain domain_;
    extent::extent_allocator extents_;
    slab::block_allocator blocks_;
    heap::object_directory objects_;
    std::unique_ptr<operations> operations_;
    collect_memory::allocation_listener listener_;
    std::unique_ptr<heap::destination_operations> destinations_;
    std::string fault_;
};

}  // namespace holdfast::simulator
