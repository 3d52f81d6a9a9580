// `holdfast map`, run as a user runs it, on real heaps.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <holdfast/store_in_heap.hpp>

#include "browser.hpp"
#include "cli/program.hpp"
#include "cli/space.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class map_command : public ::testing::Test {
protected:
    [[nodiscard]] const std::string& heap() const { return heap_; }
    [[nodiscard]] const std::string& page() const { return page_; }
    [[nodiscard]] std::string scratch(const std::string& name) const { return scratch_ / name; }

    /// Runs the command, and shows that it changed nothing of the heap.
    [[nodiscard]] answer run(const std::vector<std::string>& arguments) const {
        const auto before = files_under(heap_);
        std::vector<std::string> all{"map", heap_};
        all.insert(all.end(), arguments.begin(), arguments.end());
        answer given = run_holdfast(all);
        EXPECT_EQ(files_under(heap_), before) << "map changed the heap";
        return given;
    }
    [[nodiscard]] std::string content(const std::string& path) const {
        const std::vector<char> bytes = read_bytes(path);
        return {bytes.begin(), bytes.end()};
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
    std::string page_ = scratch_ / "map.html";
};

TEST_F(map_command, draws_the_extents_of_the_heap) {
    std::uint64_t slab = 0;
    std::uint64_t huge = 0;
    {
        manager made(create_only, heap(), small_segments());
        slab = made.get_handle_from_address(made.allocate(48));
        huge = made.get_handle_from_address(made.allocate(std::size_t{17} << 20U));
        static_cast<void>(made.construct<double>("numbers")[100'000](1.5));
        for (std::size_t bytes = 8; bytes < 300'000; bytes = bytes * 6 / 5 + 8) {
            void* const kept = made.allocate(bytes);
            void* const freed = made.allocate(bytes + 5000);
            std::memset(kept, 1, bytes);
            made.deallocate(freed);
        }
        made.set_description("a heap to draw");
        made.close(true);
    }
    const answer given = run({"-o", page()});
    EXPECT_EQ(given.status, 0) << given.err;
    EXPECT_THAT(given.out + given.err, IsEmpty());

    const holdfast_cli::space_summary space = holdfast_cli::space_of(manager(open_read_only, heap()));
    const page_view view = open_page(page(), fmt::format("#at={:#x}", slab));
    EXPECT_THAT(view.console, IsEmpty());
    EXPECT_EQ(view.attribute("<body", "data-ready"), "yes");
    EXPECT_EQ(view.number("<body", "data-extents"), space.extents());
    EXPECT_EQ(view.number("<body", "data-rows"), manager(open_read_only, heap()).statistics().segments);
    for (std::size_t i = 0; i < holdfast_cli::space_kind_names.size(); ++i) {
        const std::string row = "data-kind=\"" + std::string(holdfast_cli::space_kind_names.at(i)) + "\"";
        const auto& share = space.of(static_cast<holdfast_cli::space_kind>(i));
        EXPECT_EQ(view.number(row, "data-extents"), share.extents);
        EXPECT_EQ(view.number(row, "data-bytes"), share.bytes);
    }
    EXPECT_THAT(view.text_of("heap-path"), HasSubstr("test.hf"));
    EXPECT_THAT(view.text_of("heap-identity"), HasSubstr("a heap to draw"));
    EXPECT_THAT(view.text_of("inspector"), HasSubstr("slab \u00b7 blocks of 48 B \u00b7 "));
    EXPECT_THAT(view.text_of("tip"), HasSubstr("blocks of 48 B"));
    EXPECT_THAT(open_page(page(), fmt::format("#at={}", huge)).text_of("inspector"), HasSubstr("huge block"));
    const std::uint64_t numbers = manager(open_read_only, heap()).named_begin()->offset();
    EXPECT_THAT(open_page(page(), fmt::format("#at={}", numbers)).text_of("inspector"),
                HasSubstr("object numbers: double, 781.3 KiB at "));
}

/// Leaves, branches, values in pages of their own, what a removal left, and a version that a reader keeps.
void fill(store& of) {
    store_transaction change = of.write();
    for (int i = 0; i < 5000; ++i) {
        change.put(fmt::format("key{:05}", i), "value");
    }
    change.put("long", std::string(100'000, 'v'));
    change.commit();
    store_transaction removal = of.write();
    for (int i = 0; i < 2500; ++i) {
        removal.erase(fmt::format("key{:05}", i));
    }
    removal.commit();
}

/// The page works, and has the kinds that such a store has; leaves are about so full as splits leave them.
void expect_store(const page_view& view, std::uint64_t file_bytes) {
    EXPECT_THAT(view.console, IsEmpty());
    EXPECT_EQ(view.text_of("failure"), "");
    EXPECT_EQ(view.attribute("<body", "data-ready"), "yes");
    std::uint64_t all = 0;
    std::uint64_t unused = 0;
    for (const char* const kind : {"free", "old", "long", "leaf", "meta", "branch", "log"}) {
        const std::uint64_t bytes = view.number(fmt::format("data-kind=\"{}\"", kind), "data-bytes");
        const bool is_unused = std::string_view(kind) == "old" || std::string_view(kind) == "free";
        EXPECT_TRUE(bytes > 0 || is_unused) << kind;
        unused += is_unused ? bytes : 0;
        all += bytes;
    }
    EXPECT_GT(unused, 0U);
    EXPECT_EQ(all, file_bytes);
    EXPECT_EQ(view.number("data-kind=\"meta\"", "data-bytes"), 2 * 4096U);
    EXPECT_EQ(view.number("data-kind=\"long\"", "data-bytes"), 25 * 4096U);
    EXPECT_THAT(view.text_of("inspector"), HasSubstr("meta"));
}

TEST_F(map_command, draws_a_store) {
    const std::string file = scratch("words.store");
    {
        store words(file);
        fill(words);
        words.sync();
    }
    EXPECT_EQ(run_holdfast({"map", file, "-o", page()}).status, 0);
    expect_store(open_page(page(), "#at=0x1000"), std::filesystem::file_size(file));
    store words(file);
    const store_view old = words.read();
    fill(words);  // takes back what was removed
    EXPECT_EQ(run_holdfast({"map", file, "-o", page(), "--force"}).status, 0);
    EXPECT_GT(open_page(page()).number("data-kind=\"old\"", "data-bytes"), 0U) << "what the view sees";
    EXPECT_EQ(run_holdfast({"map", file, "-o", file, "--force"}).status, 2);
}

TEST_F(map_command, of_a_damaged_store_fails) {
    const std::string file = scratch("words.store");
    {
        store words(file);
        fill(words);
    }
    constexpr std::streamoff bytes_of_page = 4096;
    constexpr std::streamoff behind_metas = 2 * bytes_of_page;
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    for (auto at = behind_metas; at < static_cast<std::streamoff>(std::filesystem::file_size(file));
         at += bytes_of_page) {
        damaged.seekp(at + bytes_of_page - 1).put('\x55');
    }
    damaged.close();
    const answer refused = run_holdfast({"map", file, "-o", page()});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("MDB_CORRUPTED"));
    EXPECT_FALSE(std::filesystem::exists(page()));
}

TEST_F(map_command, draws_a_store_of_the_heap) {
    {
        manager made(create_only, heap(), small_segments());
        heap_store shop(made, "shop");
        fill(shop);
        made.close(true);
    }
    EXPECT_EQ(run({"-o", page(), "--store", "shop"}).status, 0);
    const page_view view = open_page(page(), "#at=0x1000");
    expect_store(view, std::filesystem::file_size(heap() + "/store.000000"));
    EXPECT_THAT(view.text_of("heap-identity"), HasSubstr("a store of the heap "));
    const answer none = run({"-o", scratch("other.html"), "--store", "other"});
    EXPECT_EQ(none.status, 2);
    EXPECT_THAT(none.err, HasSubstr("no store of this heap is called other"));
}

TEST_F(map_command, writes_the_same_page_to_standard_output) {
    make_heap(heap(), 2);
    ASSERT_EQ(run({"-o", page()}).status, 0);
    const answer printed = run({"-o", "-"});
    EXPECT_EQ(printed.status, 0);
    EXPECT_EQ(printed.out, content(page()));
    EXPECT_THAT(printed.out, StartsWith("<!DOCTYPE html>\n"));
}

TEST_F(map_command, overwrites_a_file_only_when_told_to) {
    make_heap(heap(), 1);
    std::ofstream(page()) << "mine";
    const answer refused = run({"-o", page()});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("map.html: exists; --force overwrites it"));
    EXPECT_EQ(content(page()), "mine");
    EXPECT_EQ(run({"-o", page(), "--force"}).status, 0);
    EXPECT_THAT(content(page()), StartsWith("<!DOCTYPE html>\n"));
}

TEST_F(map_command, never_writes_into_the_heap) {
    make_heap(heap(), 1);
    std::filesystem::create_directory_symlink(heap(), scratch("link"));
    for (const std::string& file : {heap() + "/superblock", heap() + "/map.html", scratch("link/superblock")}) {
        const answer refused = run({"-o", file, "--force"});
        EXPECT_EQ(refused.status, 2);
        EXPECT_THAT(refused.err, HasSubstr("lies in the heap"));
    }
}

TEST_F(map_command, works_beside_a_reader_and_names_a_writer) {
    make_heap(heap(), 1);
    {
        const manager reader(open_read_only, heap());
        EXPECT_EQ(run({"-o", page()}).status, 0);
    }
    open_options alone = small_segments();
    alone.durability = durability::atomic;  // in `commit` readers are let in
    alone.accept_process_crash_only = true;
    const manager writer(open_only, heap(), alone);
    const answer refused = run({"-o", page(), "--force"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(fmt::format("writer, process {}", ::getpid())));
    EXPECT_THAT(content(page()), StartsWith("<!DOCTYPE html>\n")) << "the page that was there";
}

TEST_F(map_command, leaves_nothing_behind_where_it_fails) {
    EXPECT_EQ(run({"-o", page()}).status, 2) << "no heap";
    EXPECT_FALSE(std::filesystem::exists(page()));
    make_heap(heap(), 1);
    const answer nowhere = run({"-o", scratch("no/such/map.html")});
    EXPECT_EQ(nowhere.status, 2);
    EXPECT_THAT(nowhere.err, HasSubstr("no/such/map.html: No such file or directory"));
    EXPECT_EQ(run({}).status, 2) << "no output";
    const std::string line = fmt::format("'{}' map '{}' -o - >/dev/full 2>/dev/null", HOLDFAST_PROGRAM, heap());
    const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe, cert-env33-c): one thread
    EXPECT_EQ(WEXITSTATUS(status), 2);
}

TEST_F(map_command, draws_a_crashed_heap) {
    make_crashed_heap(heap(), 2);
    EXPECT_EQ(run({"-o", page()}).status, 0);
    const page_view view = open_page(page());
    EXPECT_EQ(view.attribute("<body", "data-ready"), "yes");
    EXPECT_THAT(view.text_of("heap-identity"), HasSubstr("state crashed"));
}

}  // namespace
}  // namespace holdfast::support
