// What a commit is measured against: the same bytes written twice with pwrite and fdatasync, first into a journal file,
// then at the places that the pages have in the heap's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace bench {

inline constexpr std::uint64_t page_bytes = 4096;

/// An open file descriptor.
class plain_file {
public:
    /// Creates the file. Throws std::system_error, as all functions here do.
    explicit plain_file(const std::filesystem::path& path);
    plain_file(plain_file&& other) noexcept;
    plain_file(const plain_file&) = delete;
    plain_file& operator=(const plain_file&) = delete;
    ~plain_file();
    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
    void sync() const;

private:
    int descriptor_;
};

/// Files of the heap's layout, every byte of them written (so that no run pays for allocating blocks), and a journal.
class plain_files {
public:
    plain_files(const std::filesystem::path& directory, std::uint64_t total_bytes, std::uint64_t file_bytes,
                std::uint64_t journal_bytes);

    /// `pages`: offsets in the whole space, ascending, multiples of page_bytes; `content`: theirs, one after the other.
    /// Neighbouring pages are written with one call.
    void write_twice(std::span<const std::uint64_t> pages, std::span<const std::byte> content) const;

private:
    void write_home(std::span<const std::uint64_t> pages, std::span<const std::byte> content) const;

    std::uint64_t file_bytes_;
    plain_file journal_;
    std::vector<plain_file> files_;
};

}  // namespace bench
