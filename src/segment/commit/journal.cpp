#include "segment/commit/journal.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/checksum.hpp"
#include "persist/mutant.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

constexpr std::uint64_t superblock_at = page_size;
constexpr std::uint64_t table_at = 2 * page_size;

std::uint64_t table_size(std::uint64_t entry_count) noexcept {
    return base::align_up(entry_count * sizeof(journal_entry_on_media), page_size);
}

std::uint64_t checksum_of(const journal_header_on_media& header) noexcept {
    return base::checksum64(std::as_bytes(std::span{&header, 1}).first(offsetof(journal_header_on_media, checksum)));
}

journal_header_on_media make_header(const superblock_on_media& superblock, std::uint64_t entry_count) noexcept {
    journal_header_on_media header{};
    std::memcpy(header.magic, journal_magic, sizeof journal_magic);
    header.version = journal_version;
    std::memcpy(header.uuid, superblock.uuid, sizeof header.uuid);
    header.sequence = superblock.sequence;
    header.entry_count = entry_count;
    return header;
}

std::vector<std::byte> make_table(const superblock_on_media& superblock, std::span<const page_run> runs,
                                  std::span<const std::uint64_t> sums) {
    std::vector<std::byte> table(page_size + table_size(sums.size()));
    std::memcpy(table.data(), &superblock, sizeof superblock);
    std::size_t index = 0;
    for (const page_run& run : runs) {
        for (std::uint64_t i = 0; i < run.count; ++i, ++index) {
            const journal_entry_on_media entry{run.file << entry_page_bits | (run.page + i), sums[index]};
            std::memcpy(table.data() + page_size + index * sizeof entry, &entry, sizeof entry);
        }
    }
    return table;
}

/// A full disk shows before anything is written. A file that is long enough has its space.
base::result<void> reserve(persist::file& file, std::uint64_t bytes) {
    HF_TRY_ASSIGN(const std::uint64_t size, file.size());
    if (size < bytes) {
        HF_TRY(file.allocate(size, bytes - size, "journal.allocate"));
    }
    return {};
}

/// The device writes one piece while the next is copied.
base::result<void> write_content(persist::file& file, std::span<const std::byte> table, std::span<const page_run> runs,
                                 std::span<const std::uint64_t> sums) {
    constexpr std::uint64_t piece = std::uint64_t{8} << 20U;
    std::uint64_t offset = superblock_at;
    std::uint64_t given = 0;
    std::vector<std::span<const std::byte>> parts{table};
    page_copies copies(sums.size());
    const auto write = [&]() -> base::result<void> {
        parts.push_back(copies.bytes());
        HF_TRY(file.write_gather(offset, parts, "journal.write.content"));
        for (const auto& part : parts) {
            offset += part.size();
        }
        parts.clear();
        copies.clear();
        if (offset - given >= piece) {
            file.start_writeback();
            given = offset;
        }
        return {};
    };
    for (const page_run& run : runs) {
        for (std::uint64_t done = 0; done < run.count;) {
            const page_run part = run.part(done, std::min(run.count - done, copies.room()));
            HF_TRY(copies.add(part, sums.first(part.count), [&](std::uint64_t index, std::span<std::byte>) {
                return base::result<void>(stored_meanwhile(file.path(), part.page + index));
            }));
            sums = sums.subspan(part.count);
            done += part.count;
            if (copies.room() == 0) {
                HF_TRY(write());
            }
        }
    }
    return parts.empty() && copies.bytes().empty() ? base::result<void>() : write();
}

failure broken(const std::string& path, std::string_view field, std::string found, std::string expected) {
    return failure{failure_code::corrupt, path, std::string(field), std::move(found), std::move(expected), {}, 0};
}

}  // namespace

base::result<void> write_journal(persist::file& file, const superblock_on_media& superblock,
                                 std::span<const page_run> runs, std::span<const std::uint64_t> sums) {
    const std::vector<std::byte> table = make_table(superblock, runs, sums);
    HF_TRY(reserve(file, superblock_at + table.size() + sums.size() * page_size));
    HF_TRY(write_content(file, table, runs, sums));

    journal_header_on_media header = make_header(superblock, sums.size());
    header.table_checksum = base::checksum64(table, superblock.sequence);
    header.checksum = checksum_of(header);
    // A process that dies before this leaves the old, void header.
    return file.write_at(0, std::as_bytes(std::span{&header, 1}), "journal.write.header");
}

base::result<void> read_written_page(persist::file& file, std::size_t pages, std::size_t index,
                                     std::span<std::byte> page) {
    return file.read_at(table_at + table_size(pages) + index * page_size, page);
}

base::result<void> check_own_journal(persist::file& file, const superblock_on_media& superblock) {
    journal_header_on_media header{};
    HF_TRY_ASSIGN(const std::uint64_t size, file.size());
    if (size < sizeof header) {
        return {};
    }
    HF_TRY(file.read_at(0, std::as_writable_bytes(std::span{&header, 1})));
    const bool sound =
        std::memcmp(header.magic, journal_magic, sizeof journal_magic) == 0 && header.checksum == checksum_of(header);
    return sound ? check_uuid(header.uuid, superblock, file.path()) : base::result<void>();
}

base::result<void> write_void_journal(persist::file& file, const superblock_on_media& superblock) {
    journal_header_on_media header = make_header(superblock, 0);
    header.flags = journal_flag_void;
    header.checksum = checksum_of(header);
    HF_TRY(file.write_at(0, std::as_bytes(std::span{&header, 1}), "journal.void.write"));
    HF_TRY(file.resize(page_size, "journal.void.resize"));
    return file.sync("journal.void.sync");
}

namespace {

/// The caller turns a failure into a broken journal.
base::result<journal_content> read_content(persist::file& file, const journal_header_on_media& header,
                                           std::uint64_t file_size) {
    journal_content content;
    // JRN-2: superblock and table are inside the file and match the table checksum; the superblock is valid and bears
    //   the header's sequence and uuid; places ascend, so that no page is there twice.
    const auto count_fits = header.entry_count <= file_size / page_size;
    if (!count_fits || file_size < table_at + table_size(header.entry_count) + header.entry_count * page_size) {
        return broken(file.path(), "file size", fmt::format("{}", file_size),
                      fmt::format("{} pages of content", header.entry_count));
    }
    std::vector<std::byte> table(page_size + table_size(header.entry_count));
    HF_TRY(file.read_at(superblock_at, table));
    const std::uint64_t sum = base::checksum64(table, header.sequence);
    if (!HF_MUTANT("recover.journal.table_checksum") && sum != header.table_checksum) {
        return broken(file.path(), "table checksum", hex(sum), hex(header.table_checksum));
    }
    std::memcpy(&content.superblock, table.data(), sizeof content.superblock);
    HF_TRY(validate(content.superblock, file.path(), 0));
    if (content.superblock.sequence != header.sequence) {
        return broken(file.path(), "sequence", fmt::format("{}", content.superblock.sequence),
                      fmt::format("{}", header.sequence));
    }
    if (std::memcmp(content.superblock.uuid, header.uuid, sizeof header.uuid) != 0) {
        return broken(file.path(), "uuid of the superblock", uuid_text(content.superblock.uuid),
                      uuid_text(header.uuid));
    }
    content.entries.resize(header.entry_count);
    if (header.entry_count != 0) {
        std::memcpy(content.entries.data(), table.data() + page_size,
                    header.entry_count * sizeof(journal_entry_on_media));
    }
    const auto descends = [](const auto& one, const auto& next) { return one.place >= next.place; };
    if (std::ranges::adjacent_find(content.entries, descends) != content.entries.end()) {
        return broken(file.path(), "table", "a page after a later one, or twice", "pages in ascending order");
    }
    content.content_at = superblock_at + table.size();
    // JRN-3: every page of content matches its entry's checksum.
    std::vector<std::byte> page(page_size);
    for (std::size_t i = 0; i < content.entries.size(); ++i) {
        HF_TRY(read_journal_page(file, content, i, page));
    }
    return content;
}

}  // namespace

base::result<journal_state> read_journal(persist::file& file, const superblock_on_media* heap) {
    journal_state state;
    HF_TRY_ASSIGN(const std::uint64_t size, file.size());
    const auto give_up = [&state](failure why) {
        state.what = journal_state::kind::broken;
        state.why = std::move(why);
        return state;
    };
    if (size < page_size) {
        return give_up(broken(file.path(), "file size", fmt::format("{}", size), "at least 4096"));
    }
    journal_header_on_media header{};
    HF_TRY(file.read_at(0, std::as_writable_bytes(std::span{&header, 1})));
    // JRN-1: the header has magic, version, the heap's uuid, and its checksum.
    if (std::memcmp(header.magic, journal_magic, sizeof journal_magic) != 0 || header.version != journal_version) {
        return give_up(broken(file.path(), "magic and version",
                              fmt::format("{:.8} {}", std::string_view(header.magic, 8), header.version),
                              fmt::format("HFJOURNL {}", journal_version)));
    }
    if (!HF_MUTANT("recover.journal.header_checksum") && header.checksum != checksum_of(header)) {
        return give_up(broken(file.path(), "header checksum", hex(header.checksum), hex(checksum_of(header))));
    }
    if (heap != nullptr && std::memcmp(header.uuid, heap->uuid, sizeof header.uuid) != 0) {
        return give_up(broken(file.path(), "uuid", uuid_text(header.uuid), uuid_text(heap->uuid)));
    }
    state.sequence = header.sequence;
    if ((header.flags & journal_flag_void) != 0) {
        return state;
    }
    if (heap != nullptr && header.sequence <= heap->sequence) {
        return state;  // its commit is home already
    }
    auto content = read_content(file, header, size);
    if (!content) {
        if (content.error().code == failure_code::corrupt) {
            return give_up(std::move(content).error());
        }
        return std::move(content).error();
    }
    state.what = journal_state::kind::whole;
    state.content = std::move(content).value();
    return state;
}

base::result<void> read_journal_page(persist::file& file, const journal_content& journal, std::size_t index,
                                     std::span<std::byte> page) {
    HF_TRY(file.read_at(journal.content_at + index * page_size, page));
    const std::uint64_t sum = base::checksum64(page);
    if (!HF_MUTANT("recover.journal.page_checksum") && sum != journal.entries[index].checksum) {
        return broken(file.path(), fmt::format("checksum of page {} of the content", index), hex(sum),
                      hex(journal.entries[index].checksum));
    }
    return {};
}

}  // namespace holdfast::segment
