#include "store_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <xxhash.h>

namespace holdfast_cli {

namespace {

constexpr std::uint64_t page_bytes = 4096;

/// "store.NUMBER".
bool is_name_of_store(std::string_view name) {
    constexpr std::string_view prefix = "store.";
    std::uint64_t number = 0;
    const char* const end = name.data() + name.size();
    return name.starts_with(prefix) && std::from_chars(name.data() + prefix.size(), end, number).ptr == end &&
           name.size() > prefix.size();
}

class descriptor {
public:
    explicit descriptor(const std::filesystem::path& path) noexcept
        : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW)) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() {
        if (number_ >= 0) {
            ::close(number_);
        }
    }
    [[nodiscard]] int number() const noexcept { return number_; }

private:
    int number_;
};

struct meta {
    std::uint64_t sequence = 0;
    std::uint64_t transaction = 0;
    std::uint64_t entries = 0;
    std::uint64_t log_pages = 0;
};

/// Of the meta at the page, if it is a whole one: a writer may be about to store it, or a loss of power have torn it.
std::optional<meta> meta_at(int file, std::uint64_t page) {
    constexpr std::size_t bytes = 160;
    constexpr std::string_view magic = "HFSTORE\n";
    std::array<char, bytes> read{};
    if (::pread(file, read.data(), bytes, static_cast<off_t>(page * page_bytes)) != static_cast<ssize_t>(bytes) ||
        !std::string_view(read.data(), bytes).starts_with(magic)) {
        return std::nullopt;
    }
    const auto number = [&](std::size_t at) {
        std::uint64_t found = 0;
        std::memcpy(&found, read.data() + at, sizeof found);
        return found;
    };
    constexpr std::size_t sequence = 32;
    constexpr std::size_t transaction = 40;
    constexpr std::size_t entries = 56;
    constexpr std::size_t log_pages = 136;
    constexpr std::size_t checksum = 152;
    if (number(checksum) != XXH3_64bits(read.data(), checksum)) {
        return std::nullopt;
    }
    const meta found{number(sequence), number(transaction), number(entries), number(log_pages)};
    return found.sequence % 2 == page ? std::optional(found) : std::nullopt;
}

std::optional<store_file_glance> glance_at_file(const std::filesystem::path& path) {
    const descriptor file(path);
    struct stat about {};
    if (file.number() < 0 || ::fstat(file.number(), &about) != 0 || !S_ISREG(about.st_mode)) {
        return std::nullopt;
    }
    std::optional<meta> newest = meta_at(file.number(), 0);
    if (const auto other = meta_at(file.number(), 1); other && (!newest || other->sequence > newest->sequence)) {
        newest = other;
    }
    if (!newest) {
        return std::nullopt;
    }
    constexpr std::uint64_t block = 512;  // of st_blocks
    store_file_glance made;
    made.file = path.filename().string();
    made.apparent_bytes = static_cast<std::uint64_t>(about.st_size);
    made.charged_bytes = static_cast<std::uint64_t>(about.st_blocks) * block;
    made.checkpoints = newest->sequence;
    made.transactions = newest->transaction;
    made.entries = newest->entries;
    made.log_room_bytes = newest->log_pages * page_bytes;
    return made;
}

}  // namespace

std::vector<store_file_glance> glance_at_store_files(const std::string& heap) {
    std::vector<store_file_glance> found;
    std::error_code failure;
    std::filesystem::directory_iterator each(heap, failure);
    for (; !failure && each != std::filesystem::directory_iterator(); each.increment(failure)) {
        if (is_name_of_store(each->path().filename().string())) {
            if (auto one = glance_at_file(each->path())) {
                found.push_back(std::move(*one));
            }
        }
    }
    std::ranges::sort(found, {}, &store_file_glance::file);
    return found;
}

}  // namespace holdfast_cli
