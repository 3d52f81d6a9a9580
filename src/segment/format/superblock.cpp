#include "segment/format/superblock.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

std::string hex(std::uint64_t value) { return fmt::format("{:#018x}", value); }

namespace {

using base::failure;
using base::failure_code;

std::uint64_t checksum_of(const superblock_on_media& block) noexcept {
    return base::checksum64(std::as_bytes(std::span{&block, 1}).first(offsetof(superblock_on_media, checksum)));
}

failure corrupt(const std::string& path, std::size_t copy, std::string_view field, std::string found,
                std::string expected) {
    return failure{failure_code::corrupt,
                   path,
                   fmt::format("copy {}: {}", copy, field),
                   std::move(found),
                   std::move(expected),
                   {},
                   0};
}

base::result<void> validate_identity(const superblock_on_media& block, const std::string& path, std::size_t copy) {
    if (std::memcmp(block.magic, superblock_magic, sizeof superblock_magic) != 0) {
        failure what = corrupt(path, copy, "magic", {}, "HOLDFAST");
        for (const char c : block.magic) {
            what.found += fmt::format("{:02x}", static_cast<unsigned char>(c));
        }
        what.code = failure_code::not_a_heap;
        return what;
    }
    // A newer format may place its checksum elsewhere, so the version comes first.
    if (block.version != format_version) {
        failure what =
            corrupt(path, copy, "format version", fmt::format("{}", block.version), fmt::format("{}", format_version));
        what.code = failure_code::version_unsupported;
        what.hint = "the heap was written by another version of the library";
        return what;
    }
    if (block.checksum != checksum_of(block)) {
        return corrupt(path, copy, "checksum", hex(block.checksum), hex(checksum_of(block)));
    }
    return {};
}

}  // namespace

superblock_on_media blank_superblock() noexcept {
    superblock_on_media block{};
    std::memcpy(block.magic, superblock_magic, sizeof superblock_magic);
    block.version = format_version;
    block.size = superblock_size;
    block.log_file_size = least_log_file_size;
    return block;
}

void seal(superblock_on_media& block) noexcept { block.checksum = checksum_of(block); }

geometry geometry_of(const superblock_on_media& block) noexcept { return geometry{block.segment_size}; }

std::string uuid_text(const std::uint8_t (&uuid)[16]) {
    std::string text;
    for (std::size_t i = 0; i < sizeof uuid; ++i) {
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
    return text;
}

base::result<void> validate(const superblock_on_media& block, const std::string& path, std::size_t copy) {
    // SB-1: magic, format version and checksum are right.
    HF_TRY(validate_identity(block, path, copy));
    // SB-2: the segment size is valid.
    if (!geometry_of(block).valid()) {
        return corrupt(path, copy, "segment size", fmt::format("{}", block.segment_size),
                       "a power of two from 2 MiB to 64 GiB");
    }
    // SB-3: sizes are multiples of their units, within the largest reservation; state, flags and key are known values.
    if (block.frontier == 0 || block.frontier % region_size != 0 || block.frontier > maximum_reservation) {
        return corrupt(path, copy, "frontier", fmt::format("{}", block.frontier),
                       "a positive multiple of 2 MiB, at most 2^46");
    }
    if (block.objects_size % base::page_size != 0 || block.objects_size > objects_area_size) {
        return corrupt(path, copy, "objects size", fmt::format("{}", block.objects_size),
                       "a multiple of 4096, at most 4 GiB");
    }
    if (block.reservation > maximum_reservation || (block.reservation & (block.reservation - 1)) != 0) {
        return corrupt(path, copy, "reservation", fmt::format("{}", block.reservation),
                       "0 or a power of two, at most 2^46");
    }
    if (block.state < heap_state::clean || block.state > heap_state::recovering) {
        return corrupt(path, copy, "state", fmt::format("{}", static_cast<std::uint32_t>(block.state)), "1, 2 or 3");
    }
    if ((block.flags & ~known_flags) != 0) {
        return corrupt(path, copy, "flags", hex(block.flags), fmt::format("no bits but {:#x}", known_flags));
    }
    if (block.heap_key == 0 || block.sequence == 0) {
        return corrupt(path, copy, "heap key and sequence", fmt::format("{}, {}", block.heap_key, block.sequence),
                       "not 0");
    }
    // SB-5: lanes have a power of two of slots, and one of three orders; where records may count, there are lanes. The
    //   clock has room to go on.
    const bool no_lanes = block.lane_slots == 0 && block.record_order == 0;
    const bool lanes = (block.lane_slots & (block.lane_slots - 1)) == 0 && block.lane_slots >= 64 &&
                       block.lane_slots <= 65536 && block.record_order >= 1 && block.record_order <= 3;
    if (!lanes && !(no_lanes && (block.flags & flag_lanes) == 0)) {
        return corrupt(path, copy, "lanes", fmt::format("{} slots, order {}", block.lane_slots, block.record_order),
                       "none, or a power of two from 64 to 65536 slots, order 1 to 3");
    }
    if (block.checkpoint_clock > largest_clock) {
        return corrupt(path, copy, "checkpoint clock", hex(block.checkpoint_clock),
                       fmt::format("at most {:#x}", largest_clock));
    }
    // SB-6: there are no more nodes than the format knows.
    if (block.nodes > maximum_nodes) {
        return corrupt(path, copy, "nodes", fmt::format("{}", block.nodes), fmt::format("at most {}", maximum_nodes));
    }
    // SB-7: lanes lie in the directories of nodes only where there are lanes and several nodes.
    if ((block.flags & flag_lanes_by_node) != 0 && (no_lanes || block.nodes < 2)) {
        return corrupt(path, copy, "flags", hex(block.flags),
                       fmt::format("lanes by node only with lanes and several nodes, not {}", block.nodes));
    }
    // SB-8: the log's files have a size that the format knows; its begin has room to go on.
    if (!base::is_power_of_two(block.log_file_size) || block.log_file_size < log::least_file_size ||
        block.log_file_size > log::largest_file_size) {
        return corrupt(path, copy, "log file size", fmt::format("{}", block.log_file_size),
                       fmt::format("a power of two from {} to {}", log::least_file_size, log::largest_file_size));
    }
    if (block.log_begin.position > largest_clock || block.log_begin.sequence > largest_clock) {
        return corrupt(path, copy, "begin of the log",
                       fmt::format("{}, {}", block.log_begin.position, block.log_begin.sequence),
                       fmt::format("at most {:#x}", largest_clock));
    }
    // SB-4: the base address is aligned to a region.
    if (block.base_address % region_size != 0) {
        return corrupt(path, copy, "base address", hex(block.base_address), "a multiple of 2 MiB");
    }
    return {};
}

const superblock_on_media* superblock_copies_read::newest() const noexcept {
    const superblock_on_media* best = nullptr;
    for (const auto& copy : good) {
        if (copy && (best == nullptr || copy->sequence > best->sequence)) {
            best = copy.get();
        }
    }
    return best;
}

/// A newer version or a file of something else says more than a bad checksum.
base::failure superblock_copies_read::why_none() const {
    failure what = bad[0].code == failure_code::corrupt ? bad[1] : bad[0];
    if (what.code == failure_code::corrupt) {
        what.hint = fmt::format("the other copy is bad too: {}", bad[0].message());
    }
    return what;
}

base::result<superblock_copies_read> read_superblocks(persist::file& file) {
    superblock_copies_read copies;
    HF_TRY_ASSIGN(const std::uint64_t size, file.size());
    for (std::size_t copy = 0; copy < superblock_copies; ++copy) {
        const std::uint64_t offset = copy * superblock_size;
        if (size < offset + superblock_size) {
            copies.bad.at(copy) = corrupt(file.path(), copy, "file size", fmt::format("{}", size),
                                          fmt::format("{}", superblock_copies * superblock_size));
            continue;
        }
        auto block = std::make_unique<superblock_on_media>();
        HF_TRY(file.read_at(offset, std::as_writable_bytes(std::span{block.get(), 1})));
        if (auto checked = validate(*block, file.path(), copy); checked) {
            copies.good.at(copy) = std::move(block);
        } else {
            copies.bad.at(copy) = std::move(checked).error();
            copies.other_version.at(copy) =
                copies.bad.at(copy).code == failure_code::version_unsupported && block->checksum == checksum_of(*block);
        }
    }
    return copies;
}

base::result<void> check_uuid(const std::uint8_t (&found)[16], const superblock_on_media& ours,
                              const std::string& path) {
    if (std::memcmp(found, ours.uuid, sizeof ours.uuid) == 0) {
        return {};
    }
    return base::failure{failure_code::corrupt,
                         path,
                         "uuid",
                         uuid_text(found),
                         uuid_text(ours.uuid),
                         "it is another heap's, put into the place of this one's; nothing was written to it",
                         0};
}

base::result<void> check_own(const superblock_copies_read& there, const superblock_on_media& ours,
                             const std::string& path) {
    for (const auto& copy : there.good) {
        if (copy) {
            HF_TRY(check_uuid(copy->uuid, ours, path));
        }
    }
    return {};
}

void keep_log(superblock_on_media& block, const superblock_on_media& of) noexcept {
    block.log_file_size = of.log_file_size;
    block.log_begin = of.log_begin;
    block.flags = (block.flags & ~flag_log) | (of.flags & flag_log);
}

void empty_log(superblock_on_media& block, const log::mark& begin, std::uint64_t file_size) noexcept {
    block.flags &= ~flag_log;
    block.log_file_size = file_size;
    block.log_begin = begin;
    block.log_begin.position = base::align_up(begin.position, file_size);
}

void replace_what_differs(superblock_on_media& old, const superblock_on_media& next) noexcept {
    std::array<std::uint32_t, sizeof next / sizeof(std::uint32_t)> wanted;
    std::memcpy(wanted.data(), &next, sizeof next);
    auto* const bytes = reinterpret_cast<std::byte*>(&old);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        std::byte* const word = bytes + i * sizeof(std::uint32_t);
        if (std::memcmp(word, &wanted[i], sizeof(std::uint32_t)) != 0) {
            std::memcpy(word, &wanted[i], sizeof(std::uint32_t));
        }
    }
}

base::result<void> write_superblocks(persist::file& file, const superblock_on_media& block) {
    const auto bytes = std::as_bytes(std::span{&block, 1});
    HF_TRY(file.write_at(0, bytes, "superblock.write.first"));
    HF_TRY(file.write_at(superblock_size, bytes, "superblock.write.second"));
    return file.sync("superblock.sync");
}

}  // namespace holdfast::segment
