// That a heap reads and writes its own files alone: directories are found by their descriptors, wherever their paths
// lead meanwhile; a file that was exchanged since the heap opened it is refused, and so is one of another user.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_mutex.hpp"
#include "base/result.hpp"
#include "persist/descriptor.hpp"

namespace holdfast::persist {

struct held_directory {
    std::string path;  ///< when it was opened
    descriptor fd;
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0;
};

struct place {
    int directory;  ///< AT_FDCWD: `name` is an ordinary path
    const char* name;
    const held_directory* holds;  ///< null for AT_FDCWD
};

class held_directories {
public:
    /// A held directory's own path leads to it.
    [[nodiscard]] place find(const std::string& path) const noexcept;
    /// find() of the last name, even where a directory is held for the whole path.
    [[nodiscard]] place find_name(const std::string& path) const noexcept;
    /// -1: not held.
    [[nodiscard]] int find_held(const std::string& path) const noexcept;
    [[nodiscard]] const held_directory* first() const noexcept { return held_.empty() ? nullptr : held_.front().get(); }

    /// `permission` where check_owner() refuses the first one.
    [[nodiscard]] base::result<void> add(const std::string& path);
    /// In a child of fork. The object is not destroyed then.
    void close_in_child() const noexcept;

private:
    std::vector<std::shared_ptr<const held_directory>> held_;
};

/// `permission` where another user may have put a file with this status into the directory: it belongs neither to the
/// directory's owner, nor to the user of this process, nor, if the group may write the directory, to that group. Root
/// accepts every file.
[[nodiscard]] base::result<void> check_owner(const struct stat& status, const held_directory& in,
                                             const std::string& path);

/// Does nothing unless root has created the file in another user's directory.
[[nodiscard]] base::result<void> give_to_owner(int fd, const held_directory& in, const std::string& path);

/// A heap must not write a file that was exchanged since it opened it first. Thread-safe.
class known_files {
public:
    /// `status`: of `fd`. `corrupt` where the path led to another file before.
    [[nodiscard]] base::result<void> expect_same(const std::string& path, int fd, const struct stat& status);
    void remember(const std::string& path, const struct stat& status);
    void forget(const std::string& path) noexcept;
    void forget_all() noexcept;
    void move(const std::string& from, const std::string& to);

private:
    using identity = std::pair<dev_t, ino_t>;
    /// Of all objects: one lives as long as the process.
    static inline constinit base::fork_mutex mutex_{
        base::fork_rank::known_files};  // NOLINT(readability-identifier-naming)
    std::map<std::string, identity> files_;
    std::atomic<bool> knows_some_{false};  ///< false: there is none, which turns of processes ask without the lock
};

}  // namespace holdfast::persist
