#include "persist/known_files.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

namespace holdfast::persist {

namespace {

using base::failure;
using base::failure_code;
using base::result;

/// On overlayfs a file of a lower layer becomes another one at its first open for writing.
bool is_on_overlay(int fd) noexcept {
    struct statfs numbers {};
    return ::fstatfs(fd, &numbers) == 0 && numbers.f_type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

result<void> known_files::expect_same(const std::string& path, int fd, const struct stat& status) {
    const identity found{status.st_dev, status.st_ino};
    const base::scoped_lock guard(mutex_);
    knows_some_.store(true, std::memory_order_release);
    const auto [known, is_new] = files_.emplace(path, found);
    if (is_new || known->second == found) {
        return {};
    }
    if (is_on_overlay(fd)) {
        known->second = found;
        return {};
    }
    return failure{failure_code::corrupt,
                   path,
                   "file",
                   "another file than the heap has open",
                   "the one that was there when the heap was opened",
                   "it was exchanged, and is left as it is; put the heap's own file back",
                   0};
}

void known_files::remember(const std::string& path, const struct stat& status) {
    const base::scoped_lock guard(mutex_);
    knows_some_.store(true, std::memory_order_release);
    files_.insert_or_assign(path, identity{status.st_dev, status.st_ino});
}

void known_files::forget(const std::string& path) noexcept {
    const base::scoped_lock guard(mutex_);
    files_.erase(path);
}

void known_files::forget_all() noexcept {
    if (!knows_some_.load(std::memory_order_acquire)) {
        return;
    }
    const base::scoped_lock guard(mutex_);
    files_.clear();
    knows_some_.store(false, std::memory_order_release);
}

void known_files::move(const std::string& from, const std::string& to) {
    const base::scoped_lock guard(mutex_);
    const auto moved = files_.find(from);
    if (moved == files_.end()) {
        files_.erase(to);
        return;
    }
    files_.insert_or_assign(to, moved->second);
    files_.erase(moved);
}

}  // namespace holdfast::persist
