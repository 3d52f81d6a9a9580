// Space goes back to the file system while records refer to it.
#include "simulator/atomic/atomic_scenarios.hpp"

namespace holdfast::simulator {

namespace {

constexpr step holder{verb::allocate, 1};
constexpr step big_holder{verb::hold_big};
constexpr step free_holder{verb::free, 1};
constexpr step inner{verb::allocate, 3};
constexpr step free_inner{verb::free, 3};
constexpr step big{verb::allocate, 0, 0, request::big};
constexpr step free{verb::free, 0};
constexpr step slab{verb::allocate, 0, 0, request::other};
constexpr step publish{verb::publish, 0};
constexpr step publish_big{verb::publish, 0, 0, request::big};
constexpr step shrink{verb::shrink};
constexpr step point{verb::checkpoint};
constexpr step keep_big{verb::keep, 0, 0, request::big};
constexpr step give_back{verb::give_back};

/// Fills the first half of the heap up to two pages: the next slab lies in the second, and the next block of pages in
/// both.
std::vector<step> full_half(std::vector<step> more) {
    std::vector<step> steps{{verb::allocate, 2}, keep_big, keep_big, keep_big, {verb::keep, 0, 0, request::six_pages}};
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
}

const std::vector<atomic_program>& dangerous_programs() {
    static const std::vector<atomic_program> programs{
        // A destination lies in a block that is freed, and its memory is reused.
        {{big_holder}, {inner, free_holder, big, free, publish_big}},
        {{big_holder}, {inner, free_inner, free_holder, publish_big, point}},
        {{big_holder}, {inner, free_holder, slab, big_holder, inner, free_holder}},
        {{big_holder, inner}, {free_holder, big_holder, inner, point, free_holder, publish_big}, 0, false},
        // A destination lies in a block that is freed, the heap ends before it, and its memory is reused.
        {full_half({big_holder}), {inner, free_inner, free_holder, shrink, publish_big, shrink}},
        {full_half({big_holder, inner}), {free_holder, shrink, big_holder, inner, free_holder, shrink}, 0, false},
        {full_half({}), {big, free, shrink, publish_big, free, shrink}, 0, false},
        {full_half({}), {slab, free, give_back, shrink, slab, free, give_back, shrink}, 0, false},
        {full_half({}), {publish_big, free, slab, free, give_back, shrink, publish_big}},
    };
    return programs;
}

const std::vector<step>& space_alphabet() {
    static const std::vector<step> alphabet{big_holder, free_holder, inner,   free_inner, big,
                                            free,       slab,        publish, shrink,     give_back};
    return alphabet;
}

const std::vector<concurrent_program>& space_pairs() {
    static const std::vector<concurrent_program> programs{
        {"a heap is shortened while another's call is in flight",
         full_half({big_holder, holder}),
         {{{free_holder, shrink}, {{verb::allocate, 0}, {verb::free, 0}}}},
         false},
        {"a heap is shortened while another takes a block there",
         full_half({big}),
         {{{free, shrink, shrink}, {{verb::keep, 0, 0, request::big}, {verb::discard}}}},
         false},
        {"the other's destination lies in a block that went",
         full_half({big_holder}),
         {{{inner, free_inner, {verb::await, 1}}, {{verb::allocate, 2}, {verb::await, 3}, free_holder, shrink}}},
         false},
    };
    return programs;
}

}  // namespace

namespace {

void explore_short(atomic_explorer& explorer, const std::vector<step>& setup, std::size_t length,
                   const std::vector<step>& alphabet = space_alphabet()) {
    atomic_program program{setup, {}, 0, false};
    const auto go_on = [&](const auto& again) -> void {
        program.cut_from = program.steps.size() - 1;
        if (explorer.failed() || (!program.steps.empty() && !explorer.run(program)) || program.steps.size() == length) {
            return;
        }
        for (const step& next : alphabet) {
            program.steps.push_back(next);
            again(again);
            program.steps.pop_back();
        }
    };
    go_on(go_on);
}

}  // namespace

atomic_report explore_space(atomic_setting setting, const atomic_effort& effort, std::size_t length,
                            unsigned preemptions) {
    setting.gives_back = true;
    atomic_report all;
    for (const bool decays : {true, false}) {
        setting.decays = decays;
        atomic_explorer explorer(setting, effort);
        for (const atomic_program& each : dangerous_programs()) {
            if (!explorer.run(each)) {
                explorer.fail("a step of a dangerous program makes no sense");
            }
        }
        explore_short(explorer, {big_holder, inner}, length);
        explore_short(explorer, full_half({big_holder}), length);
        for (const concurrent_program& each : space_pairs()) {
            explorer.run_all_orders(each, preemptions, 0, 1);
        }
        all += explorer.report();
    }
    return all;
}

namespace {

constexpr step home{verb::go_to_node, 0};
constexpr step away{verb::go_to_node, 1};
constexpr step small{verb::allocate, 0};
constexpr step inner_big{verb::allocate, 3, 0, request::big};
constexpr step discard{verb::discard};

const std::vector<atomic_program>& programs_of_nodes() {
    static const std::vector<atomic_program> programs{
        // A block of pages is freed elsewhere, merged, and its memory is reused, with and without a checkpoint between.
        {{{verb::allocate, 1}}, {big, free, home, big, free}},
        {{{verb::allocate, 1}}, {big, free, point, home, big, point}},
        {{{verb::allocate, 1}}, {big, point, free, home, slab, free}},
        {{{verb::allocate, 1}}, {big, free, point, point, home, publish_big}},
        {full_half({{verb::allocate, 1}}), {big, free, big, free, point, slab}},
        // The destination lies in a block that is freed elsewhere.
        {{big_holder}, {inner, free_holder, home, publish_big, point}},
        {{big_holder}, {inner_big, free_inner, free_holder, point, home, big_holder, inner}},
        {{{verb::allocate, 1}},
         {publish_big, {verb::reallocate, 0, 0, request::small}, home, free, publish_big, point}},
        {{{verb::allocate, 1}}, {keep_big, discard, home, keep_big, away, discard, point}},
        // Small blocks.
        {{{verb::allocate, 1}}, {small, free, point, home, small, free, away, point}},
    };
    return programs;
}

}  // namespace

atomic_report explore_nodes(atomic_setting setting, const atomic_effort& effort, std::size_t length) {
    setting.nodes = 2;
    static const std::vector<step> alphabet{big,   free, publish_big, inner_big, free_inner, small,
                                            point, home, away,        keep_big,  discard,    slab};
    atomic_explorer explorer(setting, effort);
    for (const atomic_program& each : programs_of_nodes()) {
        if (!explorer.run(each)) {
            explorer.fail("a step of a program of several nodes makes no sense");
        }
    }
    explore_short(explorer, {{verb::allocate, 1}, big}, length, alphabet);
    explore_short(explorer, full_half({{verb::allocate, 1}}), length, alphabet);
    return explorer.report();
}

}  // namespace holdfast::simulator
