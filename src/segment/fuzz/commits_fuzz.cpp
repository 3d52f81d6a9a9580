// A log of commits that an adversary wrote, with repaired checksums, is refused with a failure that tells why, or its
// commits have the heap's uuid, follow each other, and change pages of the heap alone, within them.
#include "segment/commit/log_content.hpp"
#include "segment/fuzz/fuzz_support.hpp"

namespace {

using namespace holdfast;           // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::segment;  // NOLINT(google-build-using-namespace)

void examine(persist::storage& storage, const heap_paths& paths, const log_content& content,
             const superblock_on_media& before) {
    superblock_on_media after = content.superblock();
    seal(after);  // it says of the log what the superblock on media says, not what its record does
    must(validate(after, "log", 0));
    if (after.sequence != before.sequence + content.commits() ||
        std::memcmp(after.uuid, before.uuid, sizeof before.uuid) != 0) {
        finding("commits that do not follow the superblock");
    }
    const geometry shape = geometry_of(after);
    patch_reader reader(storage, paths, content);
    std::uint64_t last = 0;
    for (const log_content::patch& patch : content.patches()) {
        const std::uint64_t id = file_of(patch.place);
        const std::uint64_t bytes = id == objects_file_id ? after.objects_size : shape.file_size();
        const bool is_there = id == objects_file_id || id * shape.segment_size < after.frontier;
        if (!is_there || page_of_place(patch.place) >= bytes / base::page_size || patch.place < last ||
            patch.length == 0 || patch.offset + patch.length > base::page_size) {
            finding("a change outside of the heap");
        }
        last = patch.place;
        std::vector<std::byte> content_of(patch.length);
        must(reader.read(patch, content_of));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz_media heap = make_fuzz_heaps().at(1);
    constexpr std::array places{fuzz_place::record_headers, fuzz_place::record_superblocks, fuzz_place::record_entries,
                                fuzz_place::log};
    const fuzz_input input({data, size});
    fuzz_media media = heap;
    for (const auto& record : input.records) {
        fuzz_edit edit = fuzz_input::edit(record);
        edit.where = places.at(static_cast<std::size_t>(edit.where) % places.size());
        media.apply(edit);
    }
    media.repair(input.control & repair_log);
    simulator::simulated_storage storage(media.image(), 512);
    storage.run_in_peace();
    const heap_paths paths(std::string("/") + fuzz_media::directory);
    const auto said = media.read<superblock_on_media>(fuzz_media::superblock_id, 0);
    const auto content = log_content::read(storage, paths, said);
    if (content) {
        examine(storage, paths, content.value(), said);
    } else {
        expect_telling(content.error());
    }
    return 0;
}
