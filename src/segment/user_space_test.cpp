#include "segment/commit/user_space.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;
using persist::posix_storage;
using testing::Contains;
using testing::Not;

class user_space_test : public testing::Test {
protected:
    void SetUp() override { files_ = make(path_, minimum_segment_size); }

    /// Of one region, with shared pages.
    static std::unique_ptr<heap_files> make(const std::string& path, std::uint64_t segment_size) {
        creation_options options;
        options.segment_size = segment_size;
        options.mapping.reservation = base::gibibyte;
        auto files = must(heap_files::create(posix_storage(), path, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
        files.reset();
        mapping_options mapping;
        mapping.shared = true;
        return must(heap_files::open(posix_storage(), path, access_mode::read_write, mapping));
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
};

TEST_F(user_space_test, that_grew_is_mapped_and_in_the_superblock) {
    user_space& space = files_->space();
    EXPECT_EQ(must(space.grow_beyond({region_pages}, {1}, {region_pages})).value, 2 * region_pages);
    EXPECT_EQ(files_->superblock().frontier, 3 * region_size);
    EXPECT_EQ(files_->mapping().committed(), space.frontier());
    EXPECT_EQ(files_->mapping().adopted(), space.frontier());
    EXPECT_GE(space.backed_end(), pages{2 * region_pages + 1});
    files_->view().base()[2 * region_size] = std::byte{3};
    EXPECT_EQ(content_of(path_ + "/segment.000002")[0], std::byte{3}) << "a store is in the file at once";
}

TEST_F(user_space_test, that_shrank_and_grew_reads_as_zero) {
    user_space& space = files_->space();
    must(space.grow({region_pages}));
    files_->view().base()[region_size] = std::byte{3};
    must(space.shrink({region_pages}));
    EXPECT_EQ(space.frontier().value, region_pages);
    EXPECT_EQ(files_->superblock().frontier, region_size);
    EXPECT_THAT(names_in(path_), Not(Contains("segment.000001")));
    must(space.grow({region_pages}));
    EXPECT_EQ(files_->view().base()[region_size], std::byte{0});
}

/// The extents' bookkeeping cleans the entries before made_from(), and believes the others to be zero.
TEST_F(user_space_test, tells_which_pages_lie_in_files_that_a_growth_has_made) {
    const auto files = make(directory_.path("longer"), 4 * region_size);
    user_space& space = files->space();
    ASSERT_EQ(space.frontier().value, region_pages);
    const pages second{4 * region_pages};
    for (int round = 0; round < 2; ++round) {
        must(space.grow({9 * region_pages}));
        EXPECT_EQ(space.made_from(), second);
        for (pages page{region_pages}; page < space.frontier(); ++page.value) {
            std::uint64_t& entry = files->view().page_entry_word(page);
            ASSERT_TRUE(page < second || entry == 0) << page.value;
            entry = 1;
        }
        must(space.shrink({region_pages}));
    }
    must(space.grow_beyond({8 * region_pages}, {1}, {1}));
    EXPECT_EQ(space.made_from(), second);
}

TEST_F(user_space_test, whose_superblock_cannot_be_written_stays_short_until_it_can) {
    user_space& space = files_->space();
    must(files_->session().begin_tracing());
    fs::rename(path_ + "/superblock", path_ + "/away");
    ASSERT_FALSE(space.grow({1}).ok());
    EXPECT_EQ(space.frontier().value, region_pages);
    EXPECT_EQ(files_->mapping().committed(), space.frontier());
    EXPECT_THAT(names_in(path_), Contains("segment.000001")) << "media may say that it belongs to the heap";
    ASSERT_FALSE(space.grow({1}).ok());
    fs::rename(path_ + "/away", path_ + "/superblock");
    must(space.grow({1}));
    EXPECT_EQ(files_->superblock().frontier, base::to_bytes(space.frontier()));
}

TEST_F(user_space_test, of_a_reader_does_not_grow) {
    must(files_->session().close(0));
    files_.reset();
    auto reader = must(heap_files::open(posix_storage(), path_, access_mode::read_only, {}));
    EXPECT_EQ(reader->space().grow({1}).error().code, failure_code::read_only);
    EXPECT_EQ(reader->space().frontier().value, region_pages);
}

}  // namespace
}  // namespace holdfast::segment
