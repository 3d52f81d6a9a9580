#include "api/lane_files.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/manager_core.hpp"
#include "lane/head.hpp"
#include "lane/replay.hpp"
#include "segment/files/lane_places.hpp"
#include "segment/files/lock.hpp"

namespace holdfast {

namespace {

std::string_view name_of(std::uint32_t order) noexcept {
    switch (static_cast<lane::record_order>(order)) {
        case lane::record_order::clock: return "clock";
        case lane::record_order::in_flight: return "in flight";
        case lane::record_order::logged: return "logged";
    }
    return "";
}

std::string_view durability_of(const segment::superblock_on_media& superblock) noexcept {
    if ((superblock.flags & segment::flag_tracing) != 0) {
        return "collect";
    }
    if ((superblock.flags & segment::flag_lanes) != 0) {
        return "atomic";
    }
    // Closed: neither flag is left, and only the first open in `atomic` numbers incarnations.
    const bool changed_in_place = (superblock.flags & segment::flag_stale_checksums) != 0;
    return !changed_in_place ? "commit" : superblock.incarnation == 0 ? "collect" : "atomic";
}

std::optional<writer_information> writer_of(std::span<const std::byte> page,
                                            const segment::superblock_on_media& superblock, bool is_alive) {
    const auto found = lane::read_writer_counters(page, superblock.heap_key, superblock.incarnation);
    if (!found) {
        return std::nullopt;
    }
    return writer_information{found->process, is_alive, protocol_counters_of(found->counters)};
}

/// Fewer files where one is missing or was never finished.
base::result<std::vector<std::unique_ptr<persist::file>>> files_of(const segment::superblock_on_media& superblock,
                                                                   persist::storage& storage,
                                                                   const segment::lane_places& places) {
    std::vector<std::unique_ptr<persist::file>> files;
    for (std::uint32_t number = 0; number < places.files(); ++number) {
        HF_TRY_ASSIGN(const bool there, storage.exists(places.path(number)));
        if (!there) {
            break;
        }
        HF_TRY_ASSIGN(auto file, storage.open(places.path(number), persist::access_mode::read_only));
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        bool is_whole = size >= lane::lanes_at;
        if (places.is_by_node()) {
            HF_TRY_ASSIGN(is_whole, segment::is_file_of_node(*file, superblock, number));
        }
        if (!is_whole) {
            break;
        }
        files.push_back(std::move(file));
    }
    return files;
}

}  // namespace

base::result<lane_information> read_lanes(const segment::superblock_on_media& superblock, persist::storage& storage,
                                          const segment::heap_paths& paths) {
    lane_information found;
    found.last_writer_atomic = (superblock.flags & (segment::flag_lanes | segment::flag_stale_checksums)) != 0;
    found.last_durability = durability_of(superblock);
    found.pending = (superblock.flags & segment::flag_lanes) != 0 && superblock.state != segment::heap_state::clean;
    found.incarnations = superblock.incarnation;
    found.slots = superblock.lane_slots;
    found.order = name_of(superblock.record_order);
    found.checkpoint_clock = superblock.checkpoint_clock;
    if (superblock.lane_slots == 0) {
        return found;
    }
    const segment::lane_places places = segment::places_of_lanes(superblock, paths);
    HF_TRY_ASSIGN(const std::vector<std::unique_ptr<persist::file>> files, files_of(superblock, storage, places));
    if (files.size() < places.files()) {
        return found;
    }
    std::vector<std::uint64_t> sizes;
    for (const auto& file : files) {
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        sizes.push_back(size);
    }
    found.lanes = places.lanes_in(sizes);
    if (found.pending) {
        std::array<std::byte, lane::lanes_at> page{};
        HF_TRY(files.front()->read_at(0, page));
        auto last = lane::read_checkpoint(page, superblock.heap_key);
        if (!last) {
            base::failure what = std::move(last).error();
            what.path = places.path(0);
            return what;
        }
        found.checkpoint_clock = last->time;
        found.writer = writer_of(page, superblock, segment::heap_lock::is_signed(storage, paths.directory()));
    }
    return found;
}

}  // namespace holdfast
