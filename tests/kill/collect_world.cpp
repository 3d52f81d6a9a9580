#include "kill/collect_world.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::test::structures {

namespace {

/// One thread's work.
class worker {
public:
    worker(manager& heap, journal& written, unsigned thread, const victim& how)
        : heap_(heap),
          journal_(written),
          thread_(thread),
          random_(how.seed * thread_count + thread),
          next_value_((how.cycle + 1) * journal_size) {}

    void run() {
        while (journal_.started.load(std::memory_order_relaxed) + 1 < journal_size) {
            step();
        }
    }

private:
    void step() {
        switch (random_() % 16) {
            case 0:
            case 1:
            case 2:
            case 3: return push();
            case 4:
            case 5: return pop();
            case 6:
            case 7:
            case 8: return insert();
            case 9: return random_() % 16 == 0 ? clear() : insert();
            case 10:
            case 11:
            case 12: return link();
            case 13:
            case 14: return stack_push();
            default: break;
        }
        switch (random_() % 24) {
            case 0: return leave(list_root(thread_), operation::drop);
            case 1: return leave(tree_root(thread_), operation::lose);
            case 2: return leave(ring_root(thread_), operation::forget);
            case 3: return stack_take();
            default: return garbage();
        }
    }

    void begin(operation what, std::uint64_t value = 0) {
        const std::uint64_t at = journal_.started.load(std::memory_order_relaxed);
        journal_.entries[at] = {what, value};
        journal_.started.store(at + 1, std::memory_order_release);
    }
    void end() {
        journal_.completed.store(journal_.started.load(std::memory_order_relaxed), std::memory_order_release);
    }
    ptr<node>& root(std::size_t index) { return reinterpret_cast<ptr<node>&>(heap_.root(index)); }
    /// The store that makes the operation visible comes after all before it.
    static void publish(ptr<node>& place, node* target) {
        std::atomic_thread_fence(std::memory_order_release);
        place = target;
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    /// Sizes of all kinds: of small blocks, and of whole pages.
    node* make(std::uint64_t value) {
        const std::size_t more = random_() % 64 == 0 ? 20'000 + random_() % 60'000 : random_() % 200;
        void* const block = heap_.allocate(sizeof(node) + more);
        // All of it: a pointer that an earlier owner left in the rest would be one to conservative marking.
        std::memset(block, 0, heap_.usable_size(block));
        auto* const made = new (block) node;  // lint-allow(hand-memory): in the heap
        made->value = value;
        return made;
    }

    void push() {
        begin(operation::push, ++next_value_);
        node* const made = make(next_value_);
        made->next = root(list_root(thread_));
        publish(root(list_root(thread_)), made);
        end();
    }
    void pop() {
        begin(operation::pop);
        if (node* const first = root(list_root(thread_)).get()) {
            publish(root(list_root(thread_)), first->next.get());
            heap_.deallocate(first);
        }
        end();
    }
    void leave(std::size_t index, operation what) {
        begin(what);
        publish(root(index), nullptr);
        end();
    }

    /// A tree without order but that of bits: `next` where the bit of the level is 0, `other` where it is 1.
    void insert() {
        const std::uint64_t key = 1 + random_() % key_limit;
        begin(operation::insert, key);
        ptr<node>* place = &root(tree_root(thread_));
        for (std::uint64_t bits = key; *place != nullptr && (*place)->value != key; bits >>= 1U) {
            place = (bits & 1U) == 0 ? &(*place)->next : &(*place)->other;
        }
        if (*place == nullptr) {
            publish(*place, make(key));
        }
        end();
    }
    void clear() {
        begin(operation::clear);
        std::vector<node*> going{root(tree_root(thread_)).get()};
        publish(root(tree_root(thread_)), nullptr);
        while (!going.empty()) {
            node* const one = going.back();
            going.pop_back();
            if (one != nullptr) {
                going.push_back(one->next.get());
                going.push_back(one->other.get());
                heap_.deallocate(one);
            }
        }
        end();
    }

    /// Behind the node that the root names; the first one points to itself.
    void link() {
        begin(operation::link, ++next_value_);
        node* const made = make(next_value_);
        if (node* const first = root(ring_root(thread_)).get()) {
            made->next = first->next;
            made->other = first;
            publish(first->next, made);
        } else {
            made->next = made;
            made->other = made;
            publish(root(ring_root(thread_)), made);
        }
        end();
    }

    std::atomic_ref<std::uint64_t> head() { return std::atomic_ref(reinterpret_cast<std::uint64_t&>(stack())); }
    ptr<node>& stack() { return root(stack_root); }
    /// What the word of the stack's root is where it points to that node: the word is made elsewhere, and moved by the
    /// distance.
    std::uint64_t word_for(node* target, std::uint64_t old) {
        ptr<node> made;
        made = target;
        std::uint64_t word = 0;
        std::memcpy(&word, static_cast<void*>(&made), sizeof word);
        if (target == nullptr) {
            return old & ~((std::uint64_t{1} << 48U) - 1);
        }
        constexpr std::uint64_t distance = (std::uint64_t{1} << 48U) - 1;
        const auto from = reinterpret_cast<std::uintptr_t>(&made);
        const auto to = reinterpret_cast<std::uintptr_t>(&stack());
        return (old & ~distance) | ((word + from - to) & distance);
    }
    node* target_of(std::uint64_t word) {
        constexpr std::uint64_t distance = (std::uint64_t{1} << 48U) - 1;
        return (word & distance) == 0 ? nullptr
                                      : reinterpret_cast<node*>(reinterpret_cast<std::uintptr_t>(&stack()) +
                                                                (word & distance) - (std::uint64_t{1} << 47U));
    }
    void stack_push() {
        begin(operation::stack_push, (std::uint64_t{thread_} << 40U) + ++next_value_);
        node* const made = make((std::uint64_t{thread_} << 40U) + next_value_);
        std::uint64_t word = head().load(std::memory_order_acquire);
        do {
            made->next = target_of(word);
        } while (!head().compare_exchange_weak(word, word_for(made, word), std::memory_order_acq_rel));
        end();
    }
    void stack_take() {
        begin(operation::stack_take);
        std::uint64_t word = head().load(std::memory_order_acquire);
        while (!head().compare_exchange_weak(word, word_for(nullptr, word), std::memory_order_acq_rel)) {
        }
        for (node* one = target_of(word);
             one != nullptr && journal_.started.load(std::memory_order_relaxed) + 1 < journal_size;) {
            node* const next = one->next.get();
            begin(operation::taken, one->value);
            heap_.deallocate(one);
            one = next;
        }
        end();
    }
    /// Nobody knows of it.
    void garbage() { static_cast<void>(make(1)); }

    manager& heap_;
    journal& journal_;
    unsigned thread_;
    std::mt19937_64 random_;
    std::uint64_t next_value_;
};

}  // namespace

int run_victim(const std::string& path, const open_options& options, journals& shared, const victim& how) {
    const auto tell = [&shared](const std::exception& thrown) {
        std::snprintf(&shared.problem[0], sizeof shared.problem, "%s", thrown.what());
    };
    try {
        manager heap(open_only, path, options);
        shared.open = true;
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < thread_count && !how.idle; ++t) {
            threads.emplace_back([&heap, &shared, &tell, t, how] {
                try {
                    worker(heap, shared.of[t], t, how).run();
                } catch (const std::exception& thrown) {
                    tell(thrown);
                    std::_Exit(3);
                }
                ::pause();  // until the parent kills
            });
        }
        for (;;) {
            ::pause();
        }
    } catch (const std::exception& thrown) {
        tell(thrown);
    }
    return 3;
}

}  // namespace holdfast::test::structures
