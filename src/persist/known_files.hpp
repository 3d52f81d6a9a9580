// A heap must not write a file that was exchanged since it opened it first. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "base/fork_mutex.hpp"
#include "base/result.hpp"

namespace holdfast::persist {

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
