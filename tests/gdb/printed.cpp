// A program whose heap printers_test.sh looks at in gdb, when it calls stop_here().
#include <string>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace {

[[gnu::noinline]] void stop_here(const holdfast::manager& heap) { asm volatile("" : : "r"(&heap) : "memory"); }

}  // namespace

int main(int, char** argv) {
    holdfast::manager::remove(argv[1]);
    holdfast::manager heap(holdfast::create_only, argv[1]);
    const auto chars = heap.get_allocator<char>();
    auto& numbers = *heap.construct<holdfast::vector<int>>("numbers")();
    auto& nested = *heap.construct<holdfast::vector<holdfast::vector<int>>>("nested")();
    auto& short_text = *heap.construct<holdfast::string>("short")("short", chars);
    auto& long_text = *heap.construct<holdfast::string>("long")("a text that does not fit into the string", chars);
    auto& list = *heap.construct<holdfast::list<int>>("list")(chars);
    auto& chain = *heap.construct<holdfast::forward_list<int>>("chain")(chars);
    auto& deque = *heap.construct<holdfast::deque<int>>("deque")(chars);
    auto& ordered = *heap.construct<holdfast::map<holdfast::string, int>>("ordered")(chars);
    auto& set = *heap.construct<holdfast::set<int>>("set")(chars);
    auto& flat = *heap.construct<holdfast::flat_map<int, int>>("flat")(chars);
    auto& hashed = *heap.construct<holdfast::unordered_map<int, int>>("hashed")();
    for (int i = 0; i < 5; ++i) {
        numbers.push_back(i * i);
        list.push_back(10 + i);
        chain.push_front(20 + i);
        ordered.emplace(holdfast::string(std::to_string(i).c_str(), chars), 30 + i);
        flat[i] = 40 + i;
    }
    for (int i = 0; i < 300; ++i) {
        deque.push_back(i);
        set.insert((i * 7) % 300);
    }
    hashed[50] = 51;
    nested.push_back(numbers);
    nested.emplace_back();
    const holdfast::ptr<int> pointer = &numbers[3];
    const holdfast::ptr<int> nothing;
    stop_here(heap);
    return static_cast<int>(numbers.size() + nested.size() + short_text.size() + long_text.size() + list.size() +
                            chain.size() + ordered.size() + flat.size() + hashed.size() + deque.size() + set.size()) -
           402 + (pointer == nothing ? 1 : 0);
}
