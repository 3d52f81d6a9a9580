// Checksums on media: XXH3, 64 bits for structures, the low 32 bits for pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace holdfast::base {

[[nodiscard]] std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed = 0) noexcept;

/// Never 0, which the table of page sums reads as "never written".
[[nodiscard]] std::uint32_t page_checksum(std::span<const std::byte> page) noexcept;

class running_checksum {
public:
    /// Throws std::bad_alloc.
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
