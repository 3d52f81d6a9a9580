// package_graph: Debian's package index as a graph in a persistent heap.
//
// Exit status: 0; 1 where the heap is not what it must be; 2 where the work could not be done.
#include <cstdio>
#include <exception>
#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "commands.hpp"

namespace {

using package_graph::common_arguments;

CLI::App* add_command(CLI::App& program, const std::string& name, const std::string& summary,
                      common_arguments& common) {
    CLI::App* const command = program.add_subcommand(name, summary);
    command->add_option("--heap", common.heap, "The heap's directory")->required();
    command->add_option("--input", common.inputs, "Files in the format of Debian's Packages")->required();
    command->add_option("--base", common.base, "Where to map the heap: any, other (than last time), or an address")
        ->capture_default_str();
    return command;
}

int run(int argc, char** argv) {
    CLI::App program("Debian's package index as a graph in a persistent heap");
    program.require_subcommand(1);
    common_arguments common;
    package_graph::ingest_arguments ingesting;
    package_graph::question asked;

    CLI::App* const ingest =
        add_command(program, "ingest", "Read the index into the heap; go on where it stands", common);
    ingest->add_option("--commit-every", ingesting.commit_every, "Stanzas from one commit to the next")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    ingest->add_flag("--verify", ingesting.verify, "First verify, as the command verify does, what is there");
    ingest->add_flag("--progress", ingesting.progress, "Show a progress bar on standard error");
    const CLI::App* const verify = add_command(program, "verify", "Show that exactly the last commit is there", common);
    CLI::App* const query = add_command(program, "query", "Answer questions, and check the answers", common);
    query->add_option("--from", asked.from, "Where the path begins");
    query->add_option("--to", asked.to, "Where it ends");
    query->add_option("--closure-of", asked.closure_of, "The package whose closure is wanted");
    CLI11_PARSE(program, argc, argv);

    if (ingest->parsed()) {
        return package_graph::ingest(common, ingesting);
    }
    return verify->parsed() ? package_graph::verify(common) : package_graph::query(common, asked);
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
