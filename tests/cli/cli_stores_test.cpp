// Stores that lie in a heap: named by info, read by check, taken along by copies, refused without the heap.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/store.hpp>
#include <holdfast/store_in_heap.hpp>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class cli_stores : public ::testing::Test {
protected:
    void SetUp() override {
        manager made(create_only, heap_, small_segments());
        heap_store shop(made, "shop");
        auto change = shop.write();
        for (int i = 0; i < 1000; ++i) {
            change.put("key" + std::to_string(i), "value");
        }
        change.commit();
        made.commit();
    }
    void damage_pages_of_the_store() const {
        constexpr std::streamoff page = 4096;
        constexpr std::streamoff behind_metas = 2 * page;
        const auto end = static_cast<std::streamoff>(std::filesystem::file_size(file_));
        std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
        for (std::streamoff at = behind_metas; at < end; at += page) {
            file.seekp(at + page - 1);
            file.put('\x55');
        }
    }

    scratch_directory directory_;
    std::string heap_ = directory_.path() + "/heap";
    std::string file_ = heap_ + "/store.000000";
};

TEST_F(cli_stores, are_named_and_checked) {
    EXPECT_THAT(run_holdfast({"info", heap_}).out, HasSubstr("shop"));
    EXPECT_THAT(run_holdfast({"info", heap_, "--json"}).json().at("stores"), ElementsAre("shop"));
    EXPECT_THAT(run_holdfast({"ls", heap_}).out, HasSubstr("holdfast.store.shop"));
    EXPECT_EQ(run_holdfast({"check", heap_}).status, 0);
    damage_pages_of_the_store();
    const answer said = run_holdfast({"check", heap_});
    EXPECT_EQ(said.status, 1);
    EXPECT_THAT(said.out, HasSubstr("store shop: MDB_CORRUPTED"));
    std::filesystem::remove(file_);
    EXPECT_THAT(run_holdfast({"check", heap_}).out, HasSubstr("store shop: missing"));
}

TEST_F(cli_stores, have_numbers_for_prometheus) {
    const answer whole = run_holdfast({"metrics", heap_});
    EXPECT_EQ(whole.status, 0) << whole.err;
    const std::string labels = "{heap=\"" + heap_ + "\",store=\"shop\"";
    EXPECT_THAT(whole.out, AllOf(HasSubstr("\nholdfast_up" + labels + "} 1\n"),
                                 HasSubstr("\nholdfast_state" + labels + ",state=\"store\"} 1\n"),
                                 HasSubstr("\nholdfast_store_entries" + labels + "} 1000\n"),
                                 HasSubstr("\nholdfast_store_databases" + labels + "} 1\n"),
                                 HasSubstr("\nholdfast_allocated_blocks{heap=\"" + heap_ + "\"} ")));
    std::filesystem::remove(file_);
    const answer without = run_holdfast({"metrics", heap_});
    EXPECT_EQ(without.status, 2);
    EXPECT_THAT(without.err, HasSubstr("the store shop: "));
    EXPECT_THAT(without.out, AllOf(HasSubstr("\nholdfast_up" + labels + "} 0\n"),
                                   HasSubstr("\nholdfast_up{heap=\"" + heap_ + "\"} 1\n")));
}

TEST_F(cli_stores, go_with_a_copy) {
    const std::string copy = directory_.path() + "/copy";
    EXPECT_EQ(run_holdfast({"copy", heap_, copy}).status, 0);
    EXPECT_EQ(run_holdfast({"check", copy}).status, 0);
    EXPECT_TRUE(std::filesystem::exists(copy + "/store.000000"));
}

TEST_F(cli_stores, are_no_stores_without_the_heap) {
    EXPECT_THAT(run_holdfast({"check", file_}).err, HasSubstr("lies in a heap"));
    EXPECT_FALSE(std::filesystem::exists(file_ + "-lock"));
}

/// Was: both waited for who writes to it.
TEST_F(cli_stores, are_not_made_of_a_pipe) {
    const std::string pipe = directory_.path() + "/pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const std::string made = directory_.path() + "/made";
    EXPECT_THAT(run_holdfast({"import", pipe, made}).err, HasSubstr("no regular file"));
    EXPECT_THAT(run_holdfast({"export", "--no-subdir", pipe, made}).err, HasSubstr("MDB_INVALID"));
    EXPECT_FALSE(std::filesystem::exists(pipe + "-lock"));
    EXPECT_FALSE(std::filesystem::exists(made));
}

/// Was: an error that spoke of a superblock.
TEST(cli_lmdb, is_sent_to_the_command_that_reads_it) {
    const scratch_directory scratch;
    const std::string store = scratch / "words.store";
    const std::string exported = scratch / "lmdb";
    {
        holdfast::store made(store);
        auto change = made.write();
        change.put("key", "value");
        change.commit();
    }
    ASSERT_EQ(run_holdfast({"export", "--no-subdir", store, scratch / "file"}).status, 0);
    std::filesystem::create_directory(exported);
    std::filesystem::copy(scratch / "file", exported + "/data.mdb");
    for (const char* const command : {"info", "stats", "ls", "check", "dump", "defrag", "gc", "leaks"}) {
        const answer said = run_holdfast({command, exported});
        EXPECT_EQ(said.status, 2) << command;
        EXPECT_THAT(said.err, HasSubstr("`holdfast import " + exported + " STORE`")) << command;
    }
    EXPECT_THAT(run_holdfast({"map", exported, "-o", scratch / "map.html"}).err, HasSubstr("`holdfast import "));
    EXPECT_THAT(run_holdfast({"info", scratch / "file"}).err, HasSubstr("`holdfast import --no-subdir "));
    EXPECT_EQ(run_holdfast({"import", exported, scratch / "again"}).status, 0);
    EXPECT_EQ(run_holdfast({"info", scratch / "again"}).status, 0) << "a directory of ours is none of LMDB";
}

TEST(cli_store_copy, is_one_version_beside_a_writer) {
    const scratch_directory scratch;
    const std::string path = scratch / "words.store";
    const std::string copied = scratch / "copy.store";
    store words(path);
    auto first = words.write();
    first.put("apples", "1");
    first.commit();
    auto open = words.write();
    open.put("apples", "2");
    const answer said = run_holdfast({"copy", path, copied});
    ASSERT_EQ(said.status, 0) << said.err;
    EXPECT_THAT(said.out, HasSubstr(copied));
    open.commit();
    {
        const store made(copied);
        EXPECT_EQ(made.read().get("apples"), "1");
    }
    EXPECT_EQ(run_holdfast({"check", copied}).status, 0);
    EXPECT_EQ(run_holdfast({"copy", path, copied}).status, 2) << "it is there";
    EXPECT_EQ(store(copied).read().get("apples"), "1");
    EXPECT_EQ(run_holdfast({"copy", path, scratch / "other", "--node", scratch.path()}).status, 2);
    EXPECT_FALSE(std::filesystem::exists(scratch / "other"));
    for (const auto& each : std::filesystem::directory_iterator(scratch.path())) {
        EXPECT_THAT(each.path().string(), Not(HasSubstr(".new-")));
    }
}

TEST(cli_store_copy, of_a_directory_is_a_directory) {
    const scratch_directory scratch;
    const std::string path = scratch / "words";
    std::filesystem::create_directory(path);
    const std::string file = scratch / "single";
    {
        store words(file);
        auto change = words.write();
        change.put("apples", "1");
        change.commit();
    }
    std::filesystem::copy_file(file, path + "/data.mdb");
    ASSERT_EQ(run_holdfast({"copy", path, scratch / "copied"}).status, 0);
    EXPECT_EQ(store(scratch / "copied/data.mdb").read().get("apples"), "1");
    EXPECT_EQ(run_holdfast({"stats", scratch / "copied", "--json"}).json()["entries"], 1);
}

/// A user tries what looks likely.
TEST_F(cli_stores, of_another_kind_than_import_export_and_upgrade_expect_name_the_command) {
    const std::string out = directory_.path() + "/out";
    const std::string store = directory_.path() + "/of-files";
    const std::string file = directory_.path() + "/file";
    const std::string exported = directory_.path() + "/lmdb";
    { const holdfast::store single(file); }
    std::filesystem::create_directory(exported);
    ASSERT_EQ(run_holdfast({"export", "--no-subdir", file, exported + "/data.mdb"}).status, 0);
    ASSERT_EQ(run_holdfast({"import", exported, store}).status, 0);
    const auto refused = [&](const std::vector<std::string>& arguments, const std::string& text) {
        const answer said = run_holdfast(arguments);
        EXPECT_EQ(said.status, 2) << arguments.front();
        EXPECT_THAT(said.err, HasSubstr(text));
        EXPECT_FALSE(std::filesystem::exists(out));
    };
    refused({"export", heap_, out}, heap_ + ": a heap, and export writes what a store holds: `holdfast copy`");
    refused({"import", heap_, out}, heap_ + ": a heap, and import reads data files of LMDB: `holdfast copy`");
    refused({"import", store, out}, store + ": a store already: `holdfast copy`");
    refused({"export", file, out}, file + ": a file: `holdfast export --no-subdir " + file + " " + out + "`");
    refused({"export", store, out, "--no-subdir"}, store + ": a directory: `holdfast export " + store + " " + out);
    refused({"export", out, out + "2"}, out + ": nothing is there");
    refused({"import", out, out + "2"}, out + ": nothing is there");
    refused({"upgrade", exported}, exported + ": it is LMDB's: `holdfast import " + exported + " STORE`");
    EXPECT_EQ(run_holdfast({"export", file, out, "--no-subdir"}).status, 0);
}

}  // namespace
}  // namespace holdfast::support
