#include "recovery/mapped_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>
#include <vector>

#include "support/samples.hpp"

namespace bench {

double map_files(const std::filesystem::path& heap) {
    const auto fail = [&heap](const char* what) {
        throw std::system_error(errno, std::generic_category(), heap.string() + ": " + what);
    };
    std::vector<std::pair<void*, std::size_t>> mapped;
    const stopwatch watch;
    for (const auto& entry : std::filesystem::directory_iterator(heap)) {
        const std::size_t size = entry.is_regular_file() ? entry.file_size() : 0;
        if (size == 0) {
            continue;
        }
        const int fd = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            fail("open");
        }
        void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        ::close(fd);
        if (at == MAP_FAILED) {
            fail("mmap");
        }
        mapped.emplace_back(at, size);
    }
    const double milliseconds = watch.milliseconds();
    for (const auto& [at, size] : mapped) {
        ::munmap(at, size);
    }
    return milliseconds;
}

}  // namespace bench
