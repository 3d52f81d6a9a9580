// package_graph: Debian's package index as a graph in a persistent heap.
//
// Exit status: 0; 1 where the heap is not what it must be; 2 where the work could not be done.
#include <cstdio>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include "command_line/command_line.hpp"
#include "commands.hpp"

namespace {

using holdfast_programs::command;
using holdfast_programs::command_line;
using package_graph::common_arguments;

command add_command(command_line& program, const std::string& name, const std::string& summary,
                    common_arguments& common) {
    const command added = program.add_command(name, summary);
    added.add_option("--heap", common.heap, "The heap's directory").required();
    added.add_option("--input", common.inputs, "Files in the format of Debian's Packages").required();
    added.add_option("--base", common.base, "Where to map the heap: any, other (than last time), or an address")
        .show_default();
    return added;
}

int run(int argc, char** argv) {
    command_line program("Debian's package index as a graph in a persistent heap");
    program.require_command();
    common_arguments common;
    package_graph::ingest_arguments ingesting;
    package_graph::question asked;

    const command ingest =
        add_command(program, "ingest", "Read the index into the heap; go on where it stands", common);
    ingest.add_option("--commit-every", ingesting.commit_every, "Stanzas from one commit to the next")
        .positive()
        .show_default();
    ingest.add_flag("--verify", ingesting.verify, "First verify, as the command verify does, what is there");
    ingest.add_flag("--progress", ingesting.progress, "Show a progress bar on standard error");
    const command verify = add_command(program, "verify", "Show that exactly the last commit is there", common);
    const command query = add_command(program, "query", "Answer questions, and check the answers", common);
    query.add_option("--from", asked.from, "Where the path begins");
    query.add_option("--to", asked.to, "Where it ends");
    query.add_option("--closure-of", asked.closure_of, "The package whose closure is wanted");
    if (const auto status = program.parse(argc, argv)) {
        return *status;
    }

    if (ingest.parsed()) {
        return package_graph::ingest(common, ingesting);
    }
    return verify.parsed() ? package_graph::verify(common) : package_graph::query(common, asked);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& failure) {
        std::fflush(stdout);
        fmt::print(stderr, "package_graph: {}\n", failure.what());
        return 2;
    }
}
