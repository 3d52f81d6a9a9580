#include "support/environment.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/commit_id.hpp"

namespace bench {

namespace {

std::string file_system_of(const std::filesystem::path& directory) {
    struct statfs found {};
    if (::statfs(directory.c_str(), &found) != 0) {
        return "unknown";
    }
    constexpr unsigned xfs_magic = 0x58465342;  // not in <linux/magic.h> of all kernels
    constexpr unsigned zfs_magic = 0x2fc12fc1;
    const auto magic = static_cast<unsigned>(found.f_type);
    switch (magic) {
        case EXT4_SUPER_MAGIC: return "ext4";  // ext2 and ext3 bear the same number, and the same driver serves them
        case xfs_magic: return "xfs";
        case BTRFS_SUPER_MAGIC: return "btrfs";
        case TMPFS_MAGIC: return "tmpfs";
        case F2FS_SUPER_MAGIC: return "f2fs";
        case OVERLAYFS_SUPER_MAGIC: return "overlay";
        case NFS_SUPER_MAGIC: return "nfs";
        case zfs_magic: return "zfs";
        default: return fmt::format("{:#x}", magic);
    }
}

/// The value of the first line `key : value` of a file in /proc.
std::string proc_value(const char* file, std::string_view key) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        const auto colon = line.find(':');
        if (line.starts_with(key) && colon != std::string::npos) {
            const auto start = line.find_first_not_of(" \t", colon + 1);
            return start == std::string::npos ? std::string{} : line.substr(start);
        }
    }
    return "unknown";
}

}  // namespace

nlohmann::ordered_json describe_environment(const std::filesystem::path& directory) {
    utsname kernel{};
    ::uname(&kernel);
    const char* const commit = std::getenv("HOLDFAST_COMMIT");
    nlohmann::ordered_json environment;
    environment["commit"] = commit != nullptr ? commit : HOLDFAST_BENCH_COMMIT;
    environment["build"] = HOLDFAST_BENCH_BUILD;
    environment["machine"] = proc_value("/proc/cpuinfo", "model name");
    environment["architecture"] = kernel.machine;
    environment["cores"] = std::thread::hardware_concurrency();
    environment["memory"] = proc_value("/proc/meminfo", "MemTotal");
    environment["kernel"] = fmt::format("{} {}", kernel.sysname, kernel.release);
    environment["file_system"] = file_system_of(directory);
    return environment;
}

bool drop_caches() {
    ::sync();
    const int file = ::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const bool done = ::write(file, "3", 1) == 1;
    ::close(file);
    return done;
}

void sync_file(const std::filesystem::path& file) {
    const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor < 0) {
        throw std::system_error(errno, std::generic_category(), file.string());
    }
    const int failed = ::fdatasync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    if (failed != 0) {
        throw std::system_error(failed, std::generic_category(), file.string());
    }
}

workplace::workplace(const std::filesystem::path& parent) {
    std::filesystem::create_directories(parent);
    std::string name = (parent / "holdfast-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
        throw std::system_error(errno, std::generic_category(), name);
    }
    path_ = name;
}

workplace::~workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::uint64_t charged_bytes(const std::filesystem::path& path) {
    const auto of_file = [](const std::filesystem::path& file) -> std::uint64_t {
        struct stat found {};
        return ::stat(file.c_str(), &found) == 0 ? static_cast<std::uint64_t>(found.st_blocks) * 512 : 0;
    };
    if (!std::filesystem::is_directory(path)) {
        return of_file(path);
    }
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
        sum += of_file(entry.path());
    }
    return sum;
}

}  // namespace bench
