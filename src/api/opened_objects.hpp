// The objects that a transaction has opened, and their copies. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include <holdfast/transaction.hpp>

#include "api/copy_memory.hpp"
#include "base/hot.hpp"
#include "base/units.hpp"

namespace holdfast::detail {

/// Behind the copy lies its first state. Where the type has `ptr`s, a second copy of the object follows: words in which
/// the copies differ are `ptr`s.
struct opened_object {
    std::byte* object;
    std::uint64_t* copy;
    const shadow_type* type;

    [[nodiscard]] std::size_t words() const noexcept { return (type->size + 7) / 8; }
    [[nodiscard]] std::size_t alignment() const noexcept { return std::max<std::size_t>(type->alignment, 8); }
    /// Words from a copy to the next one.
    [[nodiscard]] std::size_t stride() const noexcept { return base::align_up(type->size, alignment()) / 8; }
    [[nodiscard]] std::uint64_t* first() const noexcept { return copy + stride(); }
    [[nodiscard]] std::uint64_t* twin() const noexcept { return copy + 2 * stride(); }
};

class opened_objects {
public:
    /// Searched one by one.
    static constexpr std::size_t few = 16;

    /// Null where the object is not open.
    [[nodiscard]] HF_HOT const opened_object* find(const std::byte* object) const {
        if (all_.size() > few) [[unlikely]] {
            return find_by_index(object);
        }
        for (const opened_object& each : all_) {
            if (each.object == object) {
                return &each;
            }
        }
        return nullptr;
    }
    /// Null where the place lies in none.
    [[nodiscard]] const opened_object* find_around(const void* place) const noexcept;
    /// Null where the address lies in none.
    [[nodiscard]] const opened_object* find_by_copy(const void* address) const noexcept;
    /// Null where the place is not in the copy of a range.
    [[nodiscard]] std::byte* original_of(const void* place) const;

    // May throw std::bad_alloc, with nothing changed but the memory.
    /// Remembered by add().
    [[nodiscard]] HF_HOT opened_object copy(std::byte* object, const shadow_type& type) {
        return type.copy == nullptr ? copy_bytes(object, type) : copy_by_type(object, type);
    }
    /// To be filled; without `ptr`s: zeros.
    [[nodiscard]] opened_object empty_copy(std::byte* object, const shadow_type& type);
    /// Copies what `of` is a copy of once more.
    [[nodiscard]] std::uint64_t* copy_again(const void* from, const opened_object& of);
    HF_HOT void add(const opened_object& made) {
        if (all_.size() == all_.capacity()) [[unlikely]] {
            all_.reserve(2 * all_.size() + few);
        }
        if (all_.size() >= few) [[unlikely]] {
            index_next(made.object);
        }
        all_.push_back(made);
    }
    /// The last object is a range.
    void note_range();
    [[nodiscard]] copy_memory& memory() noexcept { return memory_; }

    void shrink(std::size_t count) noexcept;
    HF_HOT void clear() noexcept {
        all_.clear();
        ranges_ = 0;
        if (!by_object_.empty()) [[unlikely]] {
            by_object_.clear();
            by_copy_.clear();
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
    [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
    [[nodiscard]] auto end() const noexcept { return all_.end(); }

private:
    [[nodiscard]] const opened_object* find_by_index(const std::byte* object) const;
    void index_next(const std::byte* object);
    [[nodiscard]] HF_HOT opened_object copy_bytes(std::byte* object, const shadow_type& type);
    [[nodiscard]] opened_object copy_by_type(std::byte* object, const shadow_type& type);

    copy_memory memory_;
    std::vector<opened_object> all_;
    std::size_t ranges_ = 0;  ///< 0: no opened object is a range
    // Indexes, where there are more than a few.
    std::unordered_map<const std::byte*, std::size_t> by_object_;
    std::map<const std::byte*, std::size_t, std::greater<>> by_copy_;  ///< of ranges
};

/// Without `ptr`s. Bytes behind the object are zeros in the copy and its first state.
inline opened_object opened_objects::copy_bytes(std::byte* object, const shadow_type& type) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    const opened_object shape{object, nullptr, &type};
    const std::size_t stride = shape.stride() * word;
    std::byte* const copy = memory_.take(2 * stride, shape.alignment());
    std::byte* const first = copy + stride;
    constexpr std::size_t small = 128;
    std::size_t at = 0;
    if (type.size <= small) [[likely]] {
        for (; at + word <= type.size; at += word) {  // shorter than a call of memcpy
            std::uint64_t value;
            __builtin_memcpy(&value, object + at, word);
            __builtin_memcpy(copy + at, &value, word);
            __builtin_memcpy(first + at, &value, word);
        }
    }
    if (at != type.size) [[unlikely]] {
        const std::size_t end = shape.words() * word;
        __builtin_memset(copy + end - word, 0, word);
        __builtin_memcpy(copy + at, object + at, type.size - at);
        __builtin_memcpy(first + at, copy + at, end - at);
    }
    return {object, reinterpret_cast<std::uint64_t*>(copy), &type};
}

}  // namespace holdfast::detail
