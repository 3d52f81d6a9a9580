#include "segment/commit/commit_log.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/units.hpp"
#include "persist/sync.hpp"
#include "segment/commit/log_content.hpp"
#include "segment/commit/way_home.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

namespace {

using base::mebibyte;
using base::page_size;
using persist::access_mode;

constexpr std::uint64_t large_heap = 256 * mebibyte;
constexpr std::uint64_t file_of_large_heap = 4 * mebibyte;
constexpr std::uint64_t longest_log = 64 * mebibyte;
/// Pages that are synced within a commit.
constexpr std::uint64_t few_pages = 1024;
/// Of a log behind home: what is read and written again at once.
constexpr std::uint64_t worth_going_home = mebibyte;
constexpr std::uint64_t most_pages_behind = 256;
/// A log that is so many times as long as it should be waits no longer for the device.
constexpr std::uint64_t most_overrun = 8;

/// Page entries, slab headers and checksums of all pages, as entries of whole pages.
std::uint64_t least_room(base::pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::kibibyte;
    constexpr std::uint64_t bytes_a_page =
        page_entry_size + slab_header_size / base::pages_per_granule + checksum_entry_size;
    const std::uint64_t bytes = frontier.value * bytes_a_page;
    return least + bytes + bytes / 128;
}

}  // namespace

void commit_log::begin_session(superblock_on_media& superblock) const noexcept {
    const std::uint64_t by_heap = superblock.frontier > large_heap ? file_of_large_heap : least_log_file_size;
    empty_log(superblock, superblock.log_begin, limits_.file_size != 0 ? limits_.file_size : by_heap);
}

base::result<log::log*> commit_log::open(persist::storage& storage, const heap_paths& paths,
                                         const superblock_on_media& superblock) {
    if (log_ == nullptr) {
        const auto none = [goes_on = goes_on_](const log::record& record) {
            return goes_on ? base::result<void>()
                           : base::result<void>(base::failure{base::failure_code::corrupt,
                                                              {},
                                                              "record of the log",
                                                              std::to_string(record.end.sequence),
                                                              "an empty log",
                                                              "open the heap again",
                                                              0});
        };
        log::log_options options = log_options_of(paths, superblock);
        options.epoch = limits_.epoch;
        const log::mark from = goes_on_ ? known_end_.value_or(superblock.log_begin) : superblock.log_begin;
        options.oldest = superblock.log_begin.position;
        // Of a session that ended, too: a reader that was about to read then may be so still.
        options.leaves_older = is_log_read(lag_.is_on() ? lag_.home().sequence : superblock.sequence);
        options.is_read_at_once = lag_.is_by_turns();
        HF_TRY_ASSIGN(log_, log::log::open(storage, options, from, none));
        opened_ = log_.get();
        begin_ = goes_on_ ? superblock.log_begin.position : log_->end().position;
    }
    return log_.get();
}

void commit_log::go_on_at(const log::mark& begin, const log::mark& end) noexcept {
    const base::scoped_lock lock(mutex_);
    goes_on_ = true;
    known_end_ = end;
    begin_ = begin.position;
    if (log_ == nullptr || !log_->go_on_behind(end, begin.position, is_log_read(lag_.home().sequence))) {
        log_.reset();
        opened_ = nullptr;
        home_.forget();
    }
}

base::result<log::log*> commit_log::get(persist::storage& storage, const heap_paths& paths,
                                        superblock_on_media& superblock) {
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(log::log* const opened, open(storage, paths, superblock));
    if ((superblock.flags & flag_log) == 0) {
        superblock.flags |= flag_log;
        if (auto written = write_state(storage, paths, superblock, superblock.state); !written) {
            superblock.flags &= ~flag_log;
            return std::move(written).error();
        }
    }
    lag_.note_log();
    return opened;
}

base::result<void> commit_log::reserve(persist::storage& storage, const heap_paths& paths,
                                       const superblock_on_media& superblock, base::pages frontier,
                                       log::file_content content) {
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(log::log* const opened, open(storage, paths, superblock));
    return opened->reserve(base::divide_up(least_room(frontier), opened->largest_payload()) + 1, 0, content);
}

base::result<void> commit_log::check_own(persist::storage& storage, const heap_paths& paths,
                                         const superblock_on_media& superblock) {
    HF_TRY_ASSIGN(std::string found, storage.identity(paths.superblock()));
    if (found != identity_) {
        HF_TRY_ASSIGN(const auto file, storage.open(paths.superblock(), access_mode::read_write));
        HF_TRY_ASSIGN(const superblock_copies_read there, read_superblocks(*file));
        HF_TRY(segment::check_own(there, superblock, file->path()));
        identity_ = std::move(found);
    }
    return {};
}

void commit_log::note_home(std::uint64_t file, std::uint64_t pages) {
    unsynced_.insert(file);
    pages_ += pages;
}

void commit_log::forget_beyond(std::uint64_t segments) noexcept {
    home_.forget();
    unsynced_.erase(unsynced_.lower_bound(segments), unsynced_.lower_bound(objects_file_id));
}

std::uint64_t commit_log::bytes() const noexcept { return opened_ == nullptr ? 0 : opened_->end().position - begin_; }

std::uint64_t commit_log::most_bytes(const superblock_on_media& superblock) const noexcept {
    return limits_.checkpoint_bytes != 0 ? limits_.checkpoint_bytes
                                         : std::clamp(superblock.frontier / 4, superblock.log_file_size, longest_log);
}

base::result<void> commit_log::maintain(persist::storage& storage, const heap_paths& paths,
                                        superblock_on_media& superblock, bool needs_space) {
    if (lag_.is_on() && lag_.home().log_begin.position - begin_ < superblock.log_file_size) {
        return {};
    }
    if (needs_space) {
        return checkpoint(storage, paths, superblock);
    }
    if (!is_long(superblock)) {
        return {};
    }
    const std::uint64_t most = most_bytes(superblock);
    if (pages_ > few_pages && !is_being_written_) {
        is_being_written_ = true;
        for (const std::uint64_t id : unsynced_) {
            if (const auto file = home_.get(storage, paths, id)) {
                device_.start(*file);
            }
        }
        return {};
    }
    if (device_.is_busy() && bytes() < most * most_overrun && pages_ < limits_.checkpoint_pages * most_overrun) {
        return {};
    }
    return checkpoint(storage, paths, superblock);
}

base::result<void> commit_log::sync_home(persist::storage& storage, const heap_paths& paths) {
    std::vector<std::shared_ptr<persist::file>> files;
    const auto sync_these = [&files]() -> base::result<void> {
        HF_TRY(persist::sync_together(files, "checkpoint.home.sync"));
        files.clear();
        return {};
    };
    for (const std::uint64_t id : unsynced_) {
        if (files.size() == files_synced_at_once) {
            HF_TRY(sync_these());
        }
        auto file = home_.get(storage, paths, id);
        if (!file && persist::is_out_of_descriptors(file.error()) && !files.empty()) {
            HF_TRY(sync_these());  // they give their descriptors back
            file = home_.get(storage, paths, id);
        }
        HF_TRY(file);
        files.push_back(std::move(*file));
    }
    HF_TRY(sync_these());
    unsynced_.clear();
    pages_ = 0;
    is_being_written_ = false;
    return {};
}

/// Says on media that the log begins behind its last record. What was home before must be synced.
base::result<void> commit_log::move_begin(persist::storage& storage, const heap_paths& paths,
                                          superblock_on_media& superblock, heap_state state, bool ends) {
    const auto before = std::make_unique<superblock_on_media>(superblock);
    if (opened_ != nullptr) {
        // Parts of a commit that was given up may not be durable yet, nor the name of the file that they lie in.
        HF_TRY(opened_->wait(opened_->end().sequence));
    }
    // Behind the records of others, too, where this process has written none.
    superblock.log_begin = last_end().value_or(superblock.log_begin);
    if (ends) {
        empty_log(superblock, superblock.log_begin, superblock.log_file_size);
    }
    const auto write = [&]() -> base::result<void> {
        try {
            return write_state(storage, paths, superblock, state);
        } catch (const std::bad_alloc&) {
            return base::failure{base::failure_code::out_of_memory, {}, {}, {}, {}, {}, 0};
        }
    };
    if (auto written = write(); !written) {
        keep_log(superblock, *before);
        // One copy may say that there is no log, and what is appended would not count: get() writes both before.
        if (ends && last_end()) {
            superblock.flags &= ~flag_log;
            superblock.log_begin = *last_end();
        }
        return written;
    }
    return {};
}

/// The superblock on media is that of the version that is home: the log has what follows it.
base::result<void> commit_log::checkpoint_behind(persist::storage& storage, const heap_paths& paths,
                                                 superblock_on_media& superblock) {
    HF_TRY(sync_home(storage, paths));
    const auto said = std::make_unique<superblock_on_media>(lag_.home());
    HF_TRY(write_state(storage, paths, *said, superblock.state));
    superblock.log_begin = said->log_begin;
    begin_ = said->log_begin.position;
    release(said->log_begin, said->sequence);
    return {};
}

/// A reader that is about to read may have looked at the superblock before it was written. Its files stay until the
/// next checkpoint.
bool commit_log::is_log_read(std::uint64_t version) const noexcept { return lag_.oldest_in_use(version) < version; }

void commit_log::release(const log::mark& begin, std::uint64_t version) noexcept {
    if (opened_ != nullptr && !is_log_read(version)) {
        opened_->release(begin);
    }
}

base::result<void> commit_log::take_home(persist::storage& storage, const heap_paths& paths, std::uint64_t version) {
    HF_TRY_ASSIGN(const log_content content, log_content::read(storage, paths, lag_.home(), {.home = version}));
    if (const std::uint64_t found = content.home_superblock().sequence; found != version) {
        return base::failure{base::failure_code::corrupt,
                             paths.directory(),
                             "last version in the log",
                             std::to_string(found),
                             std::to_string(version),
                             "the log was damaged; nothing was changed",
                             0};
    }
    patch_reader reader(storage, paths, content);
    const replay_watch nobody;
    replay_meter meter(nobody, {});
    for (auto patches = content.patches(); !patches.empty();) {
        const std::uint64_t id = file_of(patches.front().place);
        HF_TRY_ASSIGN(const auto file, home_.get(storage, paths, id));
        const std::size_t before = patches.size();
        unsynced_.insert(id);
        HF_TRY(write_to_first_file(*file, reader, patches, "commit.follow.write", meter));
        pages_ += before - patches.size();
    }
    lag_.go_on(content.home_superblock());
    if (lag_.users() != nullptr) {
        lag_.users()->publish_home(version);
    }
    return {};
}

/// From the copies, which are the last version.
base::result<void> commit_log::take_all_home(persist::storage& storage, const heap_paths& paths,
                                             const superblock_on_media& superblock) {
    constexpr std::size_t at_once = 64;
    std::vector<std::byte> bytes;
    bytes.reserve(at_once * page_size);
    std::uint64_t first = 0;
    const auto write = [&]() -> base::result<void> {
        if (bytes.empty()) {
            return {};
        }
        const std::uint64_t id = file_of(first);
        HF_TRY_ASSIGN(const auto file, home_.get(storage, paths, id));
        note_home(id, bytes.size() / page_size);
        HF_TRY(file->write_at(page_of_place(first) * page_size, bytes, "commit.behind.write"));
        bytes.clear();
        return {};
    };
    HF_TRY(lag_.for_each([&](std::uint64_t place, const std::byte* content) -> base::result<void> {
        const bool follows = place == first + bytes.size() / page_size && file_of(place) == file_of(first);
        if (!follows || bytes.size() == at_once * page_size) {
            HF_TRY(write());
            first = place;
        }
        bytes.insert(bytes.end(), content, content + page_size);
        return {};
    }));
    HF_TRY(write());
    const auto home = std::make_unique<superblock_on_media>(superblock);
    home->log_begin = last_end().value_or(superblock.log_begin);
    lag_.go_on(*home);
    if (lag_.users() != nullptr) {
        lag_.users()->publish_home(superblock.sequence);
    }
    return {};
}

appended_commit commit_log::appended(std::uint64_t version) {
    const base::scoped_lock lock(mutex_);
    return log_ == nullptr ? appended_commit() : appended_commit(log_, log_->end().sequence, version);
}

void commit_log::publish(std::uint64_t version) noexcept {
    const base::scoped_lock lock(mutex_);
    if (lag_.users() != nullptr && version > published_) {
        published_ = version;
        if (log_ != nullptr) {
            lag_.users()->tell(log_->counts());
        }
        lag_.users()->publish(version);
    }
}

/// Of what is not durable nothing goes home, and home has nothing that readers may not see.
base::result<void> commit_log::wait_for_all(std::uint64_t newest) {
    if (opened_ != nullptr) {
        HF_TRY(opened_->wait(opened_->end().sequence));
    }
    publish(newest);
    return {};
}

base::result<bool> commit_log::follow_readers(persist::storage& storage, const heap_paths& paths,
                                              const superblock_on_media& superblock, go_home when) {
    if (!lag_.is_on()) {
        return true;
    }
    const std::uint64_t newest = superblock.sequence;
    if (when == go_home::where_worth_it && leaves_behind() && lag_.size() <= limits_.pages_behind &&
        !is_long(superblock)) {
        return false;
    }
    HF_TRY(wait_for_all(newest));
    const std::uint64_t version = lag_.oldest_in_use(newest);
    if (version == newest) {
        if (lag_.home().sequence < newest) {
            HF_TRY(take_all_home(storage, paths, superblock));
        }
        return true;
    }
    const std::uint64_t behind = opened_ == nullptr ? 0 : opened_->end().position - lag_.home().log_begin.position;
    const bool is_worth_it = behind >= worth_going_home || lag_.size() >= most_pages_behind;
    if (version > lag_.home().sequence && is_worth_it) {
        HF_TRY(take_home(storage, paths, version));
    }
    return false;
}

base::result<void> commit_log::checkpoint(persist::storage& storage, const heap_paths& paths,
                                          superblock_on_media& superblock) {
    if (lag_.is_on()) {
        HF_TRY(follow_readers(storage, paths, superblock, go_home::always));
        return checkpoint_behind(storage, paths, superblock);
    }
    HF_TRY(sync_home(storage, paths));
    HF_TRY(move_begin(storage, paths, superblock, superblock.state, false));
    if (opened_ != nullptr) {
        begin_ = superblock.log_begin.position;
        release(superblock.log_begin, superblock.sequence);
    }
    return {};
}

base::result<void> commit_log::end(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                                   heap_state state, std::uint64_t next_file_size) {
    if (lag_.is_on()) {
        return checkpoint_behind(storage, paths, superblock);
    }
    HF_TRY(sync_home(storage, paths));
    HF_TRY(move_begin(storage, paths, superblock, state, true));
    const base::scoped_lock lock(mutex_);
    opened_ = nullptr;
    goes_on_ = false;
    known_end_.reset();
    log_.reset();
    home_.forget();
    if (!is_log_read(superblock.sequence)) {
        remove_log_files(storage, paths, superblock);
    }
    // With the lock: a growth beside a commit, which reserves space, opens the next log where the superblock says.
    if (next_file_size != 0) {
        empty_log(superblock, superblock.log_begin, next_file_size);
    }
    return {};
}

base::result<void> commit_log::lengthen_files(persist::storage& storage, const heap_paths& paths,
                                              superblock_on_media& superblock, std::uint64_t bytes) {
    // Some files are kept for commits on a full disk: of a small heap, few bytes.
    const std::uint64_t longest =
        std::min({limits_.longest_file, superblock.segment_size, std::bit_floor(superblock.frontier / 16 + 1)});
    const std::uint64_t wanted = std::min(std::bit_ceil(base::divide_up(bytes, limits_.most_files)), longest);
    if (wanted <= superblock.log_file_size || lag_.is_on() || is_read()) {
        return {};
    }
    HF_TRY(end(storage, paths, superblock, superblock.state, wanted));
    // The room for commits that only free went with the log. On a full disk there is none.
    static_cast<void>(reserve(storage, paths, superblock, base::pages_for(superblock.frontier)).ok());
    return {};
}

void remove_log_files(persist::storage& storage, const heap_paths& paths,
                      const superblock_on_media& superblock) noexcept {
    try {
        const log::log_files files(storage, log_options_of(paths, superblock).place);
        const auto numbers = files.numbers();
        for (std::size_t i = 0; numbers && i < numbers->size(); ++i) {
            static_cast<void>(storage.remove(files.path_of((*numbers)[i]), "log.files.remove").ok());
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

base::result<void> write_state(persist::storage& storage, const heap_paths& paths, superblock_on_media& superblock,
                               heap_state state, bool durable) {
    const auto next = std::make_unique<superblock_on_media>(superblock);
    next->state = state;
    seal(*next);
    HF_TRY_ASSIGN(auto file, storage.open(paths.superblock(), access_mode::read_write));
    const auto bytes = std::as_bytes(std::span{next.get(), 1});
    // A failed write may have left a torn copy, and a crash one that is older. That is written first.
    HF_TRY_ASSIGN(const superblock_copies_read there, read_superblocks(*file));
    HF_TRY(check_own(there, superblock, file->path()));
    const bool second_first = there.good[0] && (!there.good[1] || there.good[1]->sequence < there.good[0]->sequence);
    const std::uint64_t first = second_first ? superblock_size : 0;
    HF_TRY(file->write_at(first, bytes, "state.write.first"));
    if (durable) {
        HF_TRY(file->sync("state.sync.first"));
    }
    HF_TRY(file->write_at(superblock_size - first, bytes, "state.write.second"));
    if (durable) {
        HF_TRY(file->sync("state.sync.second"));
    }
    replace_what_differs(superblock, *next);
    return {};
}

}  // namespace holdfast::segment
