// holdfast::check_indexes: the invariants of the indexes of a heap whose types the library knows.
#pragma once

#include <string>
#include <vector>

#include <holdfast/manager.hpp>

namespace holdfast {

/// A line for each broken invariant of each named ordered_index and hash_index from std::uint64_t to std::uint64_t or
/// from std::string_view to std::string_view, which are those of the C interface: "index NAME: IDX-3: ...". A program
/// checks its indexes of other types by their check(). Reads all of them; no other thread uses them.
/// The heap may be open read-only. Throws error(locked) where this process has one open, bad_alloc.
[[nodiscard]] std::vector<std::string> check_indexes(manager& heap);

}  // namespace holdfast
