// What the program has said about the insides of its types: for each type number of a block, where its pointers are.
// Precise marking (trace.hpp) reads them.
//
// A description is durable: a record of kind `type` in the object directory (docs/format.md). What a program knows only
// in code, as which arm of a union counts, is a visitor: a function of this process, given again after each open.
// (Makalu-rel, thesis chapter 6: persistent type descriptors or a callback for each type.)
//
// Descriptions keep TYPE-1 to TYPE-3 (type_registry.cpp); type_fault() asks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "heap/object_directory.hpp"

namespace holdfast::heap {

/// In an element of type_description::pointers: the word holds an address, as raw pointers do, and not a `ptr`.
inline constexpr std::uint32_t raw_pointer_bit = 1;
inline constexpr std::uint64_t maximum_type_size = std::uint64_t{1} << 30;
inline constexpr std::uint64_t maximum_pointers = 65'536;

/// One type: elements of `size` bytes, one every `stride` bytes as far as the block reaches (0: one alone).
struct type_description {
    std::uint32_t type = 0;  ///< allocation_traits::type
    std::uint64_t size = 0;
    std::uint64_t stride = 0;
    std::vector<std::uint32_t> pointers;  ///< byte offsets within an element, ascending; | raw_pointer_bit
    std::string name;                     ///< for people; may be empty
    bool operator==(const type_description&) const = default;
};

/// The failure that names what is wrong with a description; nothing where TYPE-1 to TYPE-3 hold.
[[nodiscard]] std::optional<base::failure> type_fault(const type_description& type);

/// What a visitor tells the pointers of a block to. Both words are in the block, 8-byte aligned; others are ignored,
/// and counted as refused.
class pointer_sink {
public:
    pointer_sink() = default;
    pointer_sink(const pointer_sink&) = delete;
    pointer_sink& operator=(const pointer_sink&) = delete;
    virtual ~pointer_sink() = default;
    /// A word that holds a holdfast::ptr, null or not.
    virtual void pointer(void* word) = 0;
    /// A word that holds an address.
    virtual void raw(void* word) = 0;
};

/// Tells the sink every pointer of the block. Called by several threads at once, for different blocks. What it throws
/// ends the marking with a failure; it must not allocate, free or change the heap.
using pointer_visitor = std::function<void(void* block, std::uint64_t bytes, pointer_sink& sink)>;

/// The types of one heap. Thread safety: as a container; marking reads it with several threads.
class type_registry {
public:
    struct entry {
        type_description description;
        pointer_visitor visitor;  ///< counts where there is one
        bool described = false;
    };

    type_registry() = default;
    /// Reads all descriptions of the heap, and keeps the visitors. Fails with corrupt where one breaks TYPE-1 to
    /// TYPE-3; then the registry has none of them.
    [[nodiscard]] base::result<void> load(object_directory& objects);
    /// Adds or replaces the description of a type, on media too: durable as the directory's changes are (at once in
    /// durability `atomic`; with the next commit in `commit`). Fails with invalid_argument as type_fault(), and as
    /// growing the directory does. May throw std::bad_alloc; then nothing has changed.
    [[nodiscard]] base::result<void> add(object_directory& objects, const type_description& added);
    /// The same in this process alone.
    [[nodiscard]] base::result<void> add_volatile(const type_description& added);
    /// A visitor for a type; an empty function takes it away. Fails with invalid_argument where TYPE-1 does not hold.
    [[nodiscard]] base::result<void> add_visitor(std::uint32_t type, pointer_visitor visitor);

    /// Null where nobody has said anything of the type.
    [[nodiscard]] const entry* find(std::uint32_t type) const noexcept {
        const auto found = entries_.find(type);
        return found == entries_.end() ? nullptr : &found->second;
    }
    [[nodiscard]] const std::map<std::uint32_t, entry>& entries() const noexcept { return entries_; }

private:
    void put(std::map<std::uint32_t, entry>& added) noexcept;

    std::map<std::uint32_t, entry> entries_;
};

}  // namespace holdfast::heap
