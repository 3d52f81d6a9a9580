// Every byte that reaches media by a system call goes through this interface. The crash simulator (tests/simulator),
// the fault injector and the recorder of the full-stack crash tests implement it, too. Durability:
//
//   - writes, resize, allocate and punch_hole are durable when a later sync() of the file has succeeded. Before that,
//     any subset of the written sectors may be on the media.
//   - creation, renaming and removal of names are durable when a later sync_directory() has succeeded.
//   - a process crash loses nothing that a call has completed.
//   - after a failed sync() the data may be lost, even if a later sync() succeeds.
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

/// A string literal, unique in the source, for a place that persists something.
using site = const char*;

/// Whether the sync itself has failed, and not what came before it.
[[nodiscard]] inline bool is_failed_sync(const base::failure& what) noexcept {
    return what.field == "fdatasync" || what.field == "fsync" || what.field == "msync";
}

enum class access_mode { read_only, read_write };

enum class shared_blocks { allowed, none };

/// Bits of chmod, before the umask.
struct permissions {
    std::uint32_t files = 0644;
    std::uint32_t directories = 0755;
};

/// As thread-safe as pread and pwrite.
class file {
public:
    file() = default;
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    virtual ~file() = default;

    [[nodiscard]] virtual const std::string& path() const noexcept = 0;
    virtual base::result<std::uint64_t> size() = 0;
    /// `corrupt` where the file is shorter.
    virtual base::result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) = 0;
    /// Extends the file where needed.
    virtual base::result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) = 0;
    /// write_at() of the parts one after the other.
    virtual base::result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                                            site where) = 0;
    /// Promises nothing. Safe beside all other calls.
    virtual void start_writeback() noexcept {}
    /// Writes dirty pages to the device and waits; promises no durability. Safe beside all other calls.
    virtual void write_back(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept {}
    /// Durable on return.
    virtual base::result<void> write_through(std::uint64_t offset, std::span<const std::byte> data, site where) {
        HF_TRY(write_at(offset, data, where));
        return sync(where);
    }
    /// Later writes go past the page cache where the file system can do that. Their offsets, lengths and addresses are
    /// multiples of a page.
    virtual void bypass_page_cache() noexcept {}
    /// Includes the metadata needed to read the earlier writes (fdatasync).
    virtual base::result<void> sync(site where) = 0;
    /// sync() of bytes that a shared mapping has at `mapped`, with what was stored there. Bytes elsewhere may stay as
    /// they are on media.
    virtual base::result<void> sync_mapped(std::uint64_t /*offset*/, std::span<const std::byte> /*mapped*/,
                                           site where) {
        return sync(where);
    }
    /// Of a mapping of persistent memory, by instructions alone: durable with the next fence_mapped() of the same
    /// thread, with what the file system needs to find it where the mapping has MAP_SYNC.
    virtual void flush_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site where) noexcept = 0;
    virtual void fence_mapped(site where) noexcept = 0;
    /// New bytes are a hole that reads as zero.
    virtual base::result<void> resize(std::uint64_t bytes, site where) = 0;
    /// Later writes there cannot fail with no_space. Extends the file where needed; content stays.
    virtual base::result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) = 0;
    /// Reads as zero afterwards. The size of the file stays.
    virtual base::result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) = 0;
    /// Its file system is memory, which sync() makes no more durable.
    [[nodiscard]] virtual bool is_in_memory() noexcept { return false; }
    /// Bytes charged by the file system.
    virtual base::result<std::uint64_t> charged() = 0;
    /// For mmap() and flock(); -1: none (simulator).
    [[nodiscard]] virtual int native_handle() const noexcept = 0;
};

/// Thread-safe. `missing`: nothing is at the path. All calls follow links on the way; those for directories also one at
/// the end of the path; remove(), rename(), link_target() and exists() act on the link itself.
class storage {
public:
    storage() = default;
    storage(const storage&) = delete;
    storage& operator=(const storage&) = delete;
    virtual ~storage() = default;

    /// Does not wait. `corrupt`: no regular file. A link at the path's end is not followed: another user may have made
    /// it. In a held directory: `permission` where the file belongs to another user, `corrupt` where it has a second
    /// name and is to be written, or where the path led to another file since the directory was held.
    virtual base::result<std::unique_ptr<file>> open(const std::string& path, access_mode mode) = 0;
    /// open() of what the path leads to, also by a link at its end.
    virtual base::result<std::unique_ptr<file>> open_target(const std::string& path, access_mode mode) {
        return open(path, mode);
    }
    /// open() for reading, of a file that says itself whether its content counts: it may be another one than before.
    virtual base::result<std::unique_ptr<file>> open_changing(const std::string& path) {
        return open(path, access_mode::read_only);
    }
    /// `already_exists` where the path exists.
    virtual base::result<std::unique_ptr<file>> create(const std::string& path, site where) = 0;
    virtual base::result<bool> exists(const std::string& path) = 0;
    virtual base::result<void> make_directory(const std::string& path, site where) = 0;
    /// `target` need not exist. As durable as a creation.
    virtual base::result<void> make_link(const std::string& path, const std::string& target, site where) = 0;
    /// Empty where the path is no link.
    virtual base::result<std::string> link_target(const std::string& path) = 0;
    /// Equal for two paths iff they lead to the same file or directory.
    virtual base::result<std::string> identity(const std::string& path) = 0;
    /// A number by the time and place of the file's creation: renaming and writing keep it, a copy and a new file of
    /// the same name have another one; a snapshot of a whole device has the same. 0: unknown.
    virtual base::result<std::uint64_t> file_identity(const std::string& /*path*/) { return std::uint64_t{0}; }
    /// Sorted, without "." and "..".
    virtual base::result<std::vector<std::string>> list(const std::string& directory) = 0;
    /// Replaces `to` atomically.
    virtual base::result<void> rename(const std::string& from, const std::string& to, site where) = 0;
    /// A file or an empty directory; succeeds where nothing is there.
    virtual base::result<void> remove(const std::string& path, site where) = 0;
    virtual base::result<void> sync_directory(const std::string& path, site where) = 0;
    /// Bytes left for files there; 2^64 - 1: unknown.
    virtual base::result<std::uint64_t> available(const std::string& /*directory*/) { return ~std::uint64_t{0}; }
    virtual base::result<bool> is_memory(const std::string& /*directory*/) { return false; }
    /// `unsupported` where files there lack an operation of this interface (hugetlbfs: system calls cannot write them).
    virtual base::result<void> check_place(const std::string& /*directory*/) { return {}; }
    /// Holes stay holes. `target` is new or empty. With `allowed`, blocks are shared where the file system can; a later
    /// write to one takes space, in either file.
    virtual base::result<void> copy_content(file& source, file& target, shared_blocks blocks, site where) = 0;

    // Held directories stay the same whatever happens to their names. The defaults are for a storage without owners and
    // moves.

    /// This storage, in which `directory` and all paths below it lead to the directory that is there now, wherever it
    /// is moved. Earlier holds stay. Uses one descriptor. `not_found` where nothing is there; `permission` where it
    /// belongs to another user than the directory held first.
    virtual base::result<std::shared_ptr<storage>> hold(const std::string& /*directory*/) { return unowned(); }
    virtual std::shared_ptr<storage> with(const permissions& /*of_new*/) { return unowned(); }
    virtual base::result<permissions> permissions_of(const std::string& /*directory*/, const std::string& /*path*/) {
        return permissions{};
    }
    /// For flock() on native_handle().
    virtual base::result<std::unique_ptr<file>> open_directory(const std::string& directory) {
        return base::os_failure(ENOSYS, "open", directory);
    }
    /// Other processes have had the right to make and remove files since: none is known from before.
    virtual void forget_files() noexcept {}
    /// In a child of fork, which uses the storage no more: closes its copies of what is open of the held directories,
    /// whatever other threads of the parent were doing. The objects stay as they are.
    virtual void leave_to_parent() noexcept {}
    /// Absolute, for people.
    virtual base::result<std::string> location(const std::string& directory) { return directory; }

protected:
    [[nodiscard]] std::shared_ptr<storage> unowned() noexcept { return {std::shared_ptr<storage>(), this}; }
};

[[nodiscard]] storage& posix_storage() noexcept;

}  // namespace holdfast::persist
