// holdfast::values: what Python programs keep in a heap (docs/python.md), for programs in C++ that read it.
//
//     const auto* root = holdfast::values::find_root(heap);
//     const auto& content = *root->entries.as<holdfast::values::dict>();
//     if (const auto* found = content.find("title")) std::cout << found->text();
//
// Transactions alone change values, so a crash in durability `atomic` leaves each change whole or not at all. One place
// owns a value: a dict, a list, a tuple, or the root.
//
// The functions trust the heap: as() only compares tags. A reader of a heap that may be damaged or hostile asks
// manager::usable_size() for each object before it follows a pointer, and bounds each walk by the size.
//
// Thread safety: many readers, or one writer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <holdfast/hash.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast::values {

// Part of the type names in heaps: a change of layout gets another number.
inline namespace layout_2 {

enum class kind : std::uint32_t {
    none = 0,
    boolean = 1,      ///< number: 0 or 1
    integer = 2,      ///< number: 64 bits, two's complement
    real = 3,         ///< number: the bits of a double
    text = 4,         ///< object: a blob of UTF-8
    bytes = 5,        ///< object: a blob
    big_integer = 6,  ///< object: a blob, two's complement, little endian; needs more than 64 bits
    tuple = 7,        ///< object: a sequence that does not change
    list = 8,         ///< object: a sequence
    dict = 9,         ///< object: a dict
    array = 10,       ///< object: an array
    pickled = 11,     ///< object: a blob of Python's module pickle
    entry = 12,       ///< of a dict; no value's kind
    root = 13,        ///< the named object `holdfast.values`; no value's kind
    extended = 14,    ///< object: a sequence of the name of a type (text), and of a value that says the rest
};

/// Begins every object.
struct object_tag {
    static constexpr std::uint32_t expected_mark = 0x31564648;  ///< "HFV1"
    kind what = kind::none;
    std::uint32_t mark = expected_mark;

    [[nodiscard]] bool is(kind wanted) const noexcept { return what == wanted && mark == expected_mark; }
};

struct value {
    kind what = kind::none;
    std::uint32_t reserved = 0;
    std::uint64_t number = 0;
    ptr<object_tag> object;  ///< null for kinds that have none

    /// Null unless the object has the tag of this value's kind.
    template <class T>
    [[nodiscard]] const T* as() const noexcept {
        const object_tag* const found = object.get();
        return found != nullptr && T::holds(what) && found->is(what) ? reinterpret_cast<const T*>(found) : nullptr;
    }
    [[nodiscard]] std::int64_t integer() const noexcept { return static_cast<std::int64_t>(number); }
    [[nodiscard]] double real() const noexcept { return std::bit_cast<double>(number); }
    [[nodiscard]] inline std::string_view text() const noexcept;  ///< "" where it is no blob
};

/// The bytes follow the struct.
struct blob {
    object_tag tag;
    std::uint64_t size = 0;

    [[nodiscard]] static bool holds(kind what) noexcept {
        return what == kind::text || what == kind::bytes || what == kind::big_integer || what == kind::pickled;
    }
    [[nodiscard]] const char* begin() const noexcept { return reinterpret_cast<const char*>(this + 1); }
    [[nodiscard]] std::string_view view() const noexcept { return {begin(), size}; }
};

struct sequence {
    object_tag tag;
    std::uint64_t size = 0;
    std::uint64_t capacity = 0;  ///< in elements
    ptr<value> elements;         ///< null where the capacity is 0

    [[nodiscard]] static bool holds(kind what) noexcept {
        return what == kind::list || what == kind::tuple || what == kind::extended;
    }
};

/// `next` links a bucket, `previous` and `following` all entries in the order of their insertion.
struct dict_entry {
    object_tag tag{kind::entry};
    std::uint64_t hash = 0;  ///< of the key, by hash_of_...()
    value key;
    value content;
    ptr<dict_entry> next;
    ptr<dict_entry> previous;
    ptr<dict_entry> following;
};

struct dict_bucket {
    ptr<dict_entry> first;
};
struct dict_segment {
    ptr<dict_bucket> buckets;
};

/// Grows by one bucket at a time (linear hashing, Litwin 1980), so an insertion moves the entries of one bucket at
/// most. Segment 0 has 8 buckets, segment s has 8 * 2^(s-1). A dict of up to 8 entries has none and is searched from
/// its first entry.
struct dict {
    static constexpr std::uint64_t first_buckets = 8;
    static constexpr std::uint64_t most_segments = 40;
    object_tag tag{kind::dict};
    std::uint64_t size = 0;
    std::uint64_t generation = 0;  ///< grows with every insertion and removal
    std::uint64_t buckets = 0;     ///< 0, or at least first_buckets
    ptr<dict_segment> segments;    ///< most_segments of them
    ptr<dict_entry> first;
    ptr<dict_entry> last;

    [[nodiscard]] static bool holds(kind what) noexcept { return what == kind::dict; }
    [[nodiscard]] static std::uint64_t bucket_of(std::uint64_t hash, std::uint64_t buckets) noexcept {
        const std::uint64_t wide = std::bit_ceil(buckets);
        const std::uint64_t index = hash & (wide - 1);
        return index < buckets ? index : index & (wide / 2 - 1);
    }
    [[nodiscard]] static std::uint64_t segment_of(std::uint64_t bucket) noexcept {
        return static_cast<std::uint64_t>(std::bit_width(bucket / first_buckets));
    }
    [[nodiscard]] static std::uint64_t segment_begin(std::uint64_t segment) noexcept {
        return segment == 0 ? 0 : first_buckets << (segment - 1);
    }
    [[nodiscard]] static std::uint64_t segment_length(std::uint64_t segment) noexcept {
        return segment == 0 ? first_buckets : first_buckets << (segment - 1);
    }
    [[nodiscard]] inline const value* find(std::string_view key) const noexcept;
};

/// The shape follows the struct. The type is the Python literal of numpy.lib.format.dtype_to_descr(): '<f8', or
/// [('x', '<f4'), ('y', '<f4')]; a type of the package ml_dtypes is its name, 'ml_dtypes.bfloat16'.
struct array {
    static constexpr std::uint32_t most_dimensions = 64;
    object_tag tag{kind::array};
    std::uint64_t bytes = 0;  ///< of all elements
    std::uint32_t dimensions = 0;
    std::uint32_t order = 0;  ///< 0: the last index runs fastest (C); 1: the first (Fortran)
    ptr<blob> type;
    ptr<std::byte> data;  ///< aligned to 64 bytes; null where there are no elements

    [[nodiscard]] static bool holds(kind what) noexcept { return what == kind::array; }
    [[nodiscard]] const std::uint64_t* shape() const noexcept {
        return reinterpret_cast<const std::uint64_t*>(this + 1);
    }
};

struct root {
    object_tag tag{kind::root};
    value entries;   ///< a dict: for Python, the heap itself
    value detached;  ///< a list: removed from its place, but still used by the process; the next open for writing frees
                     ///< it
};
inline constexpr const char* root_name = "holdfast.values";

static_assert(sizeof(value) == 24 && sizeof(blob) == 16 && sizeof(sequence) == 32 && sizeof(dict_entry) == 88);
static_assert(sizeof(dict) == 56 && sizeof(array) == 40 && sizeof(root) == 56);
static_assert(offsetof(value, object) == 16 && offsetof(dict_entry, next) == 64 && offsetof(array, data) == 32);

// The hash of a key is part of the data. Keys that are equal in Python have one form: True is the integer 1, a float
// that is an integer is that integer.
[[nodiscard]] inline std::uint64_t hash_of_number(kind what, std::uint64_t number) noexcept {
    return detail::hash_mix(number ^ detail::hash_first, detail::hash_second + static_cast<std::uint64_t>(what));
}
[[nodiscard]] inline std::uint64_t hash_of_bytes(kind what, std::string_view bytes) noexcept {
    return detail::hash_bytes(bytes.data(), bytes.size()) ^ static_cast<std::uint64_t>(what);
}
/// A step of a tuple's hash, which begins with hash_of_number(kind::tuple, size) and takes in the hash of each element.
[[nodiscard]] inline std::uint64_t hash_of_next(std::uint64_t before, std::uint64_t element) noexcept {
    return detail::hash_mix(before ^ detail::hash_first, element ^ detail::hash_second) + before;
}

inline std::string_view value::text() const noexcept {
    const auto* const found = as<blob>();
    return found == nullptr ? std::string_view{} : found->view();
}

inline const value* dict::find(std::string_view key) const noexcept {
    const std::uint64_t hash = hash_of_bytes(kind::text, key);
    const dict_entry* at = first.get();
    if (buckets != 0) {
        const std::uint64_t bucket = bucket_of(hash, buckets);
        const std::uint64_t segment = segment_of(bucket);
        at = segments[segment].buckets[bucket - segment_begin(segment)].first.get();
    }
    for (; at != nullptr; at = buckets != 0 ? at->next.get() : at->following.get()) {
        if (at->hash == hash && at->key.what == kind::text && at->key.text() == key) {
            return &at->content;
        }
    }
    return nullptr;
}

/// Null where no Python program has written to the heap. Throws error(type_mismatch) for an unknown layout, or another
/// object of the name.
[[nodiscard]] inline const root* find_root(const manager& heap) { return heap.find<root>(root_name).first; }

}  // namespace layout_2
}  // namespace holdfast::values
