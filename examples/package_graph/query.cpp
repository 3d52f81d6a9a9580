#include <chrono>

#include <fmt/format.h>

#include "commands.hpp"
#include "open_heap.hpp"
#include "plain_graph.hpp"

namespace package_graph {
namespace {

using clock = std::chrono::steady_clock;

[[nodiscard]] double milliseconds(clock::duration elapsed) {
    return std::chrono::duration<double, std::milli>(elapsed).count();
}

/// The answers of one of the two graphs, and how long its two steps took.
struct timed_answers {
    answers given;
    summary graph;
    clock::duration preparing{};  ///< time to open the heap, or to read and parse the text
    clock::duration answering{};
};

[[nodiscard]] std::string choose(const persistent_graph& graph, const std::string& asked,
                                 std::initializer_list<const char*> candidates) {
    if (!asked.empty()) {
        if (!graph.contains(asked)) {
            throw std::invalid_argument(fmt::format("there is no package '{}' in the graph", asked));
        }
        return asked;
    }
    for (const char* const candidate : candidates) {
        if (graph.contains(candidate)) {
            return candidate;
        }
    }
    return graph.first_package();
}

[[nodiscard]] question complete(const persistent_graph& graph, const question& asked) {
    return {choose(graph, asked.from, {"0ad"}), choose(graph, asked.to, {"passwd", "libc6"}),
            choose(graph, asked.closure_of, {"gnome", "build-essential"})};
}

void print_answers(const question& asked, const answers& given) {
    fmt::print("\n  the {} most depended-on\n", given.most_depended_on.size());
    for (const ranked_name& each : given.most_depended_on) {
        fmt::print("  {:>10}  {}\n", each.dependents, each.name);
    }
    fmt::print("\n  the shortest path from {} to {}: ", asked.from, asked.to);
    if (given.path.empty()) {
        fmt::print("there is none\n");
    } else {
        fmt::print("{} steps\n    {}\n", given.path.size() - 1, fmt::join(given.path, " -> "));
    }
    const double gib = static_cast<double>(given.needs.chosen_kib) / (1024 * 1024);
    fmt::print(
        "\n  the closure of {}: {} packages with all alternatives and providers; with the first of each that can be "
        "had, {} packages, {:.2f} GiB installed\n",
        asked.closure_of, given.needs.reachable, given.needs.chosen, gib);
}

[[nodiscard]] bool compare(const timed_answers& heap, const timed_answers& plain, const plain_graph& graph) {
    fmt::print("\n  checked against std:: containers, built from the text in this run\n");
    bool good = report(heap.graph == plain.graph, "the whole graph: counts and checksum");
    good = report(heap.given.most_depended_on == plain.given.most_depended_on, "the most depended-on") && good;
    good = report(heap.given.path.size() == plain.given.path.size() && graph.has_path(heap.given.path),
                  "the path: as short as any, and each step is there") &&
           good;
    return report(heap.given.needs == plain.given.needs, "the closure: names, counts, sizes") && good;
}

void print_times(const timed_answers& heap, const timed_answers& plain) {
    const double from_heap = milliseconds(heap.preparing + heap.answering);
    const double from_text = milliseconds(plain.preparing + plain.answering);
    fmt::print("\n  {:<36} {:>12} {:>12} {:>12}\n", "time, ms", "open/parse", "answer", "together");
    fmt::print("  {:<36} {:>12.1f} {:>12.1f} {:>12.1f}\n", "open the heap and answer", milliseconds(heap.preparing),
               milliseconds(heap.answering), from_heap);
    fmt::print("  {:<36} {:>12.1f} {:>12.1f} {:>12.1f}\n", "parse the index again and answer",
               milliseconds(plain.preparing), milliseconds(plain.answering), from_text);
    fmt::print("  {:<36} {:>38.1f}\n", "times faster", from_text / from_heap);
}

}  // namespace

int query(const common_arguments& common, const question& asked) {
    const base_choice base = parse_base(common.base, read_sidecar(sidecar_path(common.heap)).base_address);
    timed_answers from_heap;
    const clock::time_point opening = clock::now();
    const holdfast::manager heap = open_heap(common.heap, open_mode::read_only, base);
    const std::optional<persistent_graph> graph = persistent_graph::find(heap);
    if (!graph) {
        throw std::runtime_error(common.heap + ": the heap holds no package graph");
    }
    const clock::time_point opened = clock::now();
    const question completed = complete(*graph, asked);
    from_heap.given = graph->answer(completed);
    from_heap.answering = clock::now() - opened;
    from_heap.preparing = opened - opening;
    from_heap.graph = graph->summarise();
    fmt::print("  heap {} mapped at {:#x}: {} packages, {} names, {} edges\n", common.heap, base_of(heap),
               from_heap.graph.packages, from_heap.graph.names, from_heap.graph.edges);
    print_answers(completed, from_heap.given);

    timed_answers from_text;
    const clock::time_point parsing = clock::now();
    const std::string text = read_inputs(common.inputs);
    const plain_graph plain(text);
    const clock::time_point parsed = clock::now();
    from_text.given = plain.answer(completed);
    from_text.answering = clock::now() - parsed;
    from_text.preparing = parsed - parsing;
    from_text.graph = plain.summarise();

    const bool good = compare(from_heap, from_text, plain);
    print_times(from_heap, from_text);
    return good ? 0 : 1;
}

}  // namespace package_graph
