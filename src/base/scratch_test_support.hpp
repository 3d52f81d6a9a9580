#pragma once

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>

namespace holdfast::base {

inline bool is_in_memory(const std::string& path) noexcept {
    struct statfs files {};
    return ::statfs(path.c_str(), &files) == 0 && (files.f_type == TMPFS_MAGIC || files.f_type == RAMFS_MAGIC);
}

/// In memory only where /var/tmp is, too: on many systems /tmp is a tmpfs.
inline std::string disk_directory() {
    const std::string usual = std::filesystem::temp_directory_path().string();
    const std::string lasting = "/var/tmp";
    const bool is_better = is_in_memory(usual) && ::access(lasting.c_str(), W_OK | X_OK) == 0 && !is_in_memory(lasting);
    return is_better ? lasting : usual;
}
inline std::string memory_directory() { return ::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : disk_directory(); }

/// The destructor removes it with its contents.
class scratch_directory {
public:
    explicit scratch_directory(const std::string& parent = memory_directory())
        : path_(parent + "/holdfast-test-XXXXXX") {
        if (::mkdtemp(path_.data()) == nullptr) {
            throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
        }
    }
    scratch_directory(const scratch_directory&) = delete;
    scratch_directory& operator=(const scratch_directory&) = delete;
    ~scratch_directory() {
        if (!keep_) {
            std::error_code ignored;
            std::filesystem::remove_all(path_, ignored);
        }
    }

    void keep() noexcept { keep_ = true; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
    [[nodiscard]] std::string operator/(const std::string& name) const { return path(name); }

private:
    std::string path_;
    bool keep_ = false;
};

}  // namespace holdfast::base
