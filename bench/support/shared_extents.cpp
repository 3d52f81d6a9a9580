#include "support/shared_extents.hpp"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace bench {

namespace {

namespace fs = std::filesystem;
using ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // on the device

void add_extents(int file, const fs::path& path, ranges& found) {
    constexpr std::size_t some = 512;
    std::vector<std::uint64_t> buffer((sizeof(fiemap) + some * sizeof(fiemap_extent)) / sizeof(std::uint64_t));
    auto& asked = *reinterpret_cast<fiemap*>(buffer.data());
    for (std::uint64_t from = 0;;) {
        asked = {};
        asked.fm_start = from;
        asked.fm_length = FIEMAP_MAX_OFFSET - from;
        asked.fm_flags = FIEMAP_FLAG_SYNC;
        asked.fm_extent_count = some;
        if (::ioctl(file, FS_IOC_FIEMAP, &asked) != 0) {
            throw std::system_error(errno, std::generic_category(), "FIEMAP of " + path.string());
        }
        if (asked.fm_mapped_extents == 0) {
            return;
        }
        const auto* const extents = reinterpret_cast<const fiemap_extent*>(&asked + 1);
        for (std::uint32_t i = 0; i < asked.fm_mapped_extents; ++i) {
            found.emplace_back(extents[i].fe_physical, extents[i].fe_physical + extents[i].fe_length);
            from = extents[i].fe_logical + extents[i].fe_length;
        }
    }
}

}  // namespace

std::uint64_t bytes_of_blocks(const std::vector<fs::path>& directories) {
    ranges found;
    for (const fs::path& directory : directories) {
        for (const fs::directory_entry& each : fs::recursive_directory_iterator(directory)) {
            if (!each.is_regular_file()) {
                continue;
            }
            const int file = ::open(each.path().c_str(), O_RDONLY | O_CLOEXEC);
            if (file < 0) {
                throw std::system_error(errno, std::generic_category(), each.path().string());
            }
            try {
                add_extents(file, each.path(), found);
            } catch (...) {
                ::close(file);
                throw;
            }
            ::close(file);
        }
    }
    std::sort(found.begin(), found.end());
    std::uint64_t bytes = 0;
    std::uint64_t end = 0;
    for (const auto& [begin, behind] : found) {
        const std::uint64_t from = std::max(begin, end);
        bytes += std::max(behind, from) - from;
        end = std::max(end, behind);
    }
    return bytes;
}

}  // namespace bench
