// Tells precise collection (manager::collect()) where the pointers of a program's types are.
//
//     struct node { holdfast::ptr<node> next; std::uint64_t value; };
//     template <>
//     struct holdfast::pointers_in<node> {
//         static constexpr std::array fields{holdfast::pointer_field{offsetof(node, next)}};
//     };
//     heap.register_type<node>(1);            // kept in the heap
//     heap.allocate_to(root, sizeof(node), {.type = 1});
//
// A type whose pointers only code can find (a union, nodes of variable size) needs a visitor, which each process
// registers. Source: Makalu-rel, thesis chapter 6.
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

struct pointer_field {
    std::uint32_t offset = 0;  ///< bytes, a multiple of 8
    bool raw = false;          ///< an address, for heaps created with same_address; else a `ptr`
};

/// Specialise it with a member `fields`: the pointers of T by ascending offset, or none.
template <class T>
struct pointers_in;

/// The layout of the blocks with one allocation_traits::type.
struct type_layout {
    std::uint32_t type = 0;               ///< from 1 to 2^20 - 1
    std::uint64_t size = 0;               ///< bytes of an object: from 8 to 2^30
    std::uint64_t stride = 0;             ///< a multiple of 8, from `size` to 2^30; 0: one object a block
    std::vector<pointer_field> pointers;  ///< at most 65,536, ascending, without overlap, within `size`
    std::string name{};                   ///< for people; may be empty
};

/// The layout of blocks that hold as many objects of type T as fit.
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
    /// For heaps created with same_address.
    template <class T>
    void operator()(T*& address) {
        visit_address(&address);
    }
    virtual void visit_pointer(void* word) = 0;
    virtual void visit_address(void* word) = 0;
};

/// Shows every pointer of the block to `visit`, and reads nothing else of the heap. Several threads call it at once,
/// for different blocks, while no other thread uses the heap. If it throws, the collection fails.
using block_visitor = std::function<void(void* block, std::size_t bytes, pointer_visitor& visit)>;

}  // namespace holdfast
