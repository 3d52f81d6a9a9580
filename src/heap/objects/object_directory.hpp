// The directory of named, unique and anonymous objects: the mapped objects file, which commits cover, and an index in
// DRAM, built at the first use or, for a writer, at the open.
//
// Invariants (check()):
//   OBJ-1: every record has its magic, a known kind, lengths that fit its cells, cells that fit its group, its
//          checksum; its object lies in user space.
//   OBJ-2: names are unique among the named objects and among the unique ones.
//   OBJ-3: an object's offset is the start of an allocated block that holds count * type_size bytes.
//   OBJ-4: cells outside records are zero.
//   OBJ-5: a type record's description consists of whole 4-byte words, and type numbers are unique.
//
// All functions may throw std::bad_alloc, before the first store: media and index are then unchanged. No thread safety:
// the caller holds the object lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "heap/objects/free_cells.hpp"
#include "heap/objects/object_format.hpp"
#include "segment/heap_files.hpp"

namespace holdfast::heap {

struct object_entry {
    object_kind kind = object_kind::named;
    std::string name;
    std::string type;
    std::string description;
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint64_t type_size = 0;
};

/// Among objects of its kind.
[[nodiscard]] inline std::string_view index_name(const object_entry& entry) noexcept {
    return entry.kind == object_kind::unique ? std::string_view(entry.type) : std::string_view(entry.name);
}

struct type_record {
    std::uint64_t number = 0;
    std::uint64_t size = 0;
    std::uint64_t stride = 0;
    std::vector<std::uint32_t> pointers;
    std::string name;
};

class object_directory {
public:
    explicit object_directory(segment::heap_files& files) : files_(files) {}

    using persister = std::function<void(const void*, std::uint64_t)>;
    /// Durability `atomic` and `collect`: each change is durable when its function returns, and a crash leaves all or
    /// none of it.
    void persist_with(persister persist) { persist_ = std::move(persist); }
    /// After such a crash, before any other call: frees cells of unfinished records, and of objects without an
    /// allocated block.
    base::result<void> repair(const std::function<std::uint64_t(std::uint64_t offset)>& block_bytes);

    /// Fails with `name_exists` (objects of the same kind), or as growing the file does.
    base::result<void> insert(const object_entry& entry);
    /// Unique ones by their type's name.
    base::result<std::optional<object_entry>> find(object_kind kind, std::string_view name);
    base::result<std::optional<object_entry>> find_at(std::uint64_t offset);
    /// Fails with `not_found`.
    base::result<void> erase_at(std::uint64_t offset);
    base::result<void> describe_at(std::uint64_t offset, std::string_view description);
    base::result<std::string> heap_description();
    base::result<void> describe_heap(std::string_view description);

    /// Fails with `corrupt`.
    base::result<std::vector<type_record>> types();
    /// Replaces the type with the same number.
    base::result<void> describe_type(const type_record& type);

    /// The mapped file was put back to what it was: the index is built anew at the next use.
    void forget() noexcept { loaded_ = false; }

    base::result<std::uint64_t> count(object_kind kind);
    [[nodiscard]] const std::string& path() const noexcept { return files_.paths().directory(); }
    base::result<void> for_each_offset(base::function_ref<void(std::uint64_t offset)> each);
    /// Ordered by name, then by offset.
    base::result<std::vector<object_entry>> list(object_kind kind);

    /// Appends a line for each broken invariant, or one alone if no index can be built. `block_bytes`: usable bytes of
    /// the block that starts at an offset, 0 without one.
    void check(std::vector<std::string>& problems,
               const std::function<std::uint64_t(std::uint64_t offset)>& block_bytes);

    /// For a commit, so that a store to a wrong address does not reach the media: OBJ-1 of records on these pages,
    /// which the index must know, and OBJ-4. Pages come in ascending order.
    class page_check {
    public:
        explicit page_check(object_directory& checked) noexcept : directory_(checked) {}
        /// `at`: the page's first byte in the file. Fails with `corrupt`.
        base::result<void> page(std::uint64_t at);

    private:
        object_directory& directory_;
        std::uint64_t next_ = 0;  ///< the first cell that is not checked
    };

private:
    using cell = free_cells::cell;

    base::result<void> load();
    base::result<void> load_page_range(cell begin, cell end);
    base::result<void> index_record(cell position, const object_entry& entry);
    base::result<object_entry> read(cell position) const;
    [[nodiscard]] bool is_indexed(cell position, const object_entry& entry) const;
    base::result<cell> check_record(cell position, cell from) const;
    base::result<cell> allocate_cells(std::uint64_t cells);
    void add_grown_space(std::uint64_t from_bytes, std::uint64_t to_bytes);
    [[nodiscard]] static std::vector<std::byte> record_of(const object_entry& entry);
    void write(cell position, const std::vector<std::byte>& record);
    void mark(cell position, std::uint32_t magic, std::uint64_t cells);
    void clear_cells(cell position, std::uint64_t cells);
    base::result<std::uint64_t> repair_cells(cell position, cell end, std::set<std::uint64_t>& seen,
                                             const std::function<std::uint64_t(std::uint64_t)>& block_bytes);
    void erase_record(cell position, const object_entry& entry, free_cells::place freed);
    base::result<cell> replace_record(cell position, const object_entry& entry);
    base::result<void> replace(cell position, const object_entry& entry);
    base::result<cell> position_of(std::uint64_t offset);
    [[nodiscard]] std::byte* address(cell position) const noexcept { return files_.objects() + position * cell_size; }
    [[nodiscard]] bool is_zero(cell first, cell count) const noexcept;
    [[nodiscard]] cell end_cell() const noexcept { return files_.objects_size() / cell_size; }
    [[nodiscard]] base::failure corrupt(cell position, std::string_view field, std::string found,
                                        std::string expected) const;

    segment::heap_files& files_;
    persister persist_;
    bool loaded_ = false;
    std::map<std::string, cell, std::less<>> named_;
    std::map<std::string, cell, std::less<>> unique_;
    std::unordered_map<std::uint64_t, cell> by_offset_;
    std::uint64_t anonymous_ = 0;
    std::optional<cell> heap_record_;
    std::map<std::uint64_t, cell> types_;  ///< by number
    free_cells free_;
};

}  // namespace holdfast::heap
