#include <chrono>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "commands.hpp"
#include "open_heap.hpp"
#include "progress.hpp"

namespace package_graph {
namespace {

using clock = std::chrono::steady_clock;

[[nodiscard]] double seconds(clock::duration elapsed) { return std::chrono::duration<double>(elapsed).count(); }

/// Commits, and writes a line to the sidecar before and after.
class committer {
public:
    committer(holdfast::manager& heap, sidecar& witness) : heap_(heap), witness_(witness) {}

    void commit(persistent_graph& graph) {
        const clock::time_point start = clock::now();
        const commit_record& record = graph.record_commit(heap_);
        witness_.begun(record.number);
        const clock::time_point begin = clock::now();
        heap_.commit();
        const clock::duration elapsed = clock::now() - begin;
        witness_.done(record);
        ++count_;
        committing_ += elapsed;
        longest_ = std::max(longest_, elapsed);
        witnessing_ += clock::now() - start - elapsed;
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    void print(clock::duration total) const {
        fmt::print(
            "  {:.2f} s: {:.2f} s parsing and inserting, {:.2f} s in {} commits (the longest {:.0f} ms), {:.2f} s for "
            "checksums and the sidecar\n",
            seconds(total), seconds(total - committing_ - witnessing_), seconds(committing_), count_,
            seconds(longest_) * 1000, seconds(witnessing_));
    }

private:
    holdfast::manager& heap_;
    sidecar& witness_;
    std::uint64_t count_ = 0;
    clock::duration committing_{};
    clock::duration witnessing_{};
    clock::duration longest_{};
};

/// Writes the `done` lines that are missing because a process was killed between a commit and its line.
void catch_up(sidecar& witness, const persistent_graph& graph, const testimony& outside) {
    for (std::uint64_t i = outside.done.size(); i < graph.commits().size(); ++i) {
        witness.done(graph.commits()[i]);
    }
}

void add_all(persistent_graph& graph, std::string_view text, committer& commits, const ingest_arguments& arguments) {
    const std::uint64_t total = control_reader(text).skip(UINT64_MAX);
    progress_bar bar(arguments.progress, "ingest", total);
    control_reader reader(text);
    if (reader.skip(graph.stanzas()) != graph.stanzas()) {
        throw std::logic_error("the heap has more stanzas than the input");
    }
    std::uint64_t uncommitted = 0;
    for (stanza next; reader.next(next);) {
        graph.add(next);
        if (++uncommitted >= arguments.commit_every) {
            commits.commit(graph);
            uncommitted = 0;
        }
        bar.update(graph.stanzas(), commits.count());
    }
    if (uncommitted > 0 || graph.commits().empty()) {
        commits.commit(graph);
    }
    bar.update(total, commits.count());
}

}  // namespace

int ingest(const common_arguments& common, const ingest_arguments& arguments) {
    const std::string text = read_inputs(common.inputs);
    const input_identity input = identify(text);
    const testimony outside = read_sidecar(sidecar_path(common.heap));
    const base_choice base = parse_base(common.base, outside.base_address);
    const clock::time_point opening = clock::now();
    holdfast::manager heap = open_heap(common.heap, open_mode::create_or_write, base);
    fmt::print("  heap {} mapped at {:#x} ({}open took {:.1f} ms)\n", common.heap, base_of(heap),
               outside.opened > 0 ? fmt::format("before: {:#x}; ", outside.base_address) : "",
               seconds(clock::now() - opening) * 1000);
    if (outside.opened > 0 && base.wanted == base_choice::kind::elsewhere && base_of(heap) == outside.base_address) {
        throw std::logic_error("the heap was mapped where it was before");
    }

    std::optional<persistent_graph> graph = persistent_graph::find(heap);
    if (graph && graph->input() != input) {
        throw std::runtime_error(
            fmt::format("{}: the heap was made from another input ({} bytes, found {}); go on with that, or "
                        "remove the heap",
                        common.heap, graph->input().bytes, input.bytes));
    }
    if (graph || outside.opened > 0) {
        const persistent_graph* const present = graph ? &*graph : nullptr;
        if (!(arguments.verify ? verify_last_commit(heap, present, outside, text) : commits_agree(present, outside))) {
            return 1;
        }
    }
    std::fflush(stdout);

    sidecar witness(sidecar_path(common.heap), outside);
    witness.opened(base_of(heap));
    if (graph) {
        catch_up(witness, *graph, outside);
    } else {
        graph = persistent_graph::create(heap, input);
    }
    const clock::time_point start = clock::now();
    committer commits(heap, witness);
    add_all(*graph, text, commits, arguments);
    const clock::duration elapsed = clock::now() - start;
    const summary finished = graph->commits().back().graph;
    heap.close(false);
    fmt::print("  {} stanzas: {} packages, {} names, {} edges; checksum {:016x}\n", finished.stanzas, finished.packages,
               finished.names, finished.edges, finished.checksum);
    commits.print(elapsed);
    return 0;
}

}  // namespace package_graph
