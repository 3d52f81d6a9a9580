#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "segment/commit/recovery.hpp"
#include "segment/creation/copy.hpp"
#include "segment/files/lane_places.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;
using ::testing::ElementsAre;

constexpr lane_shape small_lanes = shape_of_lanes(64);

class memory_watch final : public persist::topology {
public:
    [[nodiscard]] unsigned nodes() const noexcept override { return 2; }
    [[nodiscard]] unsigned node_of_cpu(unsigned /*cpu*/) const noexcept override { return 0; }
    [[nodiscard]] std::span<const unsigned> cpus_of(unsigned /*node*/) const noexcept override { return {}; }
    [[nodiscard]] unsigned current_node() const noexcept override { return 0; }
    bool prefer_memory(unsigned node, std::byte* /*address*/, std::uint64_t /*bytes*/) const noexcept override {
        mapped.push_back(node);
        return true;
    }
    mutable std::vector<unsigned> mapped;
    mutable std::vector<unsigned> reserved;

protected:
    bool prefer_for_this_thread(unsigned node) const noexcept override {
        reserved.push_back(node);
        return true;
    }
    void prefer_nothing_for_this_thread() const noexcept override {}
};

TEST(lane_places, of_one_file_is_the_file) {
    const lane_places places(heap_paths("h", 2), small_lanes, false);
    EXPECT_EQ(places.files(), 1U);
    EXPECT_EQ(places.path(0), "h/lanes");
    EXPECT_EQ(places.range_of(1), page_size);
    const std::vector<std::uint64_t> sizes{5 * page_size + 7};
    EXPECT_EQ(places.range_in(sizes), 5 * page_size);
    const auto windows = places.windows(0, page_size, 5 * page_size);
    ASSERT_EQ(windows.size(), 1U);
    EXPECT_EQ(windows[0].in_range, page_size);
    EXPECT_EQ(windows[0].in_file, page_size);
    EXPECT_EQ(windows[0].size, 4 * page_size);
    EXPECT_TRUE(places.windows(0, page_size, page_size).empty());
}

TEST(lane_places, of_nodes_take_turns_and_a_gap_ends_the_lanes) {
    const lane_places places(heap_paths("h", 3), small_lanes, true);
    EXPECT_EQ(places.path(2), "h/node.2/lanes");
    EXPECT_EQ(places.size_of(0, 4), small_lanes.size_of(2));
    EXPECT_EQ(places.size_of(1, 4), small_lanes.size_of(1));
    EXPECT_EQ(places.size_of(2, 4), small_lanes.size_of(1));
    EXPECT_EQ(places.range_of(1), page_size);
    EXPECT_EQ(places.range_of(page_size + 1), small_lanes.size_of(1));
    const std::vector<std::uint64_t> whole{small_lanes.size_of(2), small_lanes.size_of(1), small_lanes.size_of(1)};
    EXPECT_EQ(places.lanes_in(whole), 4U);
    const std::vector<std::uint64_t> short_by_one{small_lanes.size_of(2), small_lanes.size_of(1) - 1,
                                                  small_lanes.size_of(3)};
    EXPECT_EQ(places.lanes_in(short_by_one), 1U) << "lane 1 is missing";
    const std::vector<std::uint64_t> cut_off{small_lanes.size_of(2), 100, small_lanes.size_of(3)};
    EXPECT_EQ(places.range_in(cut_off), small_lanes.size_of(1));
    const auto windows = places.windows(0, 0, small_lanes.size_of(4));
    ASSERT_EQ(windows.size(), 3U) << "the head, and lanes 0 and 3";
    EXPECT_EQ(windows[0].size, page_size);
    EXPECT_EQ(windows[2].in_range, small_lanes.size_of(3));
    EXPECT_EQ(windows[2].in_file, small_lanes.size_of(1));
    EXPECT_EQ(windows[2].size, small_lanes.lane_size);
    EXPECT_EQ(places.windows(1, 0, small_lanes.size_of(4)).size(), 1U) << "no head";
    EXPECT_TRUE(places.windows(1, small_lanes.size_of(2), small_lanes.size_of(4)).empty());
}

class lane_nodes_test : public testing::Test {
protected:
    lane_nodes_test() { make(path_); }

    static void make(const std::string& path) {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        options.node_places = {"", ""};
        auto files = must(heap_files::create(posix_storage(), path, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
    }
    /// For durability `atomic`.
    [[nodiscard]] std::unique_ptr<heap_files> open(const std::string& path) const {
        mapping_options mapping;
        mapping.shared = true;
        mapping.topology = &machine_;
        return must(heap_files::open(posix_storage(), path, access_mode::read_write, mapping));
    }
    [[nodiscard]] std::unique_ptr<heap_files> open() const { return open(path_); }
    /// Each lane holds its number plus 1.
    static void grow_and_mark(heap_files& files, std::uint64_t lanes) {
        must(files.lanes().grow_lanes(small_lanes.size_of(lanes)));
        for (std::uint64_t lane = 0; lane < lanes; ++lane) {
            files.lanes().lanes()[small_lanes.size_of(lane)] = static_cast<std::byte>(lane + 1);
        }
    }
    static void expect_marked(heap_files& files, std::uint64_t lanes) {
        ASSERT_EQ(files.lanes().lanes_size(), small_lanes.size_of(lanes));
        for (std::uint64_t lane = 0; lane < lanes; ++lane) {
            EXPECT_EQ(files.lanes().lanes()[small_lanes.size_of(lane)], static_cast<std::byte>(lane + 1)) << lane;
        }
    }
    void crash(std::uint64_t lanes) const {
        auto files = open();
        must(files->lanes().open(small_lanes));
        files->lanes().lanes()[0] = std::byte{99};
        grow_and_mark(*files, lanes);
        must(files->session().begin_incarnation(64, 1));
    }
    static void change_superblock(const std::string& path, const std::function<void(superblock_on_media&)>& change) {
        superblock_on_media block{};
        std::memcpy(&block, content_of(path + "/superblock").data(), sizeof block);
        change(block);
        seal(block);
        must(write_superblocks(*must(posix_storage().open(path + "/superblock", access_mode::read_write)), block));
    }
    [[nodiscard]] static superblock_on_media superblock_of(const std::string& path) {
        superblock_on_media block{};
        std::memcpy(&block, content_of(path + "/superblock").data(), sizeof block);
        return block;
    }
    /// As one of an older version: all lanes are in its own directory.
    void crash_with_one_file(std::uint64_t lanes) const {
        crash(0);
        for (const std::uint32_t node : {0U, 1U}) {
            fs::remove(lanes_of(node));
        }
        change_superblock(path_, [](superblock_on_media& block) { block.flags &= ~flag_lanes_by_node; });
        std::ofstream(path_ + "/lanes") << "";
        auto files = open();
        must(files->lanes().open(small_lanes));
        grow_and_mark(*files, lanes);
    }
    [[nodiscard]] std::string lanes_of(std::uint32_t node) const {
        return path_ + "/node." + std::to_string(node) + "/lanes";
    }
    void expect_refused(failure_code code, const std::string& path, const std::string& field) const {
        const auto refused = open()->lanes().open(small_lanes);
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, code) << refused.error().message();
        EXPECT_EQ(refused.error().path, path) << refused.error().message();
        EXPECT_EQ(refused.error().field, field) << refused.error().message();
    }

    memory_watch machine_;
    test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(lane_nodes_test, each_lane_lies_in_the_file_of_its_node) {
    {
        auto files = open();
        must(files->lanes().open(small_lanes));
        EXPECT_EQ(files->lanes().files(), 2U);
        EXPECT_EQ(files->lanes().lanes_size(), page_size) << "the head";
        std::byte* const begin = files->lanes().lanes();
        begin[0] = std::byte{99};
        machine_.reserved.clear();
        machine_.mapped.clear();
        grow_and_mark(*files, 1);
        grow_and_mark(*files, 5);
        EXPECT_EQ(files->lanes().lanes(), begin);
        EXPECT_THAT(machine_.mapped, ElementsAre(0, 0, 0, 1, 1));
        EXPECT_THAT(machine_.reserved, ElementsAre(0, 0, 1));
        EXPECT_EQ(begin[small_lanes.size_of(4) + small_lanes.lane_size - 1], std::byte{0});
        must(files->session().begin_incarnation(64, 1));
        EXPECT_NE(files->superblock().flags & flag_lanes_by_node, 0U);
        must(files->session().close(0));
    }
    EXPECT_FALSE(fs::exists(path_ + "/lanes"));
    const auto first = content_of(lanes_of(0));
    const auto second = content_of(lanes_of(1));
    ASSERT_EQ(first.size(), small_lanes.size_of(3));
    ASSERT_EQ(second.size(), small_lanes.size_of(2));
    EXPECT_EQ(first[0], std::byte{99});
    EXPECT_EQ(second[0], std::byte{0});
    EXPECT_EQ(first[small_lanes.size_of(0)], std::byte{1});
    EXPECT_EQ(second[small_lanes.size_of(0)], std::byte{2});
    EXPECT_EQ(first[small_lanes.size_of(1)], std::byte{3});
    EXPECT_EQ(second[small_lanes.size_of(1)], std::byte{4});
    EXPECT_EQ(first[small_lanes.size_of(2)], std::byte{5});
    auto files = open();
    must(files->lanes().open(small_lanes));
    expect_marked(*files, 5);
    EXPECT_TRUE(must(remove_heap(posix_storage(), [&] {
        files.reset();
        return path_;
    }())));
    EXPECT_THAT(names_in(directory_.path()), ElementsAre());
}

TEST_F(lane_nodes_test, a_crashed_heap_has_all_files_or_is_refused) {
    crash(4);
    {
        auto files = open();
        must(files->lanes().open(small_lanes));
        expect_marked(*files, 4);
        EXPECT_EQ(files->lanes().lanes()[0], std::byte{99});
    }
    const auto whole = content_of(lanes_of(1));
    fs::resize_file(lanes_of(1), whole.size() - 1);
    {
        auto files = open();
        must(files->lanes().open(small_lanes));
        expect_marked(*files, 3);  // lane/ refuses it by the number of lanes
    }
    fs::resize_file(lanes_of(1), page_size - 1);
    expect_refused(failure_code::corrupt, lanes_of(1), "identity");
    fs::remove(lanes_of(1));
    expect_refused(failure_code::missing, lanes_of(1), "file");
    EXPECT_FALSE(fs::exists(lanes_of(1)));
    std::ofstream(lanes_of(1)) << "";
    fs::resize_file(lanes_of(1), small_lanes.size_of(maximum_lanes / 2) + 1);
    expect_refused(failure_code::corrupt, lanes_of(1), "file size");
}

TEST_F(lane_nodes_test, the_file_of_another_heap_or_node_is_refused_and_stays_as_it_is) {
    crash(4);
    make(directory_.path("other"));
    {
        auto other = open(directory_.path("other"));
        must(other->lanes().open(small_lanes));
        grow_and_mark(*other, 4);
    }
    const std::string kept = directory_.path("kept");
    const auto try_both = [&](const std::string& field) {
        const auto planted = content_of(lanes_of(1));
        expect_refused(failure_code::corrupt, lanes_of(1), field);
        EXPECT_EQ(content_of(lanes_of(1)), planted);
    };
    for (const bool closed : {false, true}) {
        if (closed) {
            auto files = open();
            must(files->lanes().open(small_lanes));
            must(files->session().close(0));
        }
        fs::rename(lanes_of(1), kept);
        fs::copy_file(directory_.path("other/node.1/lanes"), lanes_of(1));
        try_both("uuid");
        fs::copy_file(lanes_of(0), lanes_of(1), fs::copy_options::overwrite_existing);
        try_both("node");
        fs::copy_file(kept, lanes_of(1), fs::copy_options::overwrite_existing);
        for (const std::uint64_t at : {0U, 8U, 24U, 28U, 40U, 56U}) {
            const std::byte was = content_of(lanes_of(1))[lanes_identity_at + at];
            overwrite(lanes_of(1), lanes_identity_at + at, {was ^ std::byte{1}});
            try_both("identity");
            overwrite(lanes_of(1), lanes_identity_at + at, {was});
        }
        {
            const auto file = must(posix_storage().open(lanes_of(1), access_mode::read_write));
            superblock_on_media three = superblock_of(path_);
            three.nodes = 3;
            must(mark_file_of_node(*file, three, 1));
        }
        try_both("node");
        fs::rename(kept, lanes_of(1));
        auto files = open();
        must(files->lanes().open(small_lanes));
        expect_marked(*files, 4);
    }
    auto files = open();
    must(files->lanes().open(small_lanes));
    fs::rename(directory_.path("other/node.1/lanes"), lanes_of(1));
    const auto planted = content_of(lanes_of(1));
    must(files->lanes().grow_lanes(small_lanes.size_of(5)));
    EXPECT_EQ(files->lanes().grow_lanes(small_lanes.size_of(6)).error().code, failure_code::corrupt);
    EXPECT_EQ(content_of(lanes_of(1)), planted);
}

TEST_F(lane_nodes_test, a_file_without_identity_is_unfinished_until_it_has_room_for_a_lane) {
    const superblock_on_media block = superblock_of(path_);
    const auto file = must(posix_storage().create(directory_.path("file"), "test"));
    for (const std::uint64_t size : {std::uint64_t{0}, page_size - 1, page_size}) {
        must(file->resize(size, "test"));
        EXPECT_FALSE(must(is_file_of_node(*file, block, 1))) << size;
        EXPECT_EQ(check_file_of_node(*file, block, 1).error().code, failure_code::corrupt) << size;
    }
    must(file->resize(page_size + 1, "test"));
    EXPECT_EQ(is_file_of_node(*file, block, 1).error().field, "identity");
    must(mark_file_of_node(*file, block, 1));
    EXPECT_TRUE(must(is_file_of_node(*file, block, 1)));
}

TEST_F(lane_nodes_test, a_creation_that_was_cut_off_is_finished) {
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{100}, page_size}) {
        std::ofstream(lanes_of(1)) << "";
        fs::resize_file(lanes_of(1), size);
        auto files = open();
        must(files->lanes().open(small_lanes));
        grow_and_mark(*files, 2);
        fs::remove(lanes_of(0));  // no record counts
    }
    crash(2);
    auto files = open();
    must(files->lanes().open(small_lanes));
    expect_marked(*files, 2);
}

TEST_F(lane_nodes_test, lanes_in_one_file_stay_there_until_no_record_counts) {
    crash_with_one_file(3);
    EXPECT_EQ(fs::file_size(path_ + "/lanes"), small_lanes.size_of(3));
    {
        auto files = open();
        must(files->lanes().open(small_lanes));
        EXPECT_EQ(files->lanes().files(), 1U);
        expect_marked(*files, 3);
        must(files->session().begin_incarnation(64, 1));
        EXPECT_EQ(files->superblock().flags & flag_lanes_by_node, 0U);
        grow_and_mark(*files, 4);
        EXPECT_FALSE(fs::exists(lanes_of(0)));
        must(files->session().close(0));
    }
    auto files = open();
    must(files->lanes().open(small_lanes));
    EXPECT_EQ(files->lanes().files(), 2U);
    EXPECT_EQ(files->lanes().lanes_size(), page_size);
    EXPECT_FALSE(fs::exists(path_ + "/lanes"));
}

TEST_F(lane_nodes_test, a_heap_with_one_node_has_one_file) {
    const std::string path = directory_.path("single");
    creation_options options;
    options.segment_size = minimum_segment_size;
    options.mapping.reservation = base::gibibyte;
    options.node_places = {""};
    auto made = must(heap_files::create(posix_storage(), path, options));
    must(made->grow({1}));
    must(made->commit({}));
    must(made->close_cleanly());
    made.reset();
    auto files = open(path);
    must(files->lanes().open(small_lanes));
    EXPECT_EQ(files->lanes().files(), 1U);
    must(files->lanes().grow_lanes(1));
    EXPECT_EQ(fs::file_size(path + "/lanes"), page_size);
}

TEST_F(lane_nodes_test, a_copy_of_a_crashed_heap_has_its_lanes_in_one_file) {
    crash(5);
    for (const std::vector<std::string>& places : {std::vector<std::string>{}, {"", "", ""}}) {
        const std::string target = directory_.path("copy");
        {
            const heap_paths paths(path_);
            const recovered_state state = must(recover(posix_storage(), paths, access_mode::read_only));
            must(copy_heap({posix_storage(), paths, state}, posix_storage(), target, places));
        }
        EXPECT_EQ(superblock_of(target).flags & flag_lanes_by_node, 0U);
        const auto all = content_of(target + "/lanes");
        ASSERT_EQ(all.size(), small_lanes.size_of(5));
        EXPECT_EQ(all[0], std::byte{99});
        EXPECT_EQ(all[lanes_identity_at], std::byte{0}) << "whose file a lane came from is no part of the copy";
        auto copy = open(target);
        EXPECT_TRUE(copy->has_pending_lanes());
        must(copy->lanes().open(small_lanes));
        expect_marked(*copy, 5);
        copy.reset();
        EXPECT_TRUE(must(remove_heap(posix_storage(), target)));
    }
    fs::copy_file(lanes_of(0), lanes_of(1), fs::copy_options::overwrite_existing);
    const heap_paths paths(path_);
    const recovered_state state = must(recover(posix_storage(), paths, access_mode::read_only));
    const auto refused = copy_heap({posix_storage(), paths, state}, posix_storage(), directory_.path("copy"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().path, lanes_of(1));
    EXPECT_FALSE(fs::exists(directory_.path("copy")));
}

TEST_F(lane_nodes_test, files_that_were_copied_by_other_means_get_their_space_or_go) {
    crash(4);
    for (const bool pending : {true, false}) {
        if (!pending) {
            auto files = open();
            must(files->lanes().open(small_lanes));
            must(files->session().close(0));
        }
        const std::string copied = directory_.path("copied");
        fs::copy(path_, copied, fs::copy_options::recursive);
        const std::string file = copied + "/node.1/lanes";
        const auto handle = must(posix_storage().open(file, access_mode::read_write));
        must(handle->punch_hole(small_lanes.size_of(1), small_lanes.lane_size, "test"));
        const std::uint64_t before = must(handle->charged());
        {
            auto files = open(copied);
            if (pending) {
                must(files->lanes().open(small_lanes));
                EXPECT_EQ(must(handle->charged()), before + small_lanes.lane_size);
                EXPECT_EQ(files->lanes().lanes()[small_lanes.size_of(2)], std::byte{3});
            } else {
                must(files->copies().reserve({}, {}));
                EXPECT_FALSE(fs::exists(file));
                EXPECT_FALSE(fs::exists(copied + "/node.0/lanes"));
            }
        }
        fs::remove_all(copied);
    }
}

TEST_F(lane_nodes_test, a_superblock_with_one_node_cannot_have_them_in_several) {
    crash(2);
    for (const std::uint32_t nodes : {1U, 0U}) {
        change_superblock(path_, [nodes](superblock_on_media& block) { block.nodes = nodes; });
        const auto refused = recover(posix_storage(), heap_paths(path_), access_mode::read_only);
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::corrupt);
        EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("flags"));
    }
}

// The layout of docs/format.md, "Lanes", byte by byte. A change that fails here changes the format.
TEST_F(lane_nodes_test, the_identity_lies_on_media_as_the_format_says) {
    crash(2);
    const superblock_on_media block = superblock_of(path_);
    EXPECT_EQ(block.flags & 0x20U, 0x20U);
    const auto page = content_of(lanes_of(1));
    const std::byte* const at = page.data() + 2048;
    EXPECT_EQ(std::memcmp(at, "HFSTLANE", 8), 0);
    EXPECT_EQ(std::memcmp(at + 8, block.uuid, 16), 0);
    const std::vector<std::byte> numbers(at + 24, at + 56);
    std::vector<std::byte> expected(32);
    expected[0] = std::byte{1};
    expected[4] = std::byte{2};
    EXPECT_EQ(numbers, expected);
    std::uint64_t checksum = 0;
    std::memcpy(&checksum, at + 56, sizeof checksum);
    EXPECT_EQ(checksum, base::checksum64(std::span(at, 56)));
}

}  // namespace
}  // namespace holdfast::segment
