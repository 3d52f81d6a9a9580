// What a call takes that threads make side by side, and what a disk takes for one write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace bench {

/// Microseconds of one call, all threads together, for `count` calls of each thread.
[[nodiscard]] double time_of(unsigned threads, std::uint64_t count,
                             const std::function<void(unsigned thread, std::uint64_t nth)>& call);

/// Microseconds of a write of 4 KiB with O_DIRECT and O_DSYNC, one behind the other in a file that was written before.
/// Without O_DIRECT where the file system has none. Throws std::system_error.
[[nodiscard]] double time_of_a_write(const std::filesystem::path& directory, std::uint64_t count);

}  // namespace bench
