// The real segment layer on real files with real mappings, cut at every operation: each image is written as a directory
// and opened by the real code.
//
// Some hundred times slower than the model (commit_crash_test.cpp), so it examines fewer images. What heap_files does
// around the commit protocol is the original: creation, growth, marking, leftovers, closing.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "segment/creation/copy.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"
#include "simulator/commit/space_explorer.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/storage/fault_injecting_storage.hpp"
#include "simulator/storage/recording_storage.hpp"

namespace holdfast::simulator {
namespace {

using segment::heap_files;
using segment::must;

constexpr std::uint64_t region = segment::region_size;

/// What a commit left: words by offset.
struct known_state {
    std::uint64_t sequence = 0;
    std::map<std::uint64_t, std::uint64_t> words;
};

class full_stack_crash_test : public testing::Test {
protected:
    full_stack_crash_test() : storage_(scratch_.path("live"), 512) {}

    void SetUp() override {
        std::filesystem::create_directory(scratch_.path("live"));
        states_.push_back({});  // no heap
        for (const std::string& place : places_) {
            must(storage_.make_directory(scratch_.path("live/" + place), "test.place"));
            must(storage_.sync_directory(scratch_.path("live"), "test.place.sync"));
        }
        storage_.set_observer([this] { cut(); });
        heap_ = must(heap_files::create(storage_, scratch_.path("live/heap"), options_in(scratch_.path("live"))));
    }

    void TearDown() override {
        storage_.set_observer({});
        std::printf("%llu images\n", static_cast<unsigned long long>(images_));
        EXPECT_GT(images_, 80U);
    }

    void store(std::uint64_t offset, std::uint64_t value) {
        std::memcpy(heap_->view().base() + offset, &value, sizeof value);
        now_.words[offset] = value;
    }
    void commit() {
        now_.sequence = states_.back().sequence + 1;
        states_.push_back(now_);
        must(heap_->commit({}));
        states_.front() = states_.back();
        states_.resize(1);
        cut();
    }
    /// Closes, and opens as another process.
    void reopen() {
        must(heap_->close_cleanly());
        cut();
        heap_.reset();
        heap_ = must(heap_files::open(storage_, scratch_.path("live/heap"), persist::access_mode::read_write, {}));
    }

    heap_files& heap() { return *heap_; }

    /// Further directories for segments.
    std::vector<std::string> places_;

private:
    [[nodiscard]] segment::creation_options options_in(const std::string& directory) const {
        segment::creation_options options;
        options.segment_size = segment::minimum_segment_size;
        options.mapping.reservation = 64 * region;
        for (const std::string& place : places_) {
            options.node_places.push_back(fmt::format("{}/{}", directory, place));
        }
        return options;
    }
    void cut() {
        const choice_limits few{256, 32, 32, 64};
        storage_.for_each_crash_image(few, ++cuts_, [&](const storage_image& left) {
            std::uint64_t key = left.hash();
            for (const known_state& one : states_) {
                key = mix(key, one.sequence);
            }
            if (seen_.insert(key)) {
                check(left);
            }
            return !HasFailure();
        });
    }

    void check(const storage_image& left) {
        ++images_;
        const std::string target = scratch_.path("image");
        std::filesystem::create_directory(target);
        must(storage_.materialise(left, target));
        std::string wrong = look(target + "/heap");
        if (wrong.empty() && !places_.empty()) {
            wrong = remove_all_of(target);
        }
        if (!wrong.empty()) {
            ADD_FAILURE() << wrong << "\n  cut at " << storage_.position();
        }
        std::filesystem::remove_all(target);
    }

    [[nodiscard]] std::string look(const std::string& heap) const {
        auto opened = heap_files::open(persist::posix_storage(), heap, persist::access_mode::read_write, {});
        if (!opened) {
            const bool may_be_none = states_.front().sequence == 0 && !std::filesystem::exists(heap + "/superblock");
            return may_be_none ? std::string{} : opened.error().message();
        }
        heap_files& found = **opened;
        for (const known_state& one : states_) {
            if (found.superblock().sequence == one.sequence) {
                return compare(found, one);
            }
        }
        return "commit " + std::to_string(found.superblock().sequence);
    }

    /// After any crash the library finds all its files again: once the heap, or a new one, is removed, the directories
    /// are empty.
    [[nodiscard]] std::string remove_all_of(const std::string& target) const {
        const std::string heap = target + "/heap";
        if (!std::filesystem::exists(heap + "/superblock")) {
            auto made = heap_files::create(persist::posix_storage(), heap, options_in(target));
            if (!made) {
                return made.error().message();
            }
            must((*made)->grow(base::pages{1}));
            must((*made)->commit({}));
        }
        const auto removed = segment::remove_heap(persist::posix_storage(), heap);
        if (!removed) {
            return removed.error().message();
        }
        for (const std::string& place : places_) {
            if (!std::filesystem::is_empty(std::filesystem::path(target) / place)) {
                return "something was left in " + place;
            }
        }
        return {};
    }

    static std::string compare(const heap_files& found, const known_state& expected) {
        const std::uint64_t size = base::to_bytes(found.frontier());
        for (const auto& [offset, value] : expected.words) {
            std::uint64_t word = 0;
            if (offset >= size) {
                return "the frontier is too low";
            }
            std::memcpy(&word, found.view().base() + offset, sizeof word);
            if (word != value) {
                return "word at " + std::to_string(offset) + " is " + std::to_string(word);
            }
        }
        std::vector<base::failure> problems;
        must(found.verify(problems, 1));
        return problems.empty() ? std::string{} : problems.front().message();
    }

    segment::test_directory scratch_;
    recording_storage storage_;
    std::unique_ptr<heap_files> heap_;
    known_state now_;
    std::vector<known_state> states_;  ///< what a crash may show: the last commit that returned, or the one in flight
    hash_set seen_;
    std::uint64_t cuts_ = 0;
    std::uint64_t images_ = 0;
};

TEST_F(full_stack_crash_test, CreationAndCommits) {
    must(heap().grow(base::pages{1}));
    store(0, 1);
    commit();
    store(0, 2);
    store(5 * base::page_size, 3);
    commit();
    commit();
}

TEST_F(full_stack_crash_test, GrowthThatIsWritten) {
    must(heap().grow(base::pages{1}));
    store(0, 1);
    commit();
    must(heap().grow(base::pages{1}));
    store(0, 2);
    store(region + 100, 3);
    commit();
}

TEST_F(full_stack_crash_test, GrowthThatIsNotWritten) {
    must(heap().grow(base::pages{1}));
    store(0, 1);
    commit();
    must(heap().grow(base::pages{1}));
    store(0, 2);
    commit();
    must(heap().grow_objects(1));
    store(0, 3);
    commit();
}

TEST_F(full_stack_crash_test, CloseAndOpenAgain) {
    must(heap().grow(base::pages{1}));
    store(0, 1);
    commit();
    reopen();
    store(0, 2);
    commit();
    reopen();
    reopen();
}

class node_directories_crash_test : public full_stack_crash_test {
protected:
    node_directories_crash_test() { places_ = {"a", "b"}; }
};

TEST_F(node_directories_crash_test, CreationGrowthAndCommits) {
    must(heap().grow(base::pages{1}));
    store(0, 1);
    commit();
    must(heap().grow(base::pages{1}));
    store(region + 100, 2);
    commit();
    must(heap().space().grow_beyond({region / base::page_size}, {1}, {region / base::page_size}));
    store(3 * region + 8, 3);
    commit();
    reopen();
    store(8, 4);
    commit();
}

// --- the engine, with space that goes back ---

TEST(space_crash_test, EveryImageOpensAndGoesOn) {
    for (const space_scenario& one : space_scenarios()) {
        space_explorer explorer(one.segment_size, one.decay_ns, {24, 12, 12, 16});
        one.run(explorer);
        std::printf("%s: %llu images\n", one.name.c_str(), static_cast<unsigned long long>(explorer.images()));
        ASSERT_EQ(explorer.wrong(), "") << one.name;
        EXPECT_GT(explorer.images(), 50U) << one.name;
    }
}

/// A heap whose shrink() fails at each call in turn, once or from then on. It goes on, then its process dies.
class faulty_shrink {
public:
    faulty_shrink(heap::durability_kind durability, std::uint64_t segment_size) {
        options_.durability = durability;
        options_.accept_process_crash_only = true;
        options_.domain = persist::domain_kind::page_cache;
        options_.files.segment_size = segment_size;
        options_.files.mapping.reservation = base::gibibyte;
        options_.decay_ns = extent::decay_curve::never;
        options_.storage = &storage_;
    }

    /// The number of calls of shrink().
    std::uint64_t run(const fault_plan& faults) {
        const std::string path = scratch_.path("heap");
        std::filesystem::remove_all(path);
        storage_.plan({});
        known_blocks blocks;
        auto engine = must(heap::engine::create(path, options_));
        blocks.put(*engine, 0, 100'000);
        blocks.put(*engine, 1, 40'000);
        blocks.put(*engine, 2, 40'000);
        blocks.put(*engine, 3, 6 * base::mebibyte);
        must(engine->commit());
        std::vector<known_blocks> states{blocks};
        blocks.drop(*engine, 1);
        blocks.drop(*engine, 3);
        states.push_back(blocks);
        storage_.plan(faults);
        const bool done = engine->shrink(0, [](const heap::shrink_report&) {}).ok();
        const std::uint64_t calls = storage_.calls();
        storage_.plan({});
        EXPECT_EQ(blocks.difference(*engine, false), "");
        // After a failed sync commits fail; otherwise the heap goes on and reuses free space, in the segment and
        // beyond.
        blocks.put(*engine, 4, 1'500'000);
        blocks.put(*engine, 5, 5 * base::mebibyte);
        const bool commits = options_.durability == heap::durability_kind::commit;
        if (!commits || engine->commit()) {
            states = {blocks};
        } else if (done) {
            states.erase(states.begin());
        }
        EXPECT_EQ(blocks.difference(*engine, false), "");
        engine.reset();
        options_.storage = &storage_;
        engine = must(heap::engine::open(path, persist::access_mode::read_write, options_));
        std::string wrong;
        for (const known_blocks& one : states) {
            wrong = one.difference(*engine, true);
            if (wrong.empty()) {
                break;
            }
        }
        EXPECT_EQ(wrong, "");
        must(engine->close(true));
        return calls;
    }

private:
    segment::test_directory scratch_;
    fault_injecting_storage storage_{persist::posix_storage()};
    heap::engine_options options_;
};

class space_fault_test : public testing::TestWithParam<std::tuple<heap::durability_kind, std::uint64_t>> {};

TEST_P(space_fault_test, AShrinkThatFailsAtAnyCallLosesNothing) {
    faulty_shrink subject(std::get<0>(GetParam()), std::get<1>(GetParam()));
    const std::uint64_t calls = subject.run({});
    EXPECT_GT(calls, 10U);
    for (std::uint64_t call = 1; call <= calls && !HasFailure(); ++call) {
        for (const auto how : {fault_plan::repeat::once, fault_plan::repeat::from_then_on}) {
            for (const int error : {EIO, ENOSPC}) {
                SCOPED_TRACE("call " + std::to_string(call) + ", error " + std::to_string(error));
                subject.run({call, error, how});
            }
        }
    }
    std::printf("%llu calls\n", static_cast<unsigned long long>(calls));
}

/// A heap in durability `atomic` whose close() fails at each call in turn. It goes on, then its process dies.
class faulty_close {
public:
    faulty_close() {
        options_.durability = heap::durability_kind::atomic;
        options_.domain = persist::domain_kind::emulated;  // bitmaps follow at checkpoints alone
        options_.files.segment_size = segment::minimum_segment_size;
        options_.files.mapping.reservation = base::gibibyte;
        options_.storage = &storage_;
    }

    /// The number of calls of close().
    std::uint64_t run(std::uint64_t failing) {
        const std::string path = scratch_.path("heap");
        std::filesystem::remove_all(path);
        storage_.plan({});
        known_blocks blocks;
        auto engine = must(heap::engine::create(path, options_));
        blocks.put(*engine, 0, 3 * base::mebibyte);
        blocks.put(*engine, 1, 200);
        storage_.plan({failing});
        const auto closed = engine->close(true);
        const std::uint64_t calls = storage_.calls();
        storage_.plan({});
        if (!closed) {
            blocks.put(*engine, 2, 200);
            blocks.put(*engine, 3, 70'000);
            expect_poisoned_after_lost_write(*engine, closed.error());
        }
        engine.reset();
        engine = must(heap::engine::open(path, persist::access_mode::read_write, options_));
        EXPECT_EQ(blocks.difference(*engine, false), "");
        must(engine->close(true));
        return calls;
    }

private:
    /// The superblock alone is written again.
    static void expect_poisoned_after_lost_write(heap::engine& engine, const base::failure& why) {
        const bool is_sync = why.field == "fdatasync" || why.field == "fsync";
        if (is_sync && !why.path.ends_with("/superblock")) {
            EXPECT_EQ(engine.commit().error().code, base::failure_code::poisoned);
            EXPECT_EQ(engine.close(true).error().code, base::failure_code::poisoned);
            must(engine.close(false));
        }
    }

    segment::test_directory scratch_;
    fault_injecting_storage storage_{persist::posix_storage()};
    heap::engine_options options_;
};

TEST(close_fault_test, ACloseThatFailsAtAnyCallLosesNothing) {
    faulty_close subject;
    const std::uint64_t calls = subject.run(0);
    EXPECT_GT(calls, 10U);
    for (std::uint64_t call = 1; call <= calls && !testing::Test::HasFailure(); ++call) {
        SCOPED_TRACE("call " + std::to_string(call));
        subject.run(call);
    }
    std::printf("%llu calls\n", static_cast<unsigned long long>(calls));
}

INSTANTIATE_TEST_SUITE_P(ways, space_fault_test,
                         testing::Combine(testing::Values(heap::durability_kind::commit, heap::durability_kind::atomic),
                                          testing::Values(segment::minimum_segment_size,
                                                          4 * segment::minimum_segment_size)));

}  // namespace
}  // namespace holdfast::simulator
