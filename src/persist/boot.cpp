#include "persist/boot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <span>

#include "base/checksum.hpp"

namespace holdfast::persist {

std::uint64_t this_boot() noexcept {
    static const std::uint64_t boot = []() noexcept -> std::uint64_t {
        const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            return 0;
        }
        std::array<std::byte, 64> text{};
        const ssize_t size = ::read(file, text.data(), text.size());
        ::close(file);
        return size <= 0 ? 0 : base::checksum64(std::span(text).first(static_cast<std::size_t>(size))) | 1U;
    }();
    return boot;
}

}  // namespace holdfast::persist
