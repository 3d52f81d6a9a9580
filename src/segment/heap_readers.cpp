#include "segment/heap_readers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "log/record_chain.hpp"
#include "segment/files/address_range.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

using base::failure;
using base::failure_code;
using base::page_size;

namespace {

/// Drops private pages in batches.
class page_dropper {
public:
    page_dropper() = default;
    page_dropper(const page_dropper&) = delete;
    page_dropper& operator=(const page_dropper&) = delete;
    ~page_dropper() { flush(); }

    void drop(std::byte* address, std::uint64_t bytes) noexcept {
        if (count_ == batch_.size()) {
            flush();
        }
        batch_.at(count_++) = {address, bytes};
    }

private:
    void flush() noexcept {
        drop_private_pages(std::span{batch_}.first(count_));
        count_ = 0;
    }
    std::array<std::span<std::byte>, 256> batch_;
    std::size_t count_ = 0;
};

}  // namespace

void heap_readers::begin(const recovered_state& state) {
    end_ = state.end;
    const reader_table* const readers = table();
    session_ = readers == nullptr ? 0 : readers->session();
    has_session_ = readers != nullptr && parts_.location.directories()->locks.empty();
    if (state.overlay) {
        for (const log_content::patch& patch : state.overlay->patches()) {
            over_.insert_or_assign(patch.place, state.superblock.sequence);
        }
    }
}

recovery_wishes heap_readers::wishes(const replay_watch& watch) const {
    recovery_wishes wishes;
    wishes.watch = watch;
    if (table() != nullptr) {
        wishes.oldest_in_use = table()->oldest(wishes.oldest_in_use);
        wishes.end_is_decided = parts_.location.directories()->was_left_in_order;
        if (wishes.end_is_decided) {  // who takes turns catches up from the log: it had better go on
            wishes.oldest_in_use = 0;
        }
    }
    return wishes;
}

void heap_readers::admit(bool by_turns) noexcept {
    const std::shared_ptr<heap_directories>& directories = parts_.location.directories();
    if (directories == nullptr || parts_.location.paths().nodes() != 0) {
        return;
    }
    try {
        if (directories->readers == nullptr) {
            auto table = reader_table::open(parts_.location.storage(), parts_.location.paths(),
                                            reader_table::missing_file::make);
            if (!table || *table == nullptr) {
                return;
            }
            directories->readers = std::move(table).value();
            if (by_turns ? !directories->readers->turns().try_to_share()
                         : !directories->readers->turns().try_to_have_alone()) {
                directories->readers.reset();  // who takes turns came first, and waits in vain for the lock
                return;
            }
        }
        const auto session = log::random_number();
        if (!session) {
            directories->readers.reset();
            return;
        }
        lagging_home& lag = parts_.commits.log().lag();
        lag.set_users(directories->readers.get(), by_turns);
        const std::uint64_t version = parts_.superblock.now().sequence;
        directories->readers->begin_session(*session, version, lag.is_on() ? lag.home().sequence : version);
    } catch (const std::bad_alloc&) {
        directories->readers.reset();
    }
}

/// Where a crash in another durability is pending, the reader recovers what it maps, and the lock stays: the next
/// writer changes home in place.
void heap_readers::begin_reading() noexcept {
    const std::shared_ptr<heap_directories>& directories = parts_.location.directories();
    if (directories->readers == nullptr) {
        return;
    }
    if (parts_.superblock.has_pending_lanes() || parts_.superblock.has_pending_tracing()) {
        directories->readers.reset();
        return;
    }
    directories->readers->set_version(parts_.superblock.now().sequence);
    directories->locks.clear();
    is_reading_ = true;
}

base::result<void> heap_readers::keep_writers_out() {
    heap_directories& directories = *parts_.location.directories();
    if (directories.readers == nullptr || !directories.locks.empty()) {
        return {};
    }
    HF_TRY_ASSIGN(heap_lock lock,
                  heap_lock::acquire(*directories.storage, parts_.location.paths().directory(),
                                     persist::access_mode::read_only, heap_lock::missing_file::do_without));
    directories.locks.push_back(std::move(lock));
    return {};
}

base::result<recovered_state> heap_readers::state_on_media() const {
    constexpr int attempts = 100;
    const std::uint64_t version = parts_.superblock.now().sequence;
    for (int attempt = 1;; ++attempt) {
        // What the writer has decided before the standstill it still does.
        auto state = recover(parts_.location.storage(), parts_.location.paths(), persist::access_mode::read_only,
                             {.watch = {}, .last = version});
        if ((state && state->superblock.sequence == version) || attempt == attempts) {
            return state;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

bool heap_readers::wait_for_change(std::chrono::nanoseconds longest) const {
    if (!is_reading_) {
        std::this_thread::sleep_for(longest);
        return false;
    }
    return table()->wait_for(parts_.superblock.now().sequence, longest, has_session_ ? 0 : session_);
}

base::result<refreshed_pages> heap_readers::refresh() {
    if (table() == nullptr || parts_.location.is_writer()) {
        refreshed_pages same;
        same.version = parts_.superblock.now().sequence;
        return same;
    }
    HF_TRY(parts_.location.check_process());
    return refresh(*table());
}

failure heap_readers::left_behind(std::uint64_t version, std::uint64_t expected) const {
    return failure{failure_code::concurrent_modification,
                   parts_.location.paths().directory(),
                   "version",
                   fmt::format("{}", version),
                   fmt::format("{}", expected),
                   "close the heap and open it again",
                   0};
}

/// Where the log was begun anew, it has no records before that of the next version.
base::result<superblock_on_media> heap_readers::begin_of_log() const {
    superblock_on_media from = parts_.superblock.now();
    from.log_begin = end_;
    HF_TRY_ASSIGN(auto file, parts_.location.storage().open(parts_.location.paths().superblock(),
                                                            persist::access_mode::read_only));
    HF_TRY_ASSIGN(const superblock_copies_read copies, read_superblocks(*file));
    const superblock_on_media* const newest = copies.newest();
    if (newest == nullptr || newest->sequence > from.sequence) {
        return left_behind(from.sequence, newest == nullptr ? 0 : newest->sequence);
    }
    if (newest->sequence == from.sequence) {
        return *newest;
    }
    keep_log(from, *newest);
    from.log_begin = end_;
    return from;
}

/// The frontier and the objects file only grow while somebody reads.
base::result<void> heap_readers::grow(const superblock_on_media& to) {
    const base::pages frontier = base::pages_for(to.frontier);
    if (frontier < parts_.mapping.frontier() || to.objects_size < parts_.objects.size()) {
        return left_behind(parts_.superblock.now().sequence, to.sequence);
    }
    if (frontier != parts_.mapping.frontier()) {
        if (base::to_bytes(frontier) > parts_.mapping.view().reservation()) {
            return failure{failure_code::limit,
                           parts_.location.paths().directory(),
                           "reservation",
                           fmt::format("{}", parts_.mapping.view().reservation()),
                           fmt::format("at least {}", to.frontier),
                           "the heap has outgrown the addresses that this reader has reserved: open it again",
                           0};
        }
        HF_TRY(parts_.mapping.map_grown(frontier));
        parts_.mapping.set_frontier(frontier);
        parts_.mapping.adopt_growth();
    }
    return parts_.objects.follow_growth(to.objects_size);
}

/// They were written home before their record. What lies over them belongs to an earlier use (LOG-10), be it what this
/// process has stored there. Where it has locked the pages in memory, they cannot be dropped.
base::result<void> heap_readers::show_pages_at_home(const log_content& content) {
    for (const log_content::home_pages& run : content.pages_at_home()) {
        std::byte* const begin = parts_.mapping.address_of(run.place);
        const std::uint64_t bytes = run.count * page_size;
        if (!try_to_drop_private_pages(begin, bytes)) {
            HF_TRY_ASSIGN(const auto file,
                          parts_.location.storage().open(parts_.location.paths().file(file_of(run.place)),
                                                         persist::access_mode::read_only));
            HF_TRY(file->read_at(page_of_place(run.place) * page_size, {begin, bytes}));
        }
        over_.erase(over_.lower_bound(run.place), over_.lower_bound(run.place + run.count));
    }
    return {};
}

/// Tables stay: the engine that reads them has changed some in this process.
void heap_readers::drop_what_home_has(std::uint64_t home) noexcept {
    page_dropper dropper;
    for (auto at = over_.begin(); at != over_.end();) {
        if (at->second <= home && !is_of_tables(parts_.mapping.view().shape(), at->first)) {
            dropper.drop(parts_.mapping.address_of(at->first), page_size);
            at = over_.erase(at);
        } else {
            ++at;
        }
    }
}

/// What the log has behind this version, up to `durable`.
base::result<log_content> heap_readers::read_behind(std::uint64_t durable, std::uint64_t session) {
    const auto read = [&](const superblock_on_media& from) {
        return log_content::read(parts_.location.storage(), parts_.location.paths(), from, {.last = durable});
    };
    superblock_on_media from = parts_.superblock.now();
    from.log_begin = end_;
    const bool is_known = session == session_ && (from.flags & flag_log) != 0;
    if (is_known) {
        if (auto content = read(from); content && content->superblock().sequence == durable) {
            return content;
        }
    }
    // A session, and a writer that gives all space back, begins the log anew.
    HF_TRY_ASSIGN(from, begin_of_log());
    HF_TRY_ASSIGN(log_content content, read(from));
    if (content.superblock().sequence != durable) {
        return left_behind(content.superblock().sequence, durable);
    }
    session_ = session;
    return content;
}

base::result<refreshed_pages> heap_readers::refresh(reader_table& readers) {
    refreshed_pages done;
    const std::uint64_t before = parts_.superblock.now().sequence;
    const std::uint64_t durable = readers.durable();
    done.version = before;
    if (durable <= before || (!has_session_ && readers.session() == session_)) {
        return done;
    }
    HF_TRY_ASSIGN(const log_content content, read_behind(durable, readers.session()));
    has_session_ = true;
    HF_TRY(grow(content.superblock()));
    HF_TRY(show_pages_at_home(content));
    HF_TRY(parts_.mapping.apply_overlay(content));
    std::uint64_t last = ~std::uint64_t{0};
    for (const log_content::patch& patch : content.patches()) {
        over_.insert_or_assign(patch.place, durable);
        done.pages += patch.place == last ? 0 : 1;
        last = patch.place;
        done.tables_changed |= is_of_tables(parts_.mapping.view().shape(), patch.place);
    }
    done.tables_changed |= !content.pages_at_home().empty();
    done.versions = durable - before;
    done.version = durable;
    end_ = content.home_superblock().log_begin;
    parts_.superblock.set(content.superblock());
    drop_what_home_has(readers.home());
    readers.set_version(durable);
    return done;
}

}  // namespace holdfast::segment
