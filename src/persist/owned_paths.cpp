#include "persist/owned_paths.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace holdfast::persist {

namespace {

using base::failure;
using base::failure_code;
using base::os_failure;
using base::result;

const char* name_below(const std::string& path, const std::string& directory) noexcept {
    if (path.size() <= directory.size() || path[directory.size()] != '/' || !path.starts_with(directory)) {
        return nullptr;
    }
    const std::size_t name = path.find_first_not_of('/', directory.size());
    return name == std::string::npos ? nullptr : path.c_str() + name;
}

}  // namespace

int held_directories::find_held(const std::string& path) const noexcept {
    const auto itself = std::ranges::find(held_, path, [](const auto& held) -> const auto& { return held->path; });
    return itself == held_.end() ? -1 : (*itself)->fd.get();
}

place held_directories::find(const std::string& path) const noexcept {
    const auto itself = std::ranges::find(held_, path, [](const auto& held) -> const auto& { return held->path; });
    return itself != held_.end() ? place{(*itself)->fd.get(), ".", itself->get()} : find_name(path);
}

place held_directories::find_name(const std::string& path) const noexcept {
    // Paths of nodes begin with the heap's, and are held after it.
    for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
        if (const char* const name = name_below(path, (*held)->path); name != nullptr) {
            return {(*held)->fd.get(), name, held->get()};
        }
    }
    return {AT_FDCWD, path.c_str(), nullptr};
}

result<void> held_directories::add(const std::string& path) {
    const place where = find(path);
    descriptor fd(::openat(where.directory, where.name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC));
    if (!fd.valid()) {
        return os_failure(errno, "opendir", path);
    }
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) {
        return os_failure(errno, "fstat", path);
    }
    if (!held_.empty()) {
        HF_TRY(check_owner(status, *held_.front(), path));
    }
    held_.push_back(std::make_shared<const held_directory>(
        held_directory{path, std::move(fd), status.st_uid, status.st_gid, status.st_mode}));
    return {};
}

void held_directories::close_in_child() const noexcept {
    for (const auto& held : held_) {
        ::close(held->fd.get());
    }
}

result<void> check_owner(const struct stat& status, const held_directory& in, const std::string& path) {
    const uid_t self = ::geteuid();
    const bool of_group = (in.mode & S_IWGRP) != 0 && status.st_gid == in.group;
    if (self == 0 || status.st_uid == in.owner || status.st_uid == self || of_group) {
        return {};
    }
    return failure{failure_code::permission,
                   path,
                   "owner",
                   "user " + std::to_string(status.st_uid),
                   "user " + std::to_string(in.owner) + ", the owner of " + in.path,
                   "somebody else may have put it there; where it is right, give it to that user (chown)",
                   0};
}

result<void> give_to_owner(int fd, const held_directory& in, const std::string& path) {
    if (::geteuid() != 0 || in.owner == 0) {
        return {};
    }
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        return os_failure(errno, "fstat", path);
    }
    if (status.st_uid != in.owner && ::fchown(fd, in.owner, in.group) != 0) {
        return os_failure(errno, "fchown", path);
    }
    return {};
}

namespace {

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
