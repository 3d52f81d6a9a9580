#include "commit/plain_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace bench {

namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 20U;  // of sequential writing

[[noreturn]] void fail(const char* operation) { throw std::system_error(errno, std::generic_category(), operation); }

void fill(const plain_file& file, std::uint64_t bytes) {
    const std::vector<std::byte> chunk(chunk_bytes, std::byte{0x5a});
    for (std::uint64_t offset = 0; offset < bytes; offset += chunk_bytes) {
        file.write_at(offset, std::span(chunk).first(std::min<std::uint64_t>(chunk_bytes, bytes - offset)));
    }
    file.sync();
}

}  // namespace

plain_file::plain_file(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600)) {
    if (descriptor_ < 0) {
        fail("open");
    }
}

plain_file::plain_file(plain_file&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

plain_file::~plain_file() {
    if (descriptor_ >= 0) {
        ::close(descriptor_);
    }
}

void plain_file::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            fail("pwrite");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(written));
        offset += static_cast<std::uint64_t>(written);
    }
}

void plain_file::sync() const {
    if (::fdatasync(descriptor_) != 0) {
        fail("fdatasync");
    }
}

plain_files::plain_files(const std::filesystem::path& directory, std::uint64_t total_bytes, std::uint64_t file_bytes,
                         std::uint64_t journal_bytes)
    : file_bytes_(file_bytes), journal_(directory / "plain.journal") {
    fill(journal_, journal_bytes);
    for (std::uint64_t begin = 0; begin < total_bytes; begin += file_bytes) {
        files_.emplace_back(directory / fmt::format("plain.{:06}", files_.size()));
        fill(files_.back(), std::min(file_bytes, total_bytes - begin));
    }
}

void plain_files::write_twice(std::span<const std::uint64_t> pages, std::span<const std::byte> content) const {
    for (std::size_t offset = 0; offset < content.size(); offset += chunk_bytes) {
        journal_.write_at(offset, content.subspan(offset, std::min(chunk_bytes, content.size() - offset)));
    }
    journal_.sync();
    write_home(pages, content);
}

void plain_files::write_home(std::span<const std::uint64_t> pages, std::span<const std::byte> content) const {
    std::vector<bool> written(files_.size());
    for (std::size_t first = 0; first < pages.size();) {
        const std::uint64_t file = pages[first] / file_bytes_;
        std::size_t end = first + 1;
        while (end < pages.size() && pages[end] == pages[end - 1] + page_bytes && pages[end] / file_bytes_ == file) {
            ++end;
        }
        files_[file].write_at(pages[first] % file_bytes_,
                              content.subspan(first * page_bytes, (end - first) * page_bytes));
        written[file] = true;
        first = end;
    }
    for (std::size_t file = 0; file < files_.size(); ++file) {
        if (written[file]) {
            files_[file].sync();
        }
    }
}

}  // namespace bench
