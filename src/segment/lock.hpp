// Who has the heap open: one writer, or any number of readers. The lock is flock() on the heap's directory and on the
// file `lock` in it: the kernel gives both back when their owner dies, however it dies, so a dead owner's lock is no
// lock.
//
// The directory is what everybody has who opens the heap, a reader of a file system that cannot be written, too; the
// file is there for network file systems, which know locks of files alone between machines, and for people: it names
// the last writer. Where it is missing, the directory's lock is the lock.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

/// Held as long as it lives. Movable. A writer's lock is given back when its owner lets go, even where a child of fork
/// still has the descriptor; a reader's when the last of them does, for a child may go on reading.
class heap_lock {
public:
    /// What a writer does where there is no file `lock`.
    enum class missing_file { make, do_without };

    heap_lock(heap_lock&& other) noexcept = default;
    heap_lock& operator=(heap_lock&& other) = delete;
    heap_lock(const heap_lock&) = delete;
    heap_lock& operator=(const heap_lock&) = delete;
    ~heap_lock();

    /// Takes the lock at once or fails with `locked`, naming the process that holds it (as /proc/locks shows it).
    /// A second lock of the same process conflicts too. Nothing is written to the file.
    static base::result<heap_lock> acquire(persist::storage& storage, const std::string& directory,
                                           persist::access_mode mode, missing_file missing = missing_file::make);

    /// Writes this process's id to the file: for people, and for file systems whose locks /proc/locks does not show.
    /// Losing it costs nothing.
    void sign() const noexcept;

private:
    heap_lock(std::unique_ptr<persist::file> directory, persist::access_mode mode) noexcept;
    base::result<void> acquire_file(persist::storage& storage, const std::string& path, missing_file missing);
    void release(const std::unique_ptr<persist::file>& locked) const noexcept;

    std::unique_ptr<persist::file> directory_;
    std::unique_ptr<persist::file> file_;  ///< null where there is none
    pid_t owner_;
    bool writer_;
};

}  // namespace holdfast::segment
