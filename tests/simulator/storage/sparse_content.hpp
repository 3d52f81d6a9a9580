// The content of a file in memory: sparse, and cheap to copy and compare.
//
// Copies share pages until one writes. The hash is kept by page, so an image that differs in one page costs one page to
// copy and one to hash. Not thread-safe: copies that share pages stay in one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace holdfast::simulator {

class sparse_content {
public:
    static constexpr std::uint64_t page_size = 4096;

    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
    /// What is cut off is lost; what is added reads as zero.
    void resize(std::uint64_t bytes);
    /// Overwrites what lies below size(); drops the rest of `data`.
    void write(std::uint64_t offset, std::span<const std::byte> data);
    void zero(std::uint64_t offset, std::uint64_t length);
    /// The range lies below size().
    void read(std::uint64_t offset, std::span<std::byte> buffer) const;
    [[nodiscard]] bool equals(std::uint64_t offset, std::span<const std::byte> data) const;
    /// Depends on the content alone.
    [[nodiscard]] std::uint64_t hash() const;
    [[nodiscard]] std::uint64_t charged() const;
    /// All pages ever written, in order, cut off at size().
    void for_each_page(const std::function<void(std::uint64_t, std::span<const std::byte>)>& visit) const;

private:
    static constexpr std::uint64_t pages_per_chunk = 64;
    static constexpr std::uint64_t chunk_size = page_size * pages_per_chunk;

    struct page {
        std::array<std::byte, page_size> bytes{};
        mutable std::uint64_t hash = 0;
        mutable bool hashed = false;
    };
    struct chunk {
        std::array<std::shared_ptr<page>, pages_per_chunk> pages{};
        mutable std::uint64_t hash = 0;
        mutable bool hashed = false;
    };

    [[nodiscard]] const page* find(std::uint64_t page_index) const noexcept;
    page& writable(std::uint64_t page_index);
    void drop(std::uint64_t page_index);
    static std::uint64_t hash_of(const page& one);
    static std::uint64_t hash_of(const chunk& one);

    std::uint64_t size_ = 0;
    std::vector<std::shared_ptr<chunk>> chunks_;
};

/// Spreads the bits of a number; all combined hashes of the simulator use it.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) noexcept {
    value += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept { return mix(mix(a) + b); }

}  // namespace holdfast::simulator
