#include "heap/heap.hpp"

#include <chrono>
#include <utility>

#include "heap/heap_opening.hpp"
#include "heap/registry.hpp"
#include "segment/creation/copy.hpp"

namespace holdfast::heap {

engine::engine(std::unique_ptr<segment::heap_files> files)
    : heap_operations(std::move(files)), space_(*this), undo_(*this, space_), forks_(*this), inspection_(*this) {}

engine::~engine() {
    if (has_files()) {
        unregister_engine(*this);
    }
}

void engine::leave_to_parent() noexcept {
    unregister_engine(*this);
    forks_.leave_to_parent();
}

base::result<std::unique_ptr<engine>> engine::create(const std::string& path, const engine_options& options) {
    return heap_opening(path, options).create();
}

base::result<std::unique_ptr<engine>> engine::open(const std::string& path, persist::access_mode mode,
                                                   const engine_options& options,
                                                   const std::shared_ptr<segment::heap_directories>& directories) {
    return heap_opening(path, options).open(mode, directories);
}

base::result<std::unique_ptr<engine>> engine::open_or_create(const std::string& path, const engine_options& opened_with,
                                                             const engine_options& created_with) {
    return heap_opening(path, opened_with).open_or_create(created_with);
}

base::result<std::unique_ptr<engine>> engine::create_scratch(const engine_options& options) {
    return heap_opening({}, options).create_scratch();
}

base::result<std::unique_ptr<engine>> engine::read_anew(std::unique_ptr<engine> old) {
    unregister_engine(*old);
    const std::string path = old->files().paths().directory();
    auto files = old->take_files();
    old.reset();
    const engine_options defaults;
    return heap_opening(path, defaults).read_anew(std::move(files));
}

base::result<segment::commit_statistics> engine::commit() {
    HF_TRY(check_process());
    HF_TRY(refuse_scratch());
    if (files().shared()) {
        const auto start = std::chrono::steady_clock::now();
        chosen().on_blocks().write_back();
        HF_TRY(check_health());
        HF_TRY(files().session().sync());
        segment::commit_statistics statistics;
        statistics.total_ns = statistics.sync_ns = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
        return statistics;
    }
    return space_.commit(false);
}

base::result<void> engine::close(bool commit_changes) {
    HF_TRY(check_process());
    if (read_only() || files().location().is_scratch()) {
        return {};
    }
    blocks().slabs().source().free_guards();
    if (destinations() != nullptr) {  // null while create() formats the heap
        destinations()->cancel_all();
    }
    if (durability() != durability_kind::commit) {
        if (auto health = check_health(); !health) {
            return commit_changes ? std::move(health) : close_poisoned();
        }
        return close_shared();
    }
    if (!commit_changes) {
        return files().commits().close_unchanged();
    }
    blocks().slabs().write_bitmaps();
    blocks().flush_extents();
    const segment::free_runs free = free_space_of(extents());
    HF_TRY_ASSIGN(const bool unchanged, files().unchanged(free));
    if (!unchanged) {
        HF_TRY(space_.commit(false));
    }
    return files().close_cleanly();
}

/// Nobody knows what the storage kept. The next open replays what was acknowledged.
base::result<void> engine::close_poisoned() {
    blocks().close();
    chosen().stop();
    return {};
}

base::result<void> engine::close_shared() {
    HF_TRY(space_.shorten(kept_at_the_end(files().frontier())));
    std::uint64_t clock = files().superblock().checkpoint_clock;
    if (atomic() != nullptr) {
        atomic()->checkpoint();
        HF_TRY(check_health());
        clock = atomic()->lanes().checkpoint_time();
    } else {
        chosen().on_blocks().write_back();  // the next open does not trace
    }
    HF_TRY(files().session().close(clock));
    blocks().close();
    chosen().stop();
    return {};
}

base::result<void> engine::snapshot(const std::string& destination) {
    segment::recovered_state state;
    if (!read_only()) {
        HF_TRY(commit());
        if (!files().shared()) {
            HF_TRY(files().commits().checkpoint());
        }
    }
    const std::uint64_t records = record_count(*this);
    const segment::reader_table::standstill until_copied = files().readers().standstill();
    HF_TRY_ASSIGN(state, files().readers().state_on_media());
    if (durability() == durability_kind::atomic) {
        state.superblock.flags &= ~segment::flag_lanes;  // commit() brought all records into the files
        state.superblock.checkpoint_clock = atomic()->lanes().checkpoint_time();
    }
    if (durability() == durability_kind::collect) {
        state.superblock.flags &= ~segment::flag_tracing;  // commit() wrote the bitmaps
    }
    const auto is_unchanged = [&]() -> base::result<void> {
        if (record_count(*this) == records) {
            return {};
        }
        return base::failure{base::failure_code::concurrent_modification,
                             files().paths().directory(),
                             "snapshot",
                             "calls of other threads while the heap was copied",
                             "all other threads standing still",
                             "there is no snapshot: it could hold a part of a transaction",
                             0};
    };
    // A store to a block that the file system shares with a copy takes space, and ends in SIGBUS on a full disk.
    return segment::copy_heap({files().storage(), files().paths(), state, is_unchanged}, persist::posix_storage(),
                              destination, {},
                              files().shared() ? persist::shared_blocks::none : persist::shared_blocks::allowed);
}

base::result<segment::superblock_on_media> read_superblock(const std::string& path) {
    const segment::heap_paths paths(path);
    HF_TRY_ASSIGN(const auto held, segment::open_heap_directory(persist::posix_storage(), paths));
    return read_superblock(*held, paths);
}

base::result<segment::superblock_on_media> read_superblock(persist::storage& storage,
                                                           const segment::heap_paths& paths) {
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), persist::access_mode::read_only));
    HF_TRY_ASSIGN(const auto copies, segment::read_superblocks(*file));
    if (const auto* newest = copies.newest(); newest != nullptr) {
        return *newest;
    }
    return copies.bad[0];
}

base::result<void> copy(const std::string& source, const std::string& destination,
                        std::span<const std::string> node_places) {
    const segment::heap_paths paths(source);
    HF_TRY_ASSIGN(const auto found, segment::open_and_recover(persist::posix_storage(), paths));
    return segment::copy_heap({*found.directories->storage, paths, found.state}, persist::posix_storage(), destination,
                              node_places);
}

base::result<bool> remove(const std::string& path) { return segment::remove_heap(persist::posix_storage(), path); }

}  // namespace holdfast::heap
