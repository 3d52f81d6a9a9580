// Where the pointers lie in blocks of each type, for precise marking (trace.hpp). A description is durable, a record of
// kind `type` in the object directory. What only code knows, such as the active member of a union, a visitor of this
// process tells (Makalu-rel, thesis chapter 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "heap/objects/object_directory.hpp"

namespace holdfast::heap {

/// In type_description::pointers: the word holds an address, not a `ptr`.
inline constexpr std::uint32_t raw_pointer_bit = 1;
inline constexpr std::uint64_t maximum_type_size = std::uint64_t{1} << 30;
inline constexpr std::uint64_t maximum_pointers = 65'536;

/// Elements of `size` bytes, one every `stride` bytes of the block; stride 0: one element.
struct type_description {
    std::uint32_t type = 0;  ///< as in allocation_traits::type
    std::uint64_t size = 0;
    std::uint64_t stride = 0;
    std::vector<std::uint32_t> pointers;  ///< bytes within an element, ascending; | raw_pointer_bit
    std::string name;                     ///< for people; may be empty
    bool operator==(const type_description&) const = default;
};

/// The first of TYPE-1 to TYPE-3 (type_registry.cpp) that does not hold.
[[nodiscard]] std::optional<base::failure> type_fault(const type_description& type);

/// Takes 8-byte aligned words of the block. Others are counted as refused.
class pointer_sink {
public:
    pointer_sink() = default;
    pointer_sink(const pointer_sink&) = delete;
    pointer_sink& operator=(const pointer_sink&) = delete;
    virtual ~pointer_sink() = default;
    /// A holdfast::ptr, null or not.
    virtual void pointer(void* word) = 0;
    virtual void raw(void* word) = 0;
};

/// Reports a block's pointers, in several threads at once. An exception ends the marking with a failure. It must not
/// allocate, free or change the heap.
using pointer_visitor = std::function<void(void* block, std::uint64_t bytes, pointer_sink& sink)>;

/// Thread safety: that of a container.
class type_registry {
public:
    struct entry {
        type_description description;
        pointer_visitor visitor;  ///< outranks the description
        bool described = false;
    };

    type_registry() = default;
    /// Reads the heap's descriptions; visitors stay. Fails with `corrupt`, and changes nothing, if one breaks TYPE-1 to
    /// TYPE-3.
    [[nodiscard]] base::result<void> load(object_directory& objects);
    /// Adds or replaces a description, durable at once in durability `atomic` and `collect`, with the next commit in
    /// `commit`. Fails as type_fault(), or as growing the directory. May throw std::bad_alloc before it changes
    /// anything.
    [[nodiscard]] base::result<void> add(object_directory& objects, const type_description& added);
    /// In this process alone.
    [[nodiscard]] base::result<void> add_volatile(const type_description& added);
    /// An empty function removes it. Fails with invalid_argument if TYPE-1 does not hold.
    [[nodiscard]] base::result<void> add_visitor(std::uint32_t type, pointer_visitor visitor);

    /// Null without description and visitor.
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
