#include <fmt/format.h>

#include "commands.hpp"
#include "open_heap.hpp"
#include "plain_graph.hpp"

namespace package_graph {
namespace {

void print_row(std::string_view source, const summary& row) {
    fmt::print("  {:<44} {:>8} {:>9} {:>8} {:>8}  {:016x}\n", source, row.stanzas, row.packages, row.names, row.edges,
               row.checksum);
}

[[nodiscard]] bool invariants_hold(const holdfast::manager& heap) {
    const std::vector<std::string> problems = heap.check(true);
    for (const std::string& problem : problems) {
        fmt::print("       {}\n", problem);
    }
    return report(problems.empty(), "every invariant of the heap holds, every page matches its checksum");
}

}  // namespace

bool report(bool good, std::string_view what) {
    fmt::print("  {} {}\n", good ? "ok  " : "BAD ", what);
    return good;
}

bool commits_agree(const persistent_graph* graph, const testimony& outside) {
    const std::uint64_t inside = graph == nullptr ? 0 : graph->commits().size();
    const std::uint64_t acknowledged = outside.done.size();
    const bool one_ahead = inside == acknowledged + 1 && outside.begun == inside;
    bool good = inside == acknowledged || one_ahead;
    for (std::uint64_t i = 0; graph != nullptr && good && i < acknowledged; ++i) {
        good = graph->commits()[i] == outside.done[i];
        if (!good) {
            fmt::print("       commit {} is recorded differently inside and outside\n", i + 1);
        }
    }
    return report(good,
                  fmt::format("commits in the heap: {}; returned, as the sidecar says: {}{}", inside, acknowledged,
                              outside.begun > acknowledged ? fmt::format("; begun: {}", outside.begun) : ""));
}

bool verify_last_commit(const holdfast::manager& heap, const persistent_graph* graph, const testimony& outside,
                        std::string_view text) {
    bool good = commits_agree(graph, outside);
    good = invariants_hold(heap) && good;
    if (graph == nullptr) {
        return good;
    }
    if (graph->commits().empty()) {
        return report(false, "a graph without a commit");
    }
    const commit_record& last = graph->commits().back();
    const summary walked = graph->summarise();
    const summary parsed = plain_graph(text, last.graph.stanzas).summarise();
    fmt::print("  {:<44} {:>8} {:>9} {:>8} {:>8}  {}\n", fmt::format("commit {}", last.number), "stanzas", "packages",
               "names", "edges", "checksum");
    print_row("recorded in the heap at that commit", last.graph);
    if (outside.done.size() == last.number) {
        print_row("recorded outside, when it had returned", outside.done.back().graph);
    }
    print_row("the graph in the heap, walked now", walked);
    print_row("the text parsed again, std:: containers", parsed);
    good = report(walked == last.graph && parsed == last.graph, "exactly the last commit is there") && good;
    const bool moved = base_of(heap) != last.base_address;
    fmt::print("       committed with the heap mapped at {:#x}, mapped now at {:#x}{}\n", last.base_address,
               base_of(heap), moved ? "" : ": the same");
    return good;
}

int verify(const common_arguments& common) {
    const std::string text = read_inputs(common.inputs);
    const testimony outside = read_sidecar(sidecar_path(common.heap));
    const base_choice base = parse_base(common.base, outside.base_address);
    const holdfast::manager heap = open_heap(common.heap, open_mode::write, base);
    const std::optional<persistent_graph> graph = persistent_graph::find(heap);
    if (graph && graph->input() != identify(text)) {
        return report(false, "the heap was made from another input") ? 0 : 1;
    }
    bool good = verify_last_commit(heap, graph ? &*graph : nullptr, outside, text);
    if (base.wanted == base_choice::kind::elsewhere) {
        good = report(base_of(heap) != outside.base_address, "mapped at another address than before") && good;
    }
    return good ? 0 : 1;
}

}  // namespace package_graph
