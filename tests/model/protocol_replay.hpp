// Recovery in the model, and what every crash image must satisfy.
#pragma once

#include <functional>
#include <string>

#include "model/protocol_rules.hpp"

namespace holdfast::model {

image replay(const rules& chosen, const image& crashed);

/// What is wrong with the recovered heap, given the state at the crash; empty if nothing. `excused`: a pointer dangles
/// because the program stopped before it persisted an emptied word; the run ends there.
std::string examine(const rules& chosen, const state& before, const image& crashed, const image& recovered,
                    bool& excused);

/// How a second crash, during the recovery from `crashed` to `recovered`, changes the result; empty if it does not.
std::string examine_second_crash(const rules& chosen, const image& crashed, const image& recovered);

/// examine() and reopen() in worlds of groups, where there is exactly one right content of each word and each bit for
/// each choice of which groups in flight have taken effect.
std::string examine_groups(const rules& chosen, const state& before, const image& crashed, const image& recovered);
state reopen_groups(const rules& chosen, const state& before, const image& recovered);

state reopen(const rules& chosen, const state& before, const image& recovered);

/// Visits every image that a crash in this state may leave, until a visit returns false.
void for_each_image(const rules& chosen, const state& before, const std::function<bool(const image&)>& visit);

}  // namespace holdfast::model
