#include "segment/files/node_directories.hpp"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "segment/creation/copy.hpp"
#include "segment/format/superblock.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using persist::access_mode;
using persist::posix_storage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class watching_topology final : public persist::topology {
public:
    [[nodiscard]] unsigned nodes() const noexcept override { return 2; }
    [[nodiscard]] unsigned node_of_cpu(unsigned /*cpu*/) const noexcept override { return 0; }
    [[nodiscard]] std::span<const unsigned> cpus_of(unsigned /*node*/) const noexcept override { return {}; }
    [[nodiscard]] unsigned current_node() const noexcept override { return 0; }
    bool prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept override {
        preferred[address] = {node, bytes};
        return true;
    }

    mutable std::map<std::byte*, std::pair<unsigned, std::uint64_t>> preferred;
    mutable std::vector<unsigned> reserved_near;
    mutable int open_preferences = 0;

protected:
    bool prefer_for_this_thread(unsigned node) const noexcept override {
        reserved_near.push_back(node);
        ++open_preferences;
        return true;
    }
    void prefer_nothing_for_this_thread() const noexcept override { --open_preferences; }
};

class node_directories : public testing::Test {
protected:
    node_directories() {
        fs::create_directory(scratch_.path("a"));
        fs::create_directory(scratch_.path("b"));
    }

    [[nodiscard]] std::string heap() const { return scratch_.path("heap"); }
    [[nodiscard]] creation_options two_places() const {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = 64 * region_size;
        options.node_places = {scratch_.path("a"), scratch_.path("b")};
        return options;
    }
    [[nodiscard]] std::unique_ptr<heap_files> make(std::uint64_t segments) const {
        auto files = must(heap_files::create(posix_storage(), heap(), two_places()));
        must(files->grow({segments * region_size / base::page_size}));
        for (std::uint64_t i = 0; i < segments; ++i) {
            files->view().base()[i * region_size] = static_cast<std::byte>(i + 1);
        }
        must(files->commit({}));
        return files;
    }
    void make_and_close(std::uint64_t segments) const { must(make(segments)->close_cleanly()); }
    [[nodiscard]] base::result<std::unique_ptr<heap_files>> open(access_mode mode = access_mode::read_write) const {
        return heap_files::open(posix_storage(), heap(), mode, {});
    }
    void expect_content(const heap_files& files, std::uint64_t segments) const {
        for (std::uint64_t i = 0; i < segments; ++i) {
            EXPECT_EQ(files.view().base()[i * region_size], static_cast<std::byte>(i + 1)) << i;
        }
        std::vector<base::failure> problems;
        must(files.verify(problems, 1));
        EXPECT_THAT(problems, IsEmpty());
    }
    void expect_refused(failure_code code, const std::string& path, const std::string& field) const {
        for (const access_mode mode : {access_mode::read_write, access_mode::read_only}) {
            const auto refused = open(mode);
            ASSERT_FALSE(refused.ok());
            EXPECT_EQ(refused.error().code, code) << refused.error().message();
            EXPECT_EQ(refused.error().path, path) << refused.error().message();
            EXPECT_EQ(refused.error().field, field) << refused.error().message();
        }
    }
    [[nodiscard]] std::string directory_in(const std::string& place) const {
        const auto names = names_in(scratch_.path(place));
        EXPECT_THAT(names, SizeIs(1));
        return names.empty() ? std::string() : scratch_.path(place + "/" + names.front());
    }

    test_directory scratch_;
};

TEST_F(node_directories, SegmentsLieInThemByTurns) {
    make_and_close(5);
    EXPECT_THAT(names_in(heap()), ElementsAre("lock", "node.0", "node.1", "objects", "superblock"));
    EXPECT_THAT(names_in(directory_in("a")),
                ElementsAre("lock", "node", "segment.000000", "segment.000002", "segment.000004"));
    EXPECT_THAT(names_in(directory_in("b")), ElementsAre("lock", "node", "segment.000001", "segment.000003"));
    const auto files = must(open());
    EXPECT_EQ(files->paths().nodes(), 2U);
    expect_content(*files, 5);
    const file_statistics sizes = must(files->statistics());
    EXPECT_EQ(sizes.segments, 5U);
    EXPECT_GT(sizes.apparent_bytes, 5 * files->view().shape().file_size());
}

TEST_F(node_directories, APlaceThatIsNotGivenIsADirectoryInTheHeaps) {
    creation_options options = two_places();
    options.node_places = {"", scratch_.path("b"), ""};
    {
        auto files = must(heap_files::create(posix_storage(), heap(), options));
        must(files->grow({3 * region_size / base::page_size}));
        must(files->commit({}));
        must(files->close_cleanly());
    }
    EXPECT_TRUE(fs::is_directory(fs::symlink_status(heap() + "/node.0")));
    EXPECT_TRUE(fs::is_symlink(heap() + "/node.1"));
    EXPECT_TRUE(fs::exists(heap() + "/node.2/segment.000002"));
    EXPECT_EQ(must(open())->paths().nodes(), 3U);
    EXPECT_TRUE(must(remove_heap(posix_storage(), heap())));
    EXPECT_THAT(names_in(scratch_.path()), ElementsAre("a", "b"));
    EXPECT_THAT(names_in(scratch_.path("b")), IsEmpty());
}

TEST_F(node_directories, AHeapMayMoveAndSoMayItsPlaces) {
    make_and_close(3);
    fs::rename(heap(), scratch_.path("elsewhere"));
    fs::rename(directory_in("b"), scratch_.path("c"));
    fs::remove(scratch_.path("elsewhere/node.1"));
    fs::create_symlink("../c", scratch_.path("elsewhere/node.1"));
    const auto files = must(heap_files::open(posix_storage(), scratch_.path("elsewhere"), access_mode::read_write, {}));
    expect_content(*files, 3);
}

TEST_F(node_directories, RemovalLeavesThePlacesAsTheyWere) {
    make_and_close(4);
    std::ofstream(scratch_.path("a/notes")) << "somebody's";
    EXPECT_TRUE(must(remove_heap(posix_storage(), heap())));
    EXPECT_THAT(names_in(scratch_.path()), ElementsAre("a", "b"));
    EXPECT_THAT(names_in(scratch_.path("a")), ElementsAre("notes"));
    EXPECT_THAT(names_in(scratch_.path("b")), IsEmpty());
}

TEST_F(node_directories, RemovalTakesNothingThatIsNotTheHeaps) {
    make_and_close(2);
    std::ofstream(directory_in("b") + "/notes") << "somebody's";
    const auto refused = remove_heap(posix_storage(), heap());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::invalid_argument);
    EXPECT_EQ(refused.error().path, heap() + "/node.1");
    EXPECT_EQ(refused.error().found, "a file notes");
    expect_content(*must(open()), 2);
}

TEST_F(node_directories, APlaceThatIsNotMountedIsMissing) {
    make_and_close(2);
    fs::rename(scratch_.path("b"), scratch_.path("unmounted"));
    expect_refused(failure_code::missing, heap() + "/node.1", "node directory");
    EXPECT_THAT(open().error().found, HasSubstr(scratch_.path("b")));
    const auto refused = remove_heap(posix_storage(), heap());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::missing);
    fs::rename(scratch_.path("unmounted"), scratch_.path("b"));
    expect_content(*must(open()), 2);
    fs::remove(heap() + "/node.0");
    expect_refused(failure_code::missing, heap() + "/node.0", "node directory");
}

TEST_F(node_directories, DirectoriesThatAreExchangedAreNoticed) {
    make_and_close(4);
    fs::rename(heap() + "/node.0", heap() + "/kept");
    fs::rename(heap() + "/node.1", heap() + "/node.0");
    fs::rename(heap() + "/kept", heap() + "/node.1");
    expect_refused(failure_code::corrupt, heap() + "/node.0/node", "node");
}

TEST_F(node_directories, TheDirectoryOfAnotherHeapIsNoticed) {
    make_and_close(2);
    creation_options options = two_places();
    options.node_places = {scratch_.path("a"), ""};
    must(must(heap_files::create(posix_storage(), scratch_.path("other"), options))->grow({1}));  // never committed
    {
        auto other = must(heap_files::create(posix_storage(), scratch_.path("other"), options));
        must(other->grow({1}));
        must(other->commit({}));
        must(other->close_cleanly());
    }
    const fs::path kept = fs::read_symlink(heap() + "/node.0");
    fs::remove(heap() + "/node.0");
    fs::create_symlink(fs::read_symlink(scratch_.path("other/node.0")), heap() + "/node.0");
    expect_refused(failure_code::corrupt, heap() + "/node.0/node", "uuid");
    const auto before = names_in(scratch_.path("a"));
    EXPECT_FALSE(remove_heap(posix_storage(), heap()).ok());
    EXPECT_EQ(names_in(scratch_.path("a")), before) << "nothing behind a link that leads elsewhere is removed";
}

TEST_F(node_directories, DamagedMarkersAreNamed) {
    make_and_close(2);
    const std::string marker = heap() + "/node.1/node";
    const auto whole = content_of(marker);
    ASSERT_EQ(whole.size(), node_marker_size);
    for (const std::size_t at : {0U, 8U, 16U, 32U, 36U, 40U, 60U, 4095U}) {
        overwrite(marker, at, {whole[at] ^ std::byte{1}});
        const auto refused = open();
        ASSERT_FALSE(refused.ok()) << at;
        EXPECT_EQ(refused.error().path, marker);
        EXPECT_EQ(refused.error().code, at == 8 ? failure_code::version_unsupported : failure_code::corrupt) << at;
        overwrite(marker, at, {whole[at]});
    }
    fs::resize_file(marker, 4095);
    expect_refused(failure_code::corrupt, marker, "file size");
}

TEST_F(node_directories, MarkersWithTheRightChecksumAndAWrongFieldAreNamed) {
    make_and_close(2);
    const std::string path = heap() + "/node.1/node";
    const auto whole = content_of(path);
    struct wrong {
        std::size_t at;
        const char* field;
    };
    // Each number is by 65,536 too large.
    for (const auto& [at, field] :
         {wrong{14, "size"}, wrong{34, "node"}, wrong{38, "node"}, wrong{42, "bytes of the path"}}) {
        auto changed = whole;
        changed[at] ^= std::byte{1};
        const std::uint64_t checksum =
            base::checksum64(std::span(changed).first(offsetof(node_marker_on_media, checksum)));
        std::memcpy(changed.data() + offsetof(node_marker_on_media, checksum), &checksum, sizeof checksum);
        overwrite(path, 0, changed);
        expect_refused(failure_code::corrupt, path, field);
    }
    overwrite(path, 0, whole);
    EXPECT_TRUE(open().ok());
}

TEST_F(node_directories, ACopyOfTheDirectoryAloneIsNoHeapOfItsOwn) {
    make_and_close(2);
    fs::copy(heap(), scratch_.path("copy"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto copy = heap_files::open(posix_storage(), scratch_.path("copy"), access_mode::read_only, {});
    ASSERT_FALSE(copy.ok());
    EXPECT_EQ(copy.error().code, failure_code::corrupt);
    EXPECT_THAT(copy.error().found, HasSubstr(heap()));
    const auto removed = remove_heap(posix_storage(), scratch_.path("copy"));
    EXPECT_FALSE(removed.ok()) << "or the heap would lose its segments";
    // The directories are not taken for the remains of a creation either.
    fs::rename(scratch_.path("copy/superblock"), scratch_.path("copy/superblock.new"));
    const auto created = heap_files::create(posix_storage(), scratch_.path("copy"), two_places());
    ASSERT_FALSE(created.ok());
    expect_content(*must(open()), 2);
    fs::copy_file(heap() + "/superblock", scratch_.path("copy/superblock"));
    fs::remove_all(heap());
    expect_content(*must(heap_files::open(posix_storage(), scratch_.path("copy"), access_mode::read_write, {})), 2);
}

TEST_F(node_directories, TwoThatLeadToOneAreLocked) {
    const auto files = make(2);
    fs::copy(heap(), scratch_.path("copy"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const auto copy = heap_files::open(posix_storage(), scratch_.path("copy"), access_mode::read_only, {});
    ASSERT_FALSE(copy.ok());
    EXPECT_EQ(copy.error().code, failure_code::locked) << copy.error().message();
}

TEST_F(node_directories, CopiesLieInOneDirectoryOrInThoseThatAreGiven) {
    make_and_close(4);
    const heap_paths paths(heap());
    const auto state = must(recover(posix_storage(), paths, access_mode::read_only));
    must(copy_heap({posix_storage(), paths, state}, posix_storage(), scratch_.path("flat")));
    EXPECT_THAT(names_in(scratch_.path("flat")), testing::Contains("segment.000003"));
    const auto flat = must(heap_files::open(posix_storage(), scratch_.path("flat"), access_mode::read_write, {}));
    EXPECT_EQ(flat->paths().nodes(), 0U);
    expect_content(*flat, 4);

    const std::vector<std::string> places{"", scratch_.path("b"), scratch_.path("a")};
    must(copy_heap({posix_storage(), paths, state}, posix_storage(), scratch_.path("placed"), places));
    const auto placed = must(heap_files::open(posix_storage(), scratch_.path("placed"), access_mode::read_write, {}));
    EXPECT_EQ(placed->paths().nodes(), 3U);
    expect_content(*placed, 4);
    EXPECT_THAT(names_in(scratch_.path("a")), SizeIs(2));
    EXPECT_FALSE(copy_heap({posix_storage(), paths, state}, posix_storage(), scratch_.path("third"),
                           {{scratch_.path("nowhere")}})
                     .ok());
    EXPECT_FALSE(fs::exists(scratch_.path("third")));
}

TEST_F(node_directories, PlacesThatAreNoneAreRefusedBeforeAnythingIsMade) {
    creation_options options = two_places();
    options.node_places.back() = scratch_.path("nowhere");
    const auto nowhere = heap_files::create(posix_storage(), heap(), options);
    ASSERT_FALSE(nowhere.ok());
    EXPECT_EQ(nowhere.error().code, failure_code::not_found);
    EXPECT_EQ(nowhere.error().path, scratch_.path("nowhere"));
    std::ofstream(scratch_.path("file")) << "no directory";
    options.node_places.back() = scratch_.path("file");
    EXPECT_FALSE(heap_files::create(posix_storage(), heap(), options).ok());
    options.node_places.assign(maximum_nodes + 1, "");
    const auto many = heap_files::create(posix_storage(), heap(), options);
    ASSERT_FALSE(many.ok());
    EXPECT_EQ(many.error().code, failure_code::invalid_argument);
    EXPECT_FALSE(fs::exists(heap()));
}

TEST_F(node_directories, WhatACreationLeftIsRemovedByTheNext) {
    // As after a kill: without a superblock.
    make_and_close(3);
    fs::rename(heap() + "/superblock", heap() + "/superblock.new");
    const std::string old = directory_in("a");
    make_and_close(2);
    EXPECT_FALSE(fs::exists(old));
    EXPECT_THAT(names_in(scratch_.path("a")), SizeIs(1));
    expect_content(*must(open()), 2);
    // A link and nothing behind it; a directory without a marker.
    fs::rename(heap() + "/superblock", heap() + "/superblock.new");
    fs::remove_all(directory_in("a"));
    fs::remove(directory_in("b") + "/node");
    fs::rename(directory_in("b") + "/segment.000001", directory_in("b") + "/lanes");
    const auto refused = heap_files::create(posix_storage(), heap(), two_places());
    ASSERT_FALSE(refused.ok()) << "lanes are made after the marker";
    EXPECT_THAT(refused.error().found, HasSubstr("lanes without a sound file node"));
    EXPECT_TRUE(fs::exists(directory_in("b") + "/lanes"));
    fs::remove(directory_in("b") + "/lanes");
    make_and_close(2);
    EXPECT_THAT(names_in(scratch_.path("b")), SizeIs(1));
}

TEST_F(node_directories, LinksThatNoCreationMadeAreNotFollowed) {
    fs::create_directories(scratch_.path("photos"));
    fs::create_directories(heap());
    std::ofstream(heap() + "/log.000000") << "remains";
    for (const std::string target :
         {"photos", "a/x-01234567-0123-4567-89ab-0123456789ab.1", "a/x-01234567-0123-4567-89ab-0123456789AB.0"}) {
        fs::create_directories(scratch_.path(target));
        fs::create_symlink(scratch_.path(target), heap() + "/node.0");
        const auto refused = heap_files::create(posix_storage(), heap(), two_places());
        ASSERT_FALSE(refused.ok()) << target;
        EXPECT_EQ(refused.error().path, heap() + "/node.0");
        EXPECT_TRUE(fs::exists(scratch_.path(target))) << target;
        EXPECT_TRUE(fs::exists(heap() + "/log.000000")) << "refused before anything is removed";
        fs::remove(heap() + "/node.0");
    }
}

TEST_F(node_directories, ACreationThatFailsLeavesNothing) {
    { const auto files = must(heap_files::create(posix_storage(), heap(), two_places())); }
    EXPECT_THAT(names_in(scratch_.path()), ElementsAre("a", "b"));
    EXPECT_THAT(names_in(scratch_.path("a")), IsEmpty());
    EXPECT_THAT(names_in(scratch_.path("b")), IsEmpty());
}

TEST_F(node_directories, SegmentsBeyondTheEndAreRemovedFromEach) {
    make_and_close(2);
    std::ofstream(directory_in("a") + "/segment.000006") << "of a growth that a crash cut off";
    std::ofstream(directory_in("b") + "/segment.000003") << "the same";
    expect_content(*must(open()), 2);
    EXPECT_THAT(names_in(directory_in("a")), ElementsAre("lock", "node", "segment.000000"));
    EXPECT_THAT(names_in(directory_in("b")), ElementsAre("lock", "node", "segment.000001"));
}

TEST_F(node_directories, MemoryIsAskedForNearTheNodeOfTheSegment) {
    const watching_topology machine;
    creation_options options = two_places();
    options.mapping.topology = &machine;
    {
        const auto files = must(heap_files::create(posix_storage(), heap(), options));
        must(files->grow({3 * region_size / base::page_size}));
        for (std::uint64_t i = 0; i < 3; ++i) {
            const auto found = machine.preferred.find(files->view().base() + i * region_size);
            ASSERT_NE(found, machine.preferred.end()) << i;
            EXPECT_EQ(found->second, std::pair(static_cast<unsigned>(i % 2), region_size)) << i;
        }
        EXPECT_THAT(machine.reserved_near, ElementsAre(0, 1, 0, 0, 1, 0)) << "tables of the segments, then their pages";
        EXPECT_EQ(machine.open_preferences, 0);
        must(files->commit({}));
        must(files->close_cleanly());
    }
    machine.preferred.clear();
    const auto files = must(heap_files::open(posix_storage(), heap(), access_mode::read_write, options.mapping));
    EXPECT_THAT(machine.preferred, SizeIs(3));
}

}  // namespace
}  // namespace holdfast::segment
