// Directories that a storage keeps open, by the paths that they had, and where a path leads among them.
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
    std::string path;  ///< as it was when the directory was opened
    descriptor fd;
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0;
};

/// What openat() and its family take.
struct place {
    int directory;                ///< a descriptor; AT_FDCWD: `name` is a path as any other
    const char* name;             ///< lives as long as the path
    const held_directory* holds;  ///< null: none does
};

class held_directories {
public:
    /// Where the path leads; that of a held directory to this directory.
    [[nodiscard]] place find(const std::string& path) const noexcept;
    /// The name at the end of the path; the directory that is held for it is not meant.
    [[nodiscard]] place find_name(const std::string& path) const noexcept;
    /// The descriptor of the directory with this path; -1 where it is not held.
    [[nodiscard]] int find_held(const std::string& path) const noexcept;
    [[nodiscard]] const held_directory* first() const noexcept { return held_.empty() ? nullptr : held_.front().get(); }

    /// Opens one more. Fails where its owner may not have a part of the first.
    [[nodiscard]] base::result<void> add(const std::string& path);

private:
    std::vector<std::shared_ptr<const held_directory>> held_;
};

/// Whether what has this status may be a part of the directory, or was put there by somebody who has no business in it:
/// it is of the directory's owner, or of this process, or, where the group may write the directory, of the group. Root
/// takes all.
[[nodiscard]] base::result<void> check_owner(const struct stat& status, const held_directory& in,
                                             const std::string& path);

/// Root gives what it made in somebody's directory to its owner.
[[nodiscard]] base::result<void> give_to_owner(int fd, const held_directory& in, const std::string& path);

}  // namespace holdfast::persist
