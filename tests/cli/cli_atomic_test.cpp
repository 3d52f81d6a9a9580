// The program `holdfast` on heaps of durability `atomic`: lanes, recovery, and `stats`.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
using ::testing::Not;
using domain_choice = open_options::domain_choice;

class cli_atomic : public ::testing::Test {
protected:
    [[nodiscard]] const std::string& heap() const { return heap_; }

    /// Runs a command on the heap, and shows that it changed nothing.
    [[nodiscard]] answer run(std::vector<std::string> arguments) const {
        const auto before = files_under(heap_);
        arguments.insert(arguments.begin() + 1, heap_);
        answer given = run_holdfast(arguments);
        EXPECT_EQ(files_under(heap_), before) << arguments.front() << " changed the heap";
        EXPECT_EQ(given.status, 0) << given.err;
        return given;
    }

    static open_options options(domain_choice domain) {
        open_options wanted = small_segments();
        wanted.durability = durability::atomic;
        wanted.domain = domain;
        wanted.accept_process_crash_only = true;
        return wanted;
    }
    static void fill(manager& heap) {
        for (std::size_t i = 0; i < 100; ++i) {
            heap.allocate_to(heap.root(i), 64);
        }
        heap.allocate_to(heap.root(100), 100'000);
    }
    /// A heap whose writer is killed with 101 blocks.
    void make_killed_heap(domain_choice domain) const {
        const base::process_end end = base::run_in_child([&] {
            manager made(create_only, heap_, options(domain));
            fill(made);
            ::raise(SIGKILL);
        });
        ASSERT_TRUE(end.was_killed()) << end;
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

TEST_F(cli_atomic, info_of_a_heap_without_lanes_says_so) {
    make_heap(heap(), 1);
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["durability"], "commit");
    EXPECT_EQ(info["lanes"]["incarnations"], 0);
    EXPECT_EQ(info["lanes"]["count"], 0);
    EXPECT_EQ(info["lanes"]["order"], "");
    EXPECT_EQ(info["lanes"]["pending"], false);
    EXPECT_TRUE(info["recovery"].is_null());
    EXPECT_THAT(run({"info"}).out, Not(HasSubstr("lanes")));
}

TEST_F(cli_atomic, info_shows_lanes_and_durability_of_the_last_writer) {
    manager made(create_only, heap(), options(domain_choice::emulated));
    fill(made);
    made.close();
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["durability"], "atomic");
    EXPECT_EQ(info["state"], "clean");
    EXPECT_EQ(info["allocated_blocks"], 101);
    EXPECT_GE(info["lanes"]["count"], 1);
    EXPECT_EQ(info["lanes"]["slots"], 8192);
    EXPECT_EQ(info["lanes"]["order"], "clock");
    EXPECT_EQ(info["lanes"]["incarnations"], 1);
    EXPECT_EQ(info["lanes"]["pending"], false);
    EXPECT_GT(info["lanes"]["checkpoint_clock"], 0);
    EXPECT_TRUE(info["recovery"].is_null());
    EXPECT_THAT(run({"info"}).out,
                AllOf(HasSubstr("durability          atomic\n"), HasSubstr("state               clean\n"),
                      HasSubstr(" of 8192 records, order: clock\n"), HasSubstr("incarnations        1 "),
                      HasSubstr("last checkpoint     at "), Not(HasSubstr("recovery  "))));
    manager(open_only, heap(), small_segments()).close(true);
    EXPECT_EQ(run({"info", "--json"}).json()["durability"], "commit") << "the last writer's";
}

TEST_F(cli_atomic, info_shows_what_a_recovery_finds_and_does) {
    make_killed_heap(domain_choice::emulated);
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["durability"], "atomic");
    EXPECT_EQ(info["state"], "crashed");
    EXPECT_EQ(info["lanes"]["pending"], true);
    EXPECT_GE(info["recovery"]["lanes"], 1);
    EXPECT_GE(info["recovery"]["pending_records"], 101) << "no checkpoint since the first";
    EXPECT_GE(info["recovery"]["replayed_words"], 1) << "bits of blocks are written with the next checkpoint";
    EXPECT_EQ(info["recovery"]["rolled_back_records"], 0);
    EXPECT_GT(info["recovery"]["time_ns"], 0);
    EXPECT_EQ(info["allocated_blocks"], 101);
    EXPECT_THAT(run({"info"}).out,
                AllOf(HasSubstr("state               crashed, records of calls wait in the lanes\n"),
                      HasSubstr(" records pending, "), HasSubstr(" to rewrite, 0 records cut off; ")));
}

TEST_F(cli_atomic, info_of_the_page_cache_domain_counts_calls_in_flight_alone) {
    make_killed_heap(domain_choice::page_cache);
    const nlohmann::json info = run({"info", "--json"}).json();
    EXPECT_EQ(info["lanes"]["order"], "in flight");
    EXPECT_EQ(info["lanes"]["pending"], true);
    EXPECT_EQ(info["lanes"]["checkpoint_clock"], 0);
    EXPECT_EQ(info["recovery"]["pending_records"], 0);
    EXPECT_EQ(info["allocated_blocks"], 101);
    EXPECT_THAT(run({"info"}).out, HasSubstr("last checkpoint     none\n"));
}

TEST_F(cli_atomic, stats_has_every_number_and_the_blocks_by_size) {
    make_killed_heap(domain_choice::emulated);
    const nlohmann::json stats = run({"stats", "--json"}).json();
    EXPECT_EQ(stats["path"], heap());
    EXPECT_EQ(stats["open"], false);
    EXPECT_EQ(stats["allocated_blocks"], 101);
    EXPECT_EQ(stats["user_bytes"].get<std::uint64_t>(),
              stats["allocated_bytes"].get<std::uint64_t>() + stats["free_bytes"].get<std::uint64_t>());
    ASSERT_EQ(stats["blocks"].size(), 2U);
    EXPECT_EQ(stats["blocks"][0], (nlohmann::json{{"up_to", 64}, {"count", 100}, {"bytes", 6400}}));
    EXPECT_EQ(stats["blocks"][1]["up_to"], 131072);
    EXPECT_EQ(stats["blocks"][1]["count"], 1);
    EXPECT_EQ(stats["durability"], "atomic");
    EXPECT_EQ(stats["lanes"]["pending"], true);
    EXPECT_GE(stats["recovery"]["pending_records"], 101);
    EXPECT_TRUE(stats["counters"].is_null()) << "nobody has the heap open";
    EXPECT_THAT(run({"stats"}).out,
                AllOf(HasSubstr("allocated_blocks    101\n"), HasSubstr("blocks <= 64        100, 6400 bytes\n"),
                      HasSubstr("durability          atomic\n"), HasSubstr(" records pending, ")));
}

TEST_F(cli_atomic, stats_and_info_of_a_heap_that_a_writer_has_open_say_who_and_what_its_files_say) {
    manager writer(create_only, heap(), options(domain_choice::page_cache));
    fill(writer);
    const std::string holder = fmt::format("writer, process {}", ::getpid());
    for (const char* command : {"stats", "info"}) {
        const nlohmann::json said = run({command, "--json"}).json();
        EXPECT_EQ(said["open"], true);
        EXPECT_EQ(said["holder"], holder);
        EXPECT_EQ(said["durability"], "atomic");
        EXPECT_EQ(said["lanes"]["incarnations"], 1);
        EXPECT_EQ(said["lanes"]["order"], "in flight");
        EXPECT_THAT(run({command}).out, AllOf(HasSubstr("open: " + holder), HasSubstr("durability          atomic\n")));
    }
    EXPECT_FALSE(writer.lanes().pending) << "of the heap that is open";
    EXPECT_TRUE(manager::lanes(heap()).pending);
}

/// A writer process that works, says so, and waits to be killed.
class live_writer {
public:
    live_writer(const std::string& path, const open_options& wanted, std::size_t calls)
        : process_([&, this] {
              manager heap(create_only, path, wanted);
              for (std::size_t i = 0; i < calls; ++i) {
                  heap.allocate_to(heap.root(i % 100), 64);
                  heap.free_from(heap.root(i % 100));
              }
              heap.checkpoint();
              *ready_ = 1;
              for (;;) {
                  ::pause();
              }
          }) {}
    [[nodiscard]] bool ready() const {
        return process_.runs_until([this] { return *ready_ != 0; }) && *ready_ != 0;
    }
    [[nodiscard]] pid_t process() const { return process_.id(); }
    void kill() { process_.kill(); }

private:
    base::shared_memory<std::atomic<int>> ready_;
    base::child_process process_;
};

class cli_counters : public cli_atomic, public ::testing::WithParamInterface<domain_choice> {};

TEST_P(cli_counters, stats_of_a_heap_that_another_process_works_on_show_its_counters) {
    constexpr std::size_t calls = 10'000;
    live_writer writer(heap(), options(GetParam()), calls);
    ASSERT_TRUE(writer.ready());
    const bool flushes = GetParam() == domain_choice::emulated;
    const nlohmann::json counters = run({"stats", "--json"}).json()["counters"];
    ASSERT_TRUE(counters.is_object());
    EXPECT_EQ(counters["process"], writer.process());
    EXPECT_EQ(counters["alive"], true);
    EXPECT_GE(counters["durable_records"], 2 * calls);
    EXPECT_LE(counters["durable_records"], 2 * calls + 10);
    EXPECT_GE(counters["fences"], flushes ? 2 * calls : 0);
    EXPECT_EQ(counters["fences"] > 0, flushes);
    EXPECT_EQ(counters["checkpoints"] > 0, flushes);
    EXPECT_EQ(counters["lines_flushed"] > 0, flushes);
    EXPECT_GE(counters["media_bytes"], 2 * calls * 64);
    EXPECT_EQ(counters["lanes"], 2);
    EXPECT_THAT(run({"stats"}).out,
                AllOf(HasSubstr(fmt::format("counters            of process {}, which is alive", writer.process())),
                      HasSubstr("durable_records     2")));

    // A torn block, and one of another incarnation, are no numbers.
    const std::string lanes = heap() + "/lanes";
    for (const int at : {1024, 1032, 1048, 1128}) {
        std::fstream file(lanes, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(at);
        const int kept = file.get();
        file.seekp(at);
        file.put(static_cast<char>(kept ^ 1));
        file.close();
        EXPECT_TRUE(run({"stats", "--json"}).json()["counters"].is_null()) << at;
        EXPECT_THAT(run({"stats"}).out, HasSubstr("counters            in that process"));
        file.open(lanes, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(at);
        file.put(static_cast<char>(kept));
    }
    ASSERT_TRUE(manager::lanes(heap()).writer);
    EXPECT_TRUE(manager::lanes(heap()).writer->alive);
    writer.kill();
    ASSERT_TRUE(manager::lanes(heap()).writer);
    EXPECT_FALSE(manager::lanes(heap()).writer->alive);
    EXPECT_TRUE(run({"stats", "--json"}).json()["counters"].is_null()) << "nobody has the heap open";
    manager(open_only, heap(), options(GetParam())).close();
    EXPECT_FALSE(manager::lanes(heap()).writer) << "of a heap that is closed";
}

INSTANTIATE_TEST_SUITE_P(domains, cli_counters, ::testing::Values(domain_choice::emulated, domain_choice::page_cache));

TEST_F(cli_atomic, counters_on_page_cache_follow_while_the_writer_works) {
    manager writer(create_only, heap(), options(domain_choice::page_cache));
    const auto told = [this] {
        const auto lanes = manager::lanes(heap());
        return lanes.writer ? lanes.writer->counters.durable_records : ~std::uint64_t{0};
    };
    EXPECT_EQ(told(), 0U);
    for (std::uint64_t i = 1; i <= 1000; ++i) {
        writer.allocate_to(writer.root(0), 64);
        writer.free_from(writer.root(0));
        ASSERT_LE(told(), writer.counters().durable_records);
        ASSERT_GE(told() + 64, writer.counters().durable_records) << "with every turn of the ring";
    }
    for (std::uint64_t i = 0; i < 100'000; ++i) {
        writer.allocate_to(writer.root(0), 64);
        writer.free_from(writer.root(0));
    }
    EXPECT_GE(told() + 65'536, writer.counters().durable_records) << "with one turn of many";
    writer.checkpoint();
    EXPECT_EQ(told(), writer.counters().durable_records);
}

}  // namespace
}  // namespace holdfast::support
