// Who has the heap open: one writer, or any number of readers. The lock is flock() on the file `lock`: the kernel gives
// it back when its owner dies, however it dies, so a dead owner's lock is no lock.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.hpp"
#include "persist/descriptor.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

/// Held as long as it lives. Movable. A writer's lock is given back when its owner lets go, even where a child of fork
/// still has the descriptor; a reader's when the last of them does, for a child may go on reading.
class heap_lock {
public:
    heap_lock(heap_lock&& other) noexcept = default;
    heap_lock& operator=(heap_lock&& other) = delete;
    heap_lock(const heap_lock&) = delete;
    heap_lock& operator=(const heap_lock&) = delete;
    ~heap_lock();

    /// Takes the lock at once or fails with `locked`, naming the process that holds it (as /proc/locks shows it).
    /// A second lock of the same process conflicts too. Creates the file where a writer finds none.
    static base::result<heap_lock> acquire(const std::string& path, persist::access_mode mode);

private:
    heap_lock(persist::descriptor file, persist::access_mode mode) noexcept;
    persist::descriptor file_;
    pid_t owner_;
    bool writer_;
};

}  // namespace holdfast::segment
