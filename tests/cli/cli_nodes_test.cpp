// The command on heaps whose segments lie in several directories.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class cli_nodes : public ::testing::Test {
protected:
    cli_nodes() {
        fs::create_directory(scratch_ / "a");
        fs::create_directory(scratch_ / "b");
        open_options options = small_segments();
        options.node_directories = {scratch_ / "a", scratch_ / "b"};
        manager made(create_only, heap_, options);
        advance(made, 1);
        static_cast<void>(made.allocate(5U << 20U));
        made.close(true);
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

TEST_F(cli_nodes, info_says_where_the_segments_lie) {
    const auto nodes = run_holdfast({"info", heap_, "--json"}).json()["node_directories"];
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(fs::path(nodes[0].get<std::string>()).parent_path(), scratch_ / "a");
    EXPECT_EQ(fs::path(nodes[1].get<std::string>()).parent_path(), scratch_ / "b");
    EXPECT_THAT(run_holdfast({"info", heap_}).out, AllOf(HasSubstr("segments, node 0"), HasSubstr(scratch_ / "b")));
    EXPECT_EQ(run_holdfast({"check", heap_}).status, 0);
    EXPECT_EQ(run_holdfast({"defrag", heap_}).status, 0);
    EXPECT_EQ(step_of(manager(open_read_only, heap_)), 1U);
}

TEST_F(cli_nodes, copy_puts_segments_where_it_is_told) {
    const auto flat = run_holdfast({"copy", heap_, scratch_ / "flat", "--json"});
    EXPECT_EQ(flat.status, 0) << flat.err;
    EXPECT_TRUE(flat.json()["node_directories"].empty());
    EXPECT_TRUE(fs::exists(scratch_ / "flat/segment.000001"));

    const auto placed = run_holdfast(
        {"copy", scratch_ / "flat", scratch_ / "placed", "--node", scratch_ / "b", "--node", scratch_ / "a"});
    EXPECT_EQ(placed.status, 0) << placed.err;
    EXPECT_THAT(placed.out, AllOf(HasSubstr("node 0"), HasSubstr("node 1"), HasSubstr(scratch_ / "a")));
    const manager copy(open_read_only, scratch_ / "placed");
    EXPECT_EQ(copy.node_directories().size(), 2U);
    EXPECT_EQ(step_of(copy), 1U);
}

TEST_F(cli_nodes, copy_refuses_what_is_there_and_places_that_are_not) {
    EXPECT_EQ(run_holdfast({"copy", heap_, scratch_ / "a"}).status, 2);
    const auto nowhere = run_holdfast({"copy", heap_, scratch_ / "copy", "--node", scratch_ / "nowhere", "--json"});
    EXPECT_EQ(nowhere.status, 2);
    EXPECT_THAT(nowhere.err, HasSubstr(scratch_ / "nowhere"));
    EXPECT_FALSE(fs::exists(scratch_ / "copy"));
}

TEST_F(cli_nodes, a_place_that_is_not_mounted_is_named) {
    fs::rename(scratch_ / "b", scratch_ / "c");
    const auto info = run_holdfast({"info", heap_, "--json"});
    EXPECT_EQ(info.status, 2);
    EXPECT_EQ(info.json()["error"]["code"], "missing");
    EXPECT_THAT(info.err, AllOf(HasSubstr("node.1"), HasSubstr(scratch_ / "b"), HasSubstr("mount")));
}

}  // namespace
}  // namespace holdfast::support
