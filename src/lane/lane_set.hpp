// Durable records, with one fence for a call, and checkpoints that make them obsolete (docs/atomic-protocol.md). A
// call:
//
//     prepare(lane, n)                room for n records
//     announce(lane)                  all that the call depends on was read before; from here on it takes no lock
//     append(lane, record, lines)     n times
//     fence(lane)                     the operations are durable
//     ... plain stores to destinations and bits ...
//     complete(lane)
//
// Its parts: lane_list, which thread has which lane; lane_checkpoint, how records stop counting; lanes_ahead, what
// owners write back before checkpoints come; record_log, the log on disks; record_effects, a call whose thread is gone.
//
// In record_order::in_flight only a process can crash: there is no flush, fence or checkpoint.
//
// Thread safety: only its owner uses a lane; all threads may call everything else.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "base/hot.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "lane/announcement_barrier.hpp"
#include "lane/clock.hpp"
#include "lane/head.hpp"
#include "lane/lane.hpp"
#include "lane/lane_checkpoint.hpp"
#include "lane/lane_list.hpp"
#include "lane/lane_options.hpp"
#include "lane/lanes_ahead.hpp"
#include "lane/record.hpp"
#include "lane/record_effects.hpp"
#include "lane/record_log.hpp"
#include "persist/domain.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

/// What does not depend on the domain.
class lane_pool {
public:
    lane_pool(segment::space_view space, segment::lane_area& area, const lane_options& options);
    lane_pool(const lane_pool&) = delete;
    lane_pool& operator=(const lane_pool&) = delete;
    virtual ~lane_pool() = default;

    /// Makes lane 0 and durably seals the head of the file (LANE-26), before the superblock says that records may
    /// count. Fails as lane_area::grow_lanes() does.
    base::result<void> open();

    /// The lane lies in memory of the thread's node if possible; null where no lane or no memory is left.
    [[nodiscard]] lane* acquire(unsigned machine_node = 0) noexcept;
    /// Outside of a call. Returns `given` where the node has no other lane.
    [[nodiscard]] lane* move(lane& given, unsigned machine_node) noexcept;
    /// A call that its thread left in flight is finished where its record was appended, else undone.
    virtual void release(lane& given) noexcept = 0;

    [[nodiscard]] lane& shared() noexcept { return lanes_[0]; }
    [[nodiscard]] base::mutex& shared_mutex() noexcept { return shared_mutex_; }

    /// False where no record became obsolete.
    virtual bool checkpoint() noexcept = 0;

    /// Takes checkpoints until every earlier record is obsolete. False where a call stayed in flight for too long. This
    /// thread has no call in flight, and holds no lock that such calls need.
    [[nodiscard]] bool wait_until_obsolete() noexcept;

    /// `poisoned` once a sync has failed: no call that needs one is acknowledged any more.
    [[nodiscard]] base::result<void> check_health() const;
    [[nodiscard]] lane_statistics statistics() const noexcept;
    [[nodiscard]] std::uint64_t checkpoint_time() const noexcept {
        return checkpoints_.time.load(std::memory_order_acquire);
    }
    [[nodiscard]] const segment::space_view& space() const noexcept { return space_; }
    [[nodiscard]] std::uint64_t largest_batch() const noexcept { return ring_slots_ / 2; }

protected:
    [[nodiscard]] lanes_head_on_media& head() const noexcept {
        return *reinterpret_cast<lanes_head_on_media*>(area_.lanes());
    }
    base::result<void> open_log(const log::mark& begin);
    base::result<std::uint64_t> open_head();
    void wait_for_calls(unsigned tried) const noexcept;
    void publish_counters() noexcept HF_REQUIRES(checkpoints_.mutex) {
        auto& to = *reinterpret_cast<writer_counters_on_media*>(area_.lanes() + writer_counters_at);
        store_writer_counters(to, options_.heap_key, options_.incarnation, statistics());
    }
    /// All are durable on return.
    virtual void write_head(const lanes_head_on_media& made) noexcept = 0;
    virtual void seal_lane_count(std::uint64_t count) noexcept = 0;
    /// All lines that records up to its time touched are durable (LANE-6).
    virtual void seal_checkpoint(const checkpoint_on_media& checkpoint) noexcept = 0;

    segment::space_view space_;
    segment::lane_area& area_;
    lane_options options_;
    std::uint64_t ring_slots_;
    record_clock clock_;
    span_counter spans_;
    announcement_barrier barrier_;

    lane_list lanes_{area_, options_, ring_slots_};
    lanes_ahead ahead_{lanes_.view(), ring_slots_, options_.lanes_for_ahead, spans_};
    std::unique_ptr<record_log> log_;  ///< or null
    checkpoint_progress checkpoints_;
    base::mutex shared_mutex_;
};

template <persist::persistence_domain Domain>
class lane_set final : public lane_pool {
public:
    lane_set(Domain domain, segment::space_view space, segment::lane_area& area, const lane_options& options)
        : lane_pool(space, area, options), domain_(std::move(domain)) {}

    [[nodiscard]] Domain& domain() noexcept { return domain_; }
    [[nodiscard]] record_effects<Domain>& effects() noexcept { return effects_; }
    /// Whether records become obsolete by a checkpoint, not by their completion.
    [[nodiscard]] bool by_clock() const noexcept { return !process_crashes_only && is_by_clock(options_.order); }

    HF_HOT void prepare(lane& own, std::uint64_t count) noexcept {
        if (own.sequence.load(std::memory_order_relaxed) + count > own.free_until) [[unlikely]] {
            make_room(own, count);
            if constexpr (may_log<Domain>) {
                make_room_in_log(own, count);
            }
        }
    }

    // LANE-5. The last time of the lane is a lower bound of the next one, and costs no reading of the clock.
    HF_HOT void announce(lane& own) noexcept {
        if constexpr (!process_crashes_only) {
            const std::uint64_t before = own.last_time;
            barrier_.announce(own.announced, before);
            if (by_clock()) {
                own.last_time = std::max(clock_.now(), before + 1);
            }
        }
    }

    /// All records of a call have one time (LANE-15): a batch may free a block and, by a destination in it, another
    /// block, and neither order of the two would be right.
    HF_HOT void append(lane& own, record_on_media& record, const touched_lines& lines,
                       std::uint64_t flags = 0) noexcept {
        const std::uint64_t sequence = own.sequence.load(std::memory_order_relaxed) + 1;
        record.sequence = sequence | flags;
        record.time = own.last_time;
        if (by_clock()) {
            own.descriptors[sequence & own.slot_mask] = {record.time, lines};
        }
        record.checksum = checksum_of(record, own.seed);
        persist::line_words words;
        std::memcpy(words, &record, sizeof words);
        put(own.slots[sequence & own.slot_mask], words, "lane.record.write");
        // Without this store the record was not appended; see release().
        own.sequence.store(sequence, std::memory_order_release);
    }

    /// False, on a disk alone: the records are not durable, and the call must end without complete() and without a
    /// store to the heap's memory.
    [[nodiscard]] HF_HOT bool fence(lane& own) noexcept {
        if constexpr (may_log<Domain>) {
            if (log_ != nullptr) {
                count(own.fences);
                return is_healthy() && log_->make_durable(own);
            }
        }
        domain_.fence("lane.record.fence");
        if constexpr (!process_crashes_only) {  // there the fence orders the compiler alone
            count(own.fences);
        }
        return true;
    }
    void fence_data(lane& own, persist::site where) noexcept {
        domain_.fence(where);
        if constexpr (!process_crashes_only) {
            count(own.fences);
        }
    }

    HF_HOT void complete(lane& own) noexcept {
        const std::uint64_t sequence = own.sequence.load(std::memory_order_relaxed);
        if (!by_clock()) {
            domain_.store(own.header->completed, sequence, "lane.completed");
        }
        own.completed.store(sequence, std::memory_order_release);
        own.announced.store(0, std::memory_order_release);
    }

    /// In place of complete() for a call that has appended nothing: other lanes may need its room in the log.
    void cancel(lane& own) noexcept {
        if constexpr (may_log<Domain>) {
            return_room(own);
        }
        complete(own);
    }

    /// False once a sync has failed.
    [[nodiscard]] bool is_healthy() noexcept { return media_are_healthy(domain_, log_.get()); }

    /// The fence of the call's record waits for it.
    void start_write_back(lane& own, const void* address, persist::site where) noexcept {
        domain_.flush(address, sizeof(std::uint64_t), where);
        count(own.flushed_lines);
        if constexpr (may_log<Domain>) {
            if (log_ != nullptr) {
                fence_data(own, "lane.write_back.fence");  // a write to the log waits for nothing else
            }
        }
    }

    bool checkpoint() noexcept override {
        const base::scoped_lock lock(checkpoints_.mutex);
        checkpoint_.has_lock();
        const bool done = checkpoint_.begin(nullptr) && checkpoint_.advance(checkpoint_.all_records);
        publish_counters();
        return done;
    }

    void release(lane& given) noexcept override {
        const bool in_call =
            given.announced.load(std::memory_order_relaxed) != 0 ||
            given.sequence.load(std::memory_order_relaxed) != given.completed.load(std::memory_order_relaxed);
        if (in_call) {
            finish_for(given);
        }
        checkpoints_.drop(given);
        lanes_.put_back(given);
    }

private:
    /// No store is lost: calls have no announcement, time or descriptor.
    static constexpr bool process_crashes_only = Domain::kind == persist::domain_kind::page_cache;

    static void count(std::atomic<std::uint64_t>& counter) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }

    HF_HOT void put(record_on_media& slot, const persist::line_words& words, persist::site where) noexcept {
        if constexpr (may_log<Domain>) {
            if (log_ != nullptr) {
                std::memcpy(&slot, words, sizeof words);  // the ring is in DRAM
                return;
            }
        }
        domain_.copy_line(&slot, words, where);
    }

    void finish_for(lane& given) noexcept {
        const std::uint64_t sequence = given.sequence.load(std::memory_order_relaxed);
        // A record that is not counted yet must not count after a crash.
        const persist::line_words nothing{};
        put(given.slots[(sequence + 1) & given.slot_mask], nothing, "lane.finish.wipe");
        if (!fence(given)) {
            return;
        }
        // A group without its last record does not count (LANE-29).
        const record_on_media& last = given.slots[sequence & given.slot_mask];
        if (!has_flag(last, group_flag) || has_flag(last, last_flag)) {
            for (std::uint64_t i = given.completed.load(std::memory_order_relaxed) + 1; i <= sequence; ++i) {
                effects_.carry_out(given.slots[i & given.slot_mask]);
            }
            if (has_payload(last)) {
                fence_data(given, "lane.finish.fence");
            }
        }
        complete(given);
    }

    void make_room(lane& own, std::uint64_t wanted) noexcept {
        const std::uint64_t end = own.sequence.load(std::memory_order_relaxed) + wanted;
        if (!by_clock()) {
            own.free_until = own.sequence.load(std::memory_order_relaxed) + ring_slots_;  // earlier calls are complete
            publish_now_and_then(own);
            return;
        }
        const bool is_ahead = ahead_.work(
            own, [this](const void* line, base::mutex** held) { return checkpoint_.write_back_line(line, held); });
        const std::uint64_t half = ahead_.enough_for_checkpoint(is_ahead);
        const std::uint64_t last = ring_slots_ - 1;  // one slot stays free for the wipe in finish_for()
        const std::uint64_t next_work = is_ahead ? std::max(end, ahead_.next_work(own)) : ~std::uint64_t{0};
        for (unsigned tries = 0;; ++tries) {
            std::uint64_t obsolete = own.obsolete.load(std::memory_order_acquire);
            bool goes_on = false;
            if (log_ != nullptr && log_->has_failed()) {
                own.free_until = end;  // no record will be durable or obsolete any more
                return;
            }
            if (end > obsolete + last) {
                checkpoint();
            } else if (end > obsolete + half && tries == 0) {
                goes_on = work_on_checkpoint(own, obsolete + last - end, wanted);
            }
            obsolete = own.obsolete.load(std::memory_order_acquire);
            if (end <= obsolete + half) {
                own.free_until = std::min(obsolete + half, next_work);
                return;
            }
            if (end <= obsolete + last) {
                // Look again soon: to go on with this checkpoint, or because another lane owns one or a call in flight
                // holds it up.
                const std::uint64_t later = std::max<std::uint64_t>(ring_slots_ / 64, 1);
                own.free_until = std::min(
                    {obsolete + last, end + (goes_on ? ahead_.records_between_steps() : later) - 1, next_work});
                return;
            }
            wait(tries);
        }
    }

    /// LANE-40.
    void make_room_in_log(lane& own, std::uint64_t wanted) noexcept {
        if (log_ == nullptr) {
            return;
        }
        const std::uint64_t sequence = own.sequence.load(std::memory_order_relaxed);
        for (unsigned tries = 0; own.log_claimed < sequence + wanted; ++tries) {
            const std::uint64_t least = sequence + wanted - own.log_claimed;
            const std::uint64_t more = tries == 0 ? std::max(least, log_->portion()) : least;
            if (log_->has_failed()) {
                return;  // the call's fence fails
            }
            if (log_->claim(more)) {
                own.log_claimed += more;
            } else {
                checkpoint();
                wait(tries);
            }
        }
        own.free_until = std::min(own.free_until, own.log_claimed);
    }

    void return_room(lane& own) noexcept {
        const std::uint64_t kept = log_ == nullptr ? 0 : own.sequence.load(std::memory_order_relaxed) + log_->portion();
        if (log_ != nullptr && own.log_claimed > kept) {
            log_->return_room(own.log_claimed - kept);
            own.log_claimed = kept;
            own.free_until = std::min(own.free_until, kept);
        }
    }

    void wait(unsigned tries) noexcept {
        constexpr unsigned patience = 64;
        if (base::give_others_a_turn()) {  // the crash tests alone
        } else if (tries < patience) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(20));  // the other thread sleeps, or has ended
        }
        checkpoints_.note_wait();
    }

    /// Takes a step of this lane's checkpoint, or begins one where no other lane's runs, or `room`, in records, is
    /// small. `of_call`: records of a call. Several threads call through the shared lane, so it takes a whole
    /// checkpoint. Returns whether steps remain.
    [[nodiscard]] bool work_on_checkpoint(lane& own, std::uint64_t room, std::uint64_t of_call) noexcept {
        if (!checkpoints_.mutex.try_lock()) {
            return false;
        }
        checkpoint_.has_lock();
        const bool is_shared = &own == &lanes_[0];
        const bool is_late = room < std::max<std::uint64_t>(ring_slots_ / 16, 2);
        running_checkpoint& running = checkpoints_.running;
        if (running.owner != &own && (running.owner == nullptr || is_late || is_shared) && checkpoint_.begin(&own)) {
            const std::uint64_t steps =
                room / 2 / (ahead_.records_between_steps() + of_call - 1) + 1;  // so it ends in time
            running.step = running.pending / steps + 1;
        }
        if (running.owner == &own && checkpoint_.advance(is_shared ? checkpoint_.all_records : running.step)) {
            publish_counters();
        }
        const bool goes_on = running.owner == &own;
        checkpoints_.mutex.unlock();
        return goes_on;
    }
    /// Publishes at every turn of the ring at first, then at one of 1,024.
    void publish_now_and_then(const lane& own) noexcept {
        constexpr std::uint64_t first_turns = 64;
        constexpr std::uint64_t turns = 1024;
        const std::uint64_t turn = (own.sequence.load(std::memory_order_relaxed) - own.first_sequence) / ring_slots_;
        if ((turn < first_turns || turn % turns == 0) && checkpoints_.mutex.try_lock()) {
            publish_counters();
            checkpoints_.mutex.unlock();
        }
    }

    void write_head(const lanes_head_on_media& made) noexcept override {
        domain_.copy_nontemporal(&head(), &made, sizeof made, "lane.head.write");
        domain_.fence("lane.head.fence");
    }
    void seal_lane_count(std::uint64_t count) noexcept override {
        write_in_turn(head().lane_counts, count, options_.heap_key, domain_, "lane.count.write", "lane.count.fence");
    }
    void seal_checkpoint(const checkpoint_on_media& checkpoint) noexcept override { checkpoint_.seal(checkpoint); }

    Domain domain_;
    record_effects<Domain> effects_{domain_, space_, options_};
    lane_checkpoint<Domain> checkpoint_{
        domain_, {lanes_.view(), options_, area_, ahead_, barrier_, clock_, spans_, log_}, checkpoints_};
};

}  // namespace holdfast::lane
