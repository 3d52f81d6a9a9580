// Calls are repeated after EINTR and short counts, and fail with `limit` before the kernel sends SIGXFSZ. Only
// write_durably() syncs. Thread-safe: positions are explicit, but calls that look for holes may move the file position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace holdfast::persist {

/// What the process may make a file as long as (`ulimit -f`), in bytes; 2^63 - 1 without a limit.
[[nodiscard]] std::uint64_t longest_file() noexcept;
/// `limit` beyond longest_file(), where the kernel would end the process by SIGXFSZ.
[[nodiscard]] base::result<void> check_file_length(std::uint64_t bytes, const std::string& path);

[[nodiscard]] base::result<std::uint64_t> size_of(int fd, const std::string& path);

/// `corrupt` where the file is shorter.
[[nodiscard]] base::result<void> read_fully(int fd, std::uint64_t offset, std::span<std::byte> buffer,
                                            const std::string& path);

[[nodiscard]] base::result<void> write_fully(int fd, std::uint64_t offset, std::span<const std::byte> data,
                                             const std::string& path);

[[nodiscard]] base::result<void> write_parts_fully(int fd, std::uint64_t offset,
                                                   std::span<const std::span<const std::byte>> parts,
                                                   const std::string& path);

/// Durable on return (RWF_DSYNC, else fdatasync). The descriptor stops bypassing the page cache where the file system
/// refuses that.
[[nodiscard]] base::result<void> write_durably(int fd, std::uint64_t offset, std::span<const std::byte> data,
                                               const std::string& path);

[[nodiscard]] base::result<void> set_size(int fd, std::uint64_t bytes, const std::string& path);

/// fallocate(), or reserve_by_writing() where the file system has none.
[[nodiscard]] base::result<void> reserve_space(int fd, std::uint64_t offset, std::uint64_t length,
                                               const std::string& path);

struct byte_range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};
/// From `from` on (SEEK_DATA); an empty range at `limit` where there is none, all where the file system does not say.
[[nodiscard]] base::result<byte_range> next_data(int fd, std::uint64_t from, std::uint64_t limit,
                                                 const std::string& path);

/// Writes zeros to holes and behind the end of the file. Nobody else may write to the range meanwhile.
[[nodiscard]] base::result<void> reserve_by_writing(int fd, std::uint64_t offset, std::uint64_t length,
                                                    const std::string& path);

/// zero_data() where the file system cannot punch, or has no space to.
[[nodiscard]] base::result<void> punch(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path);

/// Leaves holes alone.
[[nodiscard]] base::result<void> zero_data(int fd, std::uint64_t offset, std::uint64_t length, const std::string& path);

/// If the kernel copies, the files may share blocks afterwards.
enum class copy_method { kernel_first, read_and_write };

/// `target` is empty, and gets the same size; holes stay holes.
[[nodiscard]] base::result<void> copy_sparse(int source, const std::string& source_path, int target,
                                             const std::string& target_path,
                                             copy_method method = copy_method::kernel_first);

/// Shares all blocks (FICLONE). False where the file system cannot.
[[nodiscard]] base::result<bool> clone_blocks(int source, int target, const std::string& target_path);

}  // namespace holdfast::persist
