// Where the pointers of a program's types are: what precise collection (manager::collect()) needs to know.
//
//     struct node { holdfast::ptr<node> next; std::uint64_t value; };
//     template <>
//     struct holdfast::pointers_in<node> {
//         static constexpr std::array fields{holdfast::pointer_field{offsetof(node, next)}};
//     };
//     heap.register_type<node>(1);            // kept in the heap
//     heap.allocate_to(root, sizeof(node), {.type = 1});
//
// The numbers are those of allocation_traits::type. A type whose pointers only code can tell (a union, a tree with
// variable nodes) has a visitor, which each process registers again (Makalu-rel, thesis chapter 6).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <holdfast/ptr.hpp>

namespace holdfast {

/// One pointer of an object.
struct pointer_field {
    std::uint32_t offset = 0;  ///< bytes, a multiple of 8
    bool raw = false;          ///< an address, in a heap that is always mapped at the same one; else a `ptr`
};

/// To be specialised: `fields`, the pointers of T in ascending order of offset; may be empty.
template <class T>
struct pointers_in;

/// What a heap keeps of one type number.
struct type_layout {
    std::uint32_t type = 0;               ///< from 1 to 2^20 - 1
    std::uint64_t size = 0;               ///< bytes of an object: from 8 to 2^30
    std::uint64_t stride = 0;             ///< from object to object in a block with several; 0: it holds one
    std::vector<pointer_field> pointers;  ///< at most 65,536, ascending
    std::string name{};                   ///< for people; may be empty
};

/// The layout of blocks that hold objects of type T, as many as fit.
template <class T>
[[nodiscard]] type_layout layout_of(std::uint32_t type, std::string name = {}) {
    static_assert(sizeof(T) % 8 == 0, "objects that hold pointers have a size that is a multiple of 8");
    static_assert(
        [] {
            std::uint64_t next = 0;
            for (const pointer_field& field : pointers_in<T>::fields) {
                if (field.offset % 8 != 0 || field.offset < next || field.offset + 8 > sizeof(T)) {
                    return false;
                }
                next = field.offset + 8;
            }
            return true;
        }(),
        "the fields of pointers_in<T> ascend, at multiples of 8, within T");
    return {
        type, sizeof(T), sizeof(T), {pointers_in<T>::fields.begin(), pointers_in<T>::fields.end()}, std::move(name)};
}

/// To whom a visitor shows the pointers of a block.
class pointer_visitor {
public:
    pointer_visitor() = default;
    pointer_visitor(const pointer_visitor&) = delete;
    pointer_visitor& operator=(const pointer_visitor&) = delete;
    virtual ~pointer_visitor() = default;

    template <class T>
    void operator()(ptr<T>& pointer) {
        visit_pointer(&pointer);
    }
    /// An address, in a heap that is always mapped at the same one.
    template <class T>
    void operator()(T*& address) {
        visit_address(&address);
    }
    virtual void visit_pointer(void* word) = 0;
    virtual void visit_address(void* word) = 0;
};

/// Shows every pointer of the block. Called by several threads at once, for different blocks, while the heap stands
/// still: it reads the block, and nothing else of the heap. What it throws ends the collection with an error.
using block_visitor = std::function<void(void* block, std::size_t bytes, pointer_visitor& visit)>;

}  // namespace holdfast
