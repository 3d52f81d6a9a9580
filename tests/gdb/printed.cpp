// A program whose heap printers_test.sh looks at in gdb, when it calls stop_here().
#include <string>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/values.hpp>

namespace {

struct pair_of_numbers {
    int first;
    int second;
};

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
    auto& few = *heap.construct<holdfast::small_vector<int, 4>>("few")(chars);
    auto& stable = *heap.construct<holdfast::stable_vector<int>>("stable")(chars);
    auto& twice = *heap.construct<holdfast::multimap<int, int>>("twice")(chars);
    auto& doubled = *heap.construct<holdfast::multiset<int>>("doubled")(chars);
    auto& flat_numbers = *heap.construct<holdfast::flat_set<int>>("flat_numbers")(chars);
    auto& flat_twice = *heap.construct<holdfast::flat_multimap<int, int>>("flat_twice")(chars);
    auto& hashed_numbers = *heap.construct<holdfast::unordered_set<int>>("hashed_numbers")();
    auto& wide = *heap.construct<holdfast::u16string>("wide")(u"wide", chars);
    auto& texts = *heap.construct<holdfast::list<holdfast::vector<int>>>("texts")(chars);
    for (const int each : {1, 2, 2}) {
        few.push_back(each);
        stable.push_back(each);
        twice.emplace(each, -each);
        doubled.insert(each);
        flat_numbers.insert(each);
        flat_twice.emplace(each, -each);
    }
    hashed_numbers.insert(7);
    texts.push_back(numbers);
    const auto& none_of_it = *heap.construct<holdfast::deque<int>>("none_of_it")(chars);
    auto& pair = *heap.construct<pair_of_numbers>("pair")(pair_of_numbers{3, 4});
    const holdfast::ptr<pair_of_numbers> to_pair = &pair;
    const holdfast::ptr<int> pointer = &numbers[3];
    const holdfast::ptr<int> nothing;
    const auto& reference = list;
    holdfast::values::value number;
    number.what = holdfast::values::kind::integer;
    number.number = static_cast<std::uint64_t>(-5);
    stop_here(heap);
    const std::size_t all = numbers.size() + nested.size() + short_text.size() + long_text.size() + list.size() +
                            chain.size() + ordered.size() + flat.size() + hashed.size() + deque.size() + set.size() +
                            few.size() + stable.size() + twice.size() + doubled.size() + flat_numbers.size() +
                            flat_twice.size() + hashed_numbers.size() + wide.size() + texts.size() + none_of_it.size() +
                            reference.size();
    return all + static_cast<std::size_t>(to_pair->first) + number.number == 0 || pointer == nothing ? 1 : 0;
}
