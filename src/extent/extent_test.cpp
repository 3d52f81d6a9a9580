#include "extent/extent.hpp"

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.hpp"
#include "extent/extent_test_support.hpp"
#include "extent/fake_space.hpp"

namespace holdfast::extent {
namespace {

using base::failure_code;
using base::pages;
using segment::extent_kind;
using testing::HasSubstr;
using testing::IsEmpty;

class extent_test : public testing::Test {
protected:
    extent_test() {
        EXPECT_TRUE(space_.grow({512}).ok());
        EXPECT_TRUE(allocator_.format().ok());
    }
    void TearDown() override { EXPECT_THAT(problems_of(allocator_), IsEmpty()); }

    pages allocate(std::uint64_t length, std::uint64_t alignment = 1, extent_kind kind = extent_kind::used) {
        auto got = allocator_.allocate({length}, {alignment}, kind);
        EXPECT_TRUE(got.ok()) << (got ? "" : got.error().message());
        return got ? *got : pages{};
    }

    fake_space space_;
    extent_allocator allocator_{space_.view(), space_};
};

TEST_F(extent_test, a_new_heap_is_the_roots_and_one_free_extent) {
    EXPECT_EQ(allocator_.find({0}), (segment::page_entry{extent_kind::roots, {16}}));
    EXPECT_EQ(allocator_.find({16}), (segment::page_entry{extent_kind::free, {496}}));
    EXPECT_EQ(allocator_.free_pages().value, 496U);
    EXPECT_EQ(allocator_.count(extent_kind::free), 1U);
    EXPECT_EQ(allocator_.frontier().value, 512U);
}

TEST_F(extent_test, splits_and_unites) {
    const pages a = allocate(4);
    const pages b = allocate(8);
    const pages c = allocate(4);
    EXPECT_EQ(a.value, 16U);
    EXPECT_EQ(b.value, 20U);
    EXPECT_EQ(c.value, 28U);
    EXPECT_TRUE(allocator_.free(a).ok());
    EXPECT_TRUE(allocator_.free(c).ok());
    EXPECT_EQ(allocator_.count(extent_kind::free), 2U);
    EXPECT_TRUE(allocator_.free(b).ok());
    EXPECT_EQ(allocator_.find({16}), (segment::page_entry{extent_kind::free, {496}}));
}

TEST_F(extent_test, takes_the_best_fit_and_of_equals_the_lowest) {
    const pages big = allocate(10);
    allocate(1);
    const pages small_1 = allocate(5);
    allocate(1);
    const pages small_2 = allocate(5);
    allocate(1);
    for (const pages freed : {big, small_2, small_1}) {
        EXPECT_TRUE(allocator_.free(freed).ok());
    }
    EXPECT_EQ(allocate(5), small_1);
    EXPECT_EQ(allocate(4), small_2);
    EXPECT_EQ(allocate(9), big);
}

TEST_F(extent_test, aligns_up_to_two_mebibytes) {
    allocate(3);
    for (std::uint64_t alignment = 1; alignment <= maximum_alignment; alignment *= 2) {
        EXPECT_EQ(allocate(3, alignment).value % alignment, 0U);
    }
}

TEST_F(extent_test, finds_an_aligned_place_among_many_that_are_not) {
    std::vector<pages> misaligned;
    const pages longer = allocate(64);
    for (int i = 0; i < 200; ++i) {
        allocate(1, 16);
        misaligned.push_back(allocate(17));  // from one page beyond a granule on: 16 aligned pages do not fit
        allocate(14);
    }
    for (const pages block : misaligned) {
        ASSERT_EQ(block.value % 16, 1U);
        ASSERT_TRUE(allocator_.free(block).ok());
    }
    ASSERT_TRUE(allocator_.free(longer).ok());
    const auto grown = space_.grown();
    EXPECT_EQ(allocate(16, 16).value % 16, 0U);
    EXPECT_EQ(space_.grown(), grown);
}

/// A heap that was longer before a loss of power left entries in files that stayed. Reading those of new files would
/// cost a page fault for each 512.
TEST_F(extent_test, growth_cleans_the_entries_of_files_that_were_there_alone) {
    space_.give_back_at_once(true);
    space_.set_made_from({768});
    constexpr std::uint64_t junk = 5;
    for (const std::uint64_t page : {600U, 900U}) {
        space_.view().page_entry_word({page}) = junk;
    }
    allocate(1);
    allocate(800);
    ASSERT_GT(allocator_.frontier().value, 1000U);
    EXPECT_EQ(space_.view().page_entry_word({600}), 0U);
    EXPECT_EQ(std::exchange(space_.view().page_entry_word({900}), 0), junk) << "it is not looked at";
}

TEST_F(extent_test, growth_counts_what_is_free_at_the_end) {
    allocate(400);
    allocate(600);
    EXPECT_EQ(space_.last_wanted().value, 504U);
    EXPECT_EQ(allocator_.frontier().value, 512U + 512U);
    EXPECT_EQ(allocator_.free_pages().value, 8U);
    allocate(512, 512);
    EXPECT_EQ(space_.last_wanted().value, 512U);
}

TEST_F(extent_test, a_full_disk_changes_nothing) {
    space_.set_capacity(512 * base::page_size);
    const auto refused = allocator_.allocate({497}, {1}, extent_kind::used);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::no_space);
    EXPECT_EQ(allocate(496).value, 16U);
}

TEST_F(extent_test, the_reservation_is_a_limit) {
    const pages all = base::page_of({space_.view().reservation()});
    EXPECT_EQ(allocator_.allocate(all, {1}, extent_kind::used).error().code, failure_code::limit);
    EXPECT_EQ(allocator_.allocate({~std::uint64_t{0}}, {1}, extent_kind::used).error().code, failure_code::limit);
    EXPECT_EQ(allocator_.allocate({~std::uint64_t{0}}, {512}, extent_kind::used).error().code, failure_code::limit);
    allocate(all.value - 16);
    EXPECT_EQ(allocator_.allocate({1}, {1}, extent_kind::used).error().code, failure_code::limit);
}

TEST_F(extent_test, absurd_requests_are_refused) {
    EXPECT_EQ(allocator_.allocate({0}, {1}, extent_kind::used).error().code, failure_code::invalid_argument);
    EXPECT_EQ(allocator_.allocate({1}, {3}, extent_kind::used).error().code, failure_code::invalid_argument);
    EXPECT_EQ(allocator_.allocate({1}, {1024}, extent_kind::used).error().code, failure_code::invalid_argument);
    EXPECT_EQ(allocator_.allocate({1}, {0}, extent_kind::used).error().code, failure_code::invalid_argument);
    EXPECT_EQ(allocator_.allocate({1}, {1}, extent_kind::free).error().code, failure_code::invalid_argument);
}

TEST_F(extent_test, wrong_frees_are_named_and_change_nothing) {
    const pages block = allocate(4);
    const pages slab = allocate(16, 16, extent_kind::slab);
    const std::pair<pages, const char*> wrong[] = {
        {{0}, "roots"},      {block + pages{1}, "inside"}, {slab, "slab"}, {{100}, "inside"}, {{16 + 4}, "free memory"},
        {{512}, "frontier"}, {{1ULL << 40}, "frontier"},
    };
    for (const auto& [where, message] : wrong) {
        const auto refused = allocator_.free(where);
        ASSERT_FALSE(refused.ok()) << where.value;
        EXPECT_EQ(refused.error().code, failure_code::bad_address);
        EXPECT_THAT(refused.error().message(), HasSubstr(message));
        EXPECT_THAT(refused.error().field, HasSubstr("0x"));
    }
    EXPECT_EQ(allocator_.free(block, extent_kind::slab).error().code, failure_code::bad_address);
    EXPECT_TRUE(allocator_.free(block).ok());
    EXPECT_EQ(allocator_.free(block).error().code, failure_code::bad_address);
    EXPECT_TRUE(allocator_.free(slab, extent_kind::slab).ok());
}

TEST_F(extent_test, the_shortest_free_extent_that_fits_is_taken_whatever_its_length) {
    // Free extents of 300, 256, 64 and 2 pages, each between two blocks.
    std::vector<pages> holes;
    for (const std::uint64_t length : {300U, 256U, 64U, 2U, 64U}) {
        holes.push_back(allocate(length));
        allocate(1);
    }
    for (const pages hole : holes) {
        ASSERT_TRUE(allocator_.free(hole).ok());
    }
    EXPECT_EQ(allocate(3), holes[2]);  // the lower of two
    EXPECT_EQ(allocate(61), holes[2] + pages{3});
    EXPECT_EQ(allocate(60), holes[4]);
    EXPECT_EQ(allocate(65), holes[1]);
    EXPECT_EQ(allocate(192), holes[0]);
    EXPECT_EQ(allocate(2), holes[3]);
    EXPECT_GT(allocator_.largest_free(), pages{256});
    allocate(allocator_.largest_free().value);
    EXPECT_EQ(allocator_.largest_free(), pages{191});
    EXPECT_THAT(problems_of(allocator_), IsEmpty());
}

TEST_F(extent_test, an_address_finds_its_extent) {
    const pages block = allocate(300);
    EXPECT_EQ(allocator_.containing(block + pages{299}), (extent{block, {300}, extent_kind::used}));
    EXPECT_EQ(allocator_.containing({15})->kind, extent_kind::roots);
    EXPECT_EQ(allocator_.containing(block + pages{300})->kind, extent_kind::free);
    EXPECT_FALSE(allocator_.containing({512}).has_value());
}

TEST_F(extent_test, a_walk_may_free_what_it_sees) {
    for (int i = 0; i < 1000; ++i) {
        allocate(3);
    }
    allocator_.for_each([this](const extent& found) {
        if (found.kind == extent_kind::used) {
            EXPECT_TRUE(allocator_.free(found.start).ok());
        }
    });
    EXPECT_EQ(allocator_.count(extent_kind::used), 0U);
    EXPECT_EQ(allocator_.count(extent_kind::free), 1U);
}

TEST_F(extent_test, check_finds_an_entry_inside_an_extent) {
    const pages block = allocate(4);
    space_.view().page_entry_word(block + pages{1}) = segment::encode({extent_kind::used, {3}});
    EXPECT_THAT(problems_of(allocator_), testing::ElementsAre(HasSubstr("EXT-6")));
    EXPECT_EQ(allocator_.free(block + pages{1}).error().code, failure_code::bad_address);
    space_.view().page_entry_word(block + pages{1}) = 0;
    space_.view().page_entry_word(block) = segment::encode({extent_kind::free, {4}});
    EXPECT_THAT(problems_of(allocator_), testing::Contains(HasSubstr("EXT-7")));
    space_.view().page_entry_word(block) = segment::encode({extent_kind::used, {4}});
}

TEST_F(extent_test, open_writes_nothing_and_what_was_reserved_is_written_free_later) {
    const pages before = allocate(4);
    const pages first = allocate(3, 1, extent_kind::reserved);
    const pages second = allocate(5, 1, extent_kind::reserved);
    const pages between = allocate(2);
    const pages last = allocate(7, 1, extent_kind::reserved);
    const auto entries = [&] {
        std::vector<std::uint64_t> words;
        for (std::uint64_t page = 0; page < space_.frontier().value; ++page) {
            words.push_back(space_.view().page_entry_word({page}));
        }
        return words;
    };
    const auto on_media = entries();
    extent_allocator opened(space_.view(), space_);
    ASSERT_TRUE(opened.open(space_.frontier()).ok());
    EXPECT_EQ(entries(), on_media);
    EXPECT_EQ(opened.count(extent_kind::free), 2U);
    EXPECT_EQ(opened.containing(first)->kind, extent_kind::reserved) << "as media says";
    extent_allocator reader(space_.view(), space_);
    ASSERT_TRUE(reader.open(space_.frontier()).ok());
    for (int times = 0; times < 2; ++times) {
        show_opened(reader);
        EXPECT_THAT(problems_of(reader), IsEmpty());
        EXPECT_EQ(space_.view().page_entry_word(second), 0U);
        take_back_opened(reader);
        EXPECT_EQ(entries(), on_media);
    }
    opened.write_opened();
    EXPECT_THAT(problems_of(opened), IsEmpty());
    EXPECT_EQ(opened.find(first)->length, pages{8});
    EXPECT_EQ(opened.containing(last)->kind, extent_kind::free);
    EXPECT_EQ(opened.find(before)->length, pages{4});
    EXPECT_EQ(opened.find(between)->length, pages{2});
    EXPECT_EQ(space_.view().page_entry_word(second), 0U);
    extent_allocator again(space_.view(), space_);
    ASSERT_TRUE(again.open(space_.frontier()).ok());
    EXPECT_THAT(problems_of(again), IsEmpty()) << "there is nothing left to write";
    for (std::uint64_t page = 0; page < on_media.size(); ++page) {
        space_.view().page_entry_word({page}) = on_media[page];  // what allocator_ knows
    }
}

struct damage {
    const char* expected;
    std::uint64_t page;
    std::uint64_t word;
};

TEST_F(extent_test, open_names_the_invariant_that_media_breaks) {
    allocate(4);
    allocate(16, 16, extent_kind::slab);  // 16: 4 used, 20: 12 free, 32: slab, 48: free
    const std::uint64_t kind_6 = (std::uint64_t{6} << 40) | 4;
    const damage damages[] = {
        {"EXT-1", 16, 0},
        {"EXT-1", 16, segment::encode({extent_kind::used, {5}})},
        {"EXT-1", 48, segment::encode({extent_kind::free, {465}})},
        {"EXT-1", 48, segment::encode({extent_kind::free, {1ULL << 39}})},
        {"EXT-1", 48, segment::encode({extent_kind::free, {463}})},
        {"EXT-2", 16, kind_6},
        {"EXT-2", 16, segment::encode({extent_kind::used, {0}})},
        {"EXT-2", 32, (std::uint64_t{1} << 44) | segment::encode({extent_kind::slab, {16}})},
        {"EXT-2", 16, ~std::uint64_t{0}},
        {"EXT-3", 16, segment::encode({extent_kind::free, {4}})},
        {"EXT-4", 16, segment::encode({extent_kind::slab, {4}})},
        {"EXT-5", 0, segment::encode({extent_kind::used, {16}})},
        {"EXT-5", 16, segment::encode({extent_kind::roots, {4}})},
    };
    for (const damage& done : damages) {
        std::uint64_t& word = space_.view().page_entry_word({done.page});
        const std::uint64_t good = std::exchange(word, done.word);
        extent_allocator opened(space_.view(), space_);
        const auto result = opened.open({512});
        ASSERT_FALSE(result.ok()) << done.expected << " page " << done.page;
        EXPECT_EQ(result.error().code, failure_code::corrupt);
        EXPECT_THAT(result.error().message(), HasSubstr(done.expected));
        word = good;
    }
    extent_allocator opened(space_.view(), space_);
    EXPECT_EQ(opened.open({1ULL << 50}).error().code, failure_code::corrupt);
    EXPECT_EQ(opened.open({0}).error().code, failure_code::corrupt);
    EXPECT_TRUE(opened.open({512}).ok());
}

/// What is allocated, by start. All else below the frontier must be free and united.
class model {
public:
    void run(std::uint64_t seed, int steps) {
        random_.seed(seed);
        ASSERT_TRUE(space_.grow({512}).ok());
        open(true);
        for (int step = 0; step < steps; ++step) {
            const auto choice = random_() % 1000;
            if (choice < 2) {
                open(false);
            } else if (choice < 520 || blocks_.empty()) {
                allocate();
            } else {
                free();
            }
            if (step % 256 == 0) {
                compare();
            }
        }
        compare();
    }

private:
    void open(bool first) {
        allocator_ = std::make_unique<extent_allocator>(space_.view(), space_);
        ASSERT_TRUE((first ? allocator_->format() : allocator_->open(space_.frontier())).ok());
        allocator_->write_opened();
    }
    void allocate() {
        const bool slab = random_() % 4 == 0;
        const std::uint64_t length = slab ? 16 : 1 + random_() % (std::uint64_t{1} << (random_() % 9));
        const std::uint64_t alignment = slab ? 16 : (random_() % 4 == 0 ? std::uint64_t{1} << (random_() % 10) : 1);
        const extent_kind kind = slab ? extent_kind::slab : extent_kind::used;
        const auto got = allocator_->allocate({length}, {alignment}, kind);
        if (!got) {
            ASSERT_EQ(got.error().code, failure_code::no_space);
            return;
        }
        ASSERT_EQ(got->value % alignment, 0U);
        blocks_[got->value] = {*got, {length}, kind};
    }
    void free() {
        auto victim = blocks_.lower_bound(random_() % (blocks_.rbegin()->first + 1));
        ASSERT_TRUE(allocator_->free(victim->second.start, victim->second.kind).ok());
        blocks_.erase(victim);
    }
    void compare() {
        ASSERT_THAT(problems_of(*allocator_), IsEmpty());
        std::vector<extent> expected{{{0}, {16}, extent_kind::roots}};
        std::uint64_t at = 16;
        const auto gap = [&](std::uint64_t end) {
            if (end > at) {
                expected.push_back({{at}, {end - at}, extent_kind::free});
            }
        };
        for (const auto& [start, block] : blocks_) {
            gap(start);
            expected.push_back(block);
            at = start + block.length.value;
        }
        gap(allocator_->frontier().value);
        std::vector<extent> found;
        allocator_->for_each([&](const extent& one) { found.push_back(one); });
        ASSERT_EQ(found, expected);
    }

    std::mt19937_64 random_;
    fake_space space_{256 * base::mebibyte, 64 * base::mebibyte};
    std::unique_ptr<extent_allocator> allocator_;
    std::map<std::uint64_t, extent> blocks_;
};

TEST(extent_model_test, agrees_with_the_model) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        model().run(seed, 20'000);
    }
}

TEST(extent_model_test, survives_arbitrary_page_entries) {
    std::mt19937_64 random(7);
    fake_space space(64 * base::mebibyte, 8 * base::mebibyte);
    ASSERT_TRUE(space.grow({2048}).ok());
    int opened_anyway = 0;
    for (int round = 0; round < 600; ++round) {
        for (std::uint64_t page = 0; page < 2048; ++page) {
            space.view().page_entry_word({page}) = 0;
        }
        extent_allocator first(space.view(), space);
        ASSERT_TRUE(first.format().ok());
        for (int i = 0; i < 20; ++i) {
            ASSERT_TRUE(first.allocate({1 + random() % 60}, {1}, extent_kind::used).ok());
        }
        for (std::uint64_t i = 0; i <= random() % 4; ++i) {
            const std::uint64_t word = random() % 3 == 0 ? random() : (random() % 6) << 40 | random() % 64;
            space.view().page_entry_word({random() % 1024}) = word;
        }
        extent_allocator second(space.view(), space);
        if (!second.open(space.frontier())) {
            continue;
        }
        ++opened_anyway;
        for (int i = 0; i < 100; ++i) {
            static_cast<void>(second.free({random() % 2100}));
            static_cast<void>(second.allocate({1 + random() % 60}, {1ULL << random() % 5}, extent_kind::used));
        }
        std::vector<std::string> problems;
        second.check(problems);  // EXT-6 at most: the space is tiled, the index right
        for (const std::string& problem : problems) {
            EXPECT_THAT(problem, HasSubstr("EXT-6"));
        }
    }
    EXPECT_GT(opened_anyway, 20);
}

TEST(extent_thread_test, threads_share_one_allocator) {
    fake_space space(1 * base::gibibyte);
    ASSERT_TRUE(space.grow({512}).ok());
    extent_allocator allocator(space.view(), space);
    ASSERT_TRUE(allocator.format().ok());
    std::vector<std::thread> threads;
    for (std::uint64_t id = 0; id < 4; ++id) {
        threads.emplace_back([&allocator, id] {
            std::mt19937_64 random(id);
            std::vector<pages> mine;
            for (int i = 0; i < 2000; ++i) {
                if (mine.size() < 20 || random() % 2 == 0) {
                    const auto got = allocator.allocate({1 + random() % 40}, {1ULL << random() % 5}, extent_kind::used);
                    ASSERT_TRUE(got.ok());
                    mine.push_back(*got);
                } else {
                    ASSERT_TRUE(allocator.free(mine.back()).ok());
                    mine.pop_back();
                }
                ASSERT_EQ(allocator.find(mine.front())->kind, extent_kind::used);
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
}

}  // namespace
}  // namespace holdfast::extent
