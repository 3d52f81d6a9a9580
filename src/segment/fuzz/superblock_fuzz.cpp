// Of two copies that an adversary wrote each is good exactly where docs/format.md says so, the newest good one counts,
// and can be read, written and read again.
#include <bit>
#include <cstddef>

#include "segment/fuzz/fuzz_support.hpp"

namespace {

using namespace holdfast;           // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::segment;  // NOLINT(google-build-using-namespace)

/// The table of docs/format.md, written a second time.
bool is_valid(const superblock_on_media& block) {
    superblock_on_media sealed = block;
    seal(sealed);
    const auto region = 2 * base::mebibyte;
    const auto most = std::uint64_t{1} << 46U;
    return std::memcmp(block.magic, "HOLDFAST", 8) == 0 && block.version == 1 && block.checksum == sealed.checksum &&
           block.sequence != 0 && block.heap_key != 0 &&                                                         //
           std::has_single_bit(block.segment_size) && block.segment_size >= region &&                            //
           block.segment_size <= 64 * base::gibibyte &&                                                          //
           (block.reservation == 0 || (std::has_single_bit(block.reservation) && block.reservation <= most)) &&  //
           block.base_address % region == 0 &&                                                                   //
           block.frontier != 0 && block.frontier % region == 0 && block.frontier <= most &&                      //
           block.objects_size % 4096 == 0 && block.objects_size <= 4 * base::gibibyte &&                         //
           static_cast<std::uint32_t>(block.state) >= 1 && static_cast<std::uint32_t>(block.state) <= 3 &&       //
           block.flags <= 63 && block.checkpoint_clock <= (std::uint64_t{1} << 63U) && block.nodes <= 64 &&
           ((block.flags & 32U) == 0 || (block.lane_slots != 0 && block.nodes >= 2)) &&
           ((block.lane_slots == 0 && block.record_order == 0 && (block.flags & 2U) == 0) ||
            (std::has_single_bit(block.lane_slots) && block.lane_slots >= 64 && block.lane_slots <= 65536 &&
             block.record_order >= 1 && block.record_order <= 3));
}

void examine_copy(const superblock_copies_read& copies, std::size_t copy, const fuzz_media& media) {
    const std::uint64_t at = copy * superblock_size;
    const bool there = media.size_of(fuzz_media::superblock_id) >= at + superblock_size;
    const auto block = media.read<superblock_on_media>(fuzz_media::superblock_id, at);
    if ((copies.good.at(copy) != nullptr) != (there && is_valid(block))) {
        finding("the superblock is valid and called bad, or the other way round");
    }
    if (!copies.good.at(copy)) {
        return expect_telling(copies.bad.at(copy));
    }
    if (std::memcmp(&*copies.good.at(copy), &block, sizeof block) != 0) {
        finding("the superblock is not what stands on media");
    }
    if (copies.newest() == nullptr || copies.newest()->sequence < block.sequence) {
        finding("an older superblock counts");
    }
}

void examine(persist::file& file, const fuzz_media& media) {
    const superblock_copies_read copies = must(read_superblocks(file));
    for (std::size_t copy = 0; copy < superblock_copies; ++copy) {
        examine_copy(copies, copy, media);
    }
    if (const superblock_on_media* const newest = copies.newest(); newest != nullptr) {
        must(write_superblocks(file, *newest));
        const superblock_copies_read again = must(read_superblocks(file));
        for (const auto& copy : again.good) {
            if (!copy || std::memcmp(&*copy, newest, sizeof *newest) != 0) {
                finding("a superblock that was written is not read again");
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz_media heap = make_fuzz_heaps().back();
    constexpr std::array places{fuzz_place::superblock_fields, fuzz_place::superblock_fields, fuzz_place::superblocks};
    const fuzz_input input({data, size});
    fuzz_media media = heap;
    for (const auto& record : input.records) {
        fuzz_edit edit = fuzz_input::edit(record);
        edit.where = places.at(static_cast<std::size_t>(edit.where) % places.size());
        media.apply(edit);
    }
    media.repair(input.control & repair_superblocks);
    if ((input.control >> first_control_bit & 7U) == 7) {
        media.file("superblock").resize((input.control >> (first_control_bit + 3)) * 400U);
    }
    simulator::simulated_storage storage(media.image(), 512);
    storage.run_in_peace();
    const auto file = must(storage.open("/heap/superblock", persist::access_mode::read_write));
    examine(*file, media);
    return 0;
}
