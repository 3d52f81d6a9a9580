// `holdfast-bench --html` writes one page that needs nothing else: plots against the number of threads, tables.
#include <fstream>
#include <iterator>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.hpp"
#include "map/browser.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::size_t occurrences(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) {
        ++found;
    }
    return found;
}

/// Calls and space of two workloads, with one thread and with two, of us and the C library.
TEST(bench_page, plots_each_workload_against_the_threads) {
    const scratch_directory scratch;
    const std::string file = scratch / "page.html";
    const answer said = run_program(HOLDFAST_BENCH, {"--backend",    "holdfast,glibc",
                                                     "--workload",   "pair,frag-w1",
                                                     "--threads",    "1,2",
                                                     "--durability", "commit",
                                                     "--scale",      "0.001",
                                                     "--frag-phase", "2",
                                                     "--frag-live",  "1",
                                                     "--repeat",     "2",
                                                     "--dir",        scratch.path(),
                                                     "--html",       file});
    ASSERT_EQ(said.status, 0) << said.err;

    const page_view view = open_page(file);
    EXPECT_THAT(view.console, IsEmpty());
    EXPECT_EQ(view.attribute("<body", "data-ready"), "yes") << view.text_of("failure");
    EXPECT_EQ(view.number("data-workload=\"pair\"", "data-plots"), 1U);
    EXPECT_EQ(view.number("data-workload=\"frag-w1\"", "data-plots"), 2U) << "throughput, and space by what is live";
    EXPECT_EQ(occurrences(view.dom, "<canvas"), 3U);
    EXPECT_EQ(occurrences(view.dom, "<td>holdfast commit page-cache</td>"), 4U);
    EXPECT_EQ(occurrences(view.dom, "<td>glibc</td>"), 4U);
    EXPECT_THAT(view.text_of("environment"), AllOf(HasSubstr("2 rounds"), Not(HasSubstr("smoke"))));

    std::ifstream written(file);
    const std::string text((std::istreambuf_iterator<char>(written)), std::istreambuf_iterator<char>());
    EXPECT_THAT(text, AllOf(HasSubstr("MIT License"), Not(HasSubstr("src=")), Not(HasSubstr("href="))));
}

/// What is judged stands above the plots.
TEST(bench_page, lists_the_goals) {
    const scratch_directory scratch;
    const std::string file = scratch / "page.html";
    const answer said =
        run_program(HOLDFAST_BENCH, {"--smoke", "--report-small", "--dir", scratch.path(), "--html", file});
    ASSERT_EQ(said.status, 0) << said.err;
    const page_view view = open_page(file);
    EXPECT_THAT(view.console, IsEmpty());
    EXPECT_EQ(view.attribute("<body", "data-ready"), "yes") << view.text_of("failure");
    EXPECT_EQ(occurrences(view.dom, "<td class=\"not judged\">not judged</td>"), 34U)
        << "20 of throughput, 4 of latency, 10 of space";
    EXPECT_THAT(view.text_of("environment"), HasSubstr("smoke run"));
}

}  // namespace
}  // namespace holdfast::support
