// Records of commits: their payloads, written and read (docs/format.md, "Commits").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Gathers the entries of one commit. Not thread-safe; the functions may throw std::bad_alloc.
class record_writer {
public:
    /// Takes the payload of a part. Must outlive the writer.
    using part_sink = base::function_ref<base::result<void>(std::span<const std::byte>)>;
    /// `most`: bytes of a payload.
    record_writer(std::uint64_t most, part_sink take_part);

    base::result<void> pages(std::uint64_t place, std::span<const std::byte> content);
    base::result<void> home(std::uint64_t place, std::uint64_t count);
    /// The bytes of a page that differ from those of `before`.
    base::result<void> difference(std::uint64_t place, const std::byte* page, const std::byte* before);

    /// The payload of the commit's own record.
    [[nodiscard]] std::vector<std::byte> finish(const superblock_on_media& superblock);

private:
    struct range {
        std::uint64_t begin;
        std::uint64_t end;
    };
    base::result<void> make_room(std::uint64_t bytes);
    void put(std::uint64_t place, entry_kind kind, std::uint64_t count);
    void find_ranges(const std::byte* page, const std::byte* before);

    std::uint64_t most_;
    part_sink take_part_;
    std::vector<std::byte> entries_;
    std::vector<range> ranges_;
    std::uint32_t parts_ = 0;
};

struct commit_entry {
    std::uint64_t place = 0;
    entry_kind kind = entry_kind::home;
    std::uint64_t count = 0;
    std::span<const std::byte> ranges;  ///< changed_range_on_media
    std::span<const std::byte> bytes;   ///< of the ranges, or of the pages
};

struct commit_head {
    superblock_on_media superblock;  ///< sealed
    std::uint64_t parts = 0;
};

/// Takes the head off the payload. `corrupt`, without a path, where there is none.
base::result<commit_head> take_head(std::span<const std::byte>& payload);
/// Takes the next entry off the payload, which is not empty. Its ranges lie in their page, one behind the other.
base::result<commit_entry> take_entry(std::span<const std::byte>& payload);

}  // namespace holdfast::segment
