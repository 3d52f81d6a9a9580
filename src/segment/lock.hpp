// Who has the heap open: one writer, or any number of readers. The lock is flock() on the file `lock`: the kernel gives
// it back when its owner dies, however it dies, so a dead owner's lock is no lock.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "persist/descriptor.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

/// Held as long as it lives. Movable.
class heap_lock {
public:
    /// Takes the lock at once or fails with `locked`, naming the process that holds it (as /proc/locks shows it).
    /// A second lock of the same process conflicts too. Creates the file where a writer finds none.
    static base::result<heap_lock> acquire(const std::string& path, persist::access_mode mode);

private:
    explicit heap_lock(persist::descriptor file) noexcept : file_(std::move(file)) {}
    persist::descriptor file_;
};

}  // namespace holdfast::segment
