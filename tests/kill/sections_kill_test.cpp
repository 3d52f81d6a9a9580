// The programs of examples/sections and kill -9: sections of two threads, in a process that is killed at any moment.
//
// Oracle: a program in ordinary memory, which nobody stops. The heap has as many sections as have returned, or one more
// for each thread, and the data of the other program after as many, to the last bit; its rules hold, and no block but
// its own is allocated. A program that has ended begins anew.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sections/persistent_program.hpp>

#include "kill/cycles.hpp"

namespace holdfast::test {
namespace {

using sections::persistent_program;
using sections::program_kind;

constexpr std::uint64_t section_threads = 2;

struct section_progress {
    std::atomic<std::uint64_t> returned;
    std::atomic<bool> runs;
    std::atomic<bool> is_done;
    char problem[400];
};

open_options section_options() {
    open_options options;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    return options;
}

/// The process that is killed.
int run_sections(const std::string& path, const program_kind& kind, section_progress& shown) {
    try {
        open_options options = section_options();
        options.commit_on_close = false;
        persistent_malloc heap(path, options);
        persistent_program running(heap, kind);
        shown.runs = true;
        const auto work = [&] {
            try {
                while (running.advance()) {
                    ++shown.returned;
                }
                shown.is_done = true;
            } catch (const std::exception& failure) {
                fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
            }
        };
        std::jthread other(work);
        work();
    } catch (const std::exception& failure) {
        fmt::format_to_n(&shown.problem[0], sizeof shown.problem - 1, "{}", failure.what());
    }
    return 1;
}

/// A program whose memory ends with its process.
class ordinary_program {
public:
    explicit ordinary_program(const program_kind& kind)
        : inside_(kind.open(blocks_, sections::make_state(blocks_, kind))) {}
    /// False where the program ends before.
    bool go_to(std::uint64_t sections) {
        while (inside_->sections() < sections) {
            if (!inside_->advance()) {
                return false;
            }
        }
        return true;
    }
    [[nodiscard]] const sections::program& inside() const { return *inside_; }

private:
    /// With all blocks that were not freed.
    class kept_memory final : public sections::memory {
    public:
        kept_memory() = default;
        void* allocate(std::size_t bytes) override {
            auto made = std::make_unique<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1);
            void* const block = made.get();
            blocks_.emplace(block, std::move(made));
            return block;
        }
        void release(void* block) override { blocks_.erase(block); }

    private:
        std::unordered_map<void*, std::unique_ptr<std::max_align_t[]>> blocks_;
    };

    kept_memory blocks_;
    std::unique_ptr<sections::program> inside_;
};

struct section_tally : change_tally {
    std::uint64_t ends = 0;  ///< programs that came to their end
    void print(std::ostream& out, const std::string& title) const {
        change_tally::print(out, title);
        out << "  " << ends << " programs came to their end\n";
    }
};

class section_watcher {
public:
    section_watcher(std::string directory, std::uint64_t seed, const program_kind* kind)
        : directory_(std::move(directory)), random_(seed), kind_(*kind) {}

    std::string next_heap() {
        if (!path_.empty()) {
            manager::remove(path_);
        }
        path_ = directory_ + "/sections" + std::to_string(tally_.heaps++);
        persistent_malloc heap(path_, section_options());
        const persistent_program begun(heap, kind_);
        heads_ = heap.manager().statistics().allocated_blocks - begun.inside().blocks();
        beside_ = std::make_unique<ordinary_program>(kind_);
        shown_->returned = known_ = 0;
        return {};
    }
    std::string cycle() {
        constexpr std::uint64_t longest = 20'000'000;
        ++tally_.cycles;
        shown_->is_done = false;
        const auto work = [&] { return run_sections(path_, kind_, *shown_); };
        const std::uint64_t enough = shown_->returned + 1 + random_() % 20;
        const auto await_some = [&](const base::child_process& worker) {
            static_cast<void>(worker.runs_until([&] { return shown_->returned >= enough || shown_->is_done; }));
        };
        // On a busy disk half of the kills would come before the first section returns.
        const std::string ended = random_() % 2 == 0
                                      ? kill_within(random_() % longest, *shown_, work)
                                      : kill_within(random_() % (longest / 30), *shown_, work, await_some, 0);
        if (!ended.empty()) {
            return ended;
        }
        try {
            return compare();
        } catch (const std::exception& failure) {
            return failure.what();
        }
    }
    [[nodiscard]] const section_tally& numbers() const noexcept { return tally_; }

private:
    std::string compare() {
        bool is_at_end = false;
        {
            persistent_malloc heap(path_, section_options());
            persistent_program left(heap, kind_);
            if (std::string wrong = judge(heap.manager(), left.inside()); !wrong.empty()) {
                return wrong;
            }
            is_at_end = shown_->is_done;
            if (is_at_end && left.advance()) {
                return "the program goes on behind its end";
            }
        }
        if (is_at_end) {
            ++tally_.ends;
            return next_heap();
        }
        return {};
    }
    std::string judge(manager& heap, const sections::program& left) {
        const std::uint64_t returned = shown_->returned;
        const std::uint64_t found = left.sections();
        if (found < returned || found > returned + section_threads) {
            return fmt::format("{} sections returned, {} are there", returned, found);
        }
        ++(found == returned ? tally_.in_flight_before : tally_.in_flight_after);
        tally_.changes += found - known_;
        known_ = shown_->returned = found;
        if (std::string wrong = left.problem(); !wrong.empty()) {
            return wrong;
        }
        if (!beside_->go_to(found) || beside_->inside().digest() != left.digest()) {
            return fmt::format("after {} sections the data are not those of a program that nobody stopped", found);
        }
        if (beside_->inside().answer() != left.answer()) {
            return fmt::format("'{}', not '{}'", left.answer(), beside_->inside().answer());
        }
        if (heap.statistics().allocated_blocks != heads_ + left.blocks()) {
            return fmt::format("{} blocks, expected {}", heap.statistics().allocated_blocks, heads_ + left.blocks());
        }
        const std::vector<std::string> problems = heap.check(true);
        return problems.empty() ? std::string() : problems.front();
    }

    std::string directory_;
    std::string path_;
    std::mt19937_64 random_;
    const program_kind& kind_;
    base::shared_memory<section_progress> shown_;
    std::unique_ptr<ordinary_program> beside_;
    std::uint64_t known_ = 0;
    std::uint64_t heads_ = 0;
    section_tally tally_;
};

class sections_kill : public testing::TestWithParam<const char*> {};

void kill_sections(const std::string& parent, std::uint64_t cycles, std::uint64_t seed, const char* name) {
    const program_kind* const kind = sections::find_program(name);
    if (kind == nullptr) {
        GTEST_SKIP() << "NOT TESTED HERE: " << name << ", whose library this build lacks (libcjson-dev)";
    }
    const section_tally found = run_kills<section_watcher>(parent, cycles, cycles, seed, kind);
    EXPECT_GT(found.changes, cycles);
    expect_often(found.ends, cycles, 200);
    expect_often(found.in_flight_before, cycles, 10);
}

TEST_P(sections_kill, leave_whole_sections_in_memory_file_system) {
    kill_sections(options().memory_directory, cycles_in_memory(), options().seed + 4, GetParam());
}

TEST_P(sections_kill, leave_whole_sections_on_disk) {
    kill_sections(options().disk_directory, cycles_on_disk(), options().seed + 5, GetParam());
}

INSTANTIATE_TEST_SUITE_P(programs, sections_kill, testing::Values("n-queens", "cholesky", "barnes-hut", "documents"),
                         [](const auto& each) {
                             std::string name = each.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 1000); }
