#include "simulator/transact/container_world.hpp"

#include <algorithm>
#include <stdexcept>

namespace holdfast::simulator {

namespace {

using kind = container_step::kind;
using std_vector = std::vector<std::uint64_t, allocator<std::uint64_t>>;
using table_of_vectors = map<string, vector<int>>;
using table_of_strings = unordered_map<int, string>;

constexpr unsigned keys = 12;

std::string text_of(const container_step& step) {
    std::string text(step.length, static_cast<char>('a' + step.value % 26));
    return text;
}
std::string key_of(const container_step& step) {
    return "a key that is not short " + std::to_string(step.where % keys);
}
std::string name_of(const std::string& key) { return "named." + key; }
bool removes(const container_step& step) { return step.how % 3 == 0; }

/// One code for the containers of Holdfast, of Boost and of the standard library.
template <class Numbers>
void change_numbers(Numbers& in, const container_step& step) {
    const auto value = static_cast<typename Numbers::value_type>(step.value);
    switch (step.how % 5) {
        case 0: in.insert(in.end(), step.length, value); break;
        case 1:
            in.clear();
            in.shrink_to_fit();
            break;
        case 2:
            if (!in.empty()) {
                in[step.where % in.size()] = value;
            }
            break;
        case 3:
            if (!in.empty()) {
                in.erase(in.begin() + static_cast<std::ptrdiff_t>(step.where % in.size()));
            }
            break;
        default: in.push_back(value); break;
    }
}

template <class Sorted>
void change_sorted(Sorted& in, const container_step& step) {
    const int value = static_cast<int>(step.where % 50);
    if (removes(step)) {
        in.erase(value);
    } else {
        in.insert(value);
    }
}

template <class Text>
void change_text(Text& in, const container_step& step) {
    const std::string value = text_of(step);
    if (step.how % 2 == 0 || in.size() > 40'000) {
        in.assign(value.data(), value.size());
        in.shrink_to_fit();
    } else {
        in.append(value.data(), value.size());
    }
}

}  // namespace

container_program random_program(std::mt19937_64& random) {
    const auto draw = [&random](unsigned below) { return static_cast<unsigned>(random() % below); };
    container_program made;
    made.steps.resize(1 + draw(6));
    for (container_step& step : made.steps) {
        step.what = static_cast<kind>(draw(static_cast<unsigned>(kind::last)));
        step.how = draw(60);
        step.where = draw(1000);
        const unsigned size = draw(40);
        step.length = size == 0 ? 3000 + draw(15'000) : size < 6 ? draw(2000) : draw(60);
        step.value = static_cast<int>(draw(1000));
    }
    if (made.steps.size() > 2 && draw(2) == 0) {
        const std::size_t begin = draw(static_cast<unsigned>(made.steps.size()) - 1);
        made.part = {begin, begin + 1 + draw(static_cast<unsigned>(made.steps.size() - begin))};
        made.drops_part = draw(2) == 0;
    }
    return made;
}

void carry_out(const container_step& step, container_model& in) {
    switch (step.what) {
        case kind::numbers: change_numbers(in.numbers, step); break;
        case kind::numbers_of_std: change_numbers(in.numbers_of_std, step); break;
        case kind::table:
            if (removes(step)) {
                in.table.erase(key_of(step));
            } else {
                in.table[key_of(step)].push_back(step.value);
            }
            break;
        case kind::hashed:
            if (removes(step)) {
                in.hashed.erase(static_cast<int>(step.where));
            } else {
                in.hashed[static_cast<int>(step.where)] = text_of(step);
            }
            break;
        case kind::queue:
            if (removes(step) && !in.queue.empty()) {
                in.queue.pop_front();
            } else {
                in.queue.push_back(text_of(step));
            }
            break;
        case kind::chain:
            if (removes(step) && !in.chain.empty()) {
                in.chain.pop_front();
            } else {
                in.chain.push_back(text_of(step));
            }
            break;
        case kind::sorted: change_sorted(in.sorted, step); break;
        case kind::text: change_text(in.text, step); break;
        case kind::named:
            if (in.named.erase(key_of(step)) == 0) {
                in.named[key_of(step)] = text_of(step);
            }
            break;
        case kind::last: break;
    }
}

void carry_out(const container_program& program, container_model& in) {
    for (std::size_t i = 0; i < program.steps.size(); ++i) {
        const bool is_in_part = program.part.first <= i && i < program.part.second;
        if (!is_in_part || !program.drops_part) {
            carry_out(program.steps[i], in);
        }
    }
}

template <class T>
T& container_world::find(const char* name) const {
    const auto found = heap_.find<T>(name);
    if (found.first == nullptr) {
        throw std::runtime_error(std::string(name) + " is gone");
    }
    return *found.first;
}

string container_world::make(const std::string& from) const {
    return {from.data(), from.size(), heap_.get_allocator<char>()};
}

void container_world::create() const {
    static_cast<void>(heap_.construct<vector<int>>("numbers")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<std_vector>("numbers of std")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<table_of_vectors>("table")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<table_of_strings>("hashed")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<deque<string>>("queue")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<list<string>>("chain")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<set<int>>("sorted")(heap_.get_allocator<>()));
    static_cast<void>(heap_.construct<string>("text")(heap_.get_allocator<>()));
}

void container_world::carry_out(const container_step& step) const {
    switch (step.what) {
        case kind::numbers: change_numbers(find<vector<int>>("numbers"), step); break;
        case kind::numbers_of_std: change_numbers(find<std_vector>("numbers of std"), step); break;
        case kind::table: {
            auto& table = find<table_of_vectors>("table");
            if (removes(step)) {
                table.erase(make(key_of(step)));
            } else {
                table[make(key_of(step))].push_back(step.value);
            }
            break;
        }
        case kind::hashed: {
            auto& hashed = find<table_of_strings>("hashed");
            if (removes(step)) {
                hashed.erase(static_cast<int>(step.where));
            } else {
                hashed[static_cast<int>(step.where)] = make(text_of(step));
            }
            break;
        }
        case kind::queue: {
            auto& queue = find<deque<string>>("queue");
            if (removes(step) && !queue.empty()) {
                queue.pop_front();
            } else {
                queue.push_back(make(text_of(step)));
            }
            break;
        }
        case kind::chain: {
            auto& chain = find<list<string>>("chain");
            if (removes(step) && !chain.empty()) {
                chain.pop_front();
            } else {
                chain.push_back(make(text_of(step)));
            }
            break;
        }
        case kind::sorted: change_sorted(find<set<int>>("sorted"), step); break;
        case kind::text: change_text(find<string>("text"), step); break;
        case kind::named:
            if (!heap_.destroy<string>(name_of(key_of(step)))) {
                static_cast<void>(heap_.construct<string>(name_of(key_of(step)))(make(text_of(step))));
            }
            break;
        case kind::last: break;
    }
}

container_model container_world::content() const {
    container_model found;
    const auto& numbers = find<vector<int>>("numbers");
    found.numbers.assign(numbers.begin(), numbers.end());
    const auto& of_std = find<std_vector>("numbers of std");
    found.numbers_of_std.assign(of_std.begin(), of_std.end());
    for (const auto& [key, values] : find<table_of_vectors>("table")) {
        found.table[std::string(key)].assign(values.begin(), values.end());
    }
    for (const auto& [key, value] : find<table_of_strings>("hashed")) {
        found.hashed[key] = std::string(value);
    }
    for (const string& each : find<deque<string>>("queue")) {
        found.queue.emplace_back(each);
    }
    for (const string& each : find<list<string>>("chain")) {
        found.chain.emplace_back(each);
    }
    const auto& sorted = find<set<int>>("sorted");
    found.sorted.insert(sorted.begin(), sorted.end());
    found.text = std::string(find<string>("text"));
    for (auto each = heap_.named_begin(); each != heap_.named_end(); ++each) {
        if (each->name().starts_with("named.")) {
            found.named[each->name().substr(6)] = std::string(*static_cast<const string*>(each->value()));
        }
    }
    return found;
}

}  // namespace holdfast::simulator
