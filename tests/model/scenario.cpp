#include "model/scenario.hpp"

#include <chrono>
#include <cstdio>

namespace holdfast::model {

namespace {

outcome run(const scenario& each) {
    const auto begin = std::chrono::steady_clock::now();
    outcome result = explore({each.about, each.wrong});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%-45s %9zu states %8zu images depth %3zu %-8s %6.2f s  %s\n", each.name, result.states, result.images,
                result.depth,
                result.complete            ? "complete"
                : result.violation.empty() ? "bounded"
                                           : "fails",
                took.count(), result.violation.c_str());
    std::fflush(stdout);
    return result;
}

std::string path_of(const outcome& result) {
    std::string path;
    for (const std::string& step : result.path) {
        path += "  " + step + '\n';
    }
    return path;
}

}  // namespace

void expect_right(const scenario& each) {
    const outcome result = run(each);
    EXPECT_EQ(result.violation, "") << path_of(result);
    EXPECT_EQ(result.complete, each.about.state_limit == 0);
}

void expect_wrong(const scenario& each) {
    const outcome result = run(each);
    EXPECT_NE(result.violation, "");
    std::printf("%s", path_of(result).c_str());
}

}  // namespace holdfast::model
