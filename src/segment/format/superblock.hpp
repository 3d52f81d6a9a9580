// Reading, validating and writing the superblock's two copies.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/format/geometry.hpp"
#include "segment/format/superblock_format.hpp"

namespace holdfast::segment {

/// A superblock of zeros with magic, version and size.
[[nodiscard]] superblock_on_media blank_superblock() noexcept;

/// Stores the checksum of the other fields.
void seal(superblock_on_media& block) noexcept;

[[nodiscard]] geometry geometry_of(const superblock_on_media& block) noexcept;
/// A number as failures show it: 0x and 16 digits.
[[nodiscard]] std::string hex(std::uint64_t value);
[[nodiscard]] std::string uuid_text(const std::uint8_t (&uuid)[16]);

/// Checks one copy alone: SB-1 to SB-6. `path` and `copy` name it in the failure.
base::result<void> validate(const superblock_on_media& block, const std::string& path, std::size_t copy);

/// Both copies as they are on media; a copy that is bad or absent holds the failure that says why.
struct superblock_copies_read {
    std::array<std::optional<superblock_on_media>, superblock_copies> good;
    std::array<base::failure, superblock_copies> bad;
    /// The copy has another format version and a good checksum: its version is no damage.
    std::array<bool, superblock_copies> other_version{};

    /// The good copy with the highest sequence; null where both are bad.
    [[nodiscard]] const superblock_on_media* newest() const noexcept;
};
base::result<superblock_copies_read> read_superblocks(persist::file& file);
/// Fails where the file belongs to another heap: somebody has exchanged files of an open heap. Comes before the heap
/// writes to the file.
base::result<void> check_uuid(const std::uint8_t (&found)[16], const superblock_on_media& ours,
                              const std::string& path);
/// Fails where a good copy in the superblock's file belongs to another heap.
base::result<void> check_own(const superblock_copies_read& there, const superblock_on_media& ours,
                             const std::string& path);

/// Writes both copies and syncs. Precondition: the journal that holds the same superblock is durable, so a crash that
/// tears both copies at once loses nothing (JRN-4).
base::result<void> write_superblocks(persist::file& file, const superblock_on_media& block);

}  // namespace holdfast::segment
