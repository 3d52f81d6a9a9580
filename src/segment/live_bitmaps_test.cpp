#include "segment/commit/live_bitmaps.hpp"

#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using persist::access_mode;
using persist::posix_storage;

class live_bitmaps_test : public testing::Test {
protected:
    void SetUp() override {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        files_ = must(heap_files::create(posix_storage(), path_, options));
        must(files_->grow({1}));
        must(files_->commit({}));
    }

    [[nodiscard]] std::uint64_t charged() const { return must(files_->statistics()).charged_bytes; }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
};

TEST_F(live_bitmaps_test, have_space_once_a_granule_is_a_slab) {
    EXPECT_FALSE(files_->bitmaps().has_bitmap({0}));
    const std::uint64_t before = charged();
    must(files_->bitmaps().back({0}, bitmap_verifier::slab_is::made));
    const std::uint64_t after = charged();
    EXPECT_GT(after, before);
    must(files_->bitmaps().back({0}, bitmap_verifier::slab_is::made));
    EXPECT_EQ(charged(), after);
}

TEST_F(live_bitmaps_test, of_a_removed_segment_get_their_space_anew) {
    must(files_->grow({region_pages}));
    const base::granule second{files_->view().shape().granules()};
    must(files_->bitmaps().back(second, bitmap_verifier::slab_is::made));
    must(files_->commit({}));
    must(files_->commit({}, {{}, base::pages{region_pages}}));
    must(files_->grow({region_pages}));
    EXPECT_FALSE(files_->bitmaps().has_bitmap(second));
    const std::uint64_t before = charged();
    must(files_->bitmaps().back(second, bitmap_verifier::slab_is::made));
    EXPECT_GT(charged(), before);
}

TEST_F(live_bitmaps_test, of_a_reader_take_no_space) {
    must(files_->close_cleanly());
    files_.reset();
    auto reader = must(heap_files::open(posix_storage(), path_, access_mode::read_only, {}));
    must(reader->bitmaps().back({0}, bitmap_verifier::slab_is::loaded));
    EXPECT_FALSE(reader->bitmaps().has_bitmap({0}));
    must(reader->bitmaps().admit_all());
}

}  // namespace
}  // namespace holdfast::segment
