// Checksums of everything on media: XXH3 (xxhash of Debian), 64 bits for structures, its low 32 bits for pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::base {

/// XXH3-64 of the bytes with the given seed.
[[nodiscard]] std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

/// The checksum of a page as the page table of sums stores it: never 0, for 0 there means "never written".
[[nodiscard]] std::uint32_t page_checksum(std::span<const std::byte> page) noexcept;

/// A checksum over parts that arrive one after the other; the same value as checksum64 over their concatenation.
class running_checksum {
public:
    explicit running_checksum(std::uint64_t seed = 0);
    running_checksum(const running_checksum&) = delete;
    running_checksum& operator=(const running_checksum&) = delete;
    ~running_checksum();
    void add(std::span<const std::byte> bytes) noexcept;
    [[nodiscard]] std::uint64_t value() const noexcept;

private:
    void* state_;
};

}  // namespace holdfast::base
