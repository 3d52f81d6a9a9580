// Pages that devices store to: commits leave them private (MAP-3), and write what differs from the media.
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "persist/pinned_device_test_support.hpp"
#include "segment/commit/pagemap.hpp"
#include "segment/commit/write_watch_test_support.hpp"
#include "segment/format/page_runs.hpp"
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

class kept_pages_test : public testing::TestWithParam<store_watch> {
protected:
    kept_pages_test() {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        options.mapping.watch = GetParam();
        files_ = must(heap_files::create(posix_storage(), path_, options));
        must(files_->grow({3 * region_pages}));
    }
    void keep(std::uint64_t first, std::uint64_t length) {
        kept_ = either(kept_, {{pages{first}, pages{length}}});
        files_->commits().keep(kept_);
    }
    void let_all_go() {
        kept_.clear();
        files_->commits().keep(kept_);
    }
    void fill(std::uint64_t first, std::uint64_t length, int value) {
        std::memset(files_->view().base() + first * page_size, value, length * page_size);
    }
    /// The pages that a commit has not dropped.
    [[nodiscard]] free_runs private_pages() {
        std::vector<memory_run> runs;
        must(must(pagemap::open())
                 .find_private(files_->view().base(), base::to_bytes(files_->frontier()), pagemap::swapped::left_out,
                               runs));
        free_runs found;
        for (const memory_run& run : runs) {
            const pages first = base::page_of(files_->view().offset(run.address));
            append_run(found, first, first + pages{run.pages});
        }
        return found;
    }
    /// What a crash right now would leave.
    void expect_after_a_crash(std::uint64_t page, int value) const {
        const std::string copy = directory_.path("crashed");
        fs::remove_all(copy);
        fs::copy(path_, copy, fs::copy_options::recursive);
        auto left = must(heap_files::open(posix_storage(), copy, access_mode::read_only, {}));
        EXPECT_EQ(static_cast<int>(left->view().base()[page * page_size + 77]), value) << "page " << page;
        std::vector<base::failure> problems;
        must(left->verify(problems, 100));
        EXPECT_THAT(problems, IsEmpty());
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
    free_runs kept_;
};

/// They reach over the end of a segment.
constexpr std::uint64_t kept_first = region_pages - 3;
constexpr std::uint64_t kept_length = 7;

TEST_P(kept_pages_test, StayPrivateAndAreComparedAtEachCommit) {
    for (const bool committed_before : {true, false}) {
        if (committed_before) {
            must(files_->commit({}));
        }
        keep(kept_first, kept_length);
        for (int value = 1; value < 4; ++value) {
            fill(kept_first - 5, kept_length + 10, value);
            must(files_->commit({}));
            EXPECT_EQ(private_pages(), kept_);
            expect_after_a_crash(kept_first - 5, value);
            expect_after_a_crash(kept_first, value);
            expect_after_a_crash(kept_first + kept_length - 1, value);
        }
        EXPECT_EQ(must(files_->commit({})).dirty_pages, 0U);
        fill(kept_first + 1, 1, 9);
        EXPECT_EQ(must(files_->commit({})).dirty_pages, 1U);
        expect_after_a_crash(kept_first + 1, 9);
        expect_after_a_crash(kept_first + 2, 3);
        const free_runs kept_before = kept_;
        let_all_go();
        must(files_->commit({}));
        EXPECT_EQ(must(files_->commit({})).dirty_pages, 0U);
        EXPECT_EQ(private_pages(), GetParam() == store_watch::never ? free_runs() : kept_before) << "warm pages stay";
        EXPECT_EQ(static_cast<int>(files_->view().base()[(kept_first + 1) * page_size]), 9);
        EXPECT_EQ(static_cast<int>(files_->view().base()[kept_first * page_size]), 3);
        must(files_->grow({region_pages}));
    }
}

/// What a device stores meanwhile does not refuse the commit.
TEST_P(kept_pages_test, AreWrittenAsTheyWereWhenTheyWereLookedAt) {
    must(files_->commit({}));
    keep(kept_first, kept_length);
    fill(kept_first, kept_length, 1);
    const auto device = [this](std::uint64_t /*segment*/, std::uint64_t /*at*/) {
        fill(kept_first, kept_length, 2);
        return base::result<void>();
    };
    auto* const metadata = const_cast<volatile std::byte*>(files_->view().metadata_of(0));
    metadata[0] = metadata[0];
    must(files_->commits().commit({}, {}, device));
    expect_after_a_crash(kept_first, 1);
    EXPECT_EQ(static_cast<int>(files_->view().base()[kept_first * page_size]), 2);
    must(files_->commit({}));
    expect_after_a_crash(kept_first, 2);
}

/// Those beyond the end of the last commit are memory, which a commit must not replace by a mapping.
TEST_P(kept_pages_test, OfNewSpaceStayMemoryUntilTheyAreLetGo) {
    keep(kept_first, kept_length);
    fill(kept_first, kept_length, 1);
    must(files_->commit({}));
    must(files_->grow({region_pages}));
    must(files_->commit({}));
    EXPECT_EQ(files_->mapping().memory_below(), kept_);
    fill(kept_first, kept_length, 2);
    must(files_->commit({}));
    let_all_go();
    fill(kept_first + 1, 1, 3);
    must(files_->commit({}));
    EXPECT_THAT(files_->mapping().memory_below(), IsEmpty());
    EXPECT_EQ(static_cast<int>(files_->view().base()[kept_first * page_size]), 2);
    EXPECT_EQ(static_cast<int>(files_->view().base()[(kept_first + 1) * page_size]), 3);
    EXPECT_THAT(private_pages(), IsEmpty());
    expect_after_a_crash(kept_first, 2);
    expect_after_a_crash(kept_first + 1, 3);
}

TEST_P(kept_pages_test, AreNoChangesWhereTheyAreEqual) {
    must(files_->commit({}));
    keep(kept_first, kept_length);
    fill(kept_first, kept_length, 1);
    EXPECT_FALSE(must(files_->unchanged({})));
    must(files_->commit({}));
    EXPECT_TRUE(must(files_->unchanged({})));
    must(files_->close_cleanly());
}

/// A device's store is noted nowhere, and when its pages are let go they are compared no more.
TEST_P(kept_pages_test, AreWrittenWhileTheyAreKeptAndWhenTheyAreLetGo) {
    for (const bool commits_between : {true, false}) {
        must(files_->commit({}));
        must(files_->commit({}));
        keep(kept_first, kept_length);
        persist::pinned_device device(directory_.path("source"), files_->view().base() + kept_first * page_size,
                                      kept_length * page_size);
        for (char value = 1; commits_between && value < 4; ++value) {
            device.store(value);
            must(files_->commit({}));
            expect_after_a_crash(kept_first, value);
        }
        device.store(9);
        let_all_go();
        must(files_->commit({}));
        expect_after_a_crash(kept_first, 9);
        expect_after_a_crash(kept_first + kept_length - 1, 9);
        EXPECT_TRUE(must(files_->unchanged({})));
        fill(kept_first, kept_length, 0);
    }
}

std::string kept_by(const testing::TestParamInfo<store_watch>& info) {
    return info.param == store_watch::never ? "in_private_pages" : "in_watched_memory";
}

INSTANTIATE_TEST_SUITE_P(, kept_pages_test, testing::ValuesIn(ways_to_find()), kept_by);

}  // namespace
}  // namespace holdfast::segment
