// A journal that an adversary wrote, with repaired checksums, is void, broken with a failure that tells why, or whole.
// A whole one lies within its file, belongs to the heap, and is equal when it is written again. Control bits from 8 on:
// the superblock that the reader knows: none, or of a commit before, the same, after.
#include <optional>

#include "segment/commit/journal.hpp"
#include "segment/fuzz/fuzz_support.hpp"

namespace {

using namespace holdfast;           // NOLINT(google-build-using-namespace): a program of one file
using namespace holdfast::segment;  // NOLINT(google-build-using-namespace)

struct read_back {
    std::vector<std::byte> pages;
    std::vector<page_run> runs;
    std::vector<std::uint64_t> sums;
};

read_back read_pages(persist::file& file, const journal_content& journal) {
    read_back all;
    all.pages.resize(journal.entries.size() * base::page_size);
    for (std::size_t i = 0; i < journal.entries.size(); ++i) {
        const auto page = std::span(all.pages).subspan(i * base::page_size, base::page_size);
        must(read_journal_page(file, journal, i, page));
        all.runs.push_back({entry_file(journal.entries[i]), entry_page(journal.entries[i]), 1, page.data()});
        all.sums.push_back(base::checksum64(page));
    }
    return all;
}

void examine_whole(persist::storage& storage, persist::file& file, const journal_state& state,
                   const superblock_on_media* heap) {
    const journal_content& journal = state.content;
    must(validate(journal.superblock, "journal", 0));
    if (heap != nullptr && (journal.superblock.sequence <= heap->sequence ||
                            std::memcmp(journal.superblock.uuid, heap->uuid, sizeof heap->uuid) != 0)) {
        finding("a commit that is home, or another heap's, is to be carried home");
    }
    if (journal.content_at + journal.entries.size() * base::page_size > must(file.size())) {
        finding("pages beyond the end of the journal");
    }
    const read_back pages = read_pages(file, journal);
    const auto copy = must(storage.create("/heap/again", "fuzz"));
    must(write_journal(*copy, journal.superblock, pages.runs, pages.sums));
    const journal_state again = must(read_journal(*copy, heap));
    const auto same_entry = [](const auto& a, const auto& b) { return a.place == b.place && a.checksum == b.checksum; };
    if (again.what != journal_state::kind::whole ||
        !std::ranges::equal(again.content.entries, journal.entries, same_entry)) {
        finding("a journal that was written is not read again");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const fuzz_media heap = make_fuzz_heaps().at(1);
    constexpr std::array places{fuzz_place::journal_header, fuzz_place::journal_superblock, fuzz_place::journal_table,
                                fuzz_place::journal};
    const fuzz_input input({data, size});
    fuzz_media media = heap;
    const unsigned control = input.control >> first_control_bit;
    for (const auto& record : input.records) {
        fuzz_edit edit = fuzz_input::edit(record);
        edit.where = places.at(static_cast<std::size_t>(edit.where) % places.size());
        media.apply(edit);
    }
    if ((control >> 2 & 3U) == 3) {
        media.file("journal").resize((control >> 4) * 1024);
    }
    media.repair(input.control & repair_journal);
    auto known = media.read<superblock_on_media>(fuzz_media::superblock_id, 0);
    known.sequence += (control & 3U) - 1;
    const superblock_on_media* const asked = (control & 3U) == 0 ? nullptr : &known;
    simulator::simulated_storage storage(media.image(), 512);
    storage.run_in_peace();
    const auto file = must(storage.open("/heap/journal", persist::access_mode::read_only));
    const auto state = read_journal(*file, asked);
    if (!state) {
        expect_telling(state.error());  // another version of its superblock
    } else if (state.value().what == journal_state::kind::broken) {
        expect_telling(state.value().why);
    } else if (state.value().what == journal_state::kind::whole) {
        examine_whole(storage, *file, state.value(), asked);
    }
    return 0;
}
