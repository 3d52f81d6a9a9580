// System calls on descriptors, repeated until they are complete.
//
// Each function repeats calls after EINTR and after short counts. A failure names the path and the operation. None of
// them syncs. Thread-safe, because all positions are explicit, except where a comment says that the file position is
// moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace holdfast::persist {

[[nodiscard]] base::result<std::uint64_t> size_of(int fd, const std::string& path);

/// Reads exactly buffer.size() bytes. Fails with `corrupt`, naming both sizes, where the file is shorter.
[[nodiscard]] base::result<void> read_fully(int fd, std::uint64_t offset, std::span<std::byte> buffer,
                                            const std::string& path);

/// Writes exactly data.size() bytes.
[[nodiscard]] base::result<void> write_fully(int fd, std::uint64_t offset, std::span<const std::byte> data,
                                             const std::string& path);

/// Writes the parts one after the other, from `offset` on.
[[nodiscard]] base::result<void> write_parts_fully(int fd, std::uint64_t offset,
                                                   std::span<const std::span<const std::byte>> parts,
                                                   const std::string& path);

/// Writes exactly data.size() bytes, which are durable when it returns (RWF_DSYNC, else fdatasync). Where the
/// descriptor bypasses the page cache and the file system refuses that, it stops to do so.
[[nodiscard]] base::result<void> write_durably(int fd, std::uint64_t offset, std::span<const std::byte> data,
                                               const std::string& path);

[[nodiscard]] base::result<void> set_size(int fd, std::uint64_t bytes, const std::string& path);

/// Reserves space by fallocate(), or by reserve_by_writing() where the file system has no fallocate().
[[nodiscard]] base::result<void> reserve_space(int fd, std::uint64_t offset, std::uint64_t length,
                                               const std::string& path);

/// Reserves space by writing zeros to the holes of the range, and behind the end of the file. Data stays as it is.
/// Moves the file position. Nobody else may write to the range meanwhile.
[[nodiscard]] base::result<void> reserve_by_writing(int fd, std::uint64_t offset, std::uint64_t length,
                                                    const std::string& path);

/// Punches a hole, or zeroes the range where the file system cannot punch, or has no space to. The size of the file
/// stays.
[[nodiscard]] base::result<void> punch(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path);

/// Zeroes the data of a range and leaves its holes alone. The size of the file stays. Moves the file position.
[[nodiscard]] base::result<void> zero_data(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path);

/// How copy_sparse() copies. If the kernel copies, the files may share blocks afterwards.
enum class copy_method { kernel_first, read_and_write };

/// Copies the data extents of `source` to the same offsets of the empty file `target`, which gets the same size; holes
/// stay holes. Moves the file position of `source`. Paths are for messages.
[[nodiscard]] base::result<void> copy_sparse(int source, const std::string& source_path, int target,
                                             const std::string& target_path,
                                             copy_method method = copy_method::kernel_first);

/// Makes `target` share all blocks of `source` (FICLONE). False where the file system cannot.
[[nodiscard]] base::result<bool> clone_blocks(int source, int target, const std::string& target_path);

}  // namespace holdfast::persist
