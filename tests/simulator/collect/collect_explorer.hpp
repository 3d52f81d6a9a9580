// Runs programs on a heap in durability `collect` and cuts the power at every fence and every return. Tracing recovers
// each image, and the oracle (collect_program.hpp) judges it. Some recoveries are cut as well, to depth 2, and some
// recovered heaps are used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simulator/collect/collect_program.hpp"
#include "simulator/crash_explorer.hpp"

namespace holdfast::simulator {

/// Whole pages; and a quarter of a slab.
inline constexpr std::uint64_t pages_block = 5 * base::page_size;
inline constexpr std::uint64_t large_block = 16 * base::kibibyte;

struct collect_effort {
    choice_limits cuts{256, 16, 16, 32};
    /// One recovery in this many is cut itself, as are its recoveries.
    std::uint64_t recovery_cut_of = 16;
    choice_limits recovery_cuts{32, 8, 8, 8};
    /// One heap in this many is used after recovery, closed and opened again.
    std::uint64_t used_of = 16;
};

struct collect_report {
    std::uint64_t programs = 0;
    std::uint64_t cuts = 0;
    std::uint64_t images = 0;           ///< distinct ones of each program
    std::uint64_t recovery_images = 0;  ///< of `images`: from cuts in recoveries
    std::uint64_t used = 0;
    std::vector<std::string> violations;
    collect_report& operator+=(const collect_report& other);
};

/// Not thread-safe: one for each exploring thread.
class collect_explorer {
public:
    explicit collect_explorer(const atomic_setting& setting, const collect_effort& effort = {});

    /// Omits steps that are impossible in their state. Cuts from step `cut_from` on.
    void run(const std::string& name, std::span<const collect_step> steps, std::size_t cut_from = 0);
    void run_random(std::uint64_t seed, std::size_t steps);
    [[nodiscard]] const collect_report& report() const noexcept { return report_; }
    [[nodiscard]] bool failed() const noexcept { return !report_.violations.empty(); }

private:
    static constexpr unsigned recovery_depth = 3;  ///< two recoveries that are cut, and one that is not

    struct trial {
        explicit trial(const atomic_setting& setting) : memory(collect_layout()), space(memory, setting) {}
        tracked_memory memory;
        collect_space space;
        object_file file;
    };

    void cut(persist::site where);
    void open_session();
    void take_step(const collect_step& step, unsigned death);
    void survive_death();
    void visit(unsigned depth, const memory_image& image, std::uint64_t hash, const collect_model& model,
               const heap_facts& facts);
    void cut_recovery(unsigned depth, const collect_model& model, persist::site where);
    [[nodiscard]] static std::string judge(collect_session& session, collect_space& space, const collect_model& model,
                                           bool was_clean, collect_world& found);
    [[nodiscard]] static std::string go_on(trial& on, std::unique_ptr<collect_session> session, collect_world found);
    void fail(const std::string& wrong);

    atomic_setting setting_;
    collect_effort effort_;
    tracked_memory memory_;
    collect_space space_;
    object_file file_;
    std::array<std::unique_ptr<trial>, recovery_depth> trials_;
    heap_facts formatted_;
    collect_model model_;
    std::unique_ptr<collect_session> session_;
    std::unique_ptr<collect_runner> runner_;
    std::string name_;
    std::string path_;  ///< where the power was cut
    bool cutting_ = false;
    hash_set seen_;
    memory_image scratch_;
    collect_report report_;
};

[[nodiscard]] const std::vector<collect_step>& collect_alphabet();

struct named_collect_program {
    std::string name;
    std::vector<collect_step> steps;
    std::size_t cut_from = 0;
};
/// Dangerous sequences.
[[nodiscard]] const std::vector<named_collect_program>& named_collect_programs();

}  // namespace holdfast::simulator
