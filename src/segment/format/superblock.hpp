#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

[[nodiscard]] superblock_on_media blank_superblock() noexcept;

void seal(superblock_on_media& block) noexcept;

[[nodiscard]] geometry geometry_of(const superblock_on_media& block) noexcept;
/// 0x and 16 digits.
[[nodiscard]] std::string hex(std::uint64_t value);
[[nodiscard]] std::string uuid_text(const std::uint8_t (&uuid)[16]);

/// SB-1 to SB-8, of one copy. `path` and `copy` name it in the failure.
base::result<void> validate(const superblock_on_media& block, const std::string& path, std::size_t copy);

/// A copy that is bad or absent has a failure that says why. The copies, of 4 KiB each, are not on the stack, because
/// threads whose stack is small make a heap grow, too.
struct superblock_copies_read {
    std::array<std::unique_ptr<superblock_on_media>, superblock_copies> good;
    std::array<base::failure, superblock_copies> bad;
    /// The checksum is good: the version is no damage.
    std::array<bool, superblock_copies> other_version{};

    /// Null where both are bad.
    [[nodiscard]] const superblock_on_media* newest() const noexcept;
    /// Where both are bad.
    [[nodiscard]] base::failure why_none() const;
};
base::result<superblock_copies_read> read_superblocks(persist::file& file);
/// Somebody has exchanged files of an open heap.
base::result<void> check_uuid(const std::uint8_t (&found)[16], const superblock_on_media& ours,
                              const std::string& path);
base::result<void> check_own(const superblock_copies_read& there, const superblock_on_media& ours,
                             const std::string& path);

/// The log is empty, has no file, and will go on behind `begin` with one of its own.
void empty_log(superblock_on_media& block, const log::mark& begin, std::uint64_t file_size) noexcept;
/// What `block` says of the log is what `of` says.
void keep_log(superblock_on_media& block, const superblock_on_media& of) noexcept;
/// Other threads read what stays the same (uuid, flags, nodes, state) without a lock, so these words are not even
/// stored again.
void replace_what_differs(superblock_on_media& old, const superblock_on_media& next) noexcept;

/// Of a heap that is being made or copied, and has no name yet. Syncs.
base::result<void> write_superblocks(persist::file& file, const superblock_on_media& block);

}  // namespace holdfast::segment
