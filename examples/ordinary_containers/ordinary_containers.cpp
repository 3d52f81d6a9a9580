// A std::map and a std::unordered_map with raw pointers: each run finds them as the run before left them.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include <holdfast/persistent_malloc.hpp>

namespace {

template <class Key, class Value>
using persistent_map = std::map<Key, Value, std::less<>, holdfast::raw_allocator<std::pair<const Key, Value>>>;
template <class Key, class Value>
using persistent_table = std::unordered_map<Key, Value, std::hash<Key>, std::equal_to<>,
                                            holdfast::raw_allocator<std::pair<const Key, Value>>>;

}  // namespace

int main(int argc, char** argv) {
    try {
        holdfast::persistent_malloc heap(argc > 1 ? argv[1] : "ordinary_containers.hf");
        using squares_map = persistent_map<int, int>;
        using roots_table = persistent_table<int, int>;
        auto* squares = heap.find_or_construct<squares_map>("squares", heap.get_allocator<squares_map::value_type>());
        auto* roots = heap.find_or_construct<roots_table>("roots", std::size_t{16}, std::hash<int>(), std::equal_to<>(),
                                                          heap.get_allocator<roots_table::value_type>());
        const int next = static_cast<int>(squares->size()) + 1;
        squares->emplace(next, next * next);
        roots->emplace(next * next, next);
        heap.manager().commit();
        std::printf("run %d\n", roots->at(squares->rbegin()->second));
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "ordinary_containers: %s\n", failure.what());
        return 1;
    }
}
