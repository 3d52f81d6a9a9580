// An element in DRAM for each unit of an address range. Takes memory only where it is touched, and is no part of a core
// dump. Zero must be a valid state of the elements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/result.hpp"

namespace holdfast::base {

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

    /// `out_of_memory`, naming `purpose`, where the system refuses to reserve the addresses.
    [[nodiscard]] static result<sparse_memory> map(std::uint64_t bytes, const char* purpose);

    [[nodiscard]] void* address() const noexcept { return address_; }
    /// Sets all bytes to zero and gives the memory back.
    void discard() noexcept;

private:
    void* address_ = nullptr;
    std::uint64_t size_ = 0;
};

/// While it lives, the memory that goes in this thread stays, and takes the place of what comes with the same size: for
/// who makes tables anew, in place of six system calls each. They do not nest.
class kept_sparse_memory {
public:
    kept_sparse_memory() noexcept;
    kept_sparse_memory(const kept_sparse_memory&) = delete;
    kept_sparse_memory& operator=(const kept_sparse_memory&) = delete;
    ~kept_sparse_memory();

private:
    friend class sparse_memory;
    struct region {
        void* address;
        std::uint64_t size;
    };
    /// All bytes are zero. False: it goes.
    [[nodiscard]] bool keep(const region& one) noexcept;
    /// Null: there is none.
    [[nodiscard]] void* take(std::uint64_t size) noexcept;

    std::array<region, 64> regions_;
    std::size_t count_ = 0;
};

/// Thread safety: as a plain array.
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
    void discard() noexcept { memory_.discard(); }
    [[nodiscard]] std::uint64_t index_of(const T& element) const noexcept {
        return static_cast<std::uint64_t>(&element - elements_);
    }

private:
    sparse_memory memory_;
    T* elements_ = nullptr;
    std::uint64_t size_ = 0;
};

}  // namespace holdfast::base
