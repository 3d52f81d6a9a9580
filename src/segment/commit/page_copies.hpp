// A program that stores to a page while a commit writes it is wrong, but the page on media must match its checksum: a
// copy is compared with the checksum and written. Copies stay in the processor's cache, and are as many as the largest
// folio has pages: pieces of smaller writes lie in small folios, each a page fault for a reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

struct page_run {
    std::uint64_t file = 0;
    std::uint64_t page = 0;  ///< within the file
    std::uint64_t count = 0;
    const std::byte* content = nullptr;

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {content, count * base::page_size}; }
    [[nodiscard]] page_run part(std::uint64_t from, std::uint64_t pages) const noexcept {
        return {file, page + from, pages, content + from * base::page_size};
    }
};

/// Not thread-safe. The constructor may throw std::bad_alloc.
class page_copies {
public:
    static constexpr std::uint64_t most = 512;  ///< pages

    /// `pages` in all; at most `most` at a time.
    explicit page_copies(std::uint64_t pages)
        : most_here_(std::clamp<std::uint64_t>(pages, 1, most)), bytes_(most_here_ * base::page_size) {}

    void clear() noexcept { count_ = 0; }
    [[nodiscard]] std::uint64_t room() const noexcept { return most_here_ - count_; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return std::span(bytes_).first(count_ * base::page_size);
    }
    /// Appends at most room() pages. `checksums`: XXH3-64 of each. `replace` must make a copy that differs match;
    /// `index` is its number among these pages.
    using replacement = base::function_ref<base::result<void>(std::uint64_t index, std::span<std::byte> page)>;
    [[nodiscard]] base::result<void> add(const page_run& pages, std::span<const std::uint64_t> checksums,
                                         replacement replace);

private:
    std::uint64_t most_here_;
    std::vector<std::byte> bytes_;
    std::uint64_t count_ = 0;
};

[[nodiscard]] base::failure stored_meanwhile(const std::string& path, std::uint64_t page);

}  // namespace holdfast::segment
