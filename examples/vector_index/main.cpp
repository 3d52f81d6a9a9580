// vector_index: an index of vectors that outlives its process; demo.py and test.sh run it.
//
//     vector_index build  --heap DIR --vectors FILE     adds the vectors that are not there yet, with commits
//     vector_index query  --heap DIR --vectors FILE     the nearest ones to each; opens the heap read-only
//     vector_index verify --heap DIR                    whether all links lead to nodes; a checksum
//
// FILE has numbers of 32 bits, as numpy's tofile() writes them. Exit status: 0; 1 where the index is not what it must
// be; 2 where the work could not be done.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "command_line/command_line.hpp"
#include "vector_graph.hpp"

namespace vector_index {
namespace {

using clock = std::chrono::steady_clock;

double milliseconds_since(clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

struct arguments {
    std::string heap;
    std::string vectors;
    std::string output;
    unsigned dimensions = 64;
    unsigned links = 16;
    unsigned effort = 100;
    unsigned count = 10;
    unsigned commit_every = 10000;
    bool stay = false;
    bool wait = false;
};

std::vector<float> read_vectors(const std::string& path, unsigned dimensions) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const auto bytes = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
    if (!file || bytes % (dimensions * sizeof(float)) != 0) {
        throw std::runtime_error(path + ": found no vectors of " + std::to_string(dimensions) + " numbers");
    }
    std::vector<float> numbers(bytes / sizeof(float));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(bytes));
    if (!file) {
        throw std::runtime_error(path + ": cannot be read");
    }
    return numbers;
}

int build(const arguments& given) {
    const auto numbers = read_vectors(given.vectors, given.dimensions);
    const std::size_t count = numbers.size() / given.dimensions;
    holdfast::manager heap(holdfast::open_or_create, given.heap);
    auto& graph = *heap.find_or_construct<stored_graph>("graph")(given.dimensions, given.links);
    if (graph.dimensions != given.dimensions) {
        throw std::runtime_error(fmt::format("{}: the index has vectors of {} numbers", given.heap, graph.dimensions));
    }
    fmt::print("{} of {} are there\n", graph.size, count);
    std::fflush(stdout);
    builder adding(graph, given.effort);
    adding.reserve(count);
    while (graph.size < count) {
        adding.add({numbers.data() + std::size_t{graph.size} * given.dimensions, given.dimensions});
        if (graph.size % given.commit_every == 0 || graph.size == count) {
            heap.commit();
            fmt::print("committed {}\n", graph.size);
            std::fflush(stdout);
        }
    }
    if (given.stay) {
        fmt::print("stays\n");
        std::fflush(stdout);
        ::pause();
    }
    return 0;
}

const stored_graph& graph_of(const holdfast::manager& heap, const std::string& path) {
    const auto* const found = heap.find<stored_graph>("graph").first;
    if (found == nullptr) {
        throw std::runtime_error(path + ": has no index");
    }
    return *found;
}

int query(const arguments& given) {
    const auto begin = clock::now();
    const holdfast::manager heap(holdfast::open_read_only, given.heap);
    const stored_graph& graph = graph_of(heap, given.heap);
    const double opened = milliseconds_since(begin);
    const auto numbers = read_vectors(given.vectors, graph.dimensions);
    const std::size_t count = numbers.size() / graph.dimensions;
    searcher search(graph);
    const auto ask = [&](std::size_t number) {
        return search.nearest({numbers.data() + number * graph.dimensions, graph.dimensions}, given.count,
                              given.effort);
    };
    const auto first = clock::now();
    static_cast<void>(ask(0));
    fmt::print("opened {} vectors in {:.2f} ms, the first answer took {:.2f} ms\n", graph.size, opened,
               milliseconds_since(first));
    std::fflush(stdout);
    if (given.wait) {
        static_cast<void>(std::getchar());  // until all processes have the heap open
    }
    std::ofstream output(given.output, std::ios::binary);
    const auto asked = clock::now();
    for (std::size_t number = 0; number < count; ++number) {
        for (const neighbour& each : ask(number)) {
            output.write(reinterpret_cast<const char*>(&each.number), sizeof each.number);
        }
    }
    fmt::print("{:.1f} us a query\n", milliseconds_since(asked) * 1000 / static_cast<double>(count));
    output.close();
    if (!output) {
        throw std::runtime_error(given.output + ": cannot be written");
    }
    return 0;
}

int verify(const arguments& given) {
    const holdfast::manager heap(holdfast::open_read_only, given.heap);
    const stored_graph& graph = graph_of(heap, given.heap);
    const auto [right, sum] = examine(graph);
    fmt::print("{} vectors, checksum {:016x}, {}\n", graph.size, sum, right ? "all links right" : "DAMAGED");
    return right ? 0 : 1;
}

int run(int argc, char** argv) {
    holdfast_programs::command_line program("An index of vectors in a persistent heap");
    program.require_command();
    arguments given;
    const auto building = program.add_command("build", "Add the vectors that are not there yet");
    const auto querying = program.add_command("query", "Find the nearest vectors to each of these");
    const auto verifying = program.add_command("verify", "Check the index, and print its checksum");
    for (const auto& command : {building, querying, verifying}) {
        command.add_option("--heap", given.heap, "The heap's directory").required();
    }
    for (const auto& command : {building, querying}) {
        command.add_option("--vectors", given.vectors, "A file of numbers of 32 bits").required();
        command.add_option("--effort", given.effort, "Candidates that a search keeps").positive().show_default();
    }
    building.add_option("--dimensions", given.dimensions, "Numbers of a vector").positive().show_default();
    building.add_option("--links", given.links, "Of a vector, on each level").range(2U, 1000U).show_default();
    building.add_option("--commit-every", given.commit_every, "Vectors").positive().show_default();
    building.add_flag("--stay", given.stay, "Keep the heap open until a signal comes");
    querying.add_option("--count", given.count, "Neighbours of each").positive().show_default();
    querying.add_option("--output", given.output, "The file for their numbers, of 32 bits").required();
    querying.add_flag("--wait", given.wait, "Wait for a byte on standard input once the heap is open");
    if (const auto status = program.parse(argc, argv)) {
        return *status;
    }
    return building.parsed() ? build(given) : querying.parsed() ? query(given) : verify(given);
}

}  // namespace
}  // namespace vector_index

int main(int argc, char** argv) {
    try {
        return vector_index::run(argc, argv);
    } catch (const std::exception& failure) {
        std::fflush(stdout);
        fmt::print(stderr, "vector_index: {}\n", failure.what());
        return 2;
    }
}
