// The program `holdfast`: what it prints, as text and as JSON, and its exit status, for sound and damaged heaps.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "base/process_test_support.hpp"
#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct point {
    double x;
    double y;
};

class cli : public ::testing::Test {
protected:
    [[nodiscard]] const std::string& heap() const { return heap_; }

    /// Runs a command on the heap, and shows that it changed nothing.
    [[nodiscard]] answer run(std::vector<std::string> arguments) const {
        const auto before = files_under(heap_);
        arguments.insert(arguments.begin() + 1, heap_);
        answer given = run_holdfast(arguments);
        EXPECT_EQ(files_under(heap_), before) << arguments.front() << " changed the heap";
        return given;
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

void make_described_heap(const std::string& path) {
    manager heap(create_only, path, small_segments());
    static_cast<void>(heap.construct<point>("origin")(point{0, 0}));
    const auto* const points = heap.construct<point>("points")[7](point{1, 2});
    heap.set_instance_description(points, "seven of them");
    static_cast<void>(heap.construct<int>(unique_instance)(1));
    static_cast<void>(heap.construct<double>(anonymous_instance)(1.5));
    heap.set_description("a heap of points");
    heap.close(true);
}

/// The packages have a copy of the page: HOLDFAST_MANUAL.
TEST_F(cli, the_manual_is_what_the_packages_have) {
    const answer said = run_holdfast({"manual"});
    EXPECT_EQ(said.status, 0);
    const std::vector<char> packaged = read_bytes(HOLDFAST_MANUAL);
    EXPECT_EQ(said.out, std::string(packaged.begin(), packaged.end()))
        << "holdfast manual >packaging/debian/holdfast.1 makes it anew";
    for (const char* const part : {".SS holdfast info HEAP\n", "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fITEXT\\fR\n",
                                   ".SS holdfast exporter HEAP...\n", "Exit status: 0; 1 where check"}) {
        EXPECT_THAT(said.out, HasSubstr(part));
    }
}

TEST_F(cli, version_and_help_succeed) {
    const answer version = run_holdfast({"--version"});
    EXPECT_EQ(version.status, 0);
    make_described_heap(heap());
    const std::string format = run({"info", "--json"}).json()["format_version"];
    EXPECT_THAT(version.out, MatchesRegex("holdfast [0-9]+\\.[0-9]+\\.[0-9]+, heap format " + format + "\n"));
    const answer help = run_holdfast({"--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("info"), HasSubstr("stats"), HasSubstr("ls"), HasSubstr("check"),
                                HasSubstr("map"), HasSubstr("Exit status")));
}

/// As bash asks: the words of the line, and the one that is being typed.
TEST_F(cli, completion_knows_commands_options_and_leaves_the_rest_to_bash) {
    const answer script = run_holdfast({"completion"});
    ASSERT_EQ(script.status, 0) << script.err;
    const auto complete = [&](const std::string& words, const std::string& last) {
        return run_program("bash", {"-c",
                                    script.out + "COMP_WORDS=(holdfast " + words + "); " +
                                        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _holdfast holdfast \"$1\"; " +
                                        "echo \"${COMPREPLY[*]}\"",
                                    "bash", last});
    };
    EXPECT_EQ(complete("exp", "exp").out, "exporter export\n");
    EXPECT_EQ(complete("check --q", "--q").out, "--quick\n");
    EXPECT_EQ(complete("gc --", "--").out, "--help --json --precise --strict --threads --dry-run --null-transient\n");
    EXPECT_EQ(complete("check /tm", "/tm").out, "\n") << "names of files are completed by default";
    EXPECT_EQ(complete("none --", "--").out, "\n");
    EXPECT_EQ(complete("exp", "exp").err, "");
}

/// As the completion of zsh calls the function: with the words of the line, and what is typed of the last one.
TEST_F(cli, completion_for_zsh_says_what_each_command_and_option_is_for) {
    if (run_program("sh", {"-c", "command -v zsh"}).status != 0) {
        GTEST_SKIP() << "NOT TESTED HERE: zsh is not installed";
    }
    const answer script = run_holdfast({"completion", "zsh"});
    ASSERT_EQ(script.status, 0) << script.err;
    const std::string stubs =
        "compdef() { : }; _files() { print files }\n"
        "_describe() { print -l -- ${(P)@[-1]} }\n";
    const auto complete = [&](const std::string& words) {
        return run_program("zsh", {"-f", "-c",
                                   stubs + script.out + "words=(holdfast " + words +
                                       "); CURRENT=${#words}; PREFIX=$words[-1]; _holdfast"});
    };
    EXPECT_THAT(complete("ch").out, HasSubstr("check:Check every invariant of the heap\n"));
    EXPECT_THAT(complete("check --q").out, HasSubstr("\n--quick:Leave the pages out\n"));
    EXPECT_EQ(complete("check x").out, "files\n");
    EXPECT_THAT(complete("--").out, HasSubstr("--version:"));
    EXPECT_EQ(complete("check x").err, "");
    EXPECT_EQ(run_program("sh", {"-c", "printf %s \"$1\" | zsh -f -n", "sh", script.out}).status, 0);
}

TEST_F(cli, completion_for_fish_says_what_each_command_and_option_is_for) {
    if (run_program("sh", {"-c", "command -v fish"}).status != 0) {
        GTEST_SKIP() << "NOT TESTED HERE: fish is not installed";
    }
    const answer script = run_holdfast({"completion", "fish"});
    ASSERT_EQ(script.status, 0) << script.err;
    const auto complete = [&](const std::string& line) {
        return run_program("fish", {"--no-config", "-c", script.out + "complete -C '" + line + "'"});
    };
    EXPECT_THAT(complete("holdfast exp").out,
                AllOf(HasSubstr("exporter\tServe numbers"), HasSubstr("export\tWrite what a store holds")));
    EXPECT_EQ(complete("holdfast check --q").out, "--quick\tLeave the pages out\n");
    EXPECT_THAT(complete("holdfast check " + scratch_.path().substr(0, 4)).out, HasSubstr("/"));
    EXPECT_EQ(complete("holdfast exp").err, "");
}

TEST_F(cli, wrong_arguments_exit_with_2_and_say_what_is_wrong) {
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{},
                                               {"melt"},
                                               {"info"},
                                               {"check", "x", "--pages", "--quick"},
                                               {"ls", "x", "--all"},
                                               {"completion", "tcsh"}}) {
        const answer given = run_holdfast(arguments);
        EXPECT_EQ(given.status, 2);
        EXPECT_THAT(given.err, Not(IsEmpty()));
        EXPECT_THAT(given.out, IsEmpty());
    }
}

TEST_F(cli, files_that_may_not_grow_are_an_error_and_nothing_half_made_stays) {
    make_described_heap(heap());
    for (const std::string command : {"copy \"$1\" \"$2\"", "map --output \"$2\" \"$1\""}) {
        const std::string made = scratch_ / "made";
        const answer given =
            run_program("sh", {"-c", "ulimit -f 8; exec \"$0\" " + command, HOLDFAST_PROGRAM, heap(), made});
        EXPECT_EQ(given.status, 2) << command;
        EXPECT_THAT(given.err, StartsWith("holdfast: ")) << command;
        EXPECT_FALSE(std::filesystem::exists(made)) << command;
    }
    EXPECT_EQ(run({"copy", scratch_ / "made"}).status, 0);
}

TEST_F(cli, a_map_that_cannot_be_written_removes_no_link_to_a_device) {
    make_described_heap(heap());
    const std::string link = scratch_ / "full";
    std::filesystem::create_symlink("/dev/full", link);
    EXPECT_EQ(run({"map", "--force", "--output", link}).status, 2);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(cli, info_says_what_the_heap_is_and_holds) {
    make_described_heap(heap());
    const answer given = run({"info"});
    EXPECT_EQ(given.status, 0) << given.err;
    for (const char* line :
         {"heap  ", "description         a heap of points\n", "uuid  ", "format version      2\n",
          "domain              page-cache\n", "durability          commit\n", "state               clean\n",
          "created  ", "last commit         number 2, 20", "recoveries          0\n", "files, apparent  ",
          "files, on disk  ", "user space          2097152 B (2.0 MiB) in 1 segment\n", "allocated  ", "free  ",
          "largest free extent ", "objects             2 named, 1 unique, 1 anonymous\n"}) {
        EXPECT_THAT(given.out, HasSubstr(line));
    }
}

TEST_F(cli, metrics_are_those_of_prometheus_for_each_heap) {
    make_described_heap(heap());
    const std::string missing = scratch_ / "none\"such";
    const answer given = run_holdfast({"metrics", heap(), missing});
    EXPECT_EQ(given.status, 2);
    EXPECT_THAT(given.err, HasSubstr("none"));
    const std::string label = "{heap=\"" + heap() + "\"}";
    for (const std::string& line :
         {"# TYPE holdfast_up gauge\nholdfast_up" + label + " 1\nholdfast_up{heap=\"" + (scratch_ / "none") +
              "\\\"such\"} 0\n",
          "# HELP holdfast_user_bytes User space.\n# TYPE holdfast_user_bytes gauge\nholdfast_user_bytes" + label +
              " 2097152\n# HELP",
          "# TYPE holdfast_commits_total counter\nholdfast_commits_total" + label + " 2\n",
          "holdfast_readers" + label + " 0\n", "holdfast_recoveries_total" + label + " 0\n"}) {
        EXPECT_THAT(given.out, HasSubstr(line));
    }
    EXPECT_EQ(run_holdfast({"metrics", heap()}).status, 0);
}

TEST_F(cli, info_says_whether_cache_lines_are_separate) {
    make_described_heap(heap());
    EXPECT_THAT(run({"info"}).out, Not(HasSubstr("cache lines")));
    EXPECT_EQ(run({"info", "--json"}).json()["separate_cache_lines"], false);
    ASSERT_TRUE(manager::remove(heap()));
    open_options separate = small_segments();
    separate.separate_cache_lines = true;
    manager(create_only, heap(), separate).close(true);
    EXPECT_THAT(run({"info"}).out, HasSubstr("cache lines         separate: no two blocks share one\n"));
    EXPECT_EQ(run({"info", "--json"}).json()["separate_cache_lines"], true);
}

TEST_F(cli, info_as_json_has_every_number) {
    make_described_heap(heap());
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["path"], heap());
    EXPECT_EQ(info["uuid"], manager::get_uuid(heap()));
    EXPECT_EQ(info["format_version"], "2");
    EXPECT_EQ(info["description"], "a heap of points");
    EXPECT_EQ(info["open"], false);
    EXPECT_EQ(info["domain"], "page-cache");
    EXPECT_EQ(info["durability"], "commit");
    EXPECT_EQ(info["search_for_changes"], manager::search_for_changes());
    EXPECT_EQ(info["state"], "clean");
    EXPECT_EQ(info["log"]["commits"], 0);
    EXPECT_EQ(info["recoveries"], 0);
    EXPECT_EQ(info["segments"], 1);
    EXPECT_EQ(info["last_commit"]["number"], 2);
    EXPECT_GT(info["last_commit"]["time_ns"], info["created_ns"]);
    EXPECT_THAT(info["last_commit"]["time"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..\\.[0-9]+Z"));
    EXPECT_EQ(info["objects"]["named"], 2);
    EXPECT_EQ(info["objects"]["unique"], 1);
    EXPECT_EQ(info["objects"]["anonymous"], 1);
    EXPECT_EQ(info["allocated_blocks"], 4);
    const nlohmann::json& bytes = info["bytes"];
    EXPECT_EQ(bytes["user"], 2 * 1024 * 1024);
    EXPECT_EQ(bytes["allocated"].get<std::uint64_t>() + bytes["free"].get<std::uint64_t>(),
              bytes["user"].get<std::uint64_t>());
    EXPECT_GT(bytes["apparent"], bytes["user"]);
    EXPECT_LE(bytes["on_disk"].get<std::uint64_t>(), bytes["apparent"].get<std::uint64_t>() + 64 * 1024);
    EXPECT_GT(bytes["largest_free_block"], 0);
    EXPECT_GE(bytes["reserved_addresses"], 1U << 30U);
}

TEST_F(cli, info_tells_a_crashed_heap_and_what_its_log_has) {
    make_crashed_heap(heap(), 2);
    EXPECT_EQ(run({"info", "--json"}).json()["state"], "crashed");
    std::filesystem::remove_all(heap());
    make_heap_with_pending_commit(heap(), 3);
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["state"], "crashed");
    EXPECT_EQ(info["log"]["commits"], 2);
    EXPECT_GT(info["log"]["bytes"], 400);
    EXPECT_THAT(run({"info"}).out,
                HasSubstr(fmt::format("state               crashed, 2 commits in the log ({} bytes) to be "
                                      "replayed\n",
                                      info["log"]["bytes"].get<std::uint64_t>())));
}

TEST_F(cli, info_of_a_heap_that_a_writer_has_open_says_who) {
    make_described_heap(heap());
    const manager writer(open_only, heap(), small_segments());
    const answer text = run({"info"});
    EXPECT_EQ(text.status, 0);
    EXPECT_THAT(text.out, HasSubstr(fmt::format("state               open: writer, process {}\n", ::getpid())));
    EXPECT_THAT(text.out, HasSubstr(writer.get_uuid()));
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["open"], true);
    EXPECT_EQ(info["uuid"], writer.get_uuid());
    EXPECT_EQ(info["format_version"], "2");
    EXPECT_EQ(info["holder"], fmt::format("writer, process {}", ::getpid()));
}

TEST_F(cli, a_reader_does_not_keep_info_from_its_work) {
    make_described_heap(heap());
    const manager reader(open_read_only, heap());
    EXPECT_EQ(run({"info", "--json"}).json()["open"], false);
}

TEST_F(cli, ls_lists_every_object) {
    make_described_heap(heap());
    const answer given = run({"ls"});
    EXPECT_EQ(given.status, 0);
    EXPECT_THAT(given.out, StartsWith("KIND"));
    EXPECT_THAT(given.out, HasSubstr("points"));
    EXPECT_THAT(given.out, HasSubstr("seven of them"));
    EXPECT_EQ(std::count(given.out.begin(), given.out.end(), '\n'), 5);
    const nlohmann::json objects = run({"ls", "--json"}).json()["objects"];
    ASSERT_EQ(objects.size(), 4U);
    EXPECT_EQ(objects[1]["kind"], "named");
    EXPECT_EQ(objects[1]["name"], "points");
    EXPECT_THAT(objects[1]["type"].get<std::string>(), HasSubstr("point"));
    EXPECT_EQ(objects[1]["abi_type"], typeid(point).name());
    EXPECT_EQ(objects[1]["count"], 7);
    EXPECT_EQ(objects[1]["element_size"], sizeof(point));
    EXPECT_EQ(objects[1]["size"], 7 * sizeof(point));
    EXPECT_EQ(objects[1]["description"], "seven of them");
    EXPECT_EQ(objects[2]["kind"], "unique");
    EXPECT_EQ(objects[2]["type"], "int");
    EXPECT_EQ(objects[3]["kind"], "anonymous");
    EXPECT_EQ(objects[3]["name"], "");
}

TEST_F(cli, ls_of_an_empty_heap_is_an_empty_list) {
    make_heap(heap(), 0);
    EXPECT_EQ(run({"ls", "--json"}).json()["objects"], nlohmann::json::array());
    EXPECT_EQ(run({"ls"}).status, 0);
}

TEST_F(cli, names_cannot_control_the_terminal) {
    {
        manager made(create_only, heap(), small_segments());
        static_cast<void>(made.construct<int>("bell\a and \x1b[31mred \xff")(1));
        made.close(true);
    }
    EXPECT_THAT(run({"ls"}).out, AllOf(HasSubstr("bell\\x07 and \\x1b[31mred"), Not(HasSubstr("\x1b"))));
    EXPECT_THAT(run({"ls", "--json"}).json()["objects"][0]["name"].get<std::string>(), HasSubstr("\x1b[31mred"));
}

TEST_F(cli, names_are_printed_as_utf_8) {
    const std::vector<std::pair<std::string, std::string>> shown{
        {"gr\xc3\xb6\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x98\x80",
         "gr\xc3\xb6\xc3\x9f"
         "e \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"latin \xe9t\xe9", "latin \\xe9t\\xe9"},
        {"cut \xe2\x82", "cut \\xe2\\x82"},
        {"overlong \xc0\xaf \xe0\x80\xaf", "overlong \\xc0\\xaf \\xe0\\x80\\xaf"},
        {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80"},
        {"beyond \xf4\x90\x80\x80", "beyond \\xf4\\x90\\x80\\x80"},
        {"c1 \xc2\x9b"
         "31m",
         "c1 \\xc2\\x9b31m"},
        {"turned \xe2\x80\xae"
         "back",
         "turned \\xe2\\x80\\xaeback"},
    };
    {
        manager made(create_only, heap(), small_segments());
        for (const auto& [name, text] : shown) {
            made.set_instance_description(made.construct<int>(name.c_str())(1), name.c_str());
        }
        made.set_description(shown[1].first.c_str());
        made.close(true);
    }
    const std::string listed = run({"ls"}).out;
    for (const auto& [name, text] : shown) {
        EXPECT_THAT(listed, HasSubstr(text));
    }
    EXPECT_THAT(run({"info"}).out, HasSubstr(shown[1].second));
    EXPECT_THAT(run({"ls", "--json"}).json()["objects"].size(), shown.size());
    // Paths, too, may be anything.
    const std::string odd = scratch_ / "no heap \xff\x1b[31m";
    const answer missing = run_holdfast({"info", odd});
    EXPECT_THAT(missing.err, AllOf(HasSubstr("no heap \\xff\\x1b[31m"), Not(HasSubstr("\x1b"))));
    EXPECT_EQ(run_holdfast({"info", "--json", odd}).json()["error"]["code"], "not_found");
}

TEST_F(cli, check_of_a_sound_heap_exits_with_0) {
    make_heap(heap(), 3);
    for (const char* how : {"--pages", "--quick"}) {
        const answer given = run({"check", how});
        EXPECT_EQ(given.status, 0) << given.out << given.err;
        EXPECT_THAT(given.out, HasSubstr("sound"));
    }
    const nlohmann::json full = run({"check", "--json"}).json();
    EXPECT_EQ(full["path"], heap());
    EXPECT_EQ(full["sound"], true);
    EXPECT_EQ(full["opened"], true);
    EXPECT_GT(full["pages_compared"].get<std::uint64_t>(), 10U);
    EXPECT_EQ(full["problems"], nlohmann::json::array());
    EXPECT_EQ(run({"check", "--quick", "--json"}).json()["pages_compared"], 0);
}

/// Was: "sound", and that its pages were checked.
TEST_F(cli, check_of_a_heap_without_checksums_says_so_and_exits_with_3) {
    for (const auto durability : {holdfast::durability::atomic, holdfast::durability::collect}) {
        {
            holdfast::open_options options = support::small_segments();
            options.durability = durability;
            options.accept_process_crash_only = true;
            holdfast::manager made(holdfast::create_only, heap(), options);
            static_cast<void>(made.construct<int>("number")(1));
        }
        const answer given = run({"check"});
        EXPECT_EQ(given.status, 3) << given.out << given.err;
        EXPECT_THAT(given.out, HasSubstr("nothing was compared"));
        const nlohmann::json full = run({"check", "--json"}).json();
        EXPECT_TRUE(full["sound"].is_null()) << "unknown";
        EXPECT_EQ(full["pages_compared"], 0);
        EXPECT_GT(full["pages_without_checksum"].get<std::uint64_t>(), 100U);
        EXPECT_EQ(run({"check", "--quick"}).status, 0);
        EXPECT_TRUE(holdfast::manager::remove(heap()));
    }
}

TEST_F(cli, check_of_a_crashed_heap_is_about_its_last_commit) {
    make_crashed_heap(heap(), 2);
    EXPECT_EQ(run({"check"}).status, 0);
    std::filesystem::remove_all(heap());
    make_heap_with_pending_commit(heap(), 3);
    EXPECT_EQ(run({"check", "--quick"}).status, 0);
    const answer full = run({"check"});
    EXPECT_EQ(full.status, 0) << full.out << full.err;
}

TEST_F(cli, check_finds_a_damaged_user_page_only_with_pages) {
    make_heap(heap(), 3);
    const std::vector<char> pattern(64, static_cast<char>(0x41 + 3));  // the block of step 3
    const std::vector<char> bytes = read_bytes(heap() + "/segment.000000");
    const auto found = std::search(bytes.begin(), bytes.end(), pattern.begin(), pattern.end());
    ASSERT_NE(found, bytes.end());
    flip_bit(heap() + "/segment.000000", static_cast<std::uint64_t>(found - bytes.begin()) + 7, 3);
    const answer full = run({"check"});
    EXPECT_EQ(full.status, 1);
    EXPECT_THAT(full.out, AllOf(HasSubstr("SEG-2"), HasSubstr("segment.000000"), HasSubstr("checksum of page"),
                                HasSubstr("1 problem\n")));
    const nlohmann::json as_json = run({"check", "--json"}).json();
    EXPECT_EQ(as_json["sound"], false);
    EXPECT_EQ(as_json["opened"], true);
    ASSERT_EQ(as_json["problems"].size(), 1U);
    EXPECT_EQ(run({"check", "--quick"}).status, 0);
}

TEST_F(cli, check_of_a_heap_that_does_not_open_exits_with_1_and_names_the_damage) {
    make_heap(heap(), 2);
    flip_bit(heap() + "/superblock", 100, 1);
    const answer one = run({"check"});
    EXPECT_EQ(one.status, 1);
    EXPECT_THAT(one.out, AllOf(HasSubstr("superblock"), HasSubstr("copy 0")));
    flip_bit(heap() + "/superblock", 4096 + 100, 1);
    const answer both = run({"check", "--json"});
    EXPECT_EQ(both.status, 1);
    const nlohmann::json as_json = both.json();
    EXPECT_EQ(as_json["sound"], false);
    EXPECT_EQ(as_json["opened"], false);
    EXPECT_EQ(as_json["error"]["code"], "corrupt");
    EXPECT_EQ(as_json["error"]["path"], heap() + "/superblock");
    for (const char* key : {"field", "found", "expected", "message"}) {
        EXPECT_THAT(as_json["error"][key].get<std::string>(), Not(IsEmpty())) << key;
    }
}

TEST_F(cli, what_keeps_a_command_from_its_work_goes_to_standard_error_with_status_2) {
    for (const char* command : {"info", "stats", "ls", "check"}) {
        const answer given = run({command});
        EXPECT_EQ(given.status, 2);
        EXPECT_THAT(given.out, IsEmpty());
        EXPECT_THAT(given.err, AllOf(StartsWith("holdfast: not_found: " + heap()), HasSubstr("expected a heap")));
        const answer as_json = run({command, "--json"});
        EXPECT_EQ(as_json.status, 2);
        EXPECT_EQ(as_json.json()["error"]["code"], "not_found");
        EXPECT_EQ(as_json.json()["path"], heap());
    }
}

TEST_F(cli, info_lists_readers) {
    make_heap(heap(), 1);
    manager writer(open_only, heap(), small_segments());
    const auto ready = [this](std::atomic<int>& state) {
        const manager reader(open_read_only, heap());
        state = 1;
        while (state != 2) {
            std::this_thread::yield();
        }
    };
    base::shared_memory<std::atomic<int>> state;
    base::child_process process([&] { ready(*state); });
    ASSERT_TRUE(process.runs_until([&] { return *state == 1; }));
    writer.construct<int>("more")(1);
    writer.commit();
    EXPECT_THAT(run({"info"}).out,
                HasSubstr(fmt::format("reader              process {}, commit {}, 1 behind, since 20", process.id(),
                                      writer.version() - 1)));
    const nlohmann::json readers = run({"info", "--json"}).json()["readers"];
    ASSERT_EQ(readers.size(), 1U);
    EXPECT_EQ(readers[0]["process"], process.id());
    EXPECT_EQ(readers[0]["behind"], 1);
    process.kill();
    EXPECT_EQ(run({"info", "--json"}).json()["readers"].size(), 0U) << "a dead reader is none";
}

TEST_F(cli, check_and_ls_of_a_heap_that_a_writer_has_open_show_its_last_commit) {
    make_heap(heap(), 1);
    const manager writer(open_only, heap(), small_segments());
    for (const char* command : {"ls", "check"}) {
        EXPECT_EQ(run({command}).status, 0);
    }
}

TEST_F(cli, check_and_ls_of_a_heap_that_a_writer_has_open_alone_name_the_writer) {
    make_heap(heap(), 1);
    open_options alone = small_segments();
    alone.durability = durability::atomic;
    alone.accept_process_crash_only = true;
    const manager writer(open_only, heap(), alone);
    for (const char* command : {"ls", "check"}) {
        const answer given = run({command});
        EXPECT_EQ(given.status, 2);
        EXPECT_THAT(given.err, HasSubstr(fmt::format("writer, process {}", ::getpid())));
    }
}

TEST_F(cli, a_closed_standard_output_is_an_error) {
    make_heap(heap(), 1);
    const std::string line = fmt::format("'{}' info '{}' >/dev/full 2>/dev/null", HOLDFAST_PROGRAM, heap());
    const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe, cert-env33-c): one thread
    EXPECT_EQ(WEXITSTATUS(status), 2);
}

}  // namespace
}  // namespace holdfast::support
