// For tests of holdfast::manager that run in every durability, and in several domains where it has some.
#pragma once

#include <array>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {

/// Durability and the domain to emulate, where it has one.
using test_configuration = std::pair<durability, open_options::domain_choice>;

inline open_options options_of(const test_configuration& wanted) {
    open_options options = small_options();
    options.durability = wanted.first;
    options.domain = wanted.second;
    options.accept_process_crash_only = true;
    return options;
}

inline auto all_test_configurations() {
    return testing::Values(test_configuration{durability::commit, open_options::domain_choice::detect},
                           test_configuration{durability::collect, open_options::domain_choice::page_cache},
                           test_configuration{durability::collect, open_options::domain_choice::emulated},
                           test_configuration{durability::atomic, open_options::domain_choice::page_cache},
                           test_configuration{durability::atomic, open_options::domain_choice::emulated});
}

inline std::string name_of_configuration(const testing::TestParamInfo<test_configuration>& tested) {
    constexpr std::array durability_names{"", "commit", "collect", "atomic"};
    constexpr std::array domain_names{"", "_emulated", "_page_cache", "_disk"};
    return std::string(durability_names.at(static_cast<std::size_t>(tested.param.first))) +
           domain_names.at(static_cast<std::size_t>(tested.param.second));
}

}  // namespace holdfast
