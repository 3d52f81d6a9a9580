// Pages that the last commit has free and without a checksum: the next commit writes them to their places at once
// (LOG-9).
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/commit/write_watch_test_support.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::page_size;
using base::pages;
using persist::access_mode;
using persist::posix_storage;
using testing::IsEmpty;

/// The first page of the tests; those before are never free.
constexpr std::uint64_t begin = 32;

class blank_pages_test : public testing::TestWithParam<store_watch> {
protected:
    blank_pages_test() {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        options.mapping.watch = GetParam();
        files_ = must(heap_files::create(posix_storage(), path_, options));
        must(files_->grow({2 * region_pages}));
        must(files_->commit({}));
    }
    void reopen(const free_runs& free) {
        files_.reset();
        mapping_options options;
        options.watch = GetParam();
        files_ = must(heap_files::open(posix_storage(), path_, access_mode::read_write, options));
        files_->commits().note_free(free);
    }
    void fill(std::uint64_t first, std::uint64_t count, int value) {
        std::memset(files_->view().base() + first * page_size, value, count * page_size);
    }
    [[nodiscard]] int byte_of(std::uint64_t page) const {
        return static_cast<int>(files_->view().base()[page * page_size]);
    }
    commit_statistics punch(const free_runs& holes) { return must(files_->commit(holes, {holes, {}})); }
    void reserve_again(const free_runs& holes) {
        for (const auto& [start, length] : holes) {
            must(files_->space().reserve_again(start, length));
        }
    }
    void expect_sound() const {
        std::vector<base::failure> problems;
        must(files_->verify(problems, 100));
        EXPECT_THAT(problems, IsEmpty());
    }
    [[nodiscard]] std::unique_ptr<heap_files> after_a_crash() {
        const std::string copy = directory_.path("crashed");
        fs::remove_all(copy);
        fs::copy(path_, copy, fs::copy_options::recursive);
        mapping_options options;
        options.verify = true;
        return must(heap_files::open(posix_storage(), copy, access_mode::read_write, options));
    }
    /// The next session has no log: a directory has each of its names.
    void close_and_block_log(const free_runs& free) {
        must(files_->close_cleanly());
        reopen(free);
        for (int number = 0; number < 10; ++number) {
            fs::create_directories(fmt::format("{}/log.{:06}/in the way", path_, number));
        }
    }
    /// Writes fresh pages, and is refused.
    void commit_without_log() {
        EXPECT_FALSE(files_->commit({}).ok());
        for (int number = 0; number < 10; ++number) {
            fs::remove_all(fmt::format("{}/log.{:06}", path_, number));
        }
    }

    /// Returns 40 holes, which with 10 other pages were filled for a commit that is refused.
    free_runs refuse_what_fills_holes() {
        const free_runs holes{{{begin}, {40}}};
        fill(begin, 50, 1);
        must(files_->commit({}));
        punch(holes);
        close_and_block_log(holes);
        reserve_again(holes);
        fill(begin, 50, 2);
        commit_without_log();
        return holes;
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
};

/// Not store_watch::where_it_pays: a busy machine makes a scan seem to cost so much that watching begins.
INSTANTIATE_TEST_SUITE_P(, blank_pages_test, testing::ValuesIn(ways_to_find()), [](const auto& one) {
    return one.param == store_watch::never ? "by_private_pages" : "by_watched_memory";
});

TEST_P(blank_pages_test, holes_are_written_once) {
    const free_runs holes{{{begin}, {40}}};
    fill(begin, 100, 1);
    must(files_->commit({}));
    punch(holes);
    reserve_again(holes);
    fill(begin + 10, 50, 2);  // 30 of the holes
    const commit_statistics done = must(files_->commit({}));
    EXPECT_EQ(done.fresh_pages, 30U);
    EXPECT_EQ(done.logged_pages, 20U + 1U) << "and the checksum page";
    EXPECT_TRUE(must(files_->unchanged({}))) << "no page stays private";
    EXPECT_EQ(byte_of(begin + 10), 2);
    expect_sound();
    fill(begin + 10, 50, 3);
    EXPECT_EQ(must(files_->commit({})).fresh_pages, 0U);
    expect_sound();
}

TEST_P(blank_pages_test, holes_at_a_border_of_segments_and_of_the_heap_are_written_once) {
    const free_runs holes{{{region_pages - 8}, {16}}, {{2 * region_pages - 4}, {4}}};
    fill(region_pages - 8, 16, 1);
    must(files_->commit({}));
    punch(holes);
    reserve_again(holes);
    must(files_->grow({region_pages}));
    fill(region_pages - 8, 16, 2);
    fill(2 * region_pages - 4, 4, 2);
    EXPECT_EQ(must(files_->commit({})).logged_pages, 2U) << "checksum pages";
    // Of watched memory that grew, the files are mapped anew, and pages that stay warm are found once more.
    EXPECT_TRUE(must(files_->unchanged({})) || GetParam() == store_watch::everywhere);
    expect_sound();
    reopen({});
    for (const std::uint64_t page : {region_pages - 8, region_pages + 7, 2 * region_pages - 1}) {
        EXPECT_EQ(byte_of(page), 2) << page;
    }
}

TEST_P(blank_pages_test, free_space_that_was_never_written_is_written_once) {
    must(files_->commit({{{begin}, {100}}}));
    fill(begin, 100, 1);
    const commit_statistics done = must(files_->commit({}));
    EXPECT_EQ(done.fresh_pages, 100U);
    EXPECT_EQ(done.logged_pages, 1U);
    expect_sound();
}

TEST_P(blank_pages_test, free_pages_that_kept_their_checksums_go_through_the_log) {
    fill(begin, 10, 1);
    must(files_->commit({}));
    must(files_->commit({{{begin}, {20}}}));  // ten of them were never written
    fill(begin, 20, 2);
    const commit_statistics done = must(files_->commit({}));
    EXPECT_EQ(done.fresh_pages, 10U);
    EXPECT_EQ(done.logged_pages, 10U + 1U);
    expect_sound();
}

TEST_P(blank_pages_test, used_pages_that_were_never_written_go_through_the_log) {
    fill(begin, 1, 1);
    must(files_->commit({}));
    fill(begin + 1, 20, 2);
    EXPECT_EQ(must(files_->commit({})).fresh_pages, 0U);
    close_and_block_log({});
    fill(begin + 30, 20, 3);
    commit_without_log();
    const auto crashed = after_a_crash();
    EXPECT_EQ(static_cast<int>(crashed->view().base()[(begin + 30) * page_size]), 0) << "as it was committed";
}

TEST_P(blank_pages_test, free_space_that_is_used_and_not_written_is_blank_no_more) {
    must(files_->commit({{{begin}, {20}}}));
    must(files_->commit({}));  // the page is in use, and reads as zero
    fill(begin, 20, 2);
    EXPECT_EQ(must(files_->commit({})).fresh_pages, 0U);
}

TEST_P(blank_pages_test, a_refused_commit_is_repeated_and_leaves_nothing_that_counts) {
    refuse_what_fills_holes();
    const auto crashed = after_a_crash();
    EXPECT_EQ(static_cast<int>(crashed->view().base()[(begin + 45) * page_size]), 1) << "the last commit";
    expect_sound();
    EXPECT_EQ(must(files_->commit({})).fresh_pages, 40U);
    EXPECT_EQ(byte_of(begin), 2);
    expect_sound();
    EXPECT_EQ(static_cast<int>(after_a_crash()->view().base()[begin * page_size]), 2);
}

TEST_P(blank_pages_test, what_a_refused_commit_wrote_may_be_freed) {
    const free_runs holes = refuse_what_fills_holes();
    must(files_->commit(holes));
    EXPECT_EQ(byte_of(begin + 45), 2);
    expect_sound();
    fill(begin, 40, 3);
    EXPECT_EQ(must(files_->commit({})).fresh_pages, 40U) << "blank still";
    expect_sound();
}

TEST_P(blank_pages_test, a_heap_that_was_opened_knows_its_holes_where_it_is_told) {
    const free_runs holes{{{begin}, {40}}};
    fill(begin, 50, 1);
    must(files_->commit({}));
    punch(holes);
    for (const bool told : {false, true}) {
        reopen(told ? holes : free_runs{});
        reserve_again(holes);
        fill(begin, 40, 2);
        EXPECT_EQ(must(files_->commit({})).fresh_pages, told ? 40U : 0U);
        expect_sound();
        punch(holes);
    }
}

TEST_P(blank_pages_test, many_short_runs_may_be_left_out_but_not_mixed_up) {
    must(files_->grow({8 * region_pages}));
    must(files_->commit({}));
    free_runs free;
    for (std::uint64_t page = begin; page + 2 < 4 * region_pages; page += 3) {
        free.emplace_back(pages{page}, pages{1});
    }
    EXPECT_LT(free.size(), 1024U);
    for (std::uint64_t page = 4 * region_pages; page + 2 < 8 * region_pages; page += 2) {
        free.emplace_back(pages{page}, pages{1});
    }
    free.emplace_back(pages{8 * region_pages}, pages{64});
    ASSERT_GT(free.size(), 1024U);
    must(files_->commit(free));
    for (const auto& [start, length] : free) {
        fill(start.value, length.value, 5);
    }
    const commit_statistics done = must(files_->commit({}));
    EXPECT_EQ(done.fresh_pages, 64U);
    expect_sound();
    reopen({});
    for (const auto& [start, length] : free) {
        ASSERT_EQ(byte_of(start.value), 5);
    }
}

}  // namespace
}  // namespace holdfast::segment
