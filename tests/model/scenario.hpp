// A test of the model: a world and what is wrong in it, and what must come out.
#pragma once

#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "model/protocol_rules.hpp"

namespace holdfast::model {

/// Larger worlds, too (`--soak`).
inline bool soak = false;

struct scenario {
    const char* name;
    world about;
    wrongs wrong{};
    bool only_in_soak = false;
};

inline std::ostream& operator<<(std::ostream& stream, const scenario& each) { return stream << each.name; }

inline std::string name_of(const testing::TestParamInfo<scenario>& info) { return info.param.name; }

/// Fails, in the test that calls it, if the model finds anything wrong.
void expect_right(const scenario& each);

/// Fails if the model finds nothing wrong.
void expect_wrong(const scenario& each);

}  // namespace holdfast::model
