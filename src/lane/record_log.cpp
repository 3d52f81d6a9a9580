#include "lane/record_log.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/cancellation.hpp"
#include "base/thread_annotations.hpp"
#include "persist/mutant.hpp"

namespace holdfast::lane {

namespace {

constexpr std::uint64_t record_size = sizeof(record_on_media);

}  // namespace

std::uint64_t record_log::staging_bytes(const log_shape& shape) noexcept {
    return std::min<std::uint64_t>(shape.slots, 64 * shape.block_records) * record_size;
}

record_log::record_log(std::unique_ptr<segment::log_writer> media, const log_shape& shape, const lanes_view& all,
                       base::sparse_memory staging)
    : shape_(shape),
      all_(all),
      media_(std::move(media)),
      blocks_(shape.records() / shape.block_records),
      portion_(std::clamp<std::uint64_t>(shape.records() / 1024, 1, shape.block_records)),
      staged_most_(staging_bytes(shape) / record_size),
      staging_memory_(std::move(staging)),
      staging_(static_cast<std::byte*>(staging_memory_.address())),
      newest_(std::make_unique<std::atomic<std::uint64_t>[]>(blocks_)) {}

base::result<void> record_log::prepare() {
    for (std::uint64_t index = 0; index < shape_.records(); index += staged_most_) {
        const std::uint64_t length = staged_most_ * record_size;
        if (!media_->is_written(shape_.offset_of(index), length)) {
            HF_TRY(media_->write(shape_.offset_of(index), {staging_, length}, "log.prepare"));
        }
    }
    return {};
}

bool record_log::claim(std::uint64_t records) noexcept {
    std::uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    for (;;) {
        // The block that is being filled stays in use until the next one is free.
        const std::uint64_t most = released_.load(std::memory_order_acquire) + shape_.records() - shape_.block_records;
        if (claimed + records > most && !HF_MUTANT("log.full")) {
            return false;
        }
        if (claimed_.compare_exchange_weak(claimed, claimed + records, std::memory_order_relaxed)) {
            return true;
        }
    }
}

bool record_log::make_durable(lane& own) noexcept {
    const std::uint64_t wanted = own.sequence.load(std::memory_order_relaxed);
    for (;;) {
        const std::uint32_t round = round_.load(std::memory_order_acquire);
        if (own.logged.load(std::memory_order_acquire) >= wanted) {
            return true;
        }
        if (has_failed()) {
            return false;
        }
        if (!leading_.exchange(true, std::memory_order_acquire)) {
            if (own.logged.load(std::memory_order_acquire) < wanted) {
                lead();
            }
            end_turn();
        } else {
            round_.wait(round, std::memory_order_acquire);
        }
    }
}

/// Who wakes finds nobody leading: else it would sleep again, and nobody would wake it.
void record_log::end_turn() noexcept {
    const bool is_early = HF_MUTANT("log.turn.wake_early");
    if (is_early) {
        wake_waiting();
    }
    leading_.store(false, std::memory_order_release);
    if (!is_early) {
        wake_waiting();
    }
}

void record_log::wake_waiting() noexcept {
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
}

std::uint64_t record_log::waiting_lanes() const noexcept {
    const std::uint64_t lanes = all_.count.load(std::memory_order_acquire);
    std::uint64_t waiting = 0;
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const std::uint64_t gathered = std::max(gathered_[i], all_.lanes[i]->first_sequence);
        waiting += all_.lanes[i]->sequence.load(std::memory_order_relaxed) > gathered ? 1U : 0U;
    }
    return waiting;
}

void record_log::wait_for_served() const noexcept {
    if (busy_lanes_ < 2 || base::give_others_a_turn()) {
        return;
    }
    const auto latest = std::chrono::steady_clock::now() + last_turn_ / 2;
    while (waiting_lanes() < busy_lanes_ && std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
    }
}

void record_log::lead() noexcept {
    const base::cancellation_off until_written;
    wait_for_served();
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t lanes = all_.count.load(std::memory_order_acquire);
    if (!gather() || !write_out()) {
        return;
    }
    last_turn_ = std::chrono::steady_clock::now() - begin;
    busy_lanes_ = waiting_lanes();
    for (std::uint64_t i = 0; i < lanes; ++i) {
        if (gathered_[i] > all_.lanes[i]->logged.load(std::memory_order_relaxed)) {
            all_.lanes[i]->logged.store(gathered_[i], std::memory_order_release);
            ++busy_lanes_;
        }
    }
}

/// A record is whole when its lane counts it.
bool record_log::gather() noexcept {
    const std::uint64_t lanes = all_.count.load(std::memory_order_acquire);
    for (std::uint64_t i = 0; i < lanes; ++i) {
        const lane& each = *all_.lanes[i];
        const std::uint64_t end = each.sequence.load(std::memory_order_acquire);
        gathered_[i] = std::max(gathered_[i], each.first_sequence);
        for (; gathered_[i] < end; ++gathered_[i]) {
            put(each.slots[(gathered_[i] + 1) & each.slot_mask]);
            const std::uint64_t position = end_.load(std::memory_order_relaxed);
            const bool is_full = position % shape_.block_records == 0 &&
                                 (staged_ + written_ % shape_.block_records >= staged_most_ ||
                                  position % shape_.slots == 0);  // the next block lies elsewhere in the file
            if (is_full && !write_out()) {
                return false;
            }
        }
    }
    return true;
}

void record_log::put(const record_on_media& record) noexcept {
    const std::uint64_t position = end_.load(std::memory_order_relaxed);
    const std::uint64_t within = written_ % shape_.block_records + staged_;
    std::byte* const to = staging_ + within * record_size;
    std::atomic<std::uint64_t>& newest = newest_[position / shape_.block_records % blocks_];
    if (position % shape_.block_records == 0) {  // no old record may stay
        std::memset(to, 0, shape_.block_records * record_size);
        newest.store(0, std::memory_order_relaxed);
    }
    std::memcpy(to, &record, record_size);
    newest.store(std::max(newest.load(std::memory_order_relaxed), record.time), std::memory_order_relaxed);
    ++staged_;
    end_.store(position + 1, std::memory_order_release);
}

/// A last block that is not full is written again.
bool record_log::write_out() noexcept {
    if (staged_ == 0) {
        return true;
    }
    const std::uint64_t first = base::align_down(written_, shape_.block_records);
    const std::uint64_t end = end_.load(std::memory_order_relaxed);
    const std::uint64_t length = base::align_up(end - first, shape_.block_records) * record_size;
    auto written = media_->write(shape_.offset_of(first % shape_.records()), {staging_, length}, "log.write");
    writes_.store(writes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (!written) {
        fail(std::move(written).error());
        return false;
    }
    const std::uint64_t kept = base::align_down(end, shape_.block_records);
    if (kept != end && kept != first) {
        std::memcpy(staging_, staging_ + (kept - first) * record_size, shape_.block_records * record_size);
    }
    written_ = end;
    staged_ = 0;
    return true;
}

void record_log::release(std::uint64_t time) noexcept {
    const std::uint64_t last = end_.load(std::memory_order_acquire) / shape_.block_records;
    while (first_block_ < last && (newest_[first_block_ % blocks_].load(std::memory_order_relaxed) <= time ||
                                   HF_MUTANT("log.release.pending"))) {
        ++first_block_;
    }
    released_.store(first_block_ * shape_.block_records, std::memory_order_release);
}

void record_log::fail(base::failure why) noexcept {
    if (!failing_.exchange(true, std::memory_order_acquire)) {
        failure_ = std::move(why);
        failed_.store(true, std::memory_order_release);
    }
    wake_waiting();
}

}  // namespace holdfast::lane
