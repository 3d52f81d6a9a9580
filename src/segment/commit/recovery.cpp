#include "segment/commit/recovery.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "persist/sync.hpp"
#include "segment/commit/commit_log.hpp"
#include "segment/commit/way_home.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using persist::access_mode;

/// Idempotent. Syncs, while the device already writes the other files.
base::result<void> carry_home(persist::storage& storage, const heap_paths& paths, const log_content& content,
                              const replay_watch& watch) {
    patch_reader reader(storage, paths, content);
    replay_meter meter(watch, content.patches());
    const bool starts_writeback = content.patches().size() >= writeback_pages;
    for (auto patches = content.patches(); !patches.empty();) {
        std::vector<std::shared_ptr<persist::file>> files;
        writeback device;
        while (!patches.empty() && files.size() < files_synced_at_once) {
            auto opened = storage.open(paths.file(file_of(patches.front().place)), access_mode::read_write);
            if (is_out_of_descriptors(opened) && !files.empty()) {
                break;  // the files that are open give theirs back
            }
            HF_TRY_ASSIGN(auto home, std::move(opened));
            HF_TRY(write_to_first_file(*home, reader, patches, "recover.home.write", meter));
            files.push_back(std::move(home));
            if (starts_writeback) {
                device.start(files.back());
            }
        }
        HF_TRY(persist::sync_together(files, "recover.home.sync"));
    }
    return {};
}

/// What the writer who died has begun in the log is durable, or erased, before anything of it goes home.
base::result<void> decide_end_of_log(persist::storage& storage, const heap_paths& paths, const log_content& content) {
    const auto known = [](const log::record&) { return base::result<void>(); };
    HF_TRY_ASSIGN(const log::mark end, log::log::decide_end(storage, log_options_of(paths, content.superblock()),
                                                            content.superblock().log_begin, known));
    if (end == content.end()) {
        return {};
    }
    return failure{failure_code::concurrent_modification,
                   paths.directory(),
                   "last record of the log",
                   fmt::format("{}", end.sequence),
                   fmt::format("{}", content.end().sequence),
                   "another process wrote to the log",
                   0};
}

/// The file of a heap that was copied may have no space yet.
base::result<void> with_room_hint(base::result<void> written) {
    if (!written && written.error().code == failure_code::no_space && written.error().hint.empty()) {
        written.error().hint = "make room, or open it read-only";
    }
    return written;
}

/// Rewrites the copy that is bad or older first, so that a write that is torn leaves the other one. A sync comes first:
/// a power failure could tear both copies where media lack what was written. After a crash the right copy is written
/// again, too.
base::result<void> heal_superblock(persist::storage& storage, const heap_paths& paths,
                                   const superblock_copies_read& copies, const recovered_state& state) {
    const auto is_right = [&](const std::unique_ptr<superblock_on_media>& there) {
        return there != nullptr && std::memcmp(there.get(), &state.superblock, sizeof state.superblock) == 0;
    };
    const auto age = [&](std::size_t copy) {
        const auto& there = copies.good.at(copy);
        return std::pair(is_right(there), there == nullptr ? 0 : there->sequence);
    };
    std::array<std::size_t, superblock_copies> order{0, 1};
    if (age(1) < age(0)) {
        std::swap(order[0], order[1]);
    }
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_write));
    HF_TRY(file->sync("recover.superblock.seen"));
    for (const std::size_t copy : order) {
        if (state.crashed || !is_right(copies.good.at(copy))) {
            HF_TRY(with_room_hint(file->write_at(copy * superblock_size, std::as_bytes(std::span{&state.superblock, 1}),
                                                 "recover.superblock.write")));
            HF_TRY(file->sync("recover.superblock.sync"));
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

/// Whether the last commit that the log has still stands, whole. What is behind it may be what a loss of power left of
/// a record, or damage of one that went home.
base::result<void> judge_torn_log(persist::storage& storage, const heap_paths& paths, const log_content& content) {
    std::vector<failure> problems;
    HF_TRY(verify_pages(storage, paths, content.superblock(), problems, 1, &content));
    if (problems.empty()) {
        return {};
    }
    const log::log_files files(storage, log_options_of(paths, content.superblock()).place);
    return failure{failure_code::corrupt,
                   files.path_of(content.end().position / files.file_size()),
                   fmt::format("record behind commit {}", content.superblock().sequence),
                   "damaged",
                   "whole, or of a commit of which nothing is home",
                   fmt::format("a commit that it carried is half way home: {}", problems.front().message()),
                   0};
}

base::result<void> make_last_commit_home(persist::storage& storage, const heap_paths& paths,
                                         const superblock_copies_read& copies, const log_content& content,
                                         recovered_state& state, const replay_watch& watch) {
    if (state.crashed) {
        if ((state.superblock.flags & flag_log) != 0) {
            HF_TRY(with_room_hint(decide_end_of_log(storage, paths, content)));
        }
        HF_TRY(with_room_hint(carry_home(storage, paths, content, watch)));
        empty_log(state.superblock, content.end(), state.superblock.log_file_size);
        seal(state.superblock);
    }
    HF_TRY(heal_superblock(storage, paths, copies, state));
    if (state.crashed) {
        remove_log_files(storage, paths, state.superblock);
    }
    return {};
}

}  // namespace

base::result<recovered_state> recover(persist::storage& storage, const heap_paths& of, access_mode mode,
                                      const recovery_wishes& wishes) {
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
    if (newest == nullptr) {
        return copies.why_none();
    }
    const heap_paths paths = of.with_nodes(newest->nodes);
    HF_TRY(check_node_directories(storage, paths, *newest));
    recovered_state state;
    for (const auto& bad : copies.bad) {
        // In a heap that was not closed, it is what a crash left of a write.
        if (bad.code != failure_code::none && newest->state == heap_state::clean) {
            state.warnings.push_back(bad);
        }
    }
    state.superblock = state.on_media = *newest;
    state.end = newest->log_begin;
    state.crashed = newest->state != heap_state::clean;
    log_content content;
    if (state.crashed) {
        HF_TRY_ASSIGN(content,
                      log_content::read(storage, paths, *newest, {.is_home = wishes.is_home, .last = wishes.last}));
        state.superblock = content.superblock();
        state.end = content.home_superblock().log_begin;
        state.replayed = {content.commits(), content.bytes()};
    }
    HF_TRY(check_files(storage, paths, state.superblock, mode));
    if (content.is_torn()) {
        HF_TRY(judge_torn_log(storage, paths, content));
    }
    const bool stays = wishes.oldest_in_use < state.superblock.sequence && state.crashed;
    if (mode == access_mode::read_write && stays) {
        if (!wishes.end_is_decided) {
            HF_TRY(with_room_hint(decide_end_of_log(storage, paths, content)));
        }
        state.overlay = std::move(content);
    } else if (mode == access_mode::read_write) {
        HF_TRY(make_last_commit_home(storage, paths, copies, content, state, wishes.watch));
        state.warnings.clear();
        HF_TRY(sync_names_of_new_heap(storage, paths, state));
    } else if (!content.patches().empty()) {
        state.overlay = std::move(content);
    }
    return state;
}

base::result<reader_state> open_and_recover(persist::storage& storage, const heap_paths& paths) {
    constexpr int attempts = 100;
    constexpr int attempts_beside = 8;
    constexpr int attempts_that_fail = 8;  // in each, the writer does no more than what it had decided before
    int failed = 0;
    for (int attempt = 1;; ++attempt) {
        reader_state found;
        // Where processes take turns all the time, no session lasts long enough.
        HF_TRY_ASSIGN(found.directories,
                      open_heap_directories(storage, paths, access_mode::read_only,
                                            attempt > attempts_beside ? neighbours::turns : neighbours::none));
        reader_table* const readers = found.directories->readers.get();
        const bool is_beside = readers != nullptr && found.directories->locks.empty();
        const std::uint64_t session = is_beside ? readers->session() : 0;
        const std::uint64_t durable = is_beside ? readers->durable() : recovery_wishes{}.last;
        auto state = recover(*found.directories->storage, paths, access_mode::read_only,
                             {.watch = {}, .last = durable, .is_home = is_beside ? readers->home() : 0});
        // The writer may have ended its session, or moved the log's beginning, while the first of them were read.
        const bool goes_on = !is_beside || found.directories->came_between_turns ||
                             (readers->session() == session && readers->writer() == writer_kind::beside);
        const bool is_whole = !is_beside || (goes_on && state && state->superblock.sequence == durable);
        failed += goes_on && !state ? 1 : 0;
        if (is_whole || failed == attempts_that_fail || (attempt == attempts && !state)) {
            HF_TRY_ASSIGN(found.state, std::move(state));
            return found;
        }
        if (attempt == attempts) {
            return failure{failure_code::locked,
                           paths.directory(),
                           "version",
                           fmt::format("{}", state->superblock.sequence),
                           fmt::format("{}", durable),
                           "its writer opens and closes the heap all the time",
                           0};
        }
    }
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
