// Where in a heap objects lie, in words of Python: heap['words'][3].
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "contents.hpp"

namespace holdfast::python {

/// The places below `from` of those objects that are wanted; of the first million values. Throws error(corrupt).
[[nodiscard]] std::vector<std::string> find_places(const contents& in, const value& from,
                                                   std::unordered_set<const void*> wanted);

}  // namespace holdfast::python
