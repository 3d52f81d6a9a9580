#include "kill/collect_model.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace holdfast::test::structures {

namespace {

constexpr std::uint64_t most_nodes = 1'000'000;  ///< a structure that has more is broken

const node* root_of(const manager& heap, std::size_t index) { return static_cast<const node*>(heap.root(index).get()); }

/// Nothing where there is no end.
std::optional<std::vector<std::uint64_t>> read_list(const node* first) {
    std::vector<std::uint64_t> values;
    for (const node* one = first; one != nullptr; one = one->next.get()) {
        values.push_back(one->value);
        if (values.size() > most_nodes) {
            return std::nullopt;
        }
    }
    return values;
}

std::set<std::uint64_t> read_tree(const node* first) {
    std::set<std::uint64_t> keys;
    std::vector<const node*> waiting{first};
    while (!waiting.empty()) {
        const node* const one = waiting.back();
        waiting.pop_back();
        if (one != nullptr && keys.insert(one->value).second) {
            waiting.push_back(one->next.get());
            waiting.push_back(one->other.get());
        }
    }
    return keys;
}

std::vector<std::uint64_t> read_ring(const node* first) {
    std::vector<std::uint64_t> values;
    for (const node* one = first; one != nullptr && values.size() < most_nodes;) {
        values.push_back(one->value);
        if (one->other.get() != first) {
            values.push_back(0);  // no value of any node
        }
        one = one->next.get();
        if (one == first) {
            break;
        }
    }
    return values;
}

thread_model read_thread(const manager& heap, unsigned thread) {
    thread_model found;
    found.list = read_list(root_of(heap, list_root(thread))).value_or(std::vector<std::uint64_t>{0});
    std::ranges::reverse(found.list);
    found.keys = read_tree(root_of(heap, tree_root(thread)));
    found.ring = read_ring(root_of(heap, ring_root(thread)));
    return found;
}

}  // namespace

void thread_model::apply(const entry& done) {
    switch (done.what) {
        case operation::push: list.push_back(done.value); break;
        case operation::pop:
            if (!list.empty()) {
                list.pop_back();
            }
            break;
        case operation::drop: list.clear(); break;
        case operation::insert: keys.insert(done.value); break;
        case operation::clear:
        case operation::lose: keys.clear(); break;
        case operation::link: ring.insert(ring.empty() ? ring.end() : ring.begin() + 1, done.value); break;
        case operation::forget: ring.clear(); break;
        default: break;  // of the stack
    }
}

std::string model::examine(manager& heap, const journals& shared) {
    nodes_ = 0;
    for (unsigned thread = 0; thread < thread_count; ++thread) {
        if (std::string wrong = examine_thread(heap, shared.of[thread], thread); !wrong.empty()) {
            return wrong;
        }
    }
    return examine_stack(heap, shared);
}

std::string model::examine_thread(manager& heap, const journal& written, unsigned thread) {
    thread_model before = threads_[thread];
    const std::uint64_t completed = written.completed;
    for (std::uint64_t i = 0; i < completed; ++i) {
        before.apply(written.entries[i]);
    }
    thread_model after = before;
    for (std::uint64_t i = completed; i < written.started; ++i) {
        after.apply(written.entries[i]);
    }
    const thread_model found = read_thread(heap, thread);
    if (found != before && found != after) {
        return fmt::format("thread {}: list of {} (expected {} or {}), {} keys ({} or {}), ring of {} ({} or {})",
                           thread, found.list.size(), before.list.size(), after.list.size(), found.keys.size(),
                           before.keys.size(), after.keys.size(), found.ring.size(), before.ring.size(),
                           after.ring.size());
    }
    threads_[thread] = found;
    nodes_ += found.list.size() + found.keys.size() + found.ring.size();
    return {};
}

std::string model::examine_stack(manager& heap, const journals& shared) {
    std::set<std::uint64_t> there = stack_;  // completed, and not known to be taken
    std::set<std::uint64_t> possible;        // perhaps
    bool being_taken = false;
    std::set<std::uint64_t> taken;
    for (const journal& written : shared.of) {
        const std::uint64_t completed = written.completed;
        for (std::uint64_t i = 0; i < written.started; ++i) {
            const entry& one = written.entries[i];
            if (one.what == operation::stack_push) {
                (i < completed ? there : possible).insert(one.value);
            } else if (one.what == operation::taken) {
                taken.insert(one.value);
            } else if (one.what == operation::stack_take && i >= completed) {
                being_taken = true;
            }
        }
        // A thread whose journal is full leaves the rest of what it took.
        being_taken = being_taken || written.started + 2 >= journal_size;
    }
    const auto values = read_list(root_of(heap, stack_root));
    if (!values) {
        return "the stack has no end";
    }
    std::set<std::uint64_t> found;
    std::map<std::uint64_t, std::uint64_t> last_of_thread;
    for (const std::uint64_t value : *values) {
        const bool known = (there.contains(value) || possible.contains(value)) && !taken.contains(value);
        if (!known || !found.insert(value).second) {
            return fmt::format("the stack has {:#x}, which it should not, or twice", value);
        }
    }
    for (const std::uint64_t value : there) {
        if (!found.contains(value) && !taken.contains(value) && !being_taken) {
            return fmt::format("the stack has lost {:#x}", value);
        }
    }
    stack_ = found;
    nodes_ += found.size();
    return {};
}

}  // namespace holdfast::test::structures
