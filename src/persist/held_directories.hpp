#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

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

}  // namespace holdfast::persist
