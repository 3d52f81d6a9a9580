#pragma once

#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast {

/// A line ("index NAME: IDX-3: ...") for each broken invariant of each named index of the C interface (from
/// std::uint64_t to std::uint64_t, or from std::string_view to std::string_view). Others have their own check(). Reads
/// all of them; no other thread uses them. The heap may be open read-only. Throws error(locked) where this process has
/// one open, bad_alloc.
[[nodiscard]] std::vector<std::string> check_indexes(manager& heap);

}  // namespace holdfast
