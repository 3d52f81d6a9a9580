#include "support/timing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace bench {

double time_of(unsigned threads, std::uint64_t count, const std::function<void(unsigned, std::uint64_t)>& call) {
    const auto start = std::chrono::steady_clock::now();
    {
        std::vector<std::jthread> running;
        for (unsigned t = 1; t < threads; ++t) {
            running.emplace_back([&, t] {
                for (std::uint64_t i = 0; i < count; ++i) {
                    call(t, i);
                }
            });
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            call(0, i);
        }
    }
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / static_cast<double>(count * threads);
}

double time_of_a_write(const std::filesystem::path& directory, std::uint64_t count) {
    constexpr std::size_t block = 4096;
    constexpr std::uint64_t blocks = 256;
    const std::string path = directory / "raw";
    const std::unique_ptr<void, decltype(&std::free)> data(std::aligned_alloc(block, block), &std::free);
    std::fill_n(static_cast<char*>(data.get()), block, 'x');
    int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (std::uint64_t i = 0; i < blocks; ++i) {
        static_cast<void>(::pwrite(file, data.get(), block, static_cast<off_t>(i * block)));
    }
    ::fdatasync(file);
    ::close(file);
    file = ::open(path.c_str(), O_RDWR | O_DIRECT | O_DSYNC | O_CLOEXEC);
    if (file < 0) {
        file = ::open(path.c_str(), O_RDWR | O_DSYNC | O_CLOEXEC);
    }
    if (file < 0) {
        throw std::system_error(errno, std::generic_category(), "open in " + directory.string());
    }
    const double taken = time_of(1, count, [&](unsigned, std::uint64_t i) {
        if (::pwrite(file, data.get(), block, static_cast<off_t>(i % blocks * block)) != static_cast<ssize_t>(block)) {
            throw std::system_error(errno, std::generic_category(), "pwrite");
        }
    });
    ::close(file);
    return taken;
}

}  // namespace bench
