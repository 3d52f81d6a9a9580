// What commands show on a terminal alone: how far they are, and tables that fit.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <pty.h>

#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using holdfast_cli::progress;
using holdfast_cli::progress_text;
using holdfast_cli::table_text;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t mib = 1U << 20U;

TEST(cli_progress, says_rate_and_rest) {
    EXPECT_EQ(progress_text("check", 1024 * mib, 4096 * mib, seconds(2), true),
              "check: 1.0 GiB of 4.0 GiB, 512.0 MiB/s, 6 s left");
    EXPECT_EQ(progress_text("check: pages", 100, 1000, seconds(10), false),
              "check: pages: 100 of 1000, 10/s, 90 s left");
    EXPECT_EQ(progress_text("copy", mib, 601 * mib, seconds(1), true),
              "copy: 1.0 MiB of 601.0 MiB, 1.0 MiB/s, 10 min left");
    EXPECT_EQ(progress_text("copy", mib, 7501 * mib, seconds(1), true),
              "copy: 1.0 MiB of 7.3 GiB, 1.0 MiB/s, 2 h 5 min left");
    EXPECT_EQ(progress_text("export", 5 * mib, 0, seconds(5), true), "export: 5.0 MiB, 1.0 MiB/s") << "of how many?";
    EXPECT_EQ(progress_text("import", 9 * mib, 8 * mib, seconds(1), true),
              "import: 8.0 MiB of 8.0 MiB, 8.0 MiB/s, 0 s left")
        << "more than was expected";
    EXPECT_EQ(progress_text("import", 0, 8 * mib, seconds(0), true), "import: 0 B of 8.0 MiB, 0 B/s");
}

/// Both ends of a terminal, or of a pipe.
class watched_output {
public:
    explicit watched_output(bool is_terminal) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(is_terminal ? ::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) : ::pipe(ends), 0);
        here_ = ends[0];
        there_ = ends[1];
    }
    watched_output(const watched_output&) = delete;
    watched_output& operator=(const watched_output&) = delete;
    ~watched_output() {
        ::close(here_);
        ::close(there_);
    }
    [[nodiscard]] int descriptor() const noexcept { return there_; }
    /// Until the text has come, a minute at most.
    [[nodiscard]] const std::string& wait_for(const std::string& text) {
        for (int i = 0; i < 60 && said_.find(text) == std::string::npos; ++i) {
            take(1000);
        }
        return said_;
    }
    /// All that is there now.
    [[nodiscard]] const std::string& now() {
        while (take(0)) {
        }
        return said_;
    }

private:
    bool take(int milliseconds) {
        pollfd wanted{here_, POLLIN, 0};
        char bytes[256];
        const ssize_t count = ::poll(&wanted, 1, milliseconds) == 1 ? ::read(here_, bytes, sizeof bytes) : 0;
        said_.append(bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        return count > 0;
    }

    int here_ = -1;
    int there_ = -1;
    std::string said_;
};

progress::settings at_once(const watched_output& to) {
    return {.what = "mark", .terminal = to.descriptor(), .begin = milliseconds(0), .step = milliseconds(1)};
}

TEST(cli_progress, is_one_line_of_a_terminal_that_goes_away) {
    watched_output terminal(true);
    {
        progress shown(at_once(terminal));
        shown.update("mark", 50, 100);
        EXPECT_THAT(terminal.wait_for("mark: 50 B of 100 B, "), HasSubstr("\r\x1b[Kmark: 50 B of 100 B, "));
        shown.update("sweep", 10, 40);
        EXPECT_THAT(terminal.wait_for("sweep: 10 B of 40 B, "), Not(HasSubstr("\n")));
        shown.end();
        EXPECT_THAT(terminal.now(), EndsWith("\r\x1b[K"));
        shown.update("sweep", 40, 40);
    }
    EXPECT_THAT(terminal.now(), EndsWith("\r\x1b[K"));
}

TEST(cli_progress, asks_how_far_the_work_is_since_it_began) {
    watched_output terminal(true);
    std::atomic<std::uint64_t> done{1000};
    progress::settings how = at_once(terminal);
    how.all = 500;
    how.done = [&done] { return done.load(); };
    const progress shown(std::move(how));
    done = 1100;
    EXPECT_THAT(terminal.wait_for("mark: 100 B of 500 B"), HasSubstr("mark: 100 B of 500 B"));
}

/// Was: some commands looked at standard error, and others nowhere.
TEST(cli_progress, is_for_terminals_that_want_it) {
    watched_output pipe(false);
    watched_output terminal(true);
    std::atomic<int> asked{0};
    for (watched_output* const to : {&pipe, &terminal}) {
        progress::settings how = at_once(*to);
        how.is_wanted = to == &pipe;
        how.done = [&asked]() -> std::uint64_t { return static_cast<std::uint64_t>(++asked); };
        progress shown(std::move(how));
        shown.update("mark", 50, 100);
        std::this_thread::yield();
    }
    EXPECT_EQ(asked.load(), 0);
    EXPECT_THAT(pipe.now(), IsEmpty());
    EXPECT_THAT(terminal.now(), IsEmpty());
}

TEST(cli_progress, leaves_out_what_fails) {
    watched_output terminal(true);
    std::atomic<int> asked{0};
    progress::settings how = at_once(terminal);
    how.done = [&asked]() -> std::uint64_t {
        const int now = ++asked;
        if (now == 2) {
            throw std::runtime_error("not now");
        }
        return static_cast<std::uint64_t>(now) * 1000;
    };
    const progress shown(std::move(how));
    EXPECT_THAT(terminal.wait_for("mark: "), HasSubstr("mark: "));
}

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream from(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(from, line);) {
        lines.push_back(line);
    }
    return lines;
}

TEST(cli_table, fits_where_columns_are_few) {
    const std::vector<std::vector<std::string>> rows{{"NAME", "SIZE", "TYPE"},
                                                     {"caf\u00e9 \u2014 a long name", "123456", std::string(100, 't')}};
    EXPECT_THAT(lines_of(table_text(rows, 0)),
                ElementsAre("NAME" + std::string(16, ' ') + "SIZE    TYPE",
                            "caf\u00e9 \u2014 a long name  123456  " + std::string(100, 't')));
    EXPECT_THAT(lines_of(table_text(rows, 40)),
                ElementsAre("NAME             SIZE    TYPE", "caf\u00e9 \u2014 a lon...  123456  tttttttttttt..."));
    EXPECT_THAT(lines_of(table_text(rows, 5)),
                ElementsAre("NAME          SIZE    TYPE", "caf\u00e9 \u2014 a ...  123456  ttttttttt..."))
        << "not below some width";
    EXPECT_EQ(table_text({{"A"}, {""}}, 80), "A\n\n");
}

TEST(cli_terminal, has_names_that_are_cut_and_no_progress_of_what_is_quick) {
    const scratch_directory scratch;
    const std::string path = scratch / "heap";
    const std::string name(200, 'n');
    {
        manager heap(create_only, path, small_segments());
        static_cast<void>(heap.construct<int>(name.c_str())(1));
        heap.close(true);
    }
    constexpr unsigned short columns = 60;
    const answer listed = run_holdfast_on_terminal({"ls", path}, columns);
    EXPECT_EQ(listed.status, 0);
    for (const std::string& line : lines_of(listed.out)) {
        EXPECT_LE(line.size(), columns) << line;
    }
    EXPECT_THAT(listed.out, HasSubstr("nnn..."));
    EXPECT_THAT(run_holdfast({"ls", path}).out, HasSubstr(name)) << "programs get all";
    const std::vector<std::vector<std::string>> quick{
        {"check", path}, {"copy", path, scratch / "copy"}, {"gc", path}, {"defrag", path}};
    for (const auto& command : quick) {
        const answer said = run_holdfast_on_terminal(command, columns);
        EXPECT_EQ(said.status, 0) << command.front();
        EXPECT_THAT(said.out, Not(HasSubstr("\x1b"))) << command.front();
    }
}

}  // namespace
}  // namespace holdfast::support
