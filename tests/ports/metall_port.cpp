// A program in the manner of those for Metall: a graph as an adjacency list in a data store, built in one session and
// continued in the next, with snapshots, a fallback allocator and a walk over the named objects. The port is these two
// includes and the namespace.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace metall = holdfast;

namespace {

using vertex = std::uint64_t;
using edge_list = metall::container::vector<vertex, metall::manager::allocator_type<vertex>>;
using adjacency_list =
    metall::container::unordered_map<vertex, edge_list, std::hash<vertex>, std::equal_to<vertex>,
                                     metall::manager::scoped_allocator_type<std::pair<const vertex, edge_list>>>;

// One type for both: in the store with its allocator, elsewhere with none.
using scratch = metall::container::vector<int, metall::manager::fallback_allocator<int>>;

void require(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "metall_port: failed: %s\n", what);
        std::exit(1);
    }
}

void create(const std::string& path) {
    metall::manager manager(metall::create_only, path);
    auto* graph = manager.construct<adjacency_list>("graph")(manager.get_allocator<>());
    for (vertex source = 0; source < 1000; ++source) {
        for (vertex target = source + 1; target < source + 5; ++target) {
            (*graph)[source].push_back(target);
        }
    }
    auto* numbers = manager.construct<scratch>("numbers")(manager.get_allocator<int>());
    numbers->push_back(1);
    manager.construct<int>(metall::anonymous_instance)(5);
    manager.set_instance_description(graph, "edges by source");
}

void grow(const std::string& path, const std::string& snapshot) {
    metall::manager manager(metall::open_only, path);
    auto* graph = manager.find<adjacency_list>("graph").first;
    require(graph != nullptr && graph->size() == 1000, "the graph of the first session");
    manager.snapshot(snapshot);
    for (vertex source = 1000; source < 2000; ++source) {
        (*graph)[source].push_back(0);
    }
    scratch outside;
    outside.push_back(2);
    *manager.find<scratch>("numbers").first = outside;
    require(manager.find_or_construct<int>("runs")(1) != nullptr, "find_or_construct");
    manager.flush();
}

void examine(const std::string& path, const std::string& snapshot) {
    {
        metall::manager manager(metall::open_read_only, path);
        const adjacency_list& graph = *manager.find<adjacency_list>("graph").first;
        require(graph.size() == 2000 && graph.at(7).size() == 4 && graph.at(7)[3] == 11, "the whole graph");
        require(manager.find<scratch>("numbers").first->front() == 2, "assigned from outside");
        std::string names;
        for (auto it = manager.named_begin(); it != manager.named_end(); ++it) {
            names += it->name() + (it->is_type<adjacency_list>() ? "! " : " ");
        }
        require(names == "graph! numbers runs ", "names");
        require(manager.get_num_anonymous_objects() == 1, "anonymous objects");
        require(manager.get_instance_description(&graph) == "edges by source", "description");
    }
    metall::manager before(metall::open_only, snapshot);
    require(before.find<adjacency_list>("graph").first->size() == 1000, "the snapshot");
    require(before.destroy<adjacency_list>("graph"), "destroy");
    require(before.destroy<scratch>("numbers"), "destroy numbers");
}

}  // namespace

int main(int count, char** arguments) {
    const std::string path = count > 1 ? arguments[1] : "metall_port.data";
    const std::string snapshot = path + ".snapshot";
    const std::string copy = path + ".copy";
    for (const std::string& old : {path, snapshot, copy}) {
        metall::manager::remove(old);
    }
    create(path);
    grow(path, snapshot);
    examine(path, snapshot);
    require(metall::manager::consistent(path), "consistent");
    metall::manager::copy(path, copy);
    require(metall::manager::consistent(copy), "the copy is consistent");
    require(metall::manager::get_uuid(copy) != metall::manager::get_uuid(path), "the copy's uuid");
    for (const std::string& old : {path, snapshot, copy}) {
        require(metall::manager::remove(old), "remove");
    }
    std::puts("metall_port: everything was found again");
    return 0;
}
