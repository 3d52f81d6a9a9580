// A power cut while a heap that is mapped shared grows, and while the files of its lanes are made and grow: what a
// record may already count in is on disk, with its name and its owner. The content of both is the business of
// atomic_crash_test.cpp.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "segment/files/lane_places.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"
#include "simulator/storage/recording_storage.hpp"

namespace holdfast::simulator {
namespace {

using persist::access_mode;
using segment::heap_files;
using segment::must;

constexpr std::uint64_t slots = 64;
constexpr segment::lane_shape shape = segment::shape_of_lanes(slots);

/// The parameter: in how many directories the heap lies.
class shared_growth_crash_test : public testing::TestWithParam<unsigned> {
protected:
    shared_growth_crash_test() : storage_(scratch_.path("live"), 512) {
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
    }
    void TearDown() override { storage_.set_observer({}); }

    /// Opens the heap; from here on the power may be cut.
    void open(persist::domain_kind domain) {
        files_ = must(open_in(storage_, scratch_.path("live/heap"), domain));
        storage_.set_observer([this] { cut(); });
    }
    [[nodiscard]] heap_files& files() const { return *files_; }
    /// Opens the heap as durability `commit` does.
    void open_private() {
        files_ = must(heap_files::open(storage_, scratch_.path("live/heap"), access_mode::read_write, {}));
    }
    void kill() { files_.reset(); }
    void stop_cutting() { storage_.set_observer({}); }
    /// From here on the heap has at least so many pages, whatever a power cut leaves.
    void expect_pages(base::pages pages) {
        pages_ = pages;
        cut();
    }
    /// From here on there is room for so many lanes, whatever a power cut leaves.
    void expect_lanes(std::uint64_t lanes) {
        lanes_ = lanes;
        cut();
    }
    [[nodiscard]] std::uint64_t images() const { return images_; }

private:
    static base::result<std::unique_ptr<heap_files>> open_in(persist::storage& storage, const std::string& path,
                                                             persist::domain_kind domain) {
        segment::mapping_options mapping;
        mapping.shared = true;
        mapping.domain = domain;
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
        auto opened = open_in(persist::posix_storage(), path, persist::domain_kind::page_cache);
        if (!opened) {
            return opened.error().message();
        }
        if ((*opened)->frontier() < pages_) {
            return "the heap's end is too low";
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
    base::pages pages_{};
    std::uint64_t cuts_ = 0;
    std::uint64_t images_ = 0;
};

constexpr std::uint64_t pages_of_segment = segment::minimum_segment_size / base::page_size;

TEST_P(shared_growth_crash_test, GrowthIsThereBeforeItIsUsed) {
    open(persist::domain_kind::emulated);
    must(files().session().begin_tracing());
    for (std::uint64_t segments = 2; segments <= 4; ++segments) {
        const base::pages wanted{pages_of_segment * segments};
        must(files().grow(wanted - files().frontier()));
        expect_pages(wanted);
    }
    EXPECT_GT(images(), 25U);
}

TEST_P(shared_growth_crash_test, OnThePageCacheGrowthIsThereOnceTheHeapIsClosed) {
    open(persist::domain_kind::page_cache);
    must(files().session().begin_tracing());
    stop_cutting();  // the heap may be unreadable meanwhile
    const base::pages wanted{pages_of_segment * 3};
    must(files().grow(wanted - files().frontier()));
    must(files().session().close(0));
    expect_pages(wanted);
    EXPECT_GT(images(), 0U);
}

TEST_P(shared_growth_crash_test, OnThePageCacheGrowthOfAKilledProcessIsThereOnceTheNextOneHasClosed) {
    const base::pages wanted{pages_of_segment * 3};
    open(persist::domain_kind::page_cache);
    stop_cutting();
    must(files().session().begin_tracing());
    must(files().grow(wanted - files().frontier()));
    kill();
    open(persist::domain_kind::page_cache);
    stop_cutting();
    must(files().session().begin_tracing());
    must(files().session().close(0));
    expect_pages(wanted);
    EXPECT_GT(images(), 0U);
}

TEST_P(shared_growth_crash_test, OnThePageCacheGrowthOfAKilledProcessIsThereOnceACommitSaysSo) {
    const base::pages wanted{pages_of_segment * 3};
    open(persist::domain_kind::page_cache);
    stop_cutting();
    must(files().session().begin_tracing());
    must(files().grow(wanted - files().frontier()));
    must(files().session().close(0));
    kill();
    open_private();
    must(files().commit({}));
    expect_pages(wanted);
    EXPECT_GT(images(), 0U);
}

TEST_P(shared_growth_crash_test, LanesThatCountAreThere) {
    open(persist::domain_kind::page_cache);
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

INSTANTIATE_TEST_SUITE_P(directories, shared_growth_crash_test, testing::Values(1U, 2U, 3U));

}  // namespace
}  // namespace holdfast::simulator
