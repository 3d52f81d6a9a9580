// Files as the heap sees them: every byte that reaches media by a system call goes through this interface.
//
// Why an interface and not the system calls themselves: the crash simulator (tests/simulator), the fault injector and
// the recorder of the full-stack crash tests implement it too. A call costs microseconds anyway; a virtual dispatch is
// noise.
//
// Durability, the contract that the simulator models:
//   - write_at, resize, allocate and punch_hole are durable when a later sync() of the same file returned success.
//     Until then any subset of the written sectors may be on media.
//   - creation, rename and removal of names are durable when a later sync_directory() of the directory succeeded.
//   - a process crash loses nothing that a call has completed.
//   - a failed sync() says nothing about the data; the caller must not call it again and believe the second answer.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace holdfast::persist {

/// Names a place in our code that persists something, so that the simulator and the mutants can single it out.
/// It must be a string literal, unique in the source: "commit.journal.sync".
using site = const char*;

enum class access_mode { read_only, read_write };

/// Whether a copy of a file may share blocks with it.
enum class shared_blocks { allowed, none };

/// Who may do what with files and directories: bits as chmod has them, of which a process's umask takes some away.
struct permissions {
    std::uint32_t files = 0644;
    std::uint32_t directories = 0755;
};

/// An open file. Not thread-safe beyond what pread and pwrite are.
class file {
public:
    file() = default;
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    virtual ~file() = default;

    [[nodiscard]] virtual const std::string& path() const noexcept = 0;
    /// Size in bytes.
    virtual base::result<std::uint64_t> size() = 0;
    /// Reads exactly buffer.size() bytes; a shorter file is a failure `corrupt` that says so.
    virtual base::result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) = 0;
    /// Writes exactly data.size() bytes, extending the file where needed.
    virtual base::result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) = 0;
    /// Writes the parts one after the other from offset on (pwritev); as write_at in all else.
    virtual base::result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                                            site where) = 0;
    /// Lets the device begin with what was written; promises nothing. Safe beside all other calls.
    virtual void start_writeback() noexcept {}
    /// Waits until the device has what of the range is in the page cache alone; promises nothing. Safe beside all other
    /// calls.
    virtual void write_back(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
    /// Waits until all earlier writes of this file are durable (fdatasync: with the metadata needed to read them).
    virtual base::result<void> sync(site where) = 0;
    /// Sets the size; new bytes are a hole that reads as zero.
    virtual base::result<void> resize(std::uint64_t bytes, site where) = 0;
    /// Reserves space, so that later writes there cannot fail for lack of it. Extends the file where needed; existing
    /// content stays.
    virtual base::result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) = 0;
    /// Gives the space back; the range reads as zero.
    virtual base::result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) = 0;
    /// Bytes charged by the file system.
    virtual base::result<std::uint64_t> charged() = 0;
    /// The descriptor for mmap and flock; -1 where there is none (simulator).
    [[nodiscard]] virtual int native_handle() const noexcept = 0;
};

/// A file system, or a model of one. Thread-safe.
class storage {
public:
    storage() = default;
    storage(const storage&) = delete;
    storage& operator=(const storage&) = delete;
    virtual ~storage() = default;

    /// Opens an existing file, never waits. `missing` where it is not there, `corrupt` where it is no regular file: a
    /// link at the end of the path is not followed, for somebody else may have put it there. In a directory that is
    /// held: `permission` where the file is another owner's, and `corrupt` where it has a second name and is to be
    /// written.
    virtual base::result<std::unique_ptr<file>> open(const std::string& path, access_mode mode) = 0;
    /// Creates a file that must not exist (`already_exists` otherwise).
    virtual base::result<std::unique_ptr<file>> create(const std::string& path, site where) = 0;
    virtual base::result<bool> exists(const std::string& path) = 0;
    virtual base::result<void> make_directory(const std::string& path, site where) = 0;
    /// Makes a name that leads to `target`, which need not be there (a symbolic link); as durable as a creation. Calls
    /// follow the links on the way, and those for directories one at the end, too; remove(), rename(), link_target()
    /// and exists() mean the name itself.
    virtual base::result<void> make_link(const std::string& path, const std::string& target, site where) = 0;
    /// Where the link leads; empty where the path is none. `missing` where nothing is there.
    virtual base::result<std::string> link_target(const std::string& path) = 0;
    /// What two paths share iff they lead to the same file or directory. `missing` where nothing is there.
    virtual base::result<std::string> identity(const std::string& path) = 0;
    /// A number of the file, from when and where it was made: renaming and writing keep it, a copy that is a new file
    /// has another one, and so has a file that is made some milliseconds after this one is gone. (A snapshot of a whole
    /// subvolume or device has the same.) 0 where nobody knows one. `missing` where nothing is there.
    virtual base::result<std::uint64_t> birth(const std::string& /*path*/) { return std::uint64_t{0}; }
    /// Names in a directory, sorted, without "." and "..".
    virtual base::result<std::vector<std::string>> list(const std::string& directory) = 0;
    /// Replaces `to` atomically.
    virtual base::result<void> rename(const std::string& from, const std::string& to, site where) = 0;
    /// Removes a file or an empty directory; no failure where it is not there.
    virtual base::result<void> remove(const std::string& path, site where) = 0;
    /// Waits until the names in the directory are durable.
    virtual base::result<void> sync_directory(const std::string& path, site where) = 0;
    /// Bytes that the file system has left for files in this directory; without end where nobody knows.
    virtual base::result<std::uint64_t> available(const std::string& /*directory*/) { return ~std::uint64_t{0}; }
    /// Fails with `unsupported` where files in this directory cannot do what this interface asks of them (hugetlbfs,
    /// where nothing can be written by a system call).
    virtual base::result<void> check_place(const std::string& /*directory*/) { return {}; }
    /// Copies content from `source` into the new or empty `target`, which stays sparse; shares blocks where it may and
    /// the file system can (FICLONE, copy_file_range). A later write to a shared block takes space, in either file.
    virtual base::result<void> copy_content(file& source, file& target, shared_blocks blocks, site where) = 0;

    // Directories that stay what they are, whatever happens to their names. Where these are not overridden, names never
    // lead elsewhere, and files belong to nobody.

    /// This storage, in which `directory`, and each path that begins with it, leads to the directory that is there now,
    /// for as long as the answer lives: wherever it is moved, and whatever the working directory is. What was held
    /// before stays held. One descriptor. `not_found` where nothing is there; `permission` where it is of another owner
    /// than the one held first.
    virtual base::result<std::shared_ptr<storage>> hold(const std::string& /*directory*/) { return unowned(); }
    /// This storage, with other permissions for what create() and make_directory() make.
    virtual std::shared_ptr<storage> with(const permissions& /*of_new*/) { return unowned(); }
    /// The permissions of a file and of a directory that are there.
    virtual base::result<permissions> permissions_of(const std::string& /*directory*/, const std::string& /*path*/) {
        return permissions{};
    }
    /// The directory itself, for flock() on native_handle().
    virtual base::result<std::unique_ptr<file>> open_directory(const std::string& directory) {
        return base::os_failure(ENOSYS, "open", directory);
    }
    /// Where the directory is now: a path in full, for people.
    virtual base::result<std::string> location(const std::string& directory) { return directory; }

protected:
    /// This storage, whose owner lives long enough.
    [[nodiscard]] std::shared_ptr<storage> unowned() noexcept { return {std::shared_ptr<storage>(), this}; }
};

/// The kernel's file systems.
[[nodiscard]] storage& posix_storage() noexcept;

}  // namespace holdfast::persist
