// The process that is killed: opens a heap, reports what it finds, changes it and commits, for ever. A timer of the
// kernel ends it (or the file system under it) in the midst of the act that its plan names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test {

/// Acts that can be cut off.
enum class act : std::uint8_t { open, commit, close, snapshot, copy, create, remove, change };
inline constexpr std::uint8_t act_count = 8;
[[nodiscard]] const char* name_of(act which) noexcept;

struct victim_plan {
    std::string heap;         ///< directory
    std::string second_heap;  ///< where snapshots, copies and other new heaps go
    std::uint64_t seed = 0;
    act target = act::commit;
    std::uint64_t after = 0;     ///< acts of that kind that are let pass
    std::uint64_t delay_ns = 0;  ///< from the beginning of the act to its end
    /// How it ends. By the timer: kill; lights_out (shut the file system down and be killed at once), dusk (shut it
    /// down and go on). By nobody: the observer does it.
    enum class ending : std::uint8_t { kill, lights_out, dusk, observer } ends = ending::kill;
    std::uint64_t segment_size = 0;
    std::uint64_t shard_bytes = 0;
    bool huge_blocks = false;

    /// For the command line of the victim, and back.
    [[nodiscard]] std::vector<std::string> arguments() const;
    static victim_plan parse(const std::vector<std::string>& arguments);
};

/// Runs until it is killed; returns (an exit status) only where something went wrong. Reports go to descriptor `fd`.
int run_victim(const victim_plan& plan, int fd);

/// The first argument of a command line that makes a test program a victim.
inline constexpr const char* victim_flag = "--victim";
/// The descriptor on which a victim reports.
inline constexpr int victim_reports = 3;

}  // namespace holdfast::test
