// A graph whose nodes point to each other: persistent pointers instead of numbers.
//
//     graph HEAP add A B [C D]...    connects A with B, C with D, ...
//     graph HEAP path A B            prints a shortest way from A to B
//
// package_graph is the same idea for a real index: 64,000 nodes, with checks, kills and measurements.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace {

/// An element of the table. Elements never move, so a persistent pointer to one stays valid until it is erased.
struct node {
    using allocator_type = holdfast::allocator<std::byte>;
    explicit node(const allocator_type& heap) : name(heap), neighbours(heap) {}

    holdfast::string name;
    holdfast::vector<holdfast::ptr<node>> neighbours;
};
using graph = holdfast::unordered_map<holdfast::string, node>;

node& find_or_add(holdfast::manager& heap, graph& nodes, const char* name) {
    const auto [place, is_new] = nodes.try_emplace(holdfast::string(name, heap.get_allocator<char>()));
    if (is_new) {
        place->second.name = name;
    }
    return place->second;
}

void connect(node& a, node& b) {
    if (std::find(a.neighbours.begin(), a.neighbours.end(), &b) == a.neighbours.end()) {
        a.neighbours.push_back(&b);
        b.neighbours.push_back(&a);
    }
}

const node& find(const graph& nodes, const char* name) {
    const auto place = nodes.find(std::string_view(name));
    if (place == nodes.end()) {
        throw std::runtime_error(std::string("there is no node ") + name);
    }
    return place->second;
}

/// Breadth first. What a search remembers is no part of the graph: it lies in ordinary containers.
std::vector<const node*> shortest_path(const node& from, const node& to) {
    std::unordered_map<const node*, const node*> came_from{{&to, nullptr}};
    std::deque<const node*> next{&to};
    while (!next.empty() && came_from.count(&from) == 0) {
        for (const auto& neighbour : next.front()->neighbours) {
            if (came_from.emplace(neighbour.get(), next.front()).second) {
                next.push_back(neighbour.get());
            }
        }
        next.pop_front();
    }
    std::vector<const node*> path;
    for (const node* step = came_from.count(&from) == 0 ? nullptr : &from; step != nullptr; step = came_from[step]) {
        path.push_back(step);
    }
    return path;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view command = argc > 4 ? argv[2] : "";
    try {
        if (command == "add" && argc % 2 == 1) {
            holdfast::manager heap(holdfast::open_or_create, argv[1]);
            auto* nodes = heap.find_or_construct<graph>("graph")();
            for (int i = 3; i + 1 < argc; i += 2) {
                connect(find_or_add(heap, *nodes, argv[i]), find_or_add(heap, *nodes, argv[i + 1]));
            }
            heap.commit();  // all edges of this run, or none
            return 0;
        }
        if (command == "path") {
            const holdfast::manager heap(holdfast::open_read_only, argv[1]);
            const auto* nodes = heap.find<graph>("graph").first;
            for (const node* step : shortest_path(find(*nodes, argv[3]), find(*nodes, argv[4]))) {
                std::printf("%s\n", step->name.c_str());
            }
            return 0;
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "graph: %s\n", failure.what());
        return 1;
    }
    std::fprintf(stderr, "usage: graph HEAP add A B [C D]... | path A B\n");
    return 2;
}
