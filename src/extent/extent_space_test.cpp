#include <map>
#include <memory>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "extent/extent.hpp"
#include "extent/extent_test_support.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t second_ns = 1'000'000'000;

// --- the curve ---

TEST(decay_curve_test, what_is_freed_at_once_decays_as_smootherstep_says) {
    decay_curve curve;
    curve.start(10 * second_ns, 0);
    EXPECT_EQ(curve.limit(decay_curve::step_ns, 1000), 1000U);
    std::uint64_t backed = 1000;
    for (std::uint64_t step = 2; step <= 201; ++step) {
        const double left = 1.0 - static_cast<double>(step - 1) / 200;
        const std::uint64_t limit = curve.limit(step * decay_curve::step_ns, backed);
        EXPECT_NEAR(static_cast<double>(limit), 1000 * smootherstep(left), 1.0) << step;
        backed = limit;
    }
    EXPECT_EQ(backed, 0U);
}

TEST(decay_curve_test, what_is_used_again_need_not_decay) {
    decay_curve curve;
    curve.start(10 * second_ns, 0);
    EXPECT_EQ(curve.limit(1 * decay_curve::step_ns, 1000), 1000U);
    EXPECT_EQ(curve.limit(100 * decay_curve::step_ns, 10), 10U);  // half of the time: half may stay, and 10 do
}

TEST(decay_curve_test, a_long_silence_is_one_step) {
    decay_curve curve;
    curve.start(second_ns, 0);
    EXPECT_EQ(curve.limit(60 * second_ns, 1000), 1000U);  // freed at an unknown time
    EXPECT_FALSE(curve.is_due(60 * second_ns + decay_curve::step_ns - 1));
    EXPECT_TRUE(curve.is_due(60 * second_ns + decay_curve::step_ns));
    EXPECT_EQ(curve.limit(120 * second_ns, 1000), 0U);
}

TEST(decay_curve_test, at_once_and_never) {
    decay_curve curve;
    EXPECT_FALSE(curve.enabled());
    curve.start(0, 0);
    EXPECT_TRUE(curve.is_due(0));
    EXPECT_EQ(curve.limit(0, 1000), 0U);
    curve.start(decay_curve::never, 0);
    EXPECT_FALSE(curve.is_due(~std::uint64_t{0}));
    EXPECT_EQ(curve.limit(100 * second_ns, 1000), 1000U);
}

// --- giving back ---

class extent_space_test : public testing::Test {
protected:
    extent_space_test() {
        test_time = 0;
        EXPECT_TRUE(space_.grow({512}).ok());
        EXPECT_TRUE(allocator_.format().ok());
    }
    void TearDown() override { EXPECT_THAT(problems_of(allocator_), IsEmpty()); }

    pages allocate(std::uint64_t length) {
        auto got = allocator_.allocate({length}, {1}, extent_kind::used);
        EXPECT_TRUE(got.ok()) << (got ? "" : got.error().message());
        for (std::uint64_t page = 0; got.ok() && page < length; ++page) {
            EXPECT_TRUE(space_.is_backed(*got + pages{page})) << "page " << page << " of a block has no space";
        }
        return got ? *got : pages{};
    }
    void free(pages start) { EXPECT_TRUE(allocator_.free(start).ok()); }

    fake_space space_;
    extent_allocator allocator_{space_.view(), space_};
};

TEST_F(extent_space_test, nothing_decays_where_nobody_asked_for_it) {
    const pages block = allocate(5000);
    free(block);
    EXPECT_EQ(space_.given_back(), 0U);
    EXPECT_EQ(allocator_.space().backed_free_pages(), allocator_.free_pages());
}

TEST_F(extent_space_test, what_is_freed_without_saying_that_it_has_space_gets_some_before_it_is_used) {
    const pages before = allocate(10);
    const pages block = allocate(16);
    const pages after = allocate(10);
    allocate(460);  // the rest
    ASSERT_TRUE(space_.give_back(block + pages{3}, {9}).ok());
    ASSERT_TRUE(allocator_.free(block, extent_kind::used, false).ok());
    EXPECT_EQ(allocator_.space().backed_free_pages().value, 16U) << "as after open(): not known to be holes";
    EXPECT_THAT(problems_of(allocator_), IsEmpty());
    EXPECT_EQ(allocate(16), block);
    // The hole is united with neighbours that have space.
    ASSERT_TRUE(space_.give_back(block + pages{3}, {9}).ok());
    free(before);
    free(after);
    ASSERT_TRUE(allocator_.free(block, extent_kind::used, false).ok());
    EXPECT_THAT(problems_of(allocator_), IsEmpty());
    EXPECT_EQ(allocate(36), before);
}

TEST_F(extent_space_test, pages_in_use_get_space_and_free_extents_make_room_for_it) {
    allocator_.space().set_decay(10 * second_ns, test_clock);
    const pages block = allocate(16);
    const pages other = allocate(40);
    allocate(440);  // the rest
    ASSERT_TRUE(space_.give_back(block, {12}).ok());
    space_.set_disk(space_.on_disk());
    EXPECT_FALSE(allocator_.back_used(block, {16}).ok());
    EXPECT_FALSE(space_.is_backed(block));
    free(other);
    ASSERT_TRUE(allocator_.back_used(block, {16}).ok());
    for (std::uint64_t page = 0; page < 16; ++page) {
        EXPECT_TRUE(space_.is_backed(block + pages{page}));
    }
    EXPECT_TRUE(allocator_.back_used(block, {16}).ok()) << "what has space";
    EXPECT_EQ(allocator_.space().backed_free_pages().value, 0U);
}

TEST_F(extent_space_test, freed_memory_decays) {
    allocator_.space().set_decay(10 * second_ns, test_clock);
    std::vector<pages> blocks;
    for (int i = 0; i < 200; ++i) {
        blocks.push_back(allocate(10));
        allocate(1);
    }
    for (const pages block : blocks) {
        free(block);
    }
    const std::uint64_t all = space_.on_disk();
    std::uint64_t before = all;
    for (int step = 0; step < 250; ++step) {
        test_time += decay_curve::step_ns;
        allocator_.space().decay(1000);
        EXPECT_LE(space_.on_disk(), before);
        before = space_.on_disk();
    }
    EXPECT_EQ(before, 512U * (all / 512) - allocator_.free_pages().value);  // what is in use, and no more
    EXPECT_EQ(allocator_.space().backed_free_pages().value, 0U);
    EXPECT_EQ(allocate(10), blocks.front());  // a hole is used again, with space
}

TEST_F(extent_space_test, the_oldest_go_first) {
    allocator_.space().set_decay(second_ns, test_clock);
    const pages first = allocate(10);
    allocate(1);
    const pages second = allocate(300);
    allocate(185);  // nothing else is free
    free(first);
    test_time = decay_curve::step_ns;
    allocator_.space().decay(1000);
    test_time += 15 * decay_curve::step_ns;
    free(second);
    allocator_.space().decay(1);
    EXPECT_FALSE(space_.is_backed(first));
    EXPECT_TRUE(space_.is_backed(second));
}

TEST_F(extent_space_test, free_itself_gives_back_what_has_decayed) {
    allocator_.space().set_decay(second_ns, test_clock);
    std::vector<pages> blocks;
    for (int i = 0; i < 20; ++i) {
        blocks.push_back(allocate(10));
        allocate(1);
    }
    const pages last = allocate(1);
    for (const pages block : blocks) {
        free(block);
    }
    for (int i = 0; i < 60; ++i) {
        test_time += decay_curve::step_ns;
        free(i == 0 ? last : allocate(1));
    }
    EXPECT_GT(space_.given_back(), 10U);
}

TEST_F(extent_space_test, a_huge_extent_goes_at_once) {
    allocator_.space().set_decay(10 * second_ns, test_clock);
    const pages block = allocate(huge_length.value);
    allocate(1);
    const std::uint64_t before = space_.on_disk();
    free(block);
    EXPECT_EQ(space_.on_disk(), before - huge_length.value);
    EXPECT_EQ(allocator_.find(block)->kind, extent_kind::free);
    EXPECT_EQ(allocate(huge_length.value), block);
}

TEST_F(extent_space_test, huge_extents_linger_where_they_may_and_decay_like_others) {
    space_.let_linger({huge_length.value * 5 / 2});
    allocator_.space().set_decay(second_ns, test_clock);
    std::vector<pages> blocks;
    for (int i = 0; i < 3; ++i) {
        blocks.push_back(allocate(huge_length.value));
        allocate(1);
    }
    const std::uint64_t before = space_.on_disk();
    const pages others = allocator_.space().backed_free_pages();
    ASSERT_LT(others.value, huge_length.value / 2);
    free(blocks[0]);
    free(blocks[1]);
    EXPECT_EQ(space_.on_disk(), before);
    free(blocks[2]);
    EXPECT_EQ(space_.on_disk(), before - huge_length.value);
    for (std::uint64_t i = 0; i < 2 * second_ns / decay_curve::step_ns; ++i) {
        test_time += decay_curve::step_ns;
        allocator_.space().decay(1000);
    }
    EXPECT_EQ(allocator_.space().backed_free_pages().value, 0U);
}

TEST_F(extent_space_test, where_commits_give_back_it_does_not) {
    space_.give_back_at_once(false);
    allocator_.space().set_decay(0, test_clock);
    const pages block = allocate(100);
    allocate(10);
    free(block);
    EXPECT_EQ(space_.given_back(), 0U);
    const std::vector<extent> going = allocator_.space().to_give_back(false);
    ASSERT_THAT(going, testing::SizeIs(2));
    EXPECT_EQ(going.front(), (extent{block, {100}, extent_kind::free}));
    for (const extent& one : going) {
        EXPECT_TRUE(space_.give_back(one.start, one.length).ok());
    }
    allocator_.space().gave_back(going);
    EXPECT_THAT(allocator_.space().to_give_back(true), IsEmpty());
    EXPECT_EQ(allocate(100), block);
}

TEST_F(extent_space_test, a_full_disk_is_refused_and_what_is_free_elsewhere_makes_room) {
    space_.set_disk(512);
    std::vector<pages> blocks;
    for (int i = 0; i < 31; ++i) {
        blocks.push_back(allocate(16));
    }
    EXPECT_EQ(allocator_.allocate({16}, {1}, extent_kind::used).error().code, failure_code::no_space);
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
        free(blocks[i]);
    }
    // 16 holes of 16 pages: a block of 256 fits nowhere, but the space for it is there (in whole regions: 512 pages).
    const auto refused = allocator_.allocate({256}, {1}, extent_kind::used);
    EXPECT_EQ(refused.error().code, failure_code::no_space);
    space_.set_disk(1024 - 15 * 16);
    const pages got = allocate(256);
    EXPECT_EQ(got.value, 496U);  // it begins where the space ended
    EXPECT_LE(space_.on_disk(), 1024U - 15 * 16);
}

TEST_F(extent_space_test, a_hole_on_a_full_disk_is_an_error_and_stays_free) {
    const pages block = allocate(200);
    const pages other = allocate(296);
    free(block);
    ASSERT_TRUE(allocator_.space().give_back({~std::uint64_t{0}}).ok());
    EXPECT_EQ(space_.on_disk(), 16U + 296U);
    space_.set_disk(16 + 296 + 100);
    space_.set_capacity(512 * base::page_size);
    EXPECT_EQ(allocator_.allocate({200}, {1}, extent_kind::used).error().code, failure_code::no_space);
    EXPECT_EQ(allocator_.find(block), (segment::page_entry{extent_kind::free, {200}}));
    EXPECT_EQ(allocate(100), block);
    free(other);
    EXPECT_EQ(allocate(200), block + pages{100});
}

TEST_F(extent_space_test, give_back_stops_when_enough_is_gone) {
    std::vector<pages> blocks;
    for (int i = 0; i < 10; ++i) {
        blocks.push_back(allocate(10));
        allocate(1);
    }
    for (const pages block : blocks) {
        free(block);
    }
    const auto gone = allocator_.space().give_back({25});
    ASSERT_TRUE(gone.ok());
    EXPECT_GE(gone->value, 25U);
    EXPECT_LT(gone->value, 25U + 512U);
}

TEST_F(extent_space_test, after_open_what_nobody_knows_is_reserved_again) {
    const pages block = allocate(100);
    allocate(300);
    free(block);
    EXPECT_TRUE(space_.give_back(block, {100}).ok());  // what an earlier opening did
    extent_allocator opened(space_.view(), space_);
    ASSERT_TRUE(opened.open(space_.frontier()).ok());
    const auto got = opened.allocate({100}, {1}, extent_kind::used);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(*got, block);
    for (std::uint64_t page = 0; page < 100; ++page) {
        EXPECT_TRUE(space_.is_backed(block + pages{page}));
    }
    EXPECT_THAT(problems_of(opened), IsEmpty());
    EXPECT_TRUE(opened.free(block).ok());
    EXPECT_TRUE(allocator_.open(space_.frontier()).ok());
}

// --- the end of the heap ---

TEST_F(extent_space_test, the_heap_ends_where_it_is_used) {
    const pages kept = allocate(100);
    const pages large = allocate(3000);
    free(large);
    EXPECT_EQ(allocator_.space().shrink({}, [] { return false; })->value, 0U);
    EXPECT_EQ(allocator_.space().shrink({1024}, [] { return true; })->value, 3584U - 1536U);
    EXPECT_EQ(allocator_.space().shrink({}, [] { return true; })->value, 1024U);
    EXPECT_EQ(allocator_.frontier().value, 512U);
    EXPECT_EQ(space_.frontier().value, 512U);
    EXPECT_EQ(allocator_.space().shrink({}, [] { return true; })->value, 0U);
    EXPECT_EQ(allocate(3000).value, kept.value + 100);
    free(kept);
}

TEST_F(extent_space_test, a_free_extent_that_ends_with_the_heap_may_go_as_a_whole) {
    allocate(496);
    const pages large = allocate(512);
    EXPECT_EQ(large.value, 512U);
    free(large);
    EXPECT_EQ(allocator_.space().shrink({}, [] { return true; })->value, 512U);
    EXPECT_EQ(space_.view().page_entry_word({512}), 0U);
    EXPECT_EQ(allocator_.count(extent_kind::free), 0U);
    EXPECT_EQ(allocate(1).value, 512U);
}

TEST_F(extent_space_test, a_commit_that_fails_leaves_the_heap_as_long_as_it_was) {
    space_.give_back_at_once(false);
    const pages large = allocate(3000);
    free(large);
    EXPECT_EQ(allocator_.space().shrink({}, [] { return true; })->value, 0U);
    EXPECT_GT(allocator_.space().shrink_for_commit({}).value, 0U);
    EXPECT_EQ(allocator_.frontier().value, 512U);
    EXPECT_THAT(problems_of(allocator_), IsEmpty());
    allocator_.space().unshrink();
    EXPECT_EQ(allocator_.frontier(), space_.frontier());
    EXPECT_EQ(allocate(3000), large);
}

TEST_F(extent_space_test, what_was_a_hole_is_reserved_again_though_the_heap_did_not_become_shorter) {
    const pages large = allocate(3000);
    free(large);
    EXPECT_GE(allocator_.space().give_back({3000})->value, 3000U);
    const std::uint64_t on_disk = space_.on_disk();
    space_.fail_shrink();
    EXPECT_EQ(allocator_.space().shrink({}, [] { return true; }).error().code, failure_code::io);
    EXPECT_EQ(allocator_.frontier(), space_.frontier());
    EXPECT_THAT(problems_of(allocator_), IsEmpty());
    EXPECT_EQ(space_.on_disk(), on_disk);
    EXPECT_EQ(allocate(3000), large);  // every page has space
}

TEST_F(extent_space_test, what_was_a_hole_is_reserved_again_after_a_commit_that_failed) {
    space_.give_back_at_once(false);
    const pages large = allocate(3000);
    free(large);
    const std::vector<extent> gone = allocator_.space().to_give_back(true);
    for (const extent& one : gone) {
        EXPECT_TRUE(space_.give_back(one.start, one.length).ok());
    }
    allocator_.space().gave_back(gone);
    EXPECT_GT(allocator_.space().shrink_for_commit({}).value, 0U);
    allocator_.space().unshrink();
    EXPECT_EQ(allocate(3000), large);
}

TEST_F(extent_space_test, no_space_goes_while_records_speak_of_it) {
    bool written_back = false;
    std::uint64_t asked = 0;
    const auto is_written_back = [&] {
        ++asked;
        return written_back;
    };
    allocator_.space().set_written_back_check(is_written_back);
    allocator_.space().set_decay(0, test_clock);
    const pages block = allocate(100);
    allocate(1);
    const pages huge = allocate(huge_length.value);
    allocate(1);
    free(block);
    free(huge);
    EXPECT_GE(asked, 2U);
    EXPECT_EQ(space_.given_back(), 0U);
    EXPECT_EQ(allocator_.space().give_back({1})->value, 0U);
    // On a full disk no space goes back either.
    space_.set_disk(space_.on_disk() + huge_length.value);
    const pages larger{2 * huge_length.value};
    EXPECT_EQ(allocator_.allocate(larger, {1}, extent_kind::used).error().code, failure_code::no_space);
    EXPECT_EQ(space_.given_back(), 0U);
    written_back = true;
    EXPECT_TRUE(allocator_.allocate(larger, {1}, extent_kind::used).ok());
    EXPECT_GE(space_.given_back(), 1U);
}

// --- everything at random ---

/// What is allocated, by start. All else must be free, united, and either backed or a hole, as the disk says.
class space_model {
public:
    void run(std::uint64_t seed, std::uint64_t steps, std::uint64_t compare_every) {
        random_.seed(seed);
        test_time = 0;
        ASSERT_TRUE(space_.grow({512}).ok());
        open(true);
        for (std::uint64_t step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
            test_time += random_() % (second_ns / 1000);
            do_something();
            if (step % compare_every == 0) {
                compare();
            }
        }
        compare();
        EXPECT_GT(space_.given_back(), steps / 10'000);
        EXPECT_GT(refused_, 0U);
        EXPECT_GT(shrunk_, 0U);
        EXPECT_GT(resized_, steps / 1000);
    }

private:
    void open(bool first) {
        allocator_ = std::make_unique<extent_allocator>(space_.view(), space_);
        ASSERT_TRUE((first ? allocator_->format() : allocator_->open(space_.frontier())).ok());
        allocator_->space().set_decay(random_() % 3 == 0 ? decay_curve::never : random_() % second_ns, test_clock);
    }
    void do_something() {
        const std::uint64_t choice = random_() % 100'000;
        if (choice == 0) {
            open(false);
        } else if (choice < 5) {
            const auto shrunk = allocator_->space().shrink({random_() % 1000}, [this] { return random_() % 4 != 0; });
            ASSERT_TRUE(shrunk.ok());
            shrunk_ += shrunk->value != 0 ? 1U : 0U;
        } else if (choice < 10) {
            ASSERT_TRUE(allocator_->space().give_back({random_() % 2000}).ok());
        } else if (choice < 20) {
            // Phases with many allocations and with many frees, so that the heap grows and empties.
            share_ = random_() % 100;
            space_.set_disk(1000 + random_() % 30'000);
            space_.reserve_at_once(random_() % 3 == 0 ? ~std::uint64_t{0} : random_() % 2000);
        } else if (choice % 100 <= share_ || blocks_.empty()) {
            allocate();
        } else if (choice % 16 == 0) {
            resize();
        } else {
            free();
        }
    }
    void resize() {
        const auto chosen = blocks_.find(names_[random_() % names_.size()]);
        extent& block = chosen->second;
        const pages wanted{1 + random_() % (2 * block.length.value)};
        const auto next = std::next(chosen);
        const bool resized = allocator_->resize(block.start, wanted);
        ASSERT_TRUE(!resized || block.kind == extent_kind::used);
        ASSERT_TRUE(!resized || next == blocks_.end() || block.start + wanted <= next->second.start)
            << "two blocks overlap";
        if (resized) {
            block.length = wanted;
            ++resized_;
        }
    }
    void allocate() {
        const bool slab = random_() % 4 == 0;
        const std::uint64_t length = slab ? 16 : 1 + random_() % (std::uint64_t{1} << (random_() % 13));
        const std::uint64_t alignment = slab ? 16 : (random_() % 8 == 0 ? std::uint64_t{1} << (random_() % 10) : 1);
        const extent_kind kind = slab ? extent_kind::slab : extent_kind::used;
        const auto got = allocator_->allocate({length}, {alignment}, kind);
        if (!got) {
            ASSERT_EQ(got.error().code, failure_code::no_space);
            ++refused_;
            free_most();
            return;
        }
        ASSERT_EQ(got->value % alignment, 0U);
        const auto next = blocks_.lower_bound(got->value);
        ASSERT_TRUE(next == blocks_.end() || got->value + length <= next->first) << "two blocks overlap";
        ASSERT_TRUE(next == blocks_.begin() ||
                    std::prev(next)->first + std::prev(next)->second.length.value <= got->value)
            << "two blocks overlap";
        ASSERT_TRUE(space_.is_backed(*got) && space_.is_backed(*got + pages{length - 1}));
        blocks_[got->value] = {*got, {length}, kind};
        names_.push_back(got->value);
    }
    void free() {
        std::swap(names_[random_() % names_.size()], names_.back());
        const auto victim = blocks_.find(names_.back());
        names_.pop_back();
        ASSERT_TRUE(allocator_->free(victim->second.start, victim->second.kind).ok());
        blocks_.erase(victim);
    }
    void free_most() {
        for (std::size_t left = names_.size() / 4; names_.size() > left;) {
            free();
        }
    }
    void compare() {
        ASSERT_THAT(problems_of(*allocator_), IsEmpty());
        std::uint64_t at = 16;
        std::uint64_t free = 0;
        const auto gap = [&](std::uint64_t end) {
            free += end - at;
            if (end > at) {
                ASSERT_EQ(allocator_->find({at}), (segment::page_entry{extent_kind::free, {end - at}}));
            }
        };
        for (const auto& [start, block] : blocks_) {
            gap(start);
            ASSERT_EQ(allocator_->find({start}), (segment::page_entry{block.kind, block.length}));
            at = start + block.length.value;
            for (std::uint64_t page = start; page < at; ++page) {
                ASSERT_TRUE(space_.is_backed({page})) << "page " << page << " is in use and has no space";
            }
        }
        gap(allocator_->frontier().value);
        ASSERT_EQ(allocator_->free_pages().value, free);
        ASSERT_EQ(allocator_->frontier(), space_.frontier());
        ASSERT_LE(space_.on_disk(),
                  allocator_->frontier().value - free + allocator_->space().backed_free_pages().value);
    }

    std::mt19937_64 random_;
    fake_space space_{256 * base::mebibyte, 128 * base::mebibyte};
    std::unique_ptr<extent_allocator> allocator_;
    std::map<std::uint64_t, extent> blocks_;
    std::vector<std::uint64_t> names_;
    std::uint64_t share_ = 60;
    std::uint64_t refused_ = 0;
    std::uint64_t shrunk_ = 0;
    std::uint64_t resized_ = 0;
};

TEST(extent_space_model_test, ten_million_operations_agree_with_the_model) {
#if HOLDFAST_CHECKED
    constexpr std::uint64_t steps = 200'000;  // under the sanitizers
#else
    constexpr std::uint64_t steps = 10'000'000;
#endif
    space_model().run(20261121, steps, 20'000);
}

TEST(extent_space_thread_test, threads_free_and_allocate_while_memory_decays) {
    test_time = 0;
    fake_space space(1 * base::gibibyte);
    ASSERT_TRUE(space.grow({512 * 512}).ok());  // the fake grows in one thread alone
    extent_allocator allocator(space.view(), space);
    ASSERT_TRUE(allocator.format().ok());
    allocator.space().set_decay(0, test_clock);
    std::vector<std::thread> threads;
    for (std::uint64_t id = 0; id < 4; ++id) {
        threads.emplace_back([&allocator, id] {
            std::mt19937_64 random(id);
            std::vector<pages> mine;
            for (int i = 0; i < 1000; ++i) {
                if (mine.size() < 20 || random() % 2 == 0) {
                    const auto got = allocator.allocate({64 * (1 + random() % 4)}, {64}, extent_kind::used);
                    ASSERT_TRUE(got.ok());
                    mine.push_back(*got);
                } else {
                    ASSERT_TRUE(allocator.free(mine.back()).ok());
                    mine.pop_back();
                }
            }
            for (const pages block : mine) {
                ASSERT_TRUE(allocator.free(block).ok());
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_THAT(problems_of(allocator), IsEmpty());
    EXPECT_EQ(allocator.count(extent_kind::free), 1U);
    EXPECT_GT(space.given_back(), 0U);
}

}  // namespace
}  // namespace holdfast::extent
