#include "api/lane_files.hpp"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "api/manager_core.hpp"
#include "lane/replay.hpp"
#include "lane/writer_counters.hpp"

namespace holdfast {

namespace {

std::string_view name_of(std::uint32_t order) noexcept {
    switch (static_cast<lane::record_order>(order)) {
        case lane::record_order::clock: return "clock";
        case lane::record_order::in_flight: return "in flight";
    }
    return "";
}

std::optional<writer_information> writer_of(std::span<const std::byte> page,
                                            const segment::superblock_on_media& superblock) {
    const auto found = lane::read_writer_counters(page, superblock.heap_key, superblock.incarnation);
    if (!found) {
        return std::nullopt;
    }
    const auto process = static_cast<pid_t>(found->process);
    const bool possible = process > 0 && static_cast<std::uint64_t>(process) == found->process;
    return writer_information{found->process, possible && (::kill(process, 0) == 0 || errno == EPERM),
                              protocol_counters_of(found->counters)};
}

}  // namespace

base::result<lane_information> read_lanes(const segment::superblock_on_media& superblock, persist::storage& storage,
                                          const segment::heap_paths& paths) {
    lane_information found;
    found.last_writer_atomic = (superblock.flags & (segment::flag_lanes | segment::flag_stale_sums)) != 0;
    found.pending = (superblock.flags & segment::flag_lanes) != 0 && superblock.state != segment::heap_state::clean;
    found.incarnations = superblock.incarnation;
    found.slots = superblock.lane_slots;
    found.order = name_of(superblock.record_order);
    found.checkpoint_clock = superblock.checkpoint_clock;
    HF_TRY_ASSIGN(const bool there, storage.exists(paths.lanes()));
    if (!there || superblock.lane_slots == 0) {
        return found;
    }
    HF_TRY_ASSIGN(auto file, storage.open(paths.lanes(), persist::access_mode::read_only));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size < lane::lanes_at) {
        return found;
    }
    found.lanes = (size - lane::lanes_at) / lane::lane_size(superblock.lane_slots);
    if (found.pending) {
        std::array<std::byte, lane::lanes_at> page{};
        HF_TRY(file->read_at(0, page));
        auto time = lane::read_checkpoint_time(page, superblock.heap_key);
        if (!time) {
            base::failure what = std::move(time).error();
            what.path = paths.lanes();
            return what;
        }
        found.checkpoint_clock = *time;
        found.writer = writer_of(page, superblock);
    }
    return found;
}

}  // namespace holdfast
