// Durable records, with one fence for a call, and checkpoints that make them void (docs/atomic-protocol.md). A call:
//
//     prepare(lane, n)                room for n records
//     announce(lane)                  all that the call depends on was read before; from here on it takes no lock
//     append(lane, record, lines)     n times
//     fence(lane)                     the operations are durable
//     ... plain stores to destinations and bits ...
//     complete(lane)
//
// In record_order::in_flight only a process can crash: there is no flush, fence or checkpoint.
//
// Thread safety: only its owner uses a lane; all threads may call everything else.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "base/hot.hpp"
#include "base/result.hpp"
#include "base/thread_annotations.hpp"
#include "lane/announcement_barrier.hpp"
#include "lane/clock.hpp"
#include "lane/effects.hpp"
#include "lane/head.hpp"
#include "lane/lane.hpp"
#include "lane/lanes_ahead.hpp"
#include "lane/line_set.hpp"
#include "lane/record.hpp"
#include "lane/record_log.hpp"
#include "lane/writer_counters.hpp"
#include "persist/domain.hpp"
#include "persist/mutant.hpp"
#include "segment/format/pointer_format.hpp"
#include "segment/format/superblock_format.hpp"
#include "segment/space.hpp"

namespace holdfast::lane {

inline constexpr std::uint64_t largest_log = ~std::uint64_t{0};

struct lane_options {
    std::uint64_t heap_key = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t slots = default_slots;
    record_order order = record_order::clock;
    std::uint64_t checkpoint_time = 0;  ///< in force; no record on media is newer
    /// In force. Nothing: no record counts, and open() writes a new head.
    std::optional<std::uint64_t> lane_count;
    block_states* states = nullptr;  ///< or null; in order `clock`, checkpoints store bitmaps from them
    record_clock::source clock =
        has_invariant_counter() ? record_clock::source::processor : record_clock::source::memory;
    std::uint64_t log_chain = 0;              ///< order `logged`: a random number
    std::uint64_t log_records = largest_log;  ///< that the log holds at most
    unsigned files = 1;                       ///< lane k lies in file k mod files; at most segment::maximum_nodes
    unsigned machine_nodes = 1;               ///< the memory of file f belongs to node f mod machine_nodes
    std::uint64_t lanes_for_ahead = 5;        ///< with so many, each writes back ahead; that of all threads is one
};

/// Between the reading of T' and its store. A fence waits only for its own thread's lines, so the calls of one owner
/// share the work.
struct running_checkpoint {
    const lane* owner = nullptr;  ///< null: none runs
    std::uint64_t time = 0;       ///< T'
    std::uint64_t lanes = 0;      ///< with records up to T'
    std::uint64_t at = 0;         ///< lanes before this one are written back
    std::uint64_t next = 0;       ///< of lane `at`, written back
    std::uint64_t passed = 0;
    std::uint64_t pending = 0;  ///< at its beginning
    std::uint64_t step = 0;     ///< records for each call
};

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

    [[nodiscard]] lane& shared() noexcept { return *lanes_[0]; }
    [[nodiscard]] base::mutex& shared_mutex() noexcept { return shared_mutex_; }

    /// False where no record became void.
    virtual bool checkpoint() noexcept = 0;

    /// Takes checkpoints until every earlier record is void. False where a call stayed in flight for too long. This
    /// thread has no call in flight, and holds no lock that such calls need.
    [[nodiscard]] bool settle() noexcept;

    /// `poisoned` once a sync has failed: no call that needs one is acknowledged any more.
    [[nodiscard]] base::result<void> check_health() const;
    [[nodiscard]] lane_statistics statistics() const noexcept;
    [[nodiscard]] std::uint64_t checkpoint_time() const noexcept { return time_.load(std::memory_order_acquire); }
    [[nodiscard]] const segment::space_view& space() const noexcept { return space_; }
    [[nodiscard]] std::uint64_t largest_batch() const noexcept { return ring_slots_ / 2; }

protected:
    [[nodiscard]] lane* make_lane() noexcept HF_REQUIRES(lanes_mutex_);
    [[nodiscard]] unsigned group_of(std::uint64_t index) const noexcept {
        return static_cast<unsigned>(index % options_.files) % options_.machine_nodes;
    }
    [[nodiscard]] unsigned group_of_threads(unsigned machine_node) const noexcept {
        return machine_node % std::min(options_.files, options_.machine_nodes);
    }
    [[nodiscard]] lane* take_free(unsigned group) noexcept HF_REQUIRES(lanes_mutex_);
    [[nodiscard]] lane* find_or_make(unsigned group) noexcept HF_REQUIRES(lanes_mutex_);
    [[nodiscard]] lane* make_lanes(std::uint64_t count) noexcept HF_REQUIRES(lanes_mutex_);
    void keep(lane& unused) noexcept HF_REQUIRES(lanes_mutex_);
    void put_back(lane& given) noexcept;
    /// Its lines wait for a fence of the thread that has the lane.
    void drop_checkpoint_of(const lane& given) noexcept;
    void note_checkpoint_time(std::uint64_t ticks) noexcept HF_REQUIRES(checkpoint_mutex_);
    void note_checkpoint(unsigned fences) noexcept HF_REQUIRES(checkpoint_mutex_);
    [[nodiscard]] lanes_head_on_media& head() const noexcept {
        return *reinterpret_cast<lanes_head_on_media*>(area_.lanes());
    }
    base::result<void> open_log(const log::mark& begin) HF_REQUIRES(lanes_mutex_);
    base::result<void> open_head() HF_REQUIRES(lanes_mutex_);
    [[nodiscard]] std::uint64_t first_sequence_of(const lane& made) const noexcept;
    void wait_for_calls(unsigned tried) const noexcept;
    bool extend(std::uint64_t wanted) noexcept HF_REQUIRES(lanes_mutex_);
    void publish_counters() noexcept HF_REQUIRES(checkpoint_mutex_) {
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
    std::atomic<std::uint64_t> time_{0};

    base::mutex lanes_mutex_;
    std::array<std::unique_ptr<lane>, maximum_lanes> lanes_;
    std::atomic<std::uint64_t> lane_count_{0};
    lanes_ahead ahead_{{lanes_, lane_count_}, ring_slots_, options_.lanes_for_ahead, spans_};
    std::unique_ptr<record_log> log_;                                                     ///< or null
    std::uint64_t sealed_lanes_ HF_GUARDED_BY(lanes_mutex_) = 0;                          ///< in force on media
    std::array<lane*, segment::maximum_nodes> first_free_ HF_GUARDED_BY(lanes_mutex_){};  ///< by group
    base::mutex shared_mutex_;

    base::mutex checkpoint_mutex_;
    /// By line: only one thread at a time stores to words that follow states.
    struct alignas(base::cache_line_size) word_mutex {
        base::mutex mutex;
    };
    std::array<word_mutex, 16> word_mutexes_;
    line_set lines_ HF_GUARDED_BY(checkpoint_mutex_);
    std::array<std::uint64_t, maximum_lanes> reached_ HF_GUARDED_BY(checkpoint_mutex_){};
    std::array<std::uint64_t, 4> last_lines_ HF_GUARDED_BY(checkpoint_mutex_){};
    running_checkpoint running_ HF_GUARDED_BY(checkpoint_mutex_);
    std::uint64_t completed_before_ HF_GUARDED_BY(checkpoint_mutex_) = 0;
    // Written under checkpoint_mutex_, by relaxed atomic stores.
    lane_statistics checkpointed_;
    std::uint64_t helped_ = 0;
    std::uint64_t checkpoint_ticks_ = 0;
    std::uint64_t longest_checkpoint_ticks_ = 0;
};

template <class Domain>
inline constexpr bool may_log = Domain::kind == persist::domain_kind::disk || requires { Domain::models_disks; };

template <persist::persistence_domain Domain>
class lane_set final : public lane_pool {
public:
    lane_set(Domain domain, segment::space_view space, segment::lane_area& area, const lane_options& options)
        : lane_pool(space, area, options), domain_(std::move(domain)) {}

    [[nodiscard]] Domain& domain() noexcept { return domain_; }
    /// Whether records become void by a checkpoint, not by their completion.
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
            if (!HF_MUTANT("lane.announce.late")) {
                barrier_.announce(own.announced, before);
            }
            if (by_clock()) {
                own.last_time = HF_MUTANT("lane.time.own") ? before + 1 : std::max(clock_.now(), before + 1);
            }
            if (HF_MUTANT("lane.announce.late")) {
                barrier_.announce(own.announced, before);
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
        if (!HF_MUTANT("lane.append.sequence")) {
            own.sequence.store(sequence, std::memory_order_release);
        }
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
        if (HF_MUTANT("lane.complete.early")) {
            complete(own);
        }
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
            give_back_room(own);
        }
        complete(own);
    }

    /// False once a sync has failed.
    [[nodiscard]] bool is_healthy() noexcept;

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
        const base::scoped_lock lock(checkpoint_mutex_);
        const bool done = begin_checkpoint(nullptr) && advance_checkpoint(all_records);
        publish_counters();
        return done;
    }

    void release(lane& given) noexcept override {
        const bool in_call =
            given.announced.load(std::memory_order_relaxed) != 0 ||
            given.sequence.load(std::memory_order_relaxed) != given.completed.load(std::memory_order_relaxed);
        if (in_call && !HF_MUTANT("lane.release.finish")) {
            finish_for(given);
        }
        drop_checkpoint_of(given);
        put_back(given);
    }

    /// The stamp tells whether the destination was written before.
    void carry_out(const record_on_media& record) noexcept {
        if (has_flag(record, data_flag)) {
            store_data(record);
            return;
        }
        if (record.destination != nowhere) {
            const std::uint64_t offset = destination_offset(record.destination);
            const std::uint16_t stamp = destination_stamp(record.destination);
            auto& word = *reinterpret_cast<std::uint64_t*>(space_.address({offset}));
            const std::uint64_t found = std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
            if (segment::stamp_of(found) != stamp) {
                domain_.store(word,
                              record.allocated == nowhere ? segment::null_pointer(stamp)
                                                          : segment::encode_pointer(offset, record.allocated, stamp),
                              "lane.finish.destination");
            }
        }
        const block_word old = morphed_from(record);
        change(record.allocated, record.allocated_block, true, old);
        if (old.kind == block_kind::none) {
            change(record.freed, record.freed_block, false, {});
        }
    }

    /// No descriptor has the lines of a payload: a fence must come before complete().
    void store_data(const record_on_media& record) noexcept {
        const data_place place = decode_data(record.destination);
        if (place.words == payload_marker) {
            const payload_place payload = payload_of(record);
            const auto* const records = reinterpret_cast<const record_on_media*>(space_.address({payload.offset}));
            for (std::uint64_t i = 0; i < payload.records; ++i) {
                carry_out(records[i]);
                if (has_flag(records[i], data_flag)) {
                    const data_place stored = decode_data(records[i].destination);
                    domain_.flush(space_.address({stored.offset}), stored.words * sizeof(std::uint64_t),
                                  "lane.payload.flush");
                }
            }
            return;
        }
        const auto words = words_of(record);
        for (std::uint64_t i = 0; i < place.words; ++i) {
            domain_.store(*reinterpret_cast<std::uint64_t*>(space_.address({place.offset + i * sizeof(std::uint64_t)})),
                          words[i], "lane.data.store");
        }
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

    void change(std::uint64_t offset, std::uint64_t encoded, bool allocate, block_word old) noexcept {
        if (offset == nowhere) {
            return;
        }
        const block_word block = decode_block(encoded);
        const bool has_state = options_.states != nullptr && block.kind == block_kind::small &&
                               options_.states->set_state(offset, block, allocate);
        if (has_state && is_by_clock(options_.order)) {
            return;  // a checkpoint stores the bitmap
        }
        const block_place place = place_of(space_, offset, block);
        if (allocate && block.kind == block_kind::slab) {
            store_slab_header(space_, offset, block, old, [this](std::uint64_t& word, std::uint64_t value) {
                domain_.store(word, value, "lane.finish.header");
            });
        }
        domain_.fetch_and(*place.word, ~place.mask, "lane.finish.clear");
        if (allocate) {
            domain_.fetch_or(*place.word, place.set, "lane.finish.set");
        }
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
                carry_out(given.slots[i & given.slot_mask]);
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
        if (HF_MUTANT("lane.ring.full")) {
            own.free_until = end;
            return;
        }
        const bool is_ahead =
            ahead_.work(own, [this](const void* line, base::mutex** held) { return write_back_line(line, held); });
        const std::uint64_t half = ahead_.enough_for_checkpoint(is_ahead);
        const std::uint64_t last = ring_slots_ - 1;  // one slot stays free for the wipe in finish_for()
        const std::uint64_t next_work = is_ahead ? std::max(end, ahead_.next_work(own)) : ~std::uint64_t{0};
        for (unsigned tries = 0;; ++tries) {
            std::uint64_t voided = own.voided.load(std::memory_order_acquire);
            bool goes_on = false;
            if (log_ != nullptr && log_->has_failed()) {
                own.free_until = end;  // no record will be durable or void any more
                return;
            }
            if (end > voided + last) {
                checkpoint();
            } else if (end > voided + half && tries == 0) {
                goes_on = work_on_checkpoint(own, voided + last - end, wanted);
            }
            voided = own.voided.load(std::memory_order_acquire);
            if (end <= voided + half) {
                own.free_until = std::min(voided + half, next_work);
                return;
            }
            if (end <= voided + last) {
                // Look again soon: to go on with this checkpoint, or because another lane owns one or a call in flight
                // holds it up.
                const std::uint64_t later = std::max<std::uint64_t>(ring_slots_ / 64, 1);
                own.free_until =
                    std::min({voided + last, end + (goes_on ? ahead_.records_between_steps() : later) - 1, next_work});
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

    void give_back_room(lane& own) noexcept {
        const std::uint64_t kept = log_ == nullptr ? 0 : own.sequence.load(std::memory_order_relaxed) + log_->portion();
        if (log_ != nullptr && own.log_claimed > kept) {
            log_->give_back(own.log_claimed - kept);
            own.log_claimed = kept;
            own.free_until = std::min(own.free_until, kept);
        }
    }

    void wait(unsigned tries) noexcept;

    static constexpr std::uint64_t all_records = std::numeric_limits<std::uint64_t>::max();
    /// Takes a step of this lane's checkpoint, or begins one where no other lane's runs, or `room`, in records, is
    /// small. `of_call`: records of a call. Several threads call through the shared lane, so it takes a whole
    /// checkpoint. Returns whether steps remain.
    [[nodiscard]] bool work_on_checkpoint(lane& own, std::uint64_t room, std::uint64_t of_call) noexcept {
        if (!checkpoint_mutex_.try_lock()) {
            return false;
        }
        const bool is_shared = &own == lanes_[0].get();
        const bool is_late = room < std::max<std::uint64_t>(ring_slots_ / 16, 2);
        if (running_.owner != &own && (running_.owner == nullptr || is_late || is_shared) && begin_checkpoint(&own)) {
            const std::uint64_t steps =
                room / 2 / (ahead_.records_between_steps() + of_call - 1) + 1;  // so it ends in time
            running_.step = running_.pending / steps + 1;
        }
        if (running_.owner == &own && advance_checkpoint(is_shared ? all_records : running_.step)) {
            publish_counters();
        }
        const bool goes_on = running_.owner == &own;
        checkpoint_mutex_.unlock();
        return goes_on;
    }
    /// Publishes at every turn of the ring at first, then at one of 1,024.
    void publish_now_and_then(const lane& own) noexcept {
        constexpr std::uint64_t first_turns = 64;
        constexpr std::uint64_t turns = 1024;
        const std::uint64_t turn = (own.sequence.load(std::memory_order_relaxed) - own.first_sequence) / ring_slots_;
        if ((turn < first_turns || turn % turns == 0) && checkpoint_mutex_.try_lock()) {
            publish_counters();
            checkpoint_mutex_.unlock();
        }
    }

    [[nodiscard]] bool begin_checkpoint(const lane* owner) noexcept HF_REQUIRES(checkpoint_mutex_);
    bool advance_checkpoint(std::uint64_t records) noexcept HF_REQUIRES(checkpoint_mutex_);
    void end_checkpoint() noexcept HF_REQUIRES(checkpoint_mutex_);
    [[nodiscard]] std::uint64_t time_of_checkpoint(std::uint64_t& lanes) noexcept HF_REQUIRES(checkpoint_mutex_);
    [[nodiscard]] std::uint64_t write_back(const lane& of, std::uint64_t records) noexcept
        HF_REQUIRES(checkpoint_mutex_);
    void flush_line(const void* address) noexcept HF_REQUIRES(checkpoint_mutex_);
    /// `held`: the lock while it is held. False: another thread has it. It is not waited for: its thread may have
    /// ended.
    [[nodiscard]] bool follow_states(const void* address, base::mutex** held) noexcept HF_NO_THREAD_SAFETY_ANALYSIS;
    [[nodiscard]] bool write_back_line(const void* line, base::mutex** held) noexcept {
        if (does_follow_states(line) && !follow_states(line, held)) {
            return false;
        }
        domain_.flush(line, 1, "lane.ahead.flush");
        return true;
    }
    void write_time(std::uint64_t time) noexcept HF_REQUIRES(checkpoint_mutex_) {
        seal_checkpoint({time, log_ != nullptr ? log_->begin_at(time) : log::mark{}});
    }
    void write_head(const lanes_head_on_media& made) noexcept override {
        domain_.copy_nontemporal(&head(), &made, sizeof made, "lane.head.write");
        domain_.fence("lane.head.fence");
    }
    void seal_lane_count(std::uint64_t count) noexcept override {
        write_in_turn(head().lane_counts, count, options_.heap_key, domain_, "lane.count.write", "lane.count.fence");
    }
    void seal_checkpoint(const checkpoint_on_media& checkpoint) noexcept override {
        write_in_turn(head().checkpoints, checkpoint, options_.heap_key, domain_, "lane.checkpoint.time.write",
                      "lane.checkpoint.time.fence");
        time_.store(checkpoint.time, std::memory_order_release);
    }

    Domain domain_;
};

}  // namespace holdfast::lane

#include "lane/lane_set_checkpoint.hpp"
