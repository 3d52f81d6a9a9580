#include "simulator/simulator_main.hpp"

#include <cstdio>
#include <sstream>
#include <string_view>

#include <gtest/gtest.h>

namespace holdfast::simulator {

namespace {

simulator_options& mutable_options() noexcept {
    static simulator_options the_options;
    return the_options;
}

}  // namespace

const simulator_options& options() noexcept { return mutable_options(); }

int simulator_main(int count, char** arguments) {
    ::testing::InitGoogleTest(&count, arguments);
    simulator_options& chosen = mutable_options();
    for (int i = 1; i < count; ++i) {
        const std::string_view name = arguments[i];
        const bool has_value = i + 1 < count;
        if (name == "--quick") {
            chosen.quick = true;
        } else if (name == "--programs" && has_value) {
            chosen.programs = std::stoull(arguments[++i]);
        } else if (name == "--mutants" && has_value) {
            std::istringstream names(arguments[++i]);
            for (std::string one; std::getline(names, one, ',');) {
                chosen.mutants.push_back(one);
            }
        } else {
            std::fprintf(stderr, "unknown option, or one without its value: %s\n", arguments[i]);
            return 2;
        }
    }
    return RUN_ALL_TESTS();
}

}  // namespace holdfast::simulator
