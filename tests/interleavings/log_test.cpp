// Group commit of lanes, and their checkpoints: each call returns, and when it has returned its record is on the media,
// or void.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "interleavings/explorer.hpp"
#include "lane/lane_set.hpp"
#include "lane/log_in_memory.hpp"
#include "persist/mutant.hpp"

namespace holdfast::interleavings {
namespace {

constexpr std::uint64_t slots = 64;

/// Lanes that write to one log.
class log_subject : public subject {
public:
    log_subject(std::size_t threads, unsigned calls)
        : threads_(threads), calls_(calls), file_(lane::lanes_file_size(2, slots)) {
        for (std::size_t i = 0; i < threads; ++i) {
            auto& made = lanes_.at(i);
            made = std::make_unique<lane::lane>();
            made->index = i;
            made->owned_slots = std::make_unique<lane::record_on_media[]>(slots);
            made->slots = made->owned_slots.get();
            made->slot_mask = slots - 1;
        }
        count_.store(threads);
        lane::log_shape shape;
        shape.slots = slots;
        shape.lanes = 2;
        shape.block_records = 32;
        shape_ = shape;
        log_.emplace(std::make_unique<lane::log_in_memory>(file_.data()), shape, lane::lanes_view{lanes_, count_},
                     base::sparse_memory::map(lane::record_log::staging_bytes(shape), "a test").value());
    }
    [[nodiscard]] std::size_t threads() const override { return threads_; }
    void run(std::size_t thread) override {
        lane::lane& own = *lanes_.at(thread);
        for (unsigned i = 0; i < calls_; ++i) {
            const std::uint64_t number = own.sequence.load(std::memory_order_relaxed) + 1;
            lane::record_on_media& record = own.slots[number & own.slot_mask];
            record.sequence = number;
            record.allocated = thread + 1;
            own.sequence.store(number, std::memory_order_release);
            if (!log_->make_durable(own)) {
                wrong_ = "a call failed";
            } else if (!has(thread, number)) {
                wrong_ = "a call returned, and its record is not on the media";
            }
        }
    }
    [[nodiscard]] std::string problem() override {
        const std::uint64_t all = threads_ * calls_;
        return log_->writes() > all ? "more writes than calls" : wrong_;
    }

private:
    [[nodiscard]] bool has(std::size_t thread, std::uint64_t number) const {
        for (std::uint64_t index = 0; index < shape_.records(); ++index) {
            lane::record_on_media record{};
            std::memcpy(&record, file_.data() + shape_.offset_of(index), sizeof record);
            if (record.sequence == number && record.allocated == thread + 1) {
                return true;
            }
        }
        return false;
    }

    std::size_t threads_;
    unsigned calls_;
    std::vector<std::byte> file_;
    std::array<std::unique_ptr<lane::lane>, lane::maximum_lanes> lanes_;
    std::atomic<std::uint64_t> count_{0};
    lane::log_shape shape_;
    std::optional<lane::record_log> log_;
    std::string wrong_;
};

auto log_of(std::size_t threads, unsigned calls) {
    return [=]() -> std::unique_ptr<subject> { return std::make_unique<log_subject>(threads, calls); };
}

/// What is stored is durable, and records go to a log.
class disk_in_memory : public persist::flushing_domain<persist::domain_kind::emulated> {
public:
    static constexpr bool models_disks = true;
};

/// Whole calls through a log that has room for a few, so that threads wait for checkpoints; the last thread takes some.
class checkpoint_subject : public subject, private segment::lane_area {
public:
    checkpoint_subject(std::size_t threads, unsigned calls)
        : threads_(threads),
          calls_(calls),
          space_(static_cast<std::byte*>(user_.address()), static_cast<std::byte*>(metadata_.address()),
                 segment::geometry{user_bytes}, user_bytes) {
        if (!set_.open()) {
            wrong_ = "no lanes";
        }
        for (std::size_t i = 0; i < threads; ++i) {
            lanes_of_threads_.at(i) = set_.acquire();
        }
    }
    [[nodiscard]] std::size_t threads() const override { return threads_; }
    void run(std::size_t thread) override {
        if (thread + 1 == threads_) {
            static_cast<void>(set_.checkpoint());
            return;
        }
        for (unsigned i = 0; i < calls_; ++i) {
            call(thread);
        }
    }
    [[nodiscard]] std::string problem() override {
        look();
        return wrong_.empty() && !set_.settle() ? "records stay that no checkpoint passes" : wrong_;
    }

private:
    static constexpr std::uint64_t ring = 8;
    static constexpr std::uint64_t user_bytes = 2 * base::mebibyte;

    [[nodiscard]] static base::sparse_memory memory(std::uint64_t bytes) {
        return base::sparse_memory::map(bytes, "a test").value();
    }
    [[nodiscard]] static lane::lane_options options() {
        lane::lane_options wanted;
        wanted.heap_key = 1;
        wanted.incarnation = 1;
        wanted.slots = ring;
        wanted.order = lane::record_order::logged;
        wanted.clock = lane::record_clock::source::memory;
        wanted.log_lanes = 1;
        wanted.log_block_records = 2;
        return wanted;
    }
    std::byte* lanes() const noexcept override { return static_cast<std::byte*>(file_.address()); }
    std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override {
        size_ = std::max(size_, bytes);
        return {};
    }
    base::result<std::unique_ptr<segment::log_writer>> open_log() override {
        return std::unique_ptr<segment::log_writer>(std::make_unique<lane::log_in_memory>(lanes()));
    }
    void call(std::size_t thread) {
        lane::lane& own = *lanes_of_threads_.at(thread);
        auto* const word = reinterpret_cast<std::uint64_t*>(space_.address({64 * thread}));
        lane::record_on_media record{0,
                                     0,
                                     0,
                                     lane::encode_destination(64 * thread, 1),
                                     base::granule_size,
                                     lane::encode({lane::block_kind::small, 64, 0}),
                                     lane::nowhere,
                                     0};
        set_.prepare(own, 1);
        set_.announce(own);
        set_.append(own, record, {word, nullptr, nullptr});
        if (!set_.fence(own)) {
            wrong_ = "a call failed";
        }
        const lane::record_on_media& made = own.slots[own.sequence & own.slot_mask];
        written_.at(thread).push_back(made);
        look();
        if (set_.checkpoint_time() >= made.time) {
            wrong_ = "a record is void whose call has not stored yet";
        }
        set_.complete(own);
    }
    void look() {
        for (std::size_t thread = 0; thread < threads_; ++thread) {
            const std::atomic<std::uint64_t>& voided = lanes_of_threads_.at(thread)->voided;  // no step
            for (const lane::record_on_media& each : written_.at(thread)) {
                if (lane::number_of(each) > voided.load() && !has(each)) {
                    wrong_ = "a record that is not void is not on the media";
                }
            }
        }
    }
    [[nodiscard]] bool has(const lane::record_on_media& record) const {
        lane::log_shape shape;
        shape.slots = ring;
        shape.lanes = 1;
        shape.block_records = 2;
        for (std::uint64_t index = 0; index < shape.records(); ++index) {
            if (std::memcmp(lanes() + shape.offset_of(index), &record, sizeof record) == 0) {
                return true;
            }
        }
        return false;
    }

    std::size_t threads_;
    unsigned calls_;
    base::sparse_memory user_ = memory(user_bytes);
    base::sparse_memory metadata_ = memory(segment::geometry{user_bytes}.metadata_size());
    base::sparse_memory file_ = memory(lane::lanes_file_size(8, ring));
    std::uint64_t size_ = 0;
    segment::space_view space_;
    lane::lane_set<disk_in_memory> set_{{}, space_, *this, options()};
    std::array<lane::lane*, explorer::most_threads> lanes_of_threads_{};
    std::array<std::vector<lane::record_on_media>, explorer::most_threads> written_;
    std::string wrong_;
};

auto checkpoints_of(std::size_t threads, unsigned calls) {
    return [=]() -> std::unique_ptr<subject> { return std::make_unique<checkpoint_subject>(threads, calls); };
}

TEST(interleavings_of_checkpoints, let_every_call_return_and_write_over_void_records_alone) {
    expect_right(checkpoints_of(2, 3), {.preemptions = 2});
    expect_right(checkpoints_of(3, 4), {.preemptions = 1});
}

TEST(interleavings_of_checkpoints, find_what_is_void_too_early) {
    for (const char* const site : {"log.full", "log.release.pending", "lane.checkpoint.in_flight"}) {
        const persist::mutant_selection mutant(site);
        EXPECT_NE(find_fault(checkpoints_of(4, 4), {.preemptions = 1, .runs = 20'000}), "") << site;
    }
}

TEST(interleavings_of_a_log, let_every_call_return_with_its_record_on_the_media) {
    expect_right(log_of(2, 2), {.preemptions = 2});
    expect_right(log_of(3, 1), {.preemptions = 1});
}

/// Passed the tests of lanes, heap, interfaces and kills: a thread that is woken while the flag is set sleeps again.
TEST(interleavings_of_a_log, find_that_waiting_threads_are_woken_before_the_flag_is_cleared) {
    const persist::mutant_selection mutant("log.turn.wake_early");
    const std::string found = find_fault(log_of(2, 1), {});
    EXPECT_NE(found.find("all threads sleep"), std::string::npos) << found;
}

}  // namespace
}  // namespace holdfast::interleavings
