// A heap full of pages that a benchmark dirties at will, and their expected content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace bench {

class page_heap {
public:
    /// Creates a heap at `path` with `bytes` in blocks of 16 MiB, every page of it written and committed.
    page_heap(std::string path, std::uint64_t bytes, std::uint64_t segment_bytes);

    [[nodiscard]] std::size_t page_count() const noexcept { return words_.size(); }
    /// Bytes of the heap's space.
    [[nodiscard]] std::uint64_t size() const { return heap_->get_size(); }
    /// The place of page i in the heap's space.
    [[nodiscard]] std::uint64_t offset(std::size_t page) const;
    [[nodiscard]] const std::byte* address(std::size_t page) const;

    /// Stores one word into each of the pages.
    void dirty(const std::vector<std::size_t>& pages, std::uint64_t word);
    /// Reads a word of every page: afterwards all are mapped.
    void make_resident() const;
    [[nodiscard]] holdfast::commit_report commit();
    /// Closes, opens again, compares every page with what was stored. Returns the checksum; throws std::runtime_error
    /// where a page differs.
    [[nodiscard]] std::uint64_t verify_reopened();

private:
    std::string path_;
    std::optional<holdfast::manager> heap_;
    std::vector<std::byte*> blocks_;
    std::vector<std::uint64_t> words_;  // by page: the word that was stored last
};

}  // namespace bench
