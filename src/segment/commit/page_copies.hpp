// Copies of pages on their way to media. A thread that stores to a page while a commit writes it is a mistake of the
// program, but the commit must not end with a page that differs from its sum. So each page is copied, the copy is
// compared with the sum, and the copy is written. There are few copies, so that they stay in the processor's cache, and
// as many as the page cache has in its largest folio: a file that was written in small pieces lies in small folios, and
// a reader of the heap then takes a page fault for each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

/// Neighbouring pages of one file, and their content in memory.
struct page_run {
    std::uint64_t file = 0;  ///< segment index or objects_file_id
    std::uint64_t page = 0;  ///< first page within the file
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

    /// For so many pages in all; there is room for `most` of them at a time.
    explicit page_copies(std::uint64_t pages)
        : most_here_(std::clamp<std::uint64_t>(pages, 1, most)), bytes_(most_here_ * base::page_size) {}

    void clear() noexcept { count_ = 0; }
    [[nodiscard]] std::uint64_t room() const noexcept { return most_here_ - count_; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return std::span(bytes_).first(count_ * base::page_size);
    }
    /// Appends copies of the pages, at most room(). `sums`: XXH3-64 of each. A copy that differs from its sum is given
    /// to `replace`, with its number among these pages; `replace` must make it match.
    using replacement = base::function_ref<base::result<void>(std::uint64_t index, std::span<std::byte> page)>;
    [[nodiscard]] base::result<void> add(const page_run& pages, std::span<const std::uint64_t> sums,
                                         replacement replace);

private:
    std::uint64_t most_here_;
    std::vector<std::byte> bytes_;
    std::uint64_t count_ = 0;
};

/// The failure for a page that was stored to while a commit wrote it.
[[nodiscard]] base::failure stored_meanwhile(const std::string& path, std::uint64_t page);

}  // namespace holdfast::segment
