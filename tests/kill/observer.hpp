// Starts one victim after the other on a heap, follows their reports, and checks what their deaths leave.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "base/process_test_support.hpp"
#include "kill/oracle.hpp"
#include "kill/victim.hpp"
#include "kill/world.hpp"

namespace holdfast::test {

/// By what victims did when they ended.
struct tally {
    std::uint64_t cycles = 0;
    std::uint64_t heaps = 0;
    std::uint64_t commits = 0;          ///< acknowledged
    std::uint64_t inside_commit = 0;    ///< in commit, close or snapshot
    std::uint64_t inside_open = 0;      ///< in create, open, recovery, or the check of what was found
    std::uint64_t inside_making = 0;    ///< in snapshot, copy or create of the second heap
    std::uint64_t inside_removing = 0;  ///< of the second heap
    std::uint64_t between = 0;
    std::uint64_t states_found = 0;  ///< by open, read-only open, and copies of what was left
    std::uint64_t wrong = 0;

    void print(std::ostream& out, const std::string& title) const;
};

class observer {
public:
    observer(std::string directory, std::uint64_t seed);
    observer(const observer&) = delete;
    observer& operator=(const observer&) = delete;
    ~observer();

    /// Shuts the file system down instead of killing the process, if `shuts_down`; calls `then` after each death.
    void use_power_loss(bool shuts_down, std::function<void()> then) {
        power_loss_ = shuts_down;
        after_death_ = std::move(then);
    }
    /// A victim, its end, and what it left: what went wrong, or nothing.
    [[nodiscard]] std::string cycle();
    [[nodiscard]] std::string next_heap();

    [[nodiscard]] const tally& numbers() const noexcept { return tally_; }

private:
    std::string end_a_victim();
    /// By this process: read-only, by copies, the second heap.
    std::string examine_remains();
    victim_plan make_plan();
    std::string follow(const base::child_process& process, const report_pipe& reports, victim_plan& plan);
    std::string listen(const report& said, const victim_plan& plan);
    void count_end() noexcept;
    static std::string judge_end(base::process_end end, bool power_loss);
    std::string look_read_only();
    std::string copy_what_is_left();
    std::string examine_second();
    std::string check_heap_at(const std::string& path, std::uint64_t digest);
    std::string remove_second(bool whole);

    std::string directory_;
    random source_;
    bool power_loss_ = false;
    std::function<void()> after_death_ = [] {};
    bool shut_down_ = false;
    std::string heap_;
    std::string second_;
    oracle oracle_;
    std::uint64_t segment_size_ = 0;
    std::uint64_t shard_bytes_ = 0;
    bool huge_blocks_ = false;
    std::array<double, act_count> duration_ns_{};  ///< of completed acts, smoothed
    tally tally_;
};

}  // namespace holdfast::test
