// Recovery in the model, and what is demanded of every image that a crash may leave.
#pragma once

#include <functional>
#include <string>

#include "model/protocol_rules.hpp"

namespace holdfast::model {

/// What recovery makes of an image: destinations, bitmap and T.
image replay(const rules& chosen, const image& crashed);

/// Empty, or what is wrong with the heap that recovery leaves behind, given the state in which the crash came.
/// `excused` is set where a pointer dangles because the program broke off before it persisted an emptied word: the run
/// ends there.
std::string examine(const rules& chosen, const state& before, const image& crashed, const image& recovered,
                    bool& excused);

/// Empty, or how a second crash, inside the recovery that leads from one image to the other, changes the result.
std::string examine_second_crash(const rules& chosen, const image& crashed, const image& recovered);

/// The heap opened again.
state reopen(const rules& chosen, const state& before, const image& recovered);

/// Visits every image that a crash in this state may leave, until a visit answers false.
void for_each_image(const rules& chosen, const state& before, const std::function<bool(const image&)>& visit);

}  // namespace holdfast::model
