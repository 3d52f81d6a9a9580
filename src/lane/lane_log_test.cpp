// Room in the log that all lanes share.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "lane/lane_test_support.hpp"
#include "lane/log_in_memory.hpp"

namespace holdfast::lane {
namespace {

/// The domain `disk` in memory: what is stored is durable, and records go to a log.
class disk_in_memory : public domain {
public:
    static constexpr bool models_disks = true;
};

class lane_log_test : public lane_test {
protected:
    base::result<std::unique_ptr<segment::log_writer>> open_log() override {
        return std::unique_ptr<segment::log_writer>(std::make_unique<log_in_memory>(lanes()));
    }
    /// A log of 128 records, of which 96 are free at first.
    static lane_options log_options() {
        lane_options wanted = options();
        wanted.order = record_order::logged;
        wanted.log_lanes = 2;
        wanted.log_block_records = 32;
        return wanted;
    }
};

/// Was: it stayed with the lane, for its next calls alone. Four lanes had all there is, and a fifth waited for ever.
TEST_F(lane_log_test, the_room_of_a_refused_group_stayed_with_its_lane) {
    constexpr std::uint64_t large = 31;
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    for (int i = 0; i < 6; ++i) {
        lane& own = *set.acquire();
        set.prepare(own, large);
        set.announce(own);
        set.cancel(own);
        ASSERT_EQ(own.log_claimed, own.sequence + 1) << "what a lane claims at once";
    }
    lane& last = *set.acquire();
    set.prepare(last, large);
    set.announce(last);
    for (std::uint64_t i = 0; i < large; ++i) {
        record_on_media record = allocation(64 * i, 1, base::granule_size);
        set.append(last, record, {&word(64 * i), nullptr, nullptr});
    }
    EXPECT_TRUE(set.fence(last));
    set.complete(last);
    EXPECT_EQ(last.log_claimed, last.sequence);
}

/// A disk whose last write of every page failed: memory holds what was stored, and the kernel takes all pages for
/// written. A sync writes the pages that were stored to since.
class disk_behind_a_failed_write : public persist::storing_domain {
public:
    static constexpr persist::domain_kind kind = persist::domain_kind::disk;

    void store(std::uint64_t& word, std::uint64_t value, persist::site where) noexcept {
        storing_domain::store(word, value, where);
        dirty_.insert(page_of(&word));
    }
    void copy_nontemporal(void* target, const void* source, std::size_t bytes, persist::site where) noexcept {
        copy(target, source, bytes, where);
        dirty_.insert(page_of(target));
        flush(target, bytes, where);
    }
    void copy_line(void* target, const persist::line_words& line, persist::site where) noexcept {
        copy_nontemporal(target, line, sizeof line, where);
    }
    void flush(const void* begin, std::size_t /*bytes*/, persist::site /*where*/) noexcept {
        flushed_.insert(page_of(begin));
    }
    void fence(persist::site /*where*/) noexcept {
        for (const std::uintptr_t page : flushed_) {
            if (dirty_.erase(page) != 0) {
                written_.insert(page);
            }
        }
        flushed_.clear();
    }
    [[nodiscard]] bool has_written(const void* address) const { return written_.contains(page_of(address)); }

private:
    static std::uintptr_t page_of(const void* address) {
        return reinterpret_cast<std::uintptr_t>(address) / base::page_size;
    }
    std::set<std::uintptr_t> dirty_;
    std::set<std::uintptr_t> flushed_;
    std::set<std::uintptr_t> written_;
};

/// LANE-42. Was: the words were right already, so nothing was stored. The sync wrote no page, T moved, and a loss of
/// power took back what had been acknowledged before the write failed.
TEST_F(lane_log_test, a_replay_before_a_restart_did_not_write_again_what_a_failed_write_had_lost) {
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    set.prepare(own, 1);
    set.announce(own);
    record_on_media record = allocation(8, 1, base::granule_size);
    set.append(own, record, {&word(8), nullptr, nullptr});
    EXPECT_TRUE(set.fence(own));
    set.carry_out(record);
    set.complete(own);

    replay_source from = source();
    from.order = record_order::logged;
    from.stores_again = true;
    const auto plan = make_replay(from);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    ASSERT_EQ(plan->report.pending, 1U);
    EXPECT_EQ(plan->writes.front().value, *plan->writes.front().word) << "the process saw its own stores";
    disk_behind_a_failed_write disk;
    apply(plan.value(), from, disk);
    for (const word_write& each : plan->writes) {
        EXPECT_TRUE(disk.has_written(each.word));
    }
    for (const record_on_media* const each : plan->records) {
        EXPECT_TRUE(disk.has_written(each));
    }
    EXPECT_EQ(make_replay(from).value().report.pending, 0U);
}

/// A log on a disk that takes its time.
class slow_log final : public segment::log_writer {
public:
    explicit slow_log(std::byte* file) noexcept : file_(file) {}
    base::result<void> write(std::uint64_t offset, std::span<const std::byte> data,
                             persist::site where) noexcept override {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(500);
        while (std::chrono::steady_clock::now() < end) {
            std::this_thread::yield();
        }
        return file_.write(offset, data, where);
    }
    bool is_written(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept override { return true; }

private:
    log_in_memory file_;
};

class slow_log_test : public lane_log_test {
protected:
    base::result<std::unique_ptr<segment::log_writer>> open_log() override {
        return std::unique_ptr<segment::log_writer>(std::make_unique<slow_log>(lanes()));
    }
    void call(lane_set<disk_in_memory>& set, lane& own, std::uint64_t destination) {
        set.prepare(own, 1);
        set.announce(own);
        record_on_media record = allocation(destination, 1, base::granule_size);
        set.append(own, record, {&word(destination), nullptr, nullptr});
        EXPECT_TRUE(set.fence(own));
        set.complete(own);
    }
};

/// Was: it looked 16 times within some microseconds, while other calls waited for the disk. So large transactions
/// beside other threads lost the memory of their payloads, and checkpoint() left words pending that the program may
/// store to.
TEST_F(slow_log_test, nothing_was_settled_beside_threads_that_call_all_the_time) {
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    std::atomic<bool> ends = false;
    std::vector<std::jthread> others;
    for (std::uint64_t i = 1; i <= 2; ++i) {
        others.emplace_back([&, i] {
            lane& of_other = *set.acquire();
            while (!ends) {
                call(set, of_other, 64 * i);
            }
        });
    }
    for (int i = 0; i < 10; ++i) {
        call(set, own, 0);
        EXPECT_TRUE(set.settle());
    }
    ends = true;
}

}  // namespace
}  // namespace holdfast::lane
