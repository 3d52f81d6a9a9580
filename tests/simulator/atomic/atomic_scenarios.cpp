#include "simulator/atomic/atomic_scenarios.hpp"

namespace holdfast::simulator {

const std::vector<step>& step_alphabet() {
    static const std::vector<step> alphabet{
        {verb::allocate, 0},
        {verb::allocate, 0, 0, request::other},
        {verb::allocate, 0, 0, request::slot},
        {verb::allocate, 0, 0, request::big},
        {verb::allocate, 1},
        {verb::allocate, 3},
        {verb::allocate_zeroed, 3},
        {verb::allocate, 3, 0, request::big},
        {verb::free, 0},
        {verb::free, 1},
        {verb::free, 2},
        {verb::free, 3},
        {verb::reallocate, 0, 0, request::small},
        {verb::reallocate, 0, 0, request::big},
        {verb::reallocate, 3, 0, request::other},
        {verb::publish, 0},
        {verb::publish, 3},
        {verb::cancel, 0},
        {verb::cancel, 0, 0, request::big},
        {verb::move, 3, 0},
        {verb::move, 0, 3},
        {verb::move, 2, 0},
        {verb::move_durably, 2, 3},
        {verb::keep},
        {verb::discard},
        {verb::checkpoint},
        {verb::allocate_both},
        {verb::free_both},
        {verb::give_back},
    };
    return alphabet;
}

const std::vector<atomic_start>& atomic_starts() {
    const step slot{verb::keep, 0, 0, request::slot};
    const step big{verb::keep, 0, 0, request::big};
    const step discard{verb::discard};
    static const std::vector<atomic_start> starts{
        {"a block that can hold destinations", {{verb::allocate, 1}}},
        {"blocks everywhere, all records pending",
         {{verb::allocate, 1}, {verb::publish, 0}, {verb::allocate, 3}},
         false},
        {"a used holder, records pending, the next record at half of the ring",
         {{verb::allocate, 1}, {verb::checkpoint}, {verb::publish, 3}, {verb::free, 3}, {verb::allocate, 0}},
         false,
         (1U << 15U) - 2},
        {"one slab empty and one nearly so: the next blocks given back release it, and the heap is full",
         {{verb::allocate, 1}, slot, slot, slot, slot, slot, discard, discard, discard, discard, discard}},
        {"no space below the frontier for a big block", {{verb::allocate, 1}, big, big, big, big, big, big}},
    };
    return starts;
}

atomic_report explore_programs(const atomic_setting& setting, const atomic_effort& effort, const atomic_start& start,
                               const step& first, std::size_t length) {
    atomic_explorer explorer(setting, effort);
    atomic_program program{start.setup, {first}, 0, start.settled, start.stamp};
    const auto go_on = [&](const auto& again) -> void {
        program.cut_from = program.steps.size() - 1;
        if (!explorer.run(program) || program.steps.size() == length) {
            return;
        }
        for (const step& next : step_alphabet()) {
            program.steps.push_back(next);
            again(again);
            program.steps.pop_back();
        }
    };
    go_on(go_on);
    return explorer.report();
}

}  // namespace holdfast::simulator
