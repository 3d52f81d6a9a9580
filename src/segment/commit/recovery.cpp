#include "segment/commit/recovery.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "persist/mutant.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

base::result<void> check_target(const journal_content& journal, const journal_entry_on_media& entry,
                                const std::string& path) {
    const geometry shape = geometry_of(journal.superblock);
    const std::uint64_t file = entry_file(entry);
    const std::uint64_t pages_in_file = file == objects_file_id ? journal.superblock.objects_size / base::page_size
                                                                : shape.file_size() / base::page_size;
    const bool known_file =
        file == objects_file_id || file < base::divide_up(journal.superblock.frontier, shape.segment_size);
    if (!known_file || entry_page(entry) >= pages_in_file) {
        return failure{failure_code::corrupt, path, "entry", fmt::format("page {} of file {}", entry_page(entry), file),
                       "a page of the heap",  {},   0};
    }
    return {};
}

/// Idempotent.
base::result<void> apply(persist::storage& storage, const heap_paths& paths, persist::file& file,
                         const journal_content& journal) {
    for (const auto& entry : journal.entries) {
        HF_TRY(check_target(journal, entry, file.path()));
    }
    HF_TRY(check_files(storage, paths, journal.superblock, access_mode::read_write));
    std::array<std::byte, base::page_size> page{};
    std::size_t next = 0;
    while (next < journal.entries.size()) {  // sorted by file: each is opened once
        const std::uint64_t id = entry_file(journal.entries[next]);
        HF_TRY_ASSIGN(auto home, storage.open(paths.file(id), access_mode::read_write));
        for (; next < journal.entries.size() && entry_file(journal.entries[next]) == id; ++next) {
            HF_TRY(read_journal_page(file, journal, next, page));
            HF_TRY(home->write_at(entry_page(journal.entries[next]) * base::page_size, page, "recover.home.write"));
        }
        HF_TRY(home->sync("recover.home.sync"));
    }
    return {};
}

base::result<void> roll_forward(persist::storage& storage, const heap_paths& paths, persist::file& journal_file,
                                const journal_content& journal) {
    // The writer may have died before its sync: this process sees the journal, and media may lack it.
    HF_TRY(journal_file.sync("recover.journal.sync"));
    HF_TRY(apply(storage, paths, journal_file, journal));
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_write));
    return write_superblocks(*file, journal.superblock);
}

failure no_superblock(const superblock_copies_read& copies) {
    // A newer version or a file of something else says more than a bad checksum.
    const auto& worse = copies.bad[0].code == failure_code::corrupt ? copies.bad[1] : copies.bad[0];
    failure what = worse;
    if (what.code == failure_code::corrupt) {
        what.hint =
            fmt::format("the other copy is bad too: {}; the journal holds no commit either", copies.bad[0].message());
    }
    return what;
}

/// The file of a heap that was copied may have no space yet.
base::result<void> with_room_hint(base::result<void> written) {
    if (!written && written.error().code == failure_code::no_space && written.error().hint.empty()) {
        written.error().hint = "make room, or open it read-only";
    }
    return written;
}

/// Rewrites the copy that is bad or older, so that a write that is torn later leaves the other one. A sync comes first:
/// a power failure could tear both copies where media lack what was written. After a crash the right copy is written
/// again, too: the next commit overwrites the journal, which could bring it back.
base::result<void> heal_superblock(persist::storage& storage, const heap_paths& paths,
                                   const superblock_copies_read& copies, const recovered_state& state) {
    const auto is_right = [&](const std::unique_ptr<superblock_on_media>& there) {
        return there != nullptr && std::memcmp(there.get(), &state.superblock, sizeof state.superblock) == 0;
    };
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_write));
    HF_TRY(file->sync("recover.superblock.seen"));
    for (const bool right : {false, true}) {
        for (std::size_t copy = 0; copy < superblock_copies; ++copy) {
            if (is_right(copies.good.at(copy)) == right && (state.crashed || !right)) {
                HF_TRY(with_room_hint(file->write_at(copy * superblock_size,
                                                     std::as_bytes(std::span{&state.superblock, 1}),
                                                     "recover.superblock.write")));
                HF_TRY(file->sync("recover.superblock.sync"));
            }
        }
    }
    return {};
}

/// The writer may have died before the names were durable.
base::result<void> sync_names_of_new_heap(persist::storage& storage, const heap_paths& paths,
                                          const recovered_state& state) {
    const bool was_opened = (state.superblock.flags & (flag_lanes | flag_tracing)) != 0;
    if (!state.crashed || state.superblock.sequence != 1 || was_opened) {
        return {};
    }
    HF_TRY(storage.sync_directory(paths.directory(), "recover.directory.sync"));
    // The heap may have been moved since.
    static_cast<void>(storage.sync_directory(paths.parent(), "recover.parent.sync").ok());
    return {};
}

/// Whether the superblock's state still stands, whole.
base::result<void> judge_broken_journal(persist::storage& storage, const heap_paths& paths,
                                        const superblock_on_media& superblock, const failure& why) {
    if (superblock.state == heap_state::clean) {
        failure what = why;
        what.hint =
            "the heap was closed cleanly, so its journal should be void and intact: the file was damaged; nothing was "
            "changed";
        return what;
    }
    std::vector<failure> problems;
    HF_TRY(verify_pages(storage, paths, superblock, problems, 1));
    if (!HF_MUTANT("recover.verify_after_broken_journal") && !problems.empty()) {
        failure what = why;
        what.hint = fmt::format("the journal is damaged and the commit that it carried is half way home: {}",
                                problems.front().message());
        return what;
    }
    return {};
}

base::result<journal_state> read_journal_of(persist::storage& storage, const heap_paths& paths,
                                            const superblock_on_media* newest, std::unique_ptr<persist::file>& file,
                                            access_mode mode) {
    auto opened = storage.open(paths.journal(), mode);
    if (!opened) {
        failure what = std::move(opened).error();
        if (what.code == failure_code::missing) {
            what.field = "file";
            what.found = "nothing";
            what.expected = "the heap's journal";
            what.hint = "restore it; where the heap was closed cleanly, an empty file of this name will do";
        }
        return what;
    }
    file = std::move(opened).value();
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size == 0 && newest != nullptr && newest->state == heap_state::clean) {
        return journal_state{};
    }
    return read_journal(*file, newest);
}

base::result<heap_paths> paths_with_nodes(persist::storage& storage, const heap_paths& paths,
                                          const superblock_on_media* newest, const journal_state& journal) {
    const bool whole = journal.what == journal_state::kind::whole;
    const superblock_on_media* const says = newest != nullptr ? newest : whole ? &journal.content.superblock : nullptr;
    if (says == nullptr) {
        return paths;
    }
    if (whole && journal.content.superblock.nodes != says->nodes) {
        return failure{failure_code::corrupt,
                       paths.journal(),
                       "nodes",
                       fmt::format("{}", journal.content.superblock.nodes),
                       fmt::format("{}", says->nodes),
                       "the superblock says so",
                       0};
    }
    heap_paths found = paths.with_nodes(says->nodes);
    HF_TRY(check_node_directories(storage, found, *says));
    return found;
}

}  // namespace

base::result<recovered_state> recover(persist::storage& storage, const heap_paths& of, access_mode mode) {
    HF_TRY_ASSIGN(auto superblock_file, storage.open(of.superblock(), mode));
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(*superblock_file));
    superblock_file.reset();
    const superblock_on_media* const newest = copies.newest();
    for (std::size_t copy = 0; copy < superblock_copies; ++copy) {
        // Only the writer of a newer format knows what the other copy is worth. With a bad checksum the version may be
        // damage, and a good copy counts.
        if (copies.bad.at(copy).code == failure_code::version_unsupported &&
            (newest == nullptr || copies.other_version.at(copy))) {
            return copies.bad.at(copy);
        }
    }
    std::unique_ptr<persist::file> journal_file;
    HF_TRY_ASSIGN(journal_state journal, read_journal_of(storage, of, newest, journal_file, mode));
    HF_TRY_ASSIGN(const heap_paths paths, paths_with_nodes(storage, of, newest, journal));
    recovered_state state;
    if (newest != nullptr) {
        for (const auto& bad : copies.bad) {
            // In a heap that was not closed, it is what a crash left of a write.
            if (bad.code != failure_code::none && newest->state == heap_state::clean) {
                state.warnings.push_back(bad);
            }
        }
        state.superblock = *newest;
        state.crashed = newest->state != heap_state::clean;
    }
    if (journal.what == journal_state::kind::whole) {
        if (newest != nullptr && journal.content.superblock.sequence != newest->sequence + 1) {
            return failure{failure_code::corrupt,
                           paths.journal(),
                           "sequence",
                           fmt::format("{}", journal.content.superblock.sequence),
                           fmt::format("at most {}", newest->sequence + 1),
                           "the superblock is older than the journal's predecessor",
                           0};
        }
        state.crashed = true;
        state.rolled_forward = true;
        state.superblock = journal.content.superblock;
        if (mode == access_mode::read_only) {
            for (const auto& entry : journal.content.entries) {
                HF_TRY(check_target(journal.content, entry, paths.journal()));
            }
            state.overlay = std::move(journal.content);
        } else {
            HF_TRY(roll_forward(storage, paths, *journal_file, journal.content));
        }
    } else if (newest == nullptr) {
        return no_superblock(copies);
    } else if (journal.what == journal_state::kind::broken) {
        HF_TRY(check_files(storage, paths, state.superblock, mode));
        // A power cut may leave a half-written journal.
        HF_TRY(judge_broken_journal(storage, paths, state.superblock, journal.why));
        if (mode == access_mode::read_write) {
            // The next commit might write just the sectors that the journal lacks, and bring back a commit that was
            // given up, after the heap has shown the state before it.
            HF_TRY_ASSIGN(auto file, storage.open(paths.journal(), access_mode::read_write));
            HF_TRY(check_own_journal(*file, state.superblock));
            HF_TRY(write_void_journal(*file, state.superblock));
        }
    }
    HF_TRY(check_files(storage, paths, state.superblock, mode));
    if (mode == access_mode::read_write && !state.rolled_forward) {
        HF_TRY(heal_superblock(storage, paths, copies, state));
        state.warnings.clear();
        HF_TRY(sync_names_of_new_heap(storage, paths, state));
    }
    return state;
}

base::result<void> check_files(persist::storage& storage, const heap_paths& of, const superblock_on_media& superblock,
                               access_mode mode) {
    const heap_paths paths = of.with_nodes(superblock.nodes);
    const geometry shape = geometry_of(superblock);
    const auto check_size = [&](const std::string& path, std::uint64_t expected, bool exact) -> base::result<void> {
        HF_TRY_ASSIGN(auto file, storage.open(path, mode));
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        if (exact ? size != expected : size < expected) {
            return failure{failure_code::corrupt,
                           path,
                           "file size",
                           fmt::format("{}", size),
                           fmt::format("{}{}", exact ? "" : "at least ", expected),
                           "the file was truncated or exchanged",
                           0};
        }
        return {};
    };
    // SEG-1: every segment file below the frontier has its full size, and the objects file what the superblock says.
    const std::uint64_t segments = base::divide_up(superblock.frontier, shape.segment_size);
    for (std::uint64_t i = 0; i < segments; ++i) {
        HF_TRY(check_size(paths.segment(i), shape.file_size(), true));
    }
    return check_size(paths.objects(), superblock.objects_size, false);
}

}  // namespace holdfast::segment
