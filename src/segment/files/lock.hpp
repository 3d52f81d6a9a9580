// One writer, or any number of readers, have the heap open, by flock() on the heap's directory and on the file `lock`
// in it. A reader can lock the directory even on a read-only file system. The file, which may be missing, is for
// network file systems, which know only locks of files between machines, and names the last writer to people.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

/// A writer's lock ends when its owner releases it, even where a child of fork has the descriptor. A reader's ends with
/// the last descriptor: a child may go on reading.
class heap_lock {
public:
    enum class missing_file { make, do_without };
    enum class patience {
        none,    ///< `locked` names the holder
        enough,  ///< until the holder gives it back, or dies
    };

    heap_lock(heap_lock&& other) noexcept = default;
    heap_lock& operator=(heap_lock&& other) = delete;
    heap_lock(const heap_lock&) = delete;
    heap_lock& operator=(const heap_lock&) = delete;
    ~heap_lock();

    /// A second lock of the same process conflicts too.
    static base::result<heap_lock> acquire(persist::storage& storage, const std::string& directory,
                                           persist::access_mode mode, missing_file missing = missing_file::make,
                                           patience waits = patience::none);
    /// A writer's, for processes that take turns: others may have it from now on, until take_again().
    void let_go() noexcept;
    /// Waits.
    base::result<void> take_again() noexcept;

    /// Writes this process's id to the file, for people, and locks its first byte while it is the writer.
    void sign() const noexcept;
    /// Whether a process has the heap open for writing, and signed; false where the file is missing. Disturbs nobody.
    [[nodiscard]] static bool is_signed(persist::storage& storage, const std::string& directory);

private:
    heap_lock(std::unique_ptr<persist::file> directory, persist::access_mode mode) noexcept;
    base::result<void> acquire_file(persist::storage& storage, const std::string& path, missing_file missing,
                                    patience waits);
    void release(const std::unique_ptr<persist::file>& locked) const noexcept;

    std::unique_ptr<persist::file> directory_;
    std::unique_ptr<persist::file> file_;
    std::uint64_t owner_;  ///< base::process_identity()
    bool writer_;
};

}  // namespace holdfast::segment
