// The log that all lanes share: its room, and what replay reads of it.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "lane/lane_test_support.hpp"
#include "log/files_in_memory_test_support.hpp"
#include "persist/mutant.hpp"

namespace holdfast::lane {
namespace {

/// What is stored is durable, and records go to a log.
class disk_in_memory : public domain {
public:
    static constexpr bool models_disks = true;
};

constexpr std::uint64_t most_files = 16;
constexpr std::uint64_t file_size = log::least_file_size;

class lane_log_test : public lane_test {
protected:
    [[nodiscard]] segment::log_home log() const override { return {files_.get(), files_->place()}; }
    /// A log of at most 96 records.
    static lane_options log_options(std::uint64_t incarnation = 1) {
        lane_options wanted = options();
        wanted.incarnation = incarnation;
        wanted.order = record_order::logged;
        wanted.log_chain = incarnation;
        wanted.log_records = 96;
        return wanted;
    }
    [[nodiscard]] base::result<replay_plan> plan_of(std::uint64_t incarnation = 1, bool stores_again = false) {
        from_ = source(incarnation);
        from_.order = record_order::logged;
        from_.stores_again = stores_again;
        HF_TRY_ASSIGN(const auto last, read_checkpoint(from_.lanes, key));
        HF_TRY_ASSIGN(records_, read_log({log(), key, incarnation}, last, log_access::recover));
        from_.log = records_;
        return make_replay(from_);
    }
    /// Returns whether the record is durable.
    template <class Domain = disk_in_memory>
    bool call(lane_set<Domain>& set, lane& own, std::uint64_t destination) {
        set.prepare(own, 1);
        set.announce(own);
        record_on_media record = allocation(destination, 1, base::granule_size);
        set.append(own, record, {&word(destination), nullptr, nullptr});
        const bool done = set.fence(own);
        if (done) {
            set.complete(own);
        }
        return done;
    }

    std::vector<std::byte> memory_ = std::vector<std::byte>(log::files_in_memory::bytes_for(most_files, file_size));
    std::unique_ptr<log::files_in_memory> files_ =
        std::make_unique<log::files_in_memory>(memory_.data(), most_files, file_size);
    replay_source from_;
    std::vector<record_on_media> records_;
};

/// A lane that kept the room for its next calls let a fifth lane wait for ever.
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

/// Calls through a log in as many files as it reserves. Returns how many were refused, and how many checkpoints came.
std::pair<unsigned, std::uint64_t> call_often(lane_set<disk_in_memory>& set, const std::function<bool()>& call) {
    unsigned refused = 0;
    for (unsigned i = 0; i < 3000 && refused == 0; ++i) {
        refused += call() ? 0U : 1U;
    }
    return {refused, set.statistics().checkpoints};
}

/// LANE-40.
TEST_F(lane_log_test, no_call_runs_out_of_files_for_the_log) {
    for (const std::uint64_t files : {std::uint64_t{2}, std::uint64_t{3}, most_files}) {
        files_ = std::make_unique<log::files_in_memory>(memory_.data(), files, file_size);
        std::ranges::fill(memory_, std::byte{0});
        lane_options wanted = log_options();
        wanted.log_records = largest_log;
        wanted.slots = 1024;
        lane_set<disk_in_memory> set({}, space_, *this, wanted);
        ASSERT_TRUE(set.open().ok()) << files;
        lane& own = *set.acquire();
        const auto [refused, checkpoints] = call_often(set, [&] { return call(set, own, 8); });
        EXPECT_EQ(refused, 0U) << files;
        EXPECT_GT(checkpoints, 3U) << files;
    }
    files_ = std::make_unique<log::files_in_memory>(memory_.data(), 1, file_size);
    std::ranges::fill(memory_, std::byte{0});
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    const auto opened = set.open();
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code, base::failure_code::no_space);
}

#if HOLDFAST_MUTANTS
TEST_F(lane_log_test, a_call_that_takes_room_that_is_not_there_is_refused_and_all_later_ones_are) {
    const persist::mutant_selection wrong("lane.log.full");
    lane_options wanted = log_options();
    wanted.slots = 4096;
    lane_set<disk_in_memory> set({}, space_, *this, wanted);
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    const auto [refused, checkpoints] = call_often(set, [&] { return call(set, own, 8); });
    EXPECT_EQ(refused, 1U);
    EXPECT_FALSE(call(set, *set.acquire(), 16));
    EXPECT_EQ(set.check_health().error().code, base::failure_code::poisoned);
}
#endif

TEST_F(lane_log_test, a_log_that_is_not_there_is_refused_unless_no_record_in_it_counts) {
    {
        lane_set<disk_in_memory> set({}, space_, *this, log_options());
        ASSERT_TRUE(set.open().ok());
        EXPECT_TRUE(call(set, *set.acquire(), 8));
    }
    const std::vector<std::byte> whole = memory_;
    std::ranges::fill(memory_, std::byte{0});
    const auto missing = plan_of();
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, base::failure_code::missing);
    EXPECT_EQ(missing.error().path, "memory/log.000000");
    memory_ = whole;
    const auto plan = plan_of();
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->report.pending, 1U);
    disk_in_memory to;
    apply(plan.value(), from_, to);
    std::ranges::fill(memory_, std::byte{0});
    const auto again = plan_of();
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(again->report.pending, 0U);
}

/// LOG-2. The log of decision 31 had no such fault either: its records stood alone, each with its incarnation.
TEST_F(lane_log_test, what_a_retry_completes_of_an_earlier_session_does_not_count) {
    std::vector<std::byte> torn;
    {
        lane_set<disk_in_memory> set({}, space_, *this, log_options(1));
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        EXPECT_TRUE(call(set, own, 8));
        torn = memory_;
        EXPECT_TRUE(call(set, own, 16));
        EXPECT_TRUE(call(set, own, 24));
    }
    // Of the second record one sector is on media; the third is whole.
    const std::size_t content = memory_.size() - most_files * file_size;
    std::copy_n(torn.begin() + static_cast<std::ptrdiff_t>(content), 112 + 48 + 16,
                memory_.begin() + static_cast<std::ptrdiff_t>(content));
    std::uint64_t time = 0;
    {
        const auto plan = plan_of(1);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_EQ(plan->report.pending, 1U) << "the first";
        disk_in_memory to;
        apply(plan.value(), from_, to);
        time = read_checkpoint({lanes(), size_}, key).value().time;
    }
    lane_options next = log_options(2);
    next.checkpoint_time = time;
    next.lane_count = 0;
    {
        lane_set<disk_in_memory> set({}, space_, *this, next);
        ASSERT_TRUE(set.open().ok());
        lane& own = *set.acquire();
        EXPECT_TRUE(call(set, own, 8));
        EXPECT_TRUE(call(set, own, 16));
    }
    const auto plan = plan_of(2);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->report.pending, 2U) << "and not the third of the session before";
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

/// Files of the log on such a disk: a sync makes durable what was written since.
class files_behind_a_failed_write : public log::files_in_memory {
public:
    using files_in_memory::files_in_memory;
    [[nodiscard]] bool has_written(std::uint64_t at) const { return synced_.contains(at); }

private:
    void put(std::uint64_t at, std::span<const std::byte> data, persist::site where) override {
        files_in_memory::put(at, data, where);
        for (std::uint64_t i = 0; i < data.size(); ++i) {
            written_.insert(at + i);
        }
    }
    void make_durable(std::uint64_t at, std::uint64_t bytes, persist::site /*where*/) override {
        synced_.insert(written_.lower_bound(at), written_.lower_bound(at + bytes));
    }
    std::set<std::uint64_t> written_;
    std::set<std::uint64_t> synced_;
};

/// LANE-42, LOG-8. Was: the words were right already, so nothing was stored. The sync wrote no page, T moved, and a
/// loss of power took back what had been acknowledged before the write failed.
TEST_F(lane_log_test, a_replay_before_a_restart_did_not_write_again_what_a_failed_write_had_lost) {
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    set.prepare(own, 1);
    set.announce(own);
    record_on_media record = allocation(8, 1, base::granule_size);
    set.append(own, record, {&word(8), nullptr, nullptr});
    EXPECT_TRUE(set.fence(own));
    set.effects().carry_out(record);
    set.complete(own);

    auto failed = std::make_unique<files_behind_a_failed_write>(memory_.data(), most_files, file_size);
    const files_behind_a_failed_write& files = *failed;
    files_ = std::move(failed);
    const auto plan = plan_of(1, true);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    ASSERT_EQ(plan->report.pending, 1U);
    EXPECT_EQ(plan->writes.front().value, *plan->writes.front().word) << "the process saw its own stores";
    const std::size_t content = memory_.size() - most_files * file_size;
    for (std::size_t at = content; at < content + log::space_of(sizeof record); ++at) {
        EXPECT_TRUE(files.has_written(at)) << at - content;
    }
    disk_behind_a_failed_write disk;
    apply(plan.value(), from_, disk);
    for (const word_write& each : plan->writes) {
        EXPECT_TRUE(disk.has_written(each.word));
    }
    EXPECT_EQ(plan_of().value().report.pending, 0U);
}

/// A disk that takes its time.
class slow_files : public log::files_in_memory {
public:
    using files_in_memory::files_in_memory;

private:
    void make_durable(std::uint64_t /*at*/, std::uint64_t /*bytes*/, persist::site /*where*/) override {
        std::this_thread::sleep_for(std::chrono::microseconds(250));  // lint-allow(sleep): a disk takes its time
    }
};

/// Was: it looked 16 times within some microseconds, while other calls waited for the disk. So large transactions
/// beside other threads lost the memory of their payloads, and checkpoint() left words pending that the program may
/// store to.
TEST_F(lane_log_test, nothing_was_settled_beside_threads_that_call_all_the_time) {
    files_ = std::make_unique<slow_files>(memory_.data(), most_files, file_size);
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    lane& own = *set.acquire();
    std::atomic<bool> ends = false;
    std::vector<std::jthread> others;
    for (std::uint64_t i = 1; i <= 2; ++i) {
        others.emplace_back([&, i] {
            lane& of_other = *set.acquire();
            while (!ends) {
                EXPECT_TRUE(call(set, of_other, 64 * i));
            }
        });
    }
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(call(set, own, 0));
        EXPECT_TRUE(set.wait_until_obsolete());
    }
    ends = true;
}

}  // namespace
}  // namespace holdfast::lane
