// Orders of keys and values: LMDB's four, and the caller's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "store/lmdb_header.hpp"

namespace holdfast::store_engine {

enum class order_kind : std::uint8_t { bytes, reversed, integer, custom };

/// Copies are cheap.
struct order {
    order_kind kind = order_kind::bytes;
    MDB_cmp_func* custom = nullptr;  ///< must not throw
};

/// As unsigned numbers; a text that begins another one comes before it.
[[nodiscard]] inline int compare_bytes(std::string_view a, std::string_view b) noexcept {
    const std::size_t common = std::min(a.size(), b.size());
    const int by_content = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
    if (by_content != 0) {
        return by_content;
    }
    return a.size() < b.size() ? -1 : static_cast<int>(a.size() > b.size());
}

/// From the last byte to the first.
[[nodiscard]] inline int compare_reversed(std::string_view a, std::string_view b) noexcept {
    const std::size_t common = std::min(a.size(), b.size());
    std::size_t same = 0;
    for (; same + sizeof(std::uint64_t) <= common; same += sizeof(std::uint64_t)) {
        std::uint64_t left = 0;
        std::uint64_t right = 0;
        std::memcpy(&left, a.data() + a.size() - same - sizeof(left), sizeof(left));
        std::memcpy(&right, b.data() + b.size() - same - sizeof(right), sizeof(right));
        if (left != right) {
            return left < right ? -1 : 1;  // the last byte is the highest
        }
    }
    for (std::size_t i = same + 1; i <= common; ++i) {
        const int difference =
            static_cast<unsigned char>(a[a.size() - i]) - static_cast<unsigned char>(b[b.size() - i]);
        if (difference != 0) {
            return difference;
        }
    }
    return a.size() < b.size() ? -1 : static_cast<int>(a.size() > b.size());
}

template <class Number>
[[nodiscard]] int compare_numbers(std::string_view a, std::string_view b) noexcept {
    Number left;
    Number right;
    std::memcpy(&left, a.data(), sizeof(left));
    std::memcpy(&right, b.data(), sizeof(right));
    return left < right ? -1 : static_cast<int>(left > right);
}

/// Unsigned numbers of four or eight bytes. Other sizes, which only a damaged store has, are ordered by their bytes.
[[nodiscard]] inline int compare_integers(std::string_view a, std::string_view b) noexcept {
    if (a.size() == sizeof(std::uint64_t) && b.size() == sizeof(std::uint64_t)) {
        return compare_numbers<std::uint64_t>(a, b);
    }
    if (a.size() == sizeof(std::uint32_t) && b.size() == sizeof(std::uint32_t)) {
        return compare_numbers<std::uint32_t>(a, b);
    }
    return compare_bytes(a, b);
}

/// As a database's flags ask, unless the caller has its own.
[[nodiscard]] inline order order_of_keys(unsigned flags, MDB_cmp_func* custom) noexcept {
    if (custom != nullptr) {
        return {.kind = order_kind::custom, .custom = custom};
    }
    return {.kind = (flags & MDB_REVERSEKEY) != 0   ? order_kind::reversed
                    : (flags & MDB_INTEGERKEY) != 0 ? order_kind::integer
                                                    : order_kind::bytes,
            .custom = nullptr};
}
[[nodiscard]] inline order order_of_values(unsigned flags, MDB_cmp_func* custom) noexcept {
    if (custom != nullptr) {
        return {.kind = order_kind::custom, .custom = custom};
    }
    return {.kind = (flags & MDB_REVERSEDUP) != 0   ? order_kind::reversed
                    : (flags & MDB_INTEGERDUP) != 0 ? order_kind::integer
                                                    : order_kind::bytes,
            .custom = nullptr};
}

[[nodiscard]] inline MDB_val to_value(std::string_view text) noexcept {
    return {text.size(), const_cast<char*>(text.data())};
}

[[nodiscard]] inline int compare(const order& by, std::string_view a, std::string_view b) {
    switch (by.kind) {
        case order_kind::bytes: return compare_bytes(a, b);
        case order_kind::reversed: return compare_reversed(a, b);
        case order_kind::integer: return compare_integers(a, b);
        case order_kind::custom: break;
    }
    const MDB_val left = to_value(a);
    const MDB_val right = to_value(b);
    return by.custom(&left, &right);
}

}  // namespace holdfast::store_engine
