// The real segment layer, mappings and all, on real files, cut off at every operation: each image is written out as a
// directory and opened by the real code.
//
// Slower than the model (commit_crash_test.cpp) by a factor of some hundred, so it looks at fewer images; but what
// heap_files does around the commit protocol is the original here: creation, growth, marking, leftovers, closing.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"
#include "simulator/crash_explorer.hpp"
#include "simulator/recording_storage.hpp"

namespace holdfast::simulator {
namespace {

using segment::heap_files;
using segment::must;

constexpr std::uint64_t region = segment::region_size;

/// What a commit left: words of user space by offset.
struct known_state {
    std::uint64_t sequence = 0;
    std::map<std::uint64_t, std::uint64_t> words;
};

class full_stack_crash_test : public testing::Test {
protected:
    full_stack_crash_test() : storage_(scratch_.path("live"), 512) {}

    void SetUp() override {
        std::filesystem::create_directory(scratch_.path("live"));
        segment::creation_options options;
        options.segment_size = segment::minimum_segment_size;
        options.mapping.reservation = 64 * region;
        states_.push_back({});  // no heap
        storage_.set_observer([this] { cut(); });
        heap_ = must(heap_files::create(storage_, scratch_.path("live/heap"), options));
    }

    void TearDown() override {
        storage_.set_observer({});
        std::printf("%llu images\n", static_cast<unsigned long long>(images_));
        EXPECT_GT(images_, 100U);
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
    /// Closes and opens again, as another process would.
    void reopen() {
        must(heap_->close_cleanly());
        cut();
        heap_.reset();
        heap_ = must(heap_files::open(storage_, scratch_.path("live/heap"), persist::access_mode::read_write, {}));
    }

    heap_files& heap() { return *heap_; }

private:
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
    std::vector<known_state> states_;  ///< what a crash may show: the last that returned, and the one under way
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

}  // namespace
}  // namespace holdfast::simulator
