// The process that is killed: opens a heap, reports what it finds, changes and commits it, endlessly. A kernel timer
// kills it, or shuts its file system down, during the act that its plan names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test {

/// Acts that can be interrupted.
enum class act : std::uint8_t { open, commit, close, snapshot, copy, create, remove, change };
inline constexpr std::uint8_t act_count = 8;
[[nodiscard]] const char* name_of(act which) noexcept;

struct victim_plan {
    std::string heap;         ///< directory
    std::string second_heap;  ///< for snapshots, copies and new heaps
    std::uint64_t seed = 0;
    act target = act::commit;
    std::uint64_t after = 0;     ///< acts of that kind that complete first
    std::uint64_t delay_ns = 0;  ///< from the beginning of the act
    /// By the timer: kill; lights_out (file system shut down, then killed at once); dusk (shut down, and the process
    /// goes on). observer: no timer, the observer ends it.
    enum class ending : std::uint8_t { kill, lights_out, dusk, observer } ends = ending::kill;
    std::uint64_t segment_size = 0;
    std::uint64_t shard_bytes = 0;
    bool huge_blocks = false;

    /// For the victim's command line.
    [[nodiscard]] std::vector<std::string> arguments() const;
    static victim_plan parse(const std::vector<std::string>& arguments);
};

/// Runs until it is killed; returns an exit status only after an error. Reports to descriptor `fd`.
int run_victim(const victim_plan& plan, int fd);

/// The first argument, which makes a test program a victim.
inline constexpr const char* victim_flag = "--victim";
inline constexpr int victim_reports = 3;

}  // namespace holdfast::test
