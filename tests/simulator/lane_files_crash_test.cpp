// A power cut while the files of lanes are made and grow: what a record may already count in is on disk, with its name
// and its owner. The content of lanes is the business of atomic_crash_test.cpp.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/lane_places.hpp"
#include "segment/test_support.hpp"
#include "simulator/recording_storage.hpp"

namespace holdfast::simulator {
namespace {

using persist::access_mode;
using segment::heap_files;
using segment::must;

constexpr std::uint64_t slots = 64;
constexpr segment::lane_shape shape = segment::shape_of_lanes(slots);

/// The parameter: in how many directories the heap lies.
class lane_files_crash_test : public testing::TestWithParam<unsigned> {
protected:
    lane_files_crash_test() : storage_(scratch_.path("live"), 512) {
        std::filesystem::create_directory(scratch_.path("live"));
        segment::creation_options options;
        options.segment_size = segment::minimum_segment_size;
        options.mapping.reservation = 64 * segment::region_size;
        if (GetParam() > 1) {
            options.node_places.resize(GetParam());
        }
        auto made = must(heap_files::create(storage_, scratch_.path("live/heap"), options));
        must(made->grow({1}));
        must(made->commit({}));
        must(made->close_cleanly());
        made.reset();
        files_ = must(open_in(storage_, scratch_.path("live/heap")));
        storage_.set_observer([this] { cut(); });
    }
    ~lane_files_crash_test() override { storage_.set_observer({}); }
    lane_files_crash_test(const lane_files_crash_test&) = delete;
    lane_files_crash_test& operator=(const lane_files_crash_test&) = delete;

    [[nodiscard]] heap_files& files() const { return *files_; }
    /// From here on there is room for so many lanes, whatever a power cut leaves.
    void expect_lanes(std::uint64_t lanes) {
        lanes_ = lanes;
        cut();
    }
    [[nodiscard]] std::uint64_t images() const { return images_; }

private:
    static base::result<std::unique_ptr<heap_files>> open_in(persist::storage& storage, const std::string& path) {
        segment::mapping_options mapping;
        mapping.shared = true;
        return heap_files::open(storage, path, access_mode::read_write, mapping);
    }
    void cut() {
        storage_.for_each_crash_image({256, 32, 32, 64}, ++cuts_, [&](const storage_image& left) {
            ++images_;
            const std::string target = scratch_.path("image");
            std::filesystem::create_directory(target);
            must(storage_.materialise(left, target));
            const std::string wrong = look(target + "/heap");
            EXPECT_EQ(wrong, "") << "cut at " << storage_.position();
            std::filesystem::remove_all(target);
            return !HasFailure();
        });
    }
    [[nodiscard]] std::string look(const std::string& path) const {
        auto opened = open_in(persist::posix_storage(), path);
        if (!opened) {
            return opened.error().message();
        }
        segment::lane_file& found = (*opened)->lanes();
        if (auto mapped = found.open(shape); !mapped) {
            return mapped.error().message();
        }
        return lanes_ == 0 || found.lanes_size() >= shape.size_of(lanes_) ? std::string{} : "lanes are missing";
    }

    segment::test_directory scratch_;
    recording_storage storage_;
    std::unique_ptr<heap_files> files_;
    std::uint64_t lanes_ = 0;
    std::uint64_t cuts_ = 0;
    std::uint64_t images_ = 0;
};

TEST_P(lane_files_crash_test, LanesThatCountAreThere) {
    must(files().lanes().open(shape));
    must(files().lanes().grow_lanes(shape.size_of(1)));
    expect_lanes(1);
    must(files().session().begin_incarnation(slots, 1));
    for (std::uint64_t lanes = 2; lanes <= 5; ++lanes) {
        must(files().lanes().grow_lanes(shape.size_of(lanes)));
        expect_lanes(lanes);
    }
    std::printf("%llu images\n", static_cast<unsigned long long>(images()));
    EXPECT_GT(images(), 25U);
}

INSTANTIATE_TEST_SUITE_P(directories, lane_files_crash_test, testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace holdfast::simulator
