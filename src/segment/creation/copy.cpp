#include "segment/creation/copy.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "persist/machine.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/files/lane_places.hpp"
#include "segment/files/node_directories.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

class heap_copier {
public:
    heap_copier(const copy_source& source, persist::storage& storage, const std::string& destination,
                std::span<const std::string> node_places, persist::shared_blocks blocks)
        : from_(source.storage),
          source_(source.paths.with_nodes(source.state.superblock.nodes)),
          state_(source.state),
          is_unchanged_(source.is_unchanged),
          outer_(storage),
          target_(destination, static_cast<std::uint32_t>(node_places.size())),
          node_places_(node_places),
          blocks_(blocks) {}

    base::result<void> run() {
        HF_TRY(check_node_places(outer_, target_, node_places_));
        HF_TRY_ASSIGN(of_source_, from_.permissions_of(source_.directory(), source_.superblock()));
        HF_TRY_ASSIGN(const bool there, outer_.exists(target_.directory()));
        if (!there) {
            HF_TRY(make_heap_directory(*outer_.with(of_source_), target_, "copy.directory"));
        }
        made_directory_ = !there;
        try {
            auto done = take_directory();
            if (done) {
                done = copy_all();
            } else if (done.error().code == failure_code::locked || done.error().code == failure_code::already_exists) {
                made_directory_ = false;  // another process has it
            }
            if (!done) {
                remove_remains();
            }
            return done;
        } catch (const std::bad_alloc&) {
            remove_remains();
            throw;
        }
    }

private:
    /// The directory must be empty: a creation there would take its files for remains, and one of the two would remove
    /// the other's.
    base::result<void> take_directory() {
        HF_TRY_ASSIGN(to_, outer_.with(of_source_)->hold(target_.directory()));
        HF_TRY(refuse_names());  // before the lock, to say what is there
        auto lock =
            heap_lock::acquire(*to_, target_.directory(), access_mode::read_write, heap_lock::missing_file::do_without);
        if (lock) {
            lock_.emplace(std::move(lock).value());
        } else if (lock.error().os_error != ENOSYS) {  // a simulated machine has no locks, and no other process
            return std::move(lock).error();
        }
        HF_TRY(refuse_names());
        owns_files_ = true;
        return to_->check_place(target_.directory());
    }

    base::result<void> refuse_names() {
        HF_TRY_ASSIGN(const auto names, to_->list(target_.directory()));
        if (names.empty()) {
            return {};
        }
        const bool cut_off = std::ranges::find(names, "superblock.new") != names.end();
        return failure{failure_code::already_exists,
                       target_.directory(),
                       "directory",
                       names.front(),
                       "nothing, or an empty directory",
                       cut_off ? "another process makes, copies or removes a heap there, or one that did was cut off: "
                                 "then remove what it left"
                               : "",
                       0};
    }

    base::result<void> copy_all() {
        superblock_on_media superblock = state_.superblock;
        superblock.nodes = target_.nodes();
        superblock.flags &= ~flag_lanes_by_node;  // copy_lanes() puts them into one file
        superblock.file_identity = 0;             // the copy's first writer reserves space
        if (superblock.boot == persist::this_boot()) {
            superblock.boot = 0;  // the copy is synced
        }
        if (::getrandom(superblock.uuid, sizeof superblock.uuid, 0) != static_cast<ssize_t>(sizeof superblock.uuid)) {
            return base::os_failure(errno, "getrandom", {});
        }
        superblock.uuid[6] = static_cast<std::uint8_t>((superblock.uuid[6] & 0x0fU) | 0x40U);
        superblock.uuid[8] = static_cast<std::uint8_t>((superblock.uuid[8] & 0x3fU) | 0x80U);
        // What a crash leaves is no heap yet.
        HF_TRY_ASSIGN(auto file, create_like(source_.superblock(), target_.unfinished_superblock(), "copy.superblock"));
        HF_TRY(to_->sync_directory(target_.directory(), "copy.superblock.sync_name"));
        if (superblock.nodes != 0) {
            HF_TRY(make_node_directories(*to_, target_, superblock, node_places_));
        }
        const std::uint64_t segments = base::divide_up(state_.superblock.frontier, state_.superblock.segment_size);
        for (std::uint64_t i = 0; i < segments; ++i) {
            HF_TRY(copy_file(i));
        }
        HF_TRY(copy_file(objects_file_id));
        while (!unsynced_.empty()) {
            HF_TRY(sync_oldest());
        }
        HF_TRY(copy_stores());
        // The copy of a crashed heap is crashed, too.
        const bool crashed = superblock.state != heap_state::clean;
        const bool pending = crashed && (superblock.flags & (flag_lanes | flag_tracing)) != 0;
        if (crashed && (superblock.flags & flag_lanes) != 0) {
            HF_TRY(copy_lanes());
        }
        if (is_unchanged_) {
            HF_TRY(is_unchanged_());
        }
        superblock.state = pending ? superblock.state : heap_state::clean;
        empty_log(superblock, {}, superblock.log_file_size);  // the copy has what the log has
        seal(superblock);
        HF_TRY_ASSIGN(auto lock, create_like(source_.lock(), target_.lock(), "copy.lock"));
        HF_TRY(write_superblocks(*file, superblock));
        HF_TRY(sync_segment_names(*to_, target_, "copy.node.sync"));
        HF_TRY(to_->sync_directory(target_.directory(), "copy.directory.sync"));
        HF_TRY(to_->rename(target_.unfinished_superblock(), target_.superblock(), "copy.superblock.rename"));
        HF_TRY(to_->sync_directory(target_.directory(), "copy.directory.sync_name"));
        return outer_.sync_directory(target_.parent(), "copy.parent.sync");
    }

    base::result<void> copy_file(std::uint64_t id) {
        HF_TRY_ASSIGN(auto from, from_.open(source_.file(id), access_mode::read_only));
        HF_TRY_ASSIGN(auto to, create_like(source_.file(id), target_.file(id), "copy.create"));
        HF_TRY(to_->copy_content(*from, *to, blocks_, "copy.content"));
        if (id == objects_file_id) {
            HF_TRY(to->resize(state_.superblock.objects_size, "copy.resize_objects"));
        } else {
            // Content beyond the frontier is not part of the heap.
            const std::uint64_t used = std::min(state_.superblock.segment_size,
                                                state_.superblock.frontier - id * state_.superblock.segment_size);
            if (used < state_.superblock.segment_size) {
                HF_TRY(to->punch_hole(used, state_.superblock.segment_size - used, "copy.punch"));
            }
        }
        HF_TRY(apply_overlay(*to, id));
        return sync_later(std::move(to));
    }

    /// The disk writes a file while the next ones are copied.
    base::result<void> sync_later(std::unique_ptr<persist::file> file) {
        constexpr std::size_t most = 4;
        file->start_writeback();
        unsynced_.push_back(std::move(file));
        return unsynced_.size() > most ? sync_oldest() : base::result<void>{};
    }
    base::result<void> sync_oldest() {
        const std::unique_ptr<persist::file> oldest = std::move(unsynced_.front());
        unsynced_.pop_front();
        return oldest->sync("copy.sync");
    }

    /// Stores are written through shared mappings: no shared blocks.
    base::result<void> copy_stores() {
        HF_TRY_ASSIGN(const auto names, from_.list(source_.directory()));
        for (const std::string& name : names) {
            const auto number = store_number(name);
            if (!number) {
                continue;
            }
            HF_TRY_ASSIGN(auto from, from_.open(store_path(source_, *number), access_mode::read_only));
            HF_TRY_ASSIGN(auto to,
                          create_like(store_path(source_, *number), store_path(target_, *number), "copy.create_store"));
            HF_TRY(to_->copy_content(*from, *to, persist::shared_blocks::none, "copy.store"));
            HF_TRY(to->sync("copy.sync_store"));
        }
        return {};
    }

    /// As private as `original`, or as the source's superblock.
    base::result<std::unique_ptr<persist::file>> create_like(const std::string& original, const std::string& path,
                                                             persist::site where) {
        const auto of_original = from_.permissions_of(source_.directory(), original);
        return to_->with(of_original ? *of_original : of_source_)->create(path, where);
    }

    base::result<void> copy_lanes() {
        const lane_places places = places_of_lanes(state_.superblock, source_);
        HF_TRY_ASSIGN(auto to, create_like(places.path(0), target_.lanes(), "copy.create_lanes"));
        if (places.is_by_node()) {
            HF_TRY(gather_lanes(from_, state_.superblock, places, *to));
        } else {
            HF_TRY_ASSIGN(auto from, from_.open(places.path(0), access_mode::read_only));
            HF_TRY(to_->copy_content(*from, *to, blocks_, "copy.lanes"));
        }
        HF_TRY(to->sync("copy.sync_lanes"));
        return state_.superblock.record_order == logged_records ? copy_log() : base::result<void>();
    }

    /// It is written again before it is used, so it shares no blocks.
    base::result<void> copy_log() {
        const log::log_files files(from_, place_of_lane_log(source_));
        const log::log_files copies(*to_, place_of_lane_log(target_));
        HF_TRY_ASSIGN(const auto numbers, files.numbers());
        for (const std::uint64_t number : numbers) {
            HF_TRY_ASSIGN(auto from, files.open(number, access_mode::read_only));
            HF_TRY_ASSIGN(auto to, create_like(files.path_of(number), copies.path_of(number), "copy.create_log"));
            HF_TRY(to_->copy_content(*from, *to, persist::shared_blocks::none, "copy.log"));
            HF_TRY(to->sync("copy.sync_log"));
        }
        return {};
    }

    base::result<void> apply_overlay(persist::file& to, std::uint64_t id) {
        if (!state_.overlay) {
            return {};
        }
        patch_reader reader(from_, source_, *state_.overlay);
        std::vector<std::byte> bytes(page_size);
        for (const log_content::patch& patch :
             state_.overlay->patches(place_of(id, 0), place_of(id, last_page_of_place))) {
            const auto part = std::span(bytes).first(patch.length);
            HF_TRY(reader.read(patch, part));
            HF_TRY(to.write_at(page_of_place(patch.place) * page_size + patch.offset, part, "copy.overlay"));
        }
        return {};
    }

    void remove_remains() noexcept {
        try {
            if (owns_files_) {
                static_cast<void>(remove_node_directories(*to_, target_, nullptr).ok());
                if (auto names = to_->list(target_.directory()); names) {
                    std::ranges::sort(names.value());  // superblock.new is the last of all names
                    for (const std::string& name : names.value()) {
                        static_cast<void>(to_->remove(target_.directory() + "/" + name, "copy.undo").ok());
                    }
                }
            }
            if (owns_files_ || made_directory_) {
                persist::storage& held = to_ != nullptr ? *to_ : outer_;
                static_cast<void>(remove_held_directory(outer_, target_.directory(), held, "copy.undo_directory").ok());
            }
        } catch (const std::bad_alloc&) {
            return;  // no memory for names
        }
    }

    persist::storage& from_;
    heap_paths source_;
    const recovered_state& state_;
    const std::function<base::result<void>()>& is_unchanged_;
    persist::storage& outer_;
    std::shared_ptr<persist::storage> to_;
    std::optional<heap_lock> lock_;
    std::deque<std::unique_ptr<persist::file>> unsynced_;
    persist::permissions of_source_;
    bool made_directory_ = false;
    bool owns_files_ = false;  ///< it was empty
    heap_paths target_;
    std::span<const std::string> node_places_;
    persist::shared_blocks blocks_;
};

}  // namespace

base::result<void> copy_heap(const copy_source& source, persist::storage& storage, const std::string& destination,
                             std::span<const std::string> node_places, persist::shared_blocks blocks) {
    return heap_copier(source, storage, destination, node_places, blocks).run();
}

namespace {

base::result<std::optional<superblock_on_media>> superblock_of(persist::storage& storage, const heap_paths& paths) {
    auto file = storage.open(paths.superblock(), access_mode::read_only);
    if (!file) {
        return std::optional<superblock_on_media>{};
    }
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(**file));
    const superblock_on_media* const newest = copies.newest();
    return newest == nullptr ? std::nullopt : std::optional(*newest);
}

/// Fails where there are other files.
base::result<std::vector<std::string>> names_to_remove(persist::storage& storage, const std::string& directory) {
    HF_TRY_ASSIGN(auto names, storage.list(directory));
    bool ours = false;
    for (const std::string& name : names) {
        if (!heap_paths::is_heap_file(name)) {
            return failure{failure_code::invalid_argument,
                           directory,
                           "directory",
                           fmt::format("a file {}", name),
                           "the files of a heap alone",
                           "nothing was removed",
                           0};
        }
        ours = ours || name != "lock";
    }
    if (!ours) {
        return failure{failure_code::not_a_heap,
                       directory,
                       "directory",
                       names.empty() ? "nothing in it" : "a lock alone",
                       "a heap",
                       {},
                       0};
    }
    return names;
}

base::result<void> remove_held(persist::storage& outer, const heap_paths& paths, heap_directories& directories) {
    HF_TRY_ASSIGN(const auto names, names_to_remove(*directories.storage, paths.directory()));
    HF_TRY_ASSIGN(const auto superblock, superblock_of(*directories.storage, paths));
    const superblock_on_media* const says = superblock ? &*superblock : nullptr;
    HF_TRY(examine_node_directories(*directories.storage, paths, says));
    if (directories.locks.size() == 1) {
        HF_TRY(open_node_directories(directories, paths, access_mode::read_write));
    }
    persist::storage& storage = *directories.storage;
    // The superblock is renamed, durably, first, and goes last. What a crash leaves is no heap, and the next create or
    // remove takes it away.
    if (std::ranges::find(names, "superblock") != names.end()) {
        HF_TRY(storage.rename(paths.superblock(), paths.unfinished_superblock(), "remove.superblock"));
        HF_TRY(storage.sync_directory(paths.directory(), "remove.directory.sync"));
    }
    HF_TRY(remove_node_directories(storage, paths, says));
    for (const std::string& name : names) {
        if (name != "superblock.new") {
            HF_TRY(storage.remove(fmt::format("{}/{}", paths.directory(), name), "remove.file"));
        }
    }
    HF_TRY(storage.sync_directory(paths.directory(), "remove.files.sync"));
    HF_TRY(storage.remove(paths.unfinished_superblock(), "remove.superblock_new"));
    HF_TRY(storage.remove(paths.lock(), "remove.lock"));
    HF_TRY(remove_held_directory(outer, paths.directory(), storage, "remove.directory"));
    return outer.sync_directory(paths.parent(), "remove.parent.sync");
}

/// While another process removes the directory, any failure is possible.
base::result<void> take_to_remove(persist::storage& storage, const std::string& directory,
                                  heap_directories& directories) {
    HF_TRY_ASSIGN(directories.storage, storage.hold(directory));
    HF_TRY(names_to_remove(*directories.storage, directory));
    HF_TRY_ASSIGN(heap_lock lock, heap_lock::acquire(*directories.storage, directory, access_mode::read_write,
                                                     heap_lock::missing_file::do_without));
    directories.locks.push_back(std::move(lock));
    return refuse_readers(directories, heap_paths(directory));
}

}  // namespace

base::result<bool> remove_heap(persist::storage& storage, const std::string& directory,
                               std::shared_ptr<heap_directories> held) {
    const heap_paths paths(directory);
    constexpr int attempts = 16;
    for (int attempt = 0; held == nullptr && attempt < attempts; ++attempt) {
        HF_TRY_ASSIGN(const bool there, storage.exists(directory));
        if (!there) {
            return false;
        }
        auto directories = std::make_shared<heap_directories>();
        auto taken = take_to_remove(storage, directory, *directories);
        const bool gone = directories->storage == nullptr ? !taken && taken.error().os_error == ENOENT
                                                          : !leads_to(storage, directory, *directories->storage);
        if (gone) {
            continue;
        }
        HF_TRY(std::move(taken));
        held = std::move(directories);
    }
    if (held == nullptr) {
        return failure{failure_code::locked,
                       directory,
                       "directory",
                       "another one each time it is looked for",
                       "one that stays",
                       {},
                       0};
    }
    HF_TRY(remove_held(storage, paths, *held));
    return true;
}

}  // namespace holdfast::segment
