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
    std::string path;  ///< when the directory was opened
    descriptor fd;
    uid_t owner = 0;
    gid_t group = 0;
    mode_t mode = 0;
};

/// For openat() and its family.
struct place {
    int directory;                ///< a descriptor; AT_FDCWD: `name` is an ordinary path
    const char* name;             ///< lives as long as the path
    const held_directory* holds;  ///< of `directory`; null for AT_FDCWD
};

class held_directories {
public:
    /// The path of a held directory leads to that directory itself.
    [[nodiscard]] place find(const std::string& path) const noexcept;
    /// find() of the name at the end of the path, even where a directory is held for the whole path.
    [[nodiscard]] place find_name(const std::string& path) const noexcept;
    /// -1 where it is not held.
    [[nodiscard]] int find_held(const std::string& path) const noexcept;
    [[nodiscard]] const held_directory* first() const noexcept { return held_.empty() ? nullptr : held_.front().get(); }

    /// Opens and holds a directory. `permission` where check_owner() refuses it for the first one.
    [[nodiscard]] base::result<void> add(const std::string& path);

private:
    std::vector<std::shared_ptr<const held_directory>> held_;
};

/// Fails with `permission` where another user may have put a file with this status into the directory: it belongs
/// neither to the directory's owner, nor to the user of this process, nor, if the group may write the directory, to
/// that group. Root accepts every file.
[[nodiscard]] base::result<void> check_owner(const struct stat& status, const held_directory& in,
                                             const std::string& path);

/// A file that root has created in the directory of another user goes to that user.
[[nodiscard]] base::result<void> give_to_owner(int fd, const held_directory& in, const std::string& path);

}  // namespace holdfast::persist
