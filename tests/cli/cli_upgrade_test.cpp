// `holdfast upgrade`: what it says of heaps and stores of this format, and of others.
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/store.hpp>
#include <holdfast/values.hpp>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::values {

// As a build with another layout would name its type.
namespace layout_1 {
struct root {
    std::uint64_t content;
};
}  // namespace layout_1
namespace layout_3 {
struct root {
    std::uint64_t content;
};
}  // namespace layout_3

}  // namespace holdfast::values

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class cli_upgrade : public ::testing::Test {
protected:
    void make_heap() const { manager(create_only, heap_, small_segments()).close(); }
    void make_store() const {
        store opened(store_);
        auto change = opened.write();
        change.put("key", "value");
        change.commit();
    }
    /// The number behind the magic of both copies; the checksum is not mended, for another version has its own.
    static void set_version(const std::string& file, std::uint32_t version) {
        std::vector<char> bytes(sizeof version);
        std::memcpy(bytes.data(), &version, sizeof version);
        constexpr std::uint64_t behind_magic = 8;
        constexpr std::uint64_t second_copy = 4096;
        write_bytes(file, behind_magic, bytes);
        write_bytes(file, second_copy + behind_magic, bytes);
    }
    [[nodiscard]] static answer upgrade(const std::string& path) { return run_holdfast({"upgrade", path}); }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
    std::string store_ = scratch_ / "test.store";
};

TEST_F(cli_upgrade, has_nothing_to_do_for_what_this_version_wrote) {
    make_heap();
    make_store();
    const answer both = run_holdfast({"upgrade", heap_, store_});
    EXPECT_EQ(both.status, 0) << both.err;
    const std::string nothing = ": nothing to do; this version and later ones open it\n";
    EXPECT_EQ(both.out, heap_ + ": heap of format 2, closed" + nothing + store_ + ": store of format 7" + nothing);
    const nlohmann::json found = run_holdfast({"upgrade", "--json", heap_, store_}).json();
    EXPECT_EQ(found["heap_format"], "2");
    ASSERT_THAT(found["found"], SizeIs(2));
    EXPECT_EQ(found["found"][0]["kind"], "heap");
    EXPECT_EQ(found["found"][0]["state"], "closed");
    EXPECT_THAT(found["found"][0]["todo"], SizeIs(0));
    EXPECT_EQ(found["found"][1]["kind"], "store");
    EXPECT_EQ(found["found"][1]["format"], "7");
}

TEST_F(cli_upgrade, wants_open_heaps_closed_and_crashed_ones_recovered) {
    {
        const manager writer(create_only, heap_, small_segments());
        const answer open = upgrade(heap_);
        EXPECT_EQ(open.status, 1);
        EXPECT_THAT(open.out,
                    AllOf(HasSubstr("format 2, open: to do:\n"), HasSubstr("end its readers and its writer")));
    }
    EXPECT_EQ(upgrade(heap_).status, 0);
    const std::string crashed = scratch_ / "crashed";
    make_crashed_heap(crashed, 2);
    const answer told = upgrade(crashed);
    EXPECT_EQ(told.status, 1);
    EXPECT_THAT(told.out, AllOf(HasSubstr("format 2, crashed: to do:\n"), HasSubstr("open and close it first")));
    manager(open_only, crashed).close();
    EXPECT_EQ(upgrade(crashed).status, 0);
}

TEST_F(cli_upgrade, knows_later_formats_from_earlier_ones) {
    make_heap();
    make_store();
    set_version(heap_ + "/superblock", 3);
    set_version(store_, 10);
    const auto before = files_under(scratch_.path());
    for (const std::string& path : {heap_, store_}) {
        const answer told = upgrade(path);
        EXPECT_EQ(told.status, 1) << told.err;
        EXPECT_THAT(told.out, HasSubstr("a later version of Holdfast wrote the ")) << path;
    }
    EXPECT_EQ(files_under(scratch_.path()), before);
    set_version(heap_ + "/superblock", 1);
    set_version(store_, 6);
    for (const std::string& path : {heap_, store_}) {
        const answer told = upgrade(path);
        EXPECT_EQ(told.status, 1) << told.err;
        EXPECT_THAT(told.out, HasSubstr("is older than the first release")) << path;
    }
}

TEST_F(cli_upgrade, knows_layouts_of_python_values) {
    const auto make = [&](const auto& root) {
        using type = std::decay_t<decltype(root)>;
        manager heap(open_or_create, heap_, small_segments());
        static_cast<void>(heap.construct<type>(values::root_name)(root));
        heap.commit();
    };
    const auto remake = [&] { return manager::remove(heap_); };
    make(values::root{});
    EXPECT_EQ(upgrade(heap_).status, 0);
    ASSERT_TRUE(remake());
    make(values::layout_3::root{});
    EXPECT_THAT(upgrade(heap_).out, HasSubstr("wrote the values of Python in format 3"));
    ASSERT_TRUE(remake());
    make(values::layout_1::root{});
    EXPECT_THAT(upgrade(heap_).out, HasSubstr("format 1 of the values of Python is older than the first release"));
}

TEST_F(cli_upgrade, fails_for_what_is_no_heap_and_goes_on) {
    make_heap();
    const answer told = run_holdfast({"upgrade", scratch_ / "none", heap_});
    EXPECT_EQ(told.status, 2);
    EXPECT_THAT(told.err, HasSubstr("not_found"));
    EXPECT_THAT(told.out, HasSubstr("nothing to do"));
    const nlohmann::json found = run_holdfast({"upgrade", "--json", scratch_ / "none", heap_}).json();
    EXPECT_THAT(found["found"][0]["failure"].get<std::string>(), HasSubstr("not_found"));
    EXPECT_TRUE(found["found"][1]["failure"].is_null());
}

}  // namespace
}  // namespace holdfast::support
