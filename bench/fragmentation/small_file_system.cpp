#include "fragmentation/small_file_system.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace bench {

namespace {

std::string last_error(const char* call) { return fmt::format("{}: {}", call, std::generic_category().message(errno)); }

/// Once a process.
std::string enter_namespace() {
    static bool entered = false;
    if (entered) {
        return {};
    }
    if (::unshare(CLONE_NEWNS) != 0) {
        return last_error("unshare");
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        return last_error("mount --make-rprivate");
    }
    entered = true;
    return {};
}

}  // namespace

small_file_system::small_file_system(std::filesystem::path directory, std::uint64_t capacity)
    : directory_(std::move(directory)), why_not_(enter_namespace()) {
    const std::string options = fmt::format("size={},mode=0700", capacity);
    if (why_not_.empty() &&
        ::mount("holdfast-bench", directory_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
        why_not_ = last_error("mount");
    }
}

small_file_system::~small_file_system() {
    if (mounted()) {
        static_cast<void>(::umount2(directory_.c_str(), MNT_DETACH));
    }
}

}  // namespace bench
