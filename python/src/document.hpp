// document: a value outside of the heap, between Python's objects and the heap's. No function here knows Python.
//
// Python's objects become documents before the heap's lock is taken, and documents become Python's objects after it was
// let go: converting runs code of the program, which may call the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/values.hpp>

namespace holdfast::python {

using values::kind;

class held_object;

/// The content of an array that is to be stored, or the place of one that was read.
struct array_content {
    std::string type;  ///< numpy.lib.format.dtype_to_descr(), as a literal
    std::vector<std::uint64_t> shape;
    const void* data = nullptr;  ///< null: zeros
    std::uint64_t bytes = 0;
    std::uint32_t order = 0;      ///< as values::array has it
    std::shared_ptr<void> owner;  ///< keeps `data`
};

/// Another first length of an array.
struct array_change {
    array_content rows;               ///< as the array but for its first length; with `data`, they are added
    std::uint64_t bytes_of_row = 0;   ///< below 2^62 for all rows together
    std::optional<std::uint64_t> to;  ///< rows; else as many as there are and `rows`
};

struct document {
    kind what = kind::none;
    std::uint64_t number = 0;
    std::string bytes;                     ///< text, bytes, big_integer, pickled
    std::vector<document> parts;           ///< tuple, list, extended; of a dict: keys and values in turn
    std::shared_ptr<array_content> array;  ///< array
    void* object = nullptr;                ///< of a dict, a list or an array that is not copied: where it lies
    bool can_be_key = false;               ///< of extended: equal values have equal parts
    std::shared_ptr<held_object> held;     ///< keeps `object`, for Python
};

/// hash_of the key that the document is; it has one of the kinds that is_key() accepts.
[[nodiscard]] std::uint64_t hash_of(const document& key) noexcept;
/// Whether a dict can have the document as a key: all kinds but list, dict, array, pickled, and extended ones that do
/// not say so; in tuples, too.
[[nodiscard]] bool is_key(const document& key) noexcept;

}  // namespace holdfast::python
