// From media that an adversary wrote, with repaired checksums, recovery makes a failure that tells why, or one state:
// equal for a reader, a writer, a copy, and a second recovery. A reader changes nothing; a second recovery finds
// nothing to do; no segment changes its size. Control bits from 8 on: 2 for the heap that is damaged (crashed, with a
// commit in its log, closed); verify all pages; copy the heap, too.
#include "segment/commit/recovery.hpp"
#include "segment/creation/copy.hpp"
#include "segment/fuzz/fuzz_support.hpp"

namespace {

using namespace holdfast;           // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::segment;  // NOLINT(google-build-using-namespace)
using persist::access_mode;

constexpr unsigned control_heap = first_control_bit;
constexpr unsigned control_verify = 1U << (first_control_bit + 2);
constexpr unsigned control_copy = 3U << (first_control_bit + 2);
constexpr std::uint64_t sector = 512;

bool same(const superblock_on_media& a, const superblock_on_media& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// But for the log, which a writer has emptied.
bool same_but_for_log(const superblock_on_media& read, const superblock_on_media& written) {
    superblock_on_media emptied = read;
    keep_log(emptied, written);
    seal(emptied);
    return same(emptied, written);
}

std::size_t bad_pages(persist::storage& storage, const heap_paths& paths, const recovered_state& state) {
    std::vector<base::failure> problems;
    must(verify_pages(storage, paths, state.superblock, problems, 100, state.overlay ? &*state.overlay : nullptr));
    return problems.size();
}

void examine_copy(simulator::simulated_storage& storage, const heap_paths& paths, const recovered_state& state) {
    const heap_paths copied("/copy");
    must(copy_heap({storage, paths, state}, storage, copied.directory()));
    const auto recovered = must(recover(storage, copied, access_mode::read_only));
    if (recovered.crashed || recovered.superblock.sequence != state.superblock.sequence ||
        bad_pages(storage, copied, recovered) != bad_pages(storage, paths, state)) {
        finding("a copy differs from what was copied");
    }
}

/// False where the writer refuses a file.
bool examine_as_writer(simulator::simulated_storage& storage, const heap_paths& paths, const recovered_state& read) {
    const std::uint64_t before = storage.current().hash();
    auto outcome = recover(storage, paths, access_mode::read_write);
    if (!outcome && is_not_ours_to_write(outcome.error())) {
        if (storage.current().hash() != before) {
            finding("a writer changed what is not his: " + outcome.error().message());
        }
        return false;
    }
    const recovered_state written = must(std::move(outcome));
    if (!same_but_for_log(read.superblock, written.superblock)) {
        finding("reader and writer saw different states");
    }
    const std::uint64_t media = storage.current().hash();
    const recovered_state again = must(recover(storage, paths, access_mode::read_write));
    if (!same(written.superblock, again.superblock) || again.replayed.commits != 0) {
        finding("a second recovery saw another state");
    }
    if (storage.current().hash() != media) {
        finding(std::string("a second recovery found something to do: ") + storage.last_site());
    }
    return true;
}

void examine_close(simulator::simulated_storage& storage, const heap_paths& paths) {
    superblock_on_media superblock = must(recover(storage, paths, access_mode::read_only)).superblock;
    if (superblock.state == heap_state::running) {
        commit_log log;
        must(close_cleanly(storage, paths, log, superblock));
        if (!same(superblock, must(recover(storage, paths, access_mode::read_only)).superblock)) {
            finding("a heap that was closed is in another state");
        }
    }
}

void examine(const fuzz_media& media, unsigned control) {
    simulator::simulated_storage storage(media.image(), sector);
    storage.run_in_peace();
    const heap_paths paths(std::string("/") + fuzz_media::directory);
    const std::uint64_t before = storage.current().hash();
    const auto read = recover(storage, paths, access_mode::read_only);
    if (!read) {
        expect_telling(read.error());
        const auto written = recover(storage, paths, access_mode::read_write);
        if (written) {
            finding("a writer opens what a reader refuses: " + read.error().message());
        }
        return expect_telling(written.error());
    }
    const bool verify = read.value().overlay || (control & control_verify) != 0;
    const std::size_t bad = verify ? bad_pages(storage, paths, read.value()) : 0;
    if (storage.current().hash() != before) {
        finding("a reader changed the media");
    }
    if ((control & control_copy) == control_copy) {
        examine_copy(storage, paths, read.value());
    }
    if (!examine_as_writer(storage, paths, read.value())) {
        return;
    }
    if (verify && bad_pages(storage, paths, must(recover(storage, paths, access_mode::read_only))) != bad) {
        finding("reader and writer saw different pages");
    }
    examine_close(storage, paths);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::vector<fuzz_media> heaps = make_fuzz_heaps();
    const fuzz_input input({data, size});
    fuzz_media media = heaps.at((input.control >> control_heap & 3U) % heaps.size());
    for (const auto& record : input.records) {
        media.apply(fuzz_input::edit(record));
    }
    media.repair(input.control);
    examine(media, input.control);
    return 0;
}
