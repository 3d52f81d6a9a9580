#include "lane/record_log.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "lane/head.hpp"
#include "lane/record.hpp"

namespace holdfast::lane {

namespace {

constexpr std::uint64_t record_size = sizeof(record_on_media);
constexpr std::uint16_t kind_of_records = 1;
/// A shorter log has more checkpoints, and leaves room for blocks.
constexpr std::uint64_t wanted_files = 16;
constexpr std::uint64_t least_files = 2;
constexpr std::uint64_t most_places = 256;
/// Bytes: more is written in pieces, so that no call needs memory.
constexpr std::uint64_t most_unwritten = 256 * base::kibibyte;

/// Of one record of the log.
std::uint64_t most_at_once(std::uint64_t file_size) noexcept { return file_size / 16 / record_size; }

/// The log may begin within a file, and what does not fit the rest of one begins the next.
std::uint64_t capacity_of(std::uint64_t files, std::uint64_t file_size) noexcept {
    const std::uint64_t filled = file_size - log::space_of(most_at_once(file_size) * record_size);
    return (files - 1) * filled / log::space_of(record_size);
}

log::log_options options_of(const log_source& source) {
    // One writer has the log with this key (LOG-2).
    return {source.home.place, seed_of(source.heap_key, source.incarnation, 0), source.incarnation};
}

/// LANE-18. Those newer than `time` come to `found`.
base::result<void> take(const log::record& from, std::uint64_t seed, std::uint64_t time,
                        std::vector<record_on_media>& found) {
    const auto refused = [&from](std::string what) {
        return corrupt(fmt::format("log, record {}", from.end.sequence), std::move(what), "whole records of lanes");
    };
    if (from.kind != kind_of_records || from.payload.size() % record_size != 0) {
        return refused(fmt::format("kind {}, {} bytes", from.kind, from.payload.size()));
    }
    for (std::size_t at = 0; at < from.payload.size(); at += record_size) {
        record_on_media each;
        std::memcpy(&each, from.payload.data() + at, record_size);
        if (!is_whole(each, seed)) {
            return refused(fmt::format("a checksum that does not fit at {}", at));
        }
        if (each.time > time) {
            found.push_back(each);
        }
    }
    return {};
}

}  // namespace

base::result<std::vector<record_on_media>> read_log(const log_source& source, const checkpoint_on_media& last,
                                                    log_access access) {
    std::vector<record_on_media> found;
    if (last.log_begin.position == nothing_logged) {
        return found;
    }
    const log::log_options options = options_of(source);
    const log::log_files files(*source.home.storage, options.place);
    const std::uint64_t first = last.log_begin.position / files.file_size();
    HF_TRY_ASSIGN(const bool exists, files.exists(first));
    if (!exists) {
        return base::failure{base::failure_code::missing,
                             files.path_of(first),
                             "file",
                             "nothing",
                             "the log since the last checkpoint",
                             {},
                             0};
    }
    if (access == log_access::recover) {
        HF_TRY(log::log::open(*source.home.storage, options, last.log_begin,
                              [](const log::record& /*each*/) { return base::result<void>(); }));
    }
    log::log_reader reader(files, options.key, last.log_begin);
    log::record each;
    for (;;) {
        HF_TRY_ASSIGN(const bool is_there, reader.next(each));
        if (!is_there) {
            return found;
        }
        HF_TRY(take(each, options.key, last.time, found));
    }
}

base::result<std::unique_ptr<record_log>> record_log::create(const log_source& source, const log::mark& begin,
                                                             const lanes_view& all, std::uint64_t most) {
    HF_TRY_ASSIGN(auto made, log::log::open(*source.home.storage, options_of(source), begin, [](const log::record&) {
                      return corrupt("log", "a record", "none of a session that begins");
                  }));
    std::uint64_t files = wanted_files;
    auto reserved = made->reserve(files, most_unwritten);
    if (!reserved && reserved.error().code == base::failure_code::no_space) {
        files = least_files;
        reserved = made->reserve(files, most_unwritten);
    }
    HF_TRY(std::move(reserved));
    const std::uint64_t capacity = std::min(most, capacity_of(files, made->file_size()));
    return std::unique_ptr<record_log>(new record_log(std::move(made), begin, all, capacity));
}

record_log::record_log(std::unique_ptr<log::log> log, const log::mark& begin, const lanes_view& all,
                       std::uint64_t capacity)
    : log_(std::move(log)),
      all_(all),
      capacity_(capacity),
      portion_(std::clamp<std::uint64_t>(capacity / 2048, 1, 64)) {
    begin_.end = begin;
    parts_.reserve(2 * maximum_lanes);
    places_.reserve(2 * most_places);
}

bool record_log::claim(std::uint64_t records) noexcept {
    std::uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    for (;;) {
        const std::uint64_t most = released_.load(std::memory_order_acquire) + capacity_;
        if (claimed + records > most) {
            return false;
        }
        if (claimed_.compare_exchange_weak(claimed, claimed + records, std::memory_order_relaxed)) {
            return true;
        }
    }
}

bool record_log::make_durable(lane& own) noexcept {
    const std::uint64_t wanted = own.sequence.load(std::memory_order_relaxed);
    const auto lead_or_fail = [this] {
        try {
            return lead();
        } catch (const std::bad_alloc&) {
            fail({});
            return false;
        }
    };
    return group_.wait_until([&] { return own.logged.load(std::memory_order_acquire) >= wanted; }, lead_or_fail);
}

bool record_log::lead() {
    const std::uint64_t lanes = all_.count.load(std::memory_order_acquire);
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *all_.lanes[i];
        gathered_[i] = std::max(gathered_[i], each.first_sequence);
        // A record is whole when its lane counts it.
        if (!gather(each, gathered_[i], each.sequence.load(std::memory_order_acquire))) {
            return false;
        }
    }
    if (!append() || !write()) {
        return false;
    }
    note_place();
    for (std::uint64_t i = 0; i < lanes; ++i) {
        if (gathered_[i] > all_.lanes[i]->logged.load(std::memory_order_relaxed)) {
            all_.lanes[i]->logged.store(gathered_[i], std::memory_order_release);
        }
    }
    return true;
}

bool record_log::gather(const lane& each, std::uint64_t& gathered, std::uint64_t end) {
    const std::uint64_t most = most_at_once(log_->file_size());
    while (gathered < end) {
        const std::uint64_t slot = (gathered + 1) & each.slot_mask;
        const std::uint64_t count = std::min({end - gathered, each.slot_mask + 1 - slot, most - in_parts_});
        parts_.push_back(std::as_bytes(std::span(each.slots + slot, count)));
        last_.newest = std::max(last_.newest, each.slots[slot + count - 1].time);  // never decreases within a lane
        in_parts_ += count;
        gathered += count;
        if (in_parts_ == most && !append()) {
            return false;
        }
    }
    return true;
}

/// There is room (LANE-40).
bool record_log::append() {
    if (in_parts_ == 0) {
        return true;
    }
    auto end = log_->append(kind_of_records, parts_);
    if (!end) {
        fail(std::move(end).error());
        return false;
    }
    last_.end = *end;
    last_.records += in_parts_;
    unwritten_ += log::space_of(in_parts_ * record_size);
    in_parts_ = 0;
    parts_.clear();
    return unwritten_ + log::space_of(most_at_once(log_->file_size()) * record_size) <= most_unwritten || write();
}

bool record_log::write() {
    unwritten_ = 0;
    auto written = log_->wait(last_.end.sequence);
    if (!written) {
        fail(std::move(written).error());
    }
    return written.ok();
}

/// One for each 256th of the log.
void record_log::note_place() {
    const base::scoped_lock lock(places_mutex_);
    if (places_.empty() || last_.records - noted_ >= capacity_ / most_places) {
        noted_ = last_.records;
        places_.push_back(last_);
    } else {
        last_.newest = std::max(last_.newest, places_.back().newest);
        places_.back() = last_;
    }
    last_.newest = 0;
}

log::mark record_log::begin_at(std::uint64_t time) noexcept {
    const base::scoped_lock lock(places_mutex_);
    const auto first = std::ranges::find_if(places_, [time](const place& each) { return each.newest > time; });
    if (first != places_.begin()) {
        begin_ = *(first - 1);
        places_.erase(places_.begin(), first);
    }
    return begin_.end;
}

void record_log::release() noexcept {
    log_->release(begin_.end);
    released_.store(begin_.records, std::memory_order_release);
}

void record_log::fail(base::failure why) noexcept {
    if (!failing_.exchange(true, std::memory_order_acquire)) {
        failure_ = std::move(why);
        failed_.store(true, std::memory_order_release);
        group_.fail();
    }
}

}  // namespace holdfast::lane
