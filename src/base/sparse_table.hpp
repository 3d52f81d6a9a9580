// A flat table in DRAM, as long as the address range that it describes, that costs memory only where it is touched.
//
// It lets an address find its bookkeeping by arithmetic and one load. Zero is a valid state of every element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace holdfast::base {

/// Zeroed anonymous memory, reserved and not committed. Movable; unmapped at the end of its life.
class sparse_memory {
public:
    sparse_memory() = default;
    sparse_memory(sparse_memory&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    sparse_memory& operator=(sparse_memory&& other) noexcept {
        std::swap(address_, other.address_);
        std::swap(size_, other.size_);
        return *this;
    }
    sparse_memory(const sparse_memory&) = delete;
    sparse_memory& operator=(const sparse_memory&) = delete;
    ~sparse_memory();

    /// Fails with out_of_memory where the system refuses even the addresses; `purpose` is named in the failure.
    [[nodiscard]] static result<sparse_memory> map(std::uint64_t bytes, const char* purpose);

    [[nodiscard]] void* address() const noexcept { return address_; }
    /// It is zero again, and costs nothing.
    void discard() noexcept;

private:
    void* address_ = nullptr;
    std::uint64_t size_ = 0;
};

/// `count` elements of T, all zero at first. Thread safety: that of a plain array.
template <class T>
class sparse_table {
    static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);

public:
    sparse_table() = default;

    [[nodiscard]] static result<sparse_table> create(std::uint64_t count, const char* purpose) {
        sparse_table table;
        HF_TRY_ASSIGN(table.memory_, sparse_memory::map(count * sizeof(T), purpose));
        table.elements_ = static_cast<T*>(table.memory_.address());
        table.size_ = count;
        return table;
    }

    [[nodiscard]] T& operator[](std::uint64_t index) const noexcept {
        HF_ASSERT(index < size_);
        return elements_[index];
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    /// All elements are zero again.
    void discard() noexcept { memory_.discard(); }
    /// The index of an element of this table.
    [[nodiscard]] std::uint64_t index_of(const T& element) const noexcept {
        return static_cast<std::uint64_t>(&element - elements_);
    }

private:
    sparse_memory memory_;
    T* elements_ = nullptr;
    std::uint64_t size_ = 0;
};

}  // namespace holdfast::base
