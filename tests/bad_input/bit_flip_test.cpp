// Bits that flip anywhere in the files of a heap: the answer is an error, a problem that check() names, or the right
// content; never a crash, a hang or wrong content.
//
// Batches run in children of fork with a time limit, so that a crash is told with the flip that caused it.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

#if defined(__has_feature)
#define HF_TEST_HAS_FEATURE(feature) __has_feature(feature)
#else
#define HF_TEST_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || HF_TEST_HAS_FEATURE(address_sanitizer) || \
    HF_TEST_HAS_FEATURE(thread_sanitizer)
constexpr unsigned effort = 1;
#else
constexpr unsigned effort = 3;
#endif
constexpr unsigned batch = 100;
constexpr unsigned seconds_a_batch = 100;

struct flip {
    char file[32];
    std::uint64_t byte;
    unsigned bit;
};

/// What a child tells its parent, in memory that both have.
struct shared_report {
    flip current[3];
    unsigned flips;
    unsigned refused;   ///< did not open
    unsigned reported;  ///< check() named a problem
    unsigned harmless;  ///< the content is right
    char wrong[512];    ///< what was wrong, "" while nothing was
};

enum class how_opened { reader, writer };

std::string text_of(const shared_report& report, unsigned flips) {
    std::string text;
    for (unsigned i = 0; i < flips; ++i) {
        text +=
            fmt::format("{} byte {} bit {}; ", report.current[i].file, report.current[i].byte, report.current[i].bit);
    }
    return text;
}

class bit_flips : public ::testing::Test {
protected:
    bit_flips()
        : report_(new(::mmap(nullptr, sizeof(shared_report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                      shared_report{}) {}
    ~bit_flips() override { ::munmap(report_, sizeof(shared_report)); }

    [[nodiscard]] flip choose() {
        std::vector<std::string> names{"segment.000000", "segment.000000", "objects", "superblock"};
        if (is_crashed_) {
            names.push_back(fs::path(log_of(heap_)).filename());
        }
        const std::string name = names[random_() % names.size()];
        const std::string path = heap_ + "/" + name;
        const std::uint64_t size = fs::file_size(path);
        flip chosen{};
        fmt::format_to_n(chosen.file, sizeof chosen.file - 1, "{}", name);
        chosen.bit = static_cast<unsigned>(random_() % 8);
        // Most bytes are zeros that nobody reads: three times of four look for one that was written.
        const int tries = random_() % 4 == 0 ? 1 : 200;
        for (int i = 0; i < tries; ++i) {
            chosen.byte = random_() % size;
            if (read_bytes(path, chosen.byte, 1)[0] != 0) {
                break;
            }
        }
        return chosen;
    }

    void apply(const flip& one) const { flip_bit(heap_ + "/" + one.file, one.byte, one.bit); }

    /// Opens the damaged heap; `steps` are the contents that are right.
    void examine(how_opened how, const std::vector<std::uint64_t>& steps) const {
        manager opened = [&]() -> manager {
            try {
                return how == how_opened::reader ? manager(open_read_only, heap_, small_segments())
                                                 : manager(open_only, heap_, small_segments());
            } catch (const error& what) {
                if (what.path().empty() || what.field().empty() || what.found().empty() || what.expected().empty()) {
                    throw wrong_content(fmt::format("an error that says too little: {}", what.what()));
                }
                ++report_->refused;
                throw;
            }
        }();
        if (!opened.check(true).empty()) {
            ++report_->reported;
            // Damaged, and known to be: whatever is asked of the objects may fail, and must not crash.
            static_cast<void>(opened.statistics());
            return;
        }
        const std::uint64_t step = step_of(opened);
        if (std::find(steps.begin(), steps.end(), step) == steps.end()) {
            throw wrong_content(fmt::format("step {}", step));
        }
        ++report_->harmless;
        if (how == how_opened::writer) {
            advance(opened, step + 1);
            opened.close(true);
            const manager again(open_read_only, heap_, small_segments());
            if (!again.check(true).empty() || step_of(again) != step + 1) {
                throw wrong_content("the heap does not go on: " +
                                    fmt::format("{}", fmt::join(again.check(true), "; ")));
            }
        }
    }

    /// In a child: a batch of flips, each undone.
    void run_batch(how_opened how, unsigned flips, const std::vector<std::uint64_t>& steps) {
        const scratch_directory kept;
        if (how == how_opened::writer) {
            copy_directory(heap_, kept / "heap");
        }
        for (unsigned i = 0; i < batch; ++i) {
            for (unsigned k = 0; k < flips; ++k) {
                report_->current[k] = choose();
                apply(report_->current[k]);
            }
            ++report_->flips;
            try {
                examine(how, steps);
            } catch (const wrong_content& what) {
                fmt::format_to_n(report_->wrong, sizeof report_->wrong - 1, "{}", what.what());
                return;
            } catch (const error&) {
                // Counted where it opened; a look-up in a damaged heap may fail, too.
            }
            if (how == how_opened::writer) {
                copy_directory(kept / "heap", heap_);
            } else {
                for (unsigned k = 0; k < flips; ++k) {
                    apply(report_->current[k]);
                }
            }
        }
    }

    void run(how_opened how, unsigned batches, unsigned flips, const std::vector<std::uint64_t>& steps) {
        for (unsigned i = 0; i < batches; ++i) {
            std::fflush(nullptr);
            const auto seed = random_();
            const base::process_end end = base::run_in_child([&] {
                ::alarm(seconds_a_batch);
                random_.seed(seed);
                run_batch(how, flips, steps);
            });
            ASSERT_TRUE(end.succeeded()) << end << " after " << text_of(*report_, flips);
            ASSERT_STREQ(report_->wrong, "") << "after " << text_of(*report_, flips);
        }
        fmt::print("{} damaged heaps: {} refused, {} reported by check, {} with the right content\n", report_->flips,
                   report_->refused, report_->reported, report_->harmless);
        EXPECT_GT(report_->refused + report_->reported, report_->flips / 4) << "the flips hit nothing";
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
    bool is_crashed_ = false;
    std::mt19937_64 random_{20240607};
    shared_report* report_;
};

TEST_F(bit_flips, in_a_clean_heap_that_is_read) {
    make_heap(heap_, 4);
    run(how_opened::reader, 8 * effort, 1, {4});
}

TEST_F(bit_flips, in_a_clean_heap_that_is_written) {
    make_heap(heap_, 4);
    run(how_opened::writer, 2 * effort, 1, {4});
}

TEST_F(bit_flips, in_a_crashed_heap_that_is_read) {
    make_crashed_heap(heap_, 4);
    is_crashed_ = true;
    run(how_opened::reader, 2 * effort, 1, {4});
}

TEST_F(bit_flips, in_a_heap_with_a_commit_in_its_log_that_is_read) {
    make_heap_with_pending_commit(heap_, 4);
    is_crashed_ = true;
    run(how_opened::reader, 4 * effort, 1, {3, 4});
}

TEST_F(bit_flips, in_a_heap_with_a_commit_in_its_log_that_is_written) {
    make_heap_with_pending_commit(heap_, 4);
    is_crashed_ = true;
    run(how_opened::writer, 2 * effort, 1, {3, 4});
}

TEST_F(bit_flips, three_at_once) {
    make_heap(heap_, 4);
    run(how_opened::reader, 2 * effort, 3, {4});
}

}  // namespace
}  // namespace holdfast::support
