// Calls through the log of all lanes, and checkpoints: each call returns, and when it has returned its record is on the
// media, or void. The group commit has a test of its own (src/log/group_commit_test.cpp).
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/sparse_table.hpp"
#include "interleavings/explorer.hpp"
#include "lane/lane_set.hpp"
#include "lane/replay.hpp"
#include "log/files_in_memory_test_support.hpp"
#include "persist/mutant.hpp"

namespace holdfast::interleavings {
namespace {

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
        return wrong_.empty() && !set_.wait_until_obsolete() ? "records stay that no checkpoint passes" : wrong_;
    }

private:
    static constexpr std::uint64_t ring = 8;
    static constexpr std::uint64_t log_files = 2;
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
        wanted.log_records = 4;
        return wanted;
    }
    std::byte* lanes() const noexcept override { return static_cast<std::byte*>(file_.address()); }
    std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override {
        size_ = std::max(size_, bytes);
        return {};
    }
    [[nodiscard]] segment::log_home log() const override { return {&files_, files_.place()}; }
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
    /// As a recovery would.
    void look() {
        const auto last = lane::read_checkpoint({lanes(), size_}, options().heap_key);
        const auto found =
            lane::read_log({log(), options().heap_key, options().incarnation}, last.value(), lane::log_access::look);
        if (!found) {
            wrong_ = found.error().message();
            return;
        }
        for (std::size_t thread = 0; thread < threads_; ++thread) {
            for (const lane::record_on_media& each : written_.at(thread)) {
                const bool is_there = std::ranges::any_of(found.value(), [&](const lane::record_on_media& other) {
                    return std::memcmp(&each, &other, sizeof each) == 0;
                });
                if (each.time > last->time && !is_there) {
                    wrong_ = "a record that is not void is not on the media";
                }
            }
        }
    }

    std::size_t threads_;
    unsigned calls_;
    base::sparse_memory user_ = memory(user_bytes);
    base::sparse_memory metadata_ = memory(segment::geometry{user_bytes}.metadata_size());
    base::sparse_memory file_ = memory(lane::lanes_file_size(8, ring));
    std::uint64_t size_ = 0;
    base::sparse_memory files_memory_ = memory(log::files_in_memory::bytes_for(log_files, log::least_file_size));
    mutable log::files_in_memory files_{static_cast<std::byte*>(files_memory_.address()), log_files,
                                        log::least_file_size};
    segment::space_view space_;
    lane::lane_set<disk_in_memory> set_{{}, space_, *this, options()};
    std::array<lane::lane*, explorer::most_threads> lanes_of_threads_{};
    std::array<std::vector<lane::record_on_media>, explorer::most_threads> written_;
    std::string wrong_;
};

auto checkpoints_of(std::size_t threads, unsigned calls) {
    return [=]() -> std::unique_ptr<subject> { return std::make_unique<checkpoint_subject>(threads, calls); };
}

TEST(interleavings_of_checkpoints, let_every_call_return_and_void_no_record_too_early) {
    expect_right(checkpoints_of(2, 3), {.preemptions = 2});
    expect_right(checkpoints_of(3, 4), {.preemptions = 1});
}

TEST(interleavings_of_checkpoints, find_what_is_void_too_early) {
    for (const char* const site : {"lane.log.release", "lane.checkpoint.in_flight"}) {
        const persist::mutant_selection mutant(site);
        EXPECT_NE(find_fault(checkpoints_of(4, 4), {.preemptions = 1, .runs = 20'000}), "") << site;
    }
}

}  // namespace
}  // namespace holdfast::interleavings
