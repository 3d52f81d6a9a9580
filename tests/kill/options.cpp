#include "kill/options.hpp"

#include <iostream>
#include <random>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "kill/victim.hpp"

namespace holdfast::test {

namespace {

run_options& mutable_options() noexcept {
    static run_options the_options;
    return the_options;
}

}  // namespace

const run_options& options() noexcept { return mutable_options(); }

int crash_test_main(int count, char** arguments, std::uint64_t default_cycles) {
    std::vector<std::string> words(arguments + 1, arguments + count);
    if (!words.empty() && words.front() == victim_flag) {
        words.erase(words.begin());
        return run_victim(victim_plan::parse(words), victim_reports);
    }
    run_options& chosen = mutable_options();
    chosen.cycles = default_cycles;
    chosen.seed = std::random_device{}();
    ::testing::InitGoogleTest(&count, arguments);
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string_view name = arguments[i];
        const std::string value = arguments[i + 1];
        if (name == "--cycles") {
            chosen.cycles = std::stoull(value);
        } else if (name == "--seed") {
            chosen.seed = std::stoull(value);
        } else if (name == "--readers") {
            chosen.readers = std::stoull(value);
        } else if (name == "--memory-directory") {
            chosen.memory_directory = value;
        } else if (name == "--disk-directory") {
            chosen.disk_directory = value;
        } else {
            std::cerr << "unknown option " << name << "\n";
            return 2;
        }
    }
    std::cout << "seed " << chosen.seed << std::endl;
    return RUN_ALL_TESTS();
}

}  // namespace holdfast::test
