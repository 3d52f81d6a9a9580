// Runs small programs on a heap in durability `atomic` and cuts the power at every fence and every return. The real
// recovery recovers each image, and the oracle judges the result. Some recoveries are cut as well.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simulator/atomic/atomic_heap.hpp"
#include "simulator/atomic/atomic_oracle.hpp"
#include "simulator/atomic/atomic_program.hpp"
#include "simulator/atomic/atomic_scheduler.hpp"
#include "simulator/crash_explorer.hpp"

namespace holdfast::simulator {

struct atomic_effort {
    choice_limits cuts{4096, 64, 64, 256};
    /// One recovery in this many is cut itself, to depth 2.
    std::uint64_t recovery_cut_of = 64;
    choice_limits recovery_cuts{64, 8, 8, 8};
    /// One in this many recovered heaps of distinct metadata is used and emptied.
    std::uint64_t used_of = 8;
    /// At one cut in this many the process is killed, recovery sees all that was stored, and then the power goes.
    std::uint64_t killed_of = 32;
};

struct atomic_program {
    std::vector<step> setup;   ///< runs without cuts
    std::vector<step> steps;   ///< cut from step `cut_from` on
    std::size_t cut_from = 0;  ///< shorter programs cut the earlier steps
    bool settled = true;       ///< after the setup all stores are durable
    std::uint16_t stamp = 0;   ///< of place 0 at the start
};

/// Two threads with a lane each.
struct concurrent_program {
    std::string name;
    std::vector<step> setup;  ///< by a third thread, without cuts
    std::array<std::vector<step>, 2> parts;
    bool settled = true;
    std::uint16_t stamp = 0;
    bool warm = false;  ///< both have cached small blocks, and allocate one without a lock
};

struct atomic_report {
    std::uint64_t programs = 0;
    std::uint64_t cuts = 0;
    std::uint64_t images = 0;           ///< distinct ones of each program
    std::uint64_t duplicates = 0;       ///< equal images of one program that allow the same states
    std::uint64_t recovery_images = 0;  ///< of `images`: from cuts in recoveries
    std::uint64_t used = 0;
    std::vector<std::string> violations;

    atomic_report& operator+=(const atomic_report& other);
};

/// Not thread-safe: one for each exploring thread.
class atomic_explorer {
public:
    explicit atomic_explorer(const atomic_setting& setting, const atomic_effort& effort = {});

    /// False if a step is impossible in its state.
    bool run(const atomic_program& program);

    /// A long program of random steps of `alphabet`; from time to time the power goes, and the program continues on the
    /// recovered heap.
    void run_random(std::uint64_t seed, const std::vector<step>& alphabet, std::size_t steps);

    /// Opens a heap after a close and after a crash, and takes lane after lane, with cuts everywhere.
    void run_openings_and_new_lanes();

    /// Runs both parts in that order. Returns how many of its switches happened.
    std::size_t run_together(const concurrent_program& program, const schedule& order, bool crash_after = false);
    /// Runs both parts in every order of at most `preemptions` preemptions with a first switch after `share`, `share` +
    /// `shares`, ... steps. Equal images of different orders count once.
    void run_all_orders(const concurrent_program& program, unsigned preemptions, unsigned share, unsigned shares);

    /// The first thread dies at its step `death`, and its lane is released; `crash_after`: the power goes instead, and
    /// the heap is opened again. False if the thread ends before that step.
    bool run_with_death(const concurrent_program& program, unsigned death, bool crash_after);
    /// One thread after the other, without cuts; then a third runs `last`, and the power is cut in its last two steps.
    void run_in_turns(const std::vector<step>& setup, const std::array<std::vector<step>, 2>& parts,
                      const std::vector<step>& last);

    /// For other ways to run: formats and opens a heap. Cuts begin with cutting(true).
    void begin(const std::string& name, bool keep_seen = false, bool cut_opening = false);
    void end();
    void cutting(bool on) noexcept { cutting_ = on; }
    [[nodiscard]] atomic_space& space() noexcept { return space_; }
    [[nodiscard]] tracked_memory& memory() noexcept { return memory_; }
    [[nodiscard]] atomic_session& session() noexcept { return *session_; }
    [[nodiscard]] heap_model& model() noexcept { return model_; }
    [[nodiscard]] program_runner& runner() noexcept { return *runner_; }
    void fail(const std::string& wrong);

    [[nodiscard]] const atomic_report& report() const noexcept { return report_; }
    [[nodiscard]] bool failed() const noexcept { return !report_.violations.empty(); }

private:
    static constexpr unsigned recovery_depth = 3;  ///< two recoveries that are cut, and one that is not

    struct trial {
        trial(const atomic_setting& setting) : memory(layout_for(setting)), space(memory, setting) {}
        tracked_memory memory;
        atomic_space space;
    };

    void cut(persist::site where);
    void open_session();
    void outlive(const concurrent_program& program, bool crash);
    void prepare_scheduler();
    void perform(unsigned thread, const std::vector<step>& part);
    void survive_crash();
    void visit(unsigned depth, const memory_image& image, std::uint64_t hash, const heap_model& model);
    void kill();
    void cut_recovery(unsigned depth, const heap_model& model, persist::site where);
    [[nodiscard]] std::string judge(trial& on, const heap_model& model, bool& use);
    [[nodiscard]] std::string look_closely(trial& on);
    [[nodiscard]] static std::string use_and_empty(trial& on);

    atomic_setting setting_;
    atomic_effort effort_;
    tracked_memory memory_;
    atomic_space space_;
    std::array<std::unique_ptr<trial>, recovery_depth> trials_;
    heap_facts formatted_;
    heap_model model_;
    std::unique_ptr<atomic_session> session_;
    std::unique_ptr<program_runner> runner_;
    std::string name_;
    std::string path_;  ///< where the power was cut
    bool cutting_ = false;
    bool keep_seen_ = false;
    std::unique_ptr<atomic_scheduler> scheduler_;
    std::array<std::size_t, atomic_scheduler::threads> progress_{};
    lane::lane* lane_of_first_ = nullptr;
    bool died_ = false;
    std::uint64_t crash_at_ = 0;  ///< cuts until the power goes for good; 0: never
    std::uint64_t crash_choices_ = 0;
    memory_image crash_image_;
    heap_model crash_model_;
    hash_set seen_;       ///< images of this program
    hash_set looked_at_;  ///< metadata seen in any program
    memory_image scratch_;
    atomic_report report_;
};

}  // namespace holdfast::simulator
