#include "memory/footprint.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "support/environment.hpp"

namespace bench {

namespace {

constexpr std::uint32_t extents_a_call = 512;

/// struct fiemap without the array at its end, which is no C++.
struct extent_request {
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    std::uint32_t flags = FIEMAP_FLAG_SYNC;
    std::uint32_t mapped_extents = 0;
    std::uint32_t extent_count = extents_a_call;
    std::uint32_t reserved = 0;
};
static_assert(sizeof(extent_request) == sizeof(fiemap));

/// The extents of a file, as the file system lists them; they are asked for in portions.
class extent_list {
public:
    explicit extent_list(int file)
        : file_(file), memory_(sizeof(extent_request) + extents_a_call * sizeof(fiemap_extent)) {}

    /// Bytes allocated in [from, to). Nothing where the file system lists no extents. Delayed allocations are made
    /// first.
    [[nodiscard]] std::optional<std::uint64_t> allocated(std::uint64_t from, std::uint64_t to) {
        std::uint64_t sum = 0;
        while (from < to) {
            if (!ask(from, to)) {
                return std::nullopt;
            }
            const std::uint32_t found = header().mapped_extents;
            if (found == 0) {
                break;
            }
            for (std::uint32_t i = 0; i < found; ++i) {
                const fiemap_extent one = extent(i);
                const std::uint64_t begin = std::max<std::uint64_t>(from, one.fe_logical);
                const std::uint64_t end = std::min<std::uint64_t>(to, one.fe_logical + one.fe_length);
                sum += end > begin ? end - begin : 0;
                from = std::max(from, end);
            }
        }
        return sum;
    }

private:
    [[nodiscard]] extent_request header() const {
        extent_request read;
        std::memcpy(&read, memory_.data(), sizeof read);
        return read;
    }
    [[nodiscard]] fiemap_extent extent(std::uint32_t index) const {
        fiemap_extent read{};
        std::memcpy(&read, memory_.data() + sizeof(extent_request) + index * sizeof read, sizeof read);
        return read;
    }
    bool ask(std::uint64_t from, std::uint64_t to) {
        extent_request request;
        request.start = from;
        request.length = to - from;
        std::memcpy(memory_.data(), &request, sizeof request);
        if (::ioctl(file_, FS_IOC_FIEMAP, memory_.data()) == 0) {
            return true;
        }
        if (errno != EOPNOTSUPP && errno != ENOTTY) {
            throw std::system_error(errno, std::generic_category(), "FS_IOC_FIEMAP");
        }
        return false;
    }

    int file_;
    std::vector<std::byte> memory_;
};

std::optional<std::uint64_t> allocated_before(const std::filesystem::path& path, std::uint64_t end) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        throw std::system_error(errno, std::generic_category(), path.string());
    }
    std::optional<std::uint64_t> found;
    try {
        found = extent_list(file).allocated(0, end);
    } catch (...) {
        ::close(file);
        throw;
    }
    ::close(file);
    return found;
}

bool is_segment(const std::filesystem::path& path) { return path.filename().string().starts_with("segment."); }

}  // namespace

resident_memory resident_memory_now() {
    std::ifstream lines("/proc/self/smaps");
    resident_memory found;
    bool any = false;
    std::uint64_t resident = 0;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string key;
        std::uint64_t kibibytes = 0;
        words >> key >> kibibytes;
        if (key == "Rss:") {
            resident = kibibytes << 10U;
            any = true;
        } else if (key == "Anonymous:") {  // of the same mapping, behind its Rss
            found.anonymous += kibibytes << 10U;
            found.of_files += resident - (kibibytes << 10U);
        }
    }
    if (!any) {
        throw std::runtime_error("/proc/self/smaps says nothing");
    }
    return found;
}

heap_space space_of_heap(const std::filesystem::path& heap, std::uint64_t segment_size, std::uint64_t user_bytes) {
    heap_space found;
    found.charged = charged_bytes(heap);
    found.by_extents = true;
    std::uint64_t user = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(heap)) {
        if (!is_segment(entry.path())) {
            continue;
        }
        if (const auto allocated = allocated_before(entry.path(), segment_size)) {
            user += *allocated;
        } else {
            found.by_extents = false;
        }
    }
    found.metadata = found.charged - std::min(found.charged, found.by_extents ? user : user_bytes);
    return found;
}

}  // namespace bench
