// The program in the guest, one call for each boot: `dax_guest make HEAP SEED` makes a heap and works until the machine
// dies; `work` recovers the heap, reports it, and goes on with it until the machine dies; `examine` recovers and
// reports it, and empties it. `make_all`, `work_all` and `examine_all` are of everything.hpp. Prints lines "hf WORD
// ..." for dax_test.cpp on the console.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <holdfast/manager.hpp>

#include "dax/everything.hpp"
#include "dax/plan.hpp"
#include "dax/say.hpp"
#include "persist/flush.hpp"

namespace holdfast::dax {

namespace {

struct node {
    std::uint64_t value = 0;
    ptr<node> child;
    explicit node(std::uint64_t number) : value(number) {}
};

open_options options() {
    open_options wanted;
    wanted.durability = durability::atomic;
    wanted.segment_size = std::uint64_t{32} << 20U;
    return wanted;
}

/// Counts the process's mappings of files under the path, and the synchronous ones (MAP_SYNC).
void report_mappings(const std::string& path) {
    std::ifstream maps("/proc/self/smaps");
    std::size_t all = 0;
    std::size_t synchronous = 0;
    bool ours = false;
    for (std::string line; std::getline(maps, line);) {
        const bool is_flags = line.starts_with("VmFlags:");
        if (const auto slash = line.find('/'); !is_flags && slash != std::string::npos) {
            ours = line.compare(slash, path.size(), path) == 0;
        } else if (is_flags && ours) {
            ++all;
            if ((line + ' ').find(" sf ") != std::string::npos) {
                ++synchronous;
            }
            ours = false;
        }
    }
    say("mappings {} synchronous {}", all, synchronous);
}

void report_domain(const manager& heap) {
    say("domain {}", heap.domain());
    say("flush {}", persist::to_string(persist::best_flush_method()));
    report_mappings(heap.path());
}

void carry_out(manager& heap, std::size_t thread, const call& wanted) {
    ptr<void>& root = heap.root(thread * slots_a_thread + wanted.slot);
    ptr<node>& as_node = reinterpret_cast<ptr<node>&>(root);
    switch (wanted.what) {
        case call::action::make_node: heap.make_persistent<node>(as_node, wanted.number); return;
        case call::action::make_child: heap.make_persistent<node>(as_node->child, wanted.number); return;
        case call::action::free_child: heap.free_from(as_node->child); return;
        case call::action::free: heap.free_from(root); return;
        case call::action::reallocate: heap.realloc_to(root, wanted.bytes); return;
        case call::action::allocate:
            // Filled behind the first word, so that the next allocation must clear it.
            auto* const block = static_cast<char*>(heap.allocate_to(root, wanted.bytes, {.zeroed = true}));
            std::memset(block + 8, 0xA5, std::min<std::size_t>(wanted.bytes, 4096) - 8);
            return;
    }
}

slot_state read_slot(const manager& heap, std::size_t index, const slot_state& planned) {
    const void* const block = heap.root(index).get();
    if (block == nullptr) {
        return {};
    }
    const auto* const as_node = static_cast<const node*>(block);
    if (as_node->value != 0) {
        const bool has_child = as_node->child != nullptr;
        return {slot_state::content::node, 0, as_node->value, has_child ? as_node->child->value : 0};
    }
    // The requested size is not stored. A usable size that fits it counts as it; another is reported.
    const std::size_t usable = heap.usable_size(block);
    const bool fits =
        planned.holds == slot_state::content::raw && usable >= planned.bytes && usable <= 2 * planned.bytes + 64;
    return {slot_state::content::raw, fits ? planned.bytes : usable, 0, 0};
}

/// The last call of the thread's plan after which the slots are as they are; 0 if there is none.
std::uint64_t find_last_call(const manager& heap, std::uint64_t seed, std::size_t thread) {
    constexpr std::uint64_t enough = 2'000'000;
    constexpr std::uint64_t further = 10'000;
    plan calls(seed, thread);
    const auto agrees = [&](std::size_t slot) {
        return read_slot(heap, thread * slots_a_thread + slot, calls.at(slot)) == calls.at(slot);
    };
    std::vector<bool> right(slots_a_thread);
    std::size_t wrong = 0;
    for (std::size_t slot = 0; slot < slots_a_thread; ++slot) {
        right[slot] = agrees(slot);
        wrong += std::size_t{!right[slot]};
    }
    std::uint64_t found = 0;
    for (std::uint64_t number = 1; number <= (found == 0 ? enough : found + further); ++number) {
        const std::size_t slot = calls.next().slot;
        wrong -= std::size_t{!right[slot]};
        right[slot] = agrees(slot);
        wrong += std::size_t{!right[slot]};
        found = wrong == 0 ? number : found;
    }
    return found;
}

/// The allocated blocks are exactly the reachable ones, and no block has two owners.
void report_blocks(const manager& heap) {
    std::set<const void*> allocated;
    heap.for_each_block([&allocated](const block_info& block) { allocated.insert(block.address); });
    std::multiset<const void*> reachable;
    for (std::size_t i = 0; i < threads * slots_a_thread; ++i) {
        const void* const block = heap.root(i).get();
        if (block == nullptr) {
            continue;
        }
        reachable.insert(block);
        const auto* const as_node = static_cast<const node*>(block);
        if (as_node->value != 0 && as_node->child != nullptr) {
            reachable.insert(as_node->child.get());
        }
    }
    const bool same = std::equal(allocated.begin(), allocated.end(), reachable.begin(), reachable.end());
    say("blocks {} reachable {} {}", allocated.size(), reachable.size(), same ? "same" : "DIFFERENT");
}

void report_problems(const manager& heap) {
    const std::vector<std::string> problems = heap.check(true);
    for (const std::string& problem : problems) {
        say("problem {}", problem);
    }
    say("problems {}", problems.size());
}

/// Everything can be freed.
void free_all(const std::string& path) {
    manager heap(open_only, path, options());
    for (std::size_t i = 0; i < threads * slots_a_thread; ++i) {
        if (heap.root(i) && static_cast<node*>(heap.root(i).get())->value != 0) {
            heap.free_from(static_cast<node*>(heap.root(i).get())->child);
        }
        heap.free_from(heap.root(i));
    }
    say("all_freed {}", heap.all_memory_deallocated());
    report_problems(heap);
}

/// In durability `commit` pages are private. A commit must find the pages that were written, even if they were read
/// before and may be mapped as one huge page.
void commit_pages(const std::string& path) {
    constexpr std::size_t page = 4096;
    constexpr std::size_t pages = 2048;
    constexpr std::size_t stride = 16;
    {
        manager heap(open_only, path);
        heap.allocate_to(heap.root(0), pages * page, {.alignment = std::size_t{2} << 20U, .zeroed = true});
        heap.commit();
    }
    {
        manager heap(open_only, path);
        auto* const block = static_cast<volatile char*>(heap.root(0).get());
        for (std::size_t i = 0; i < pages; ++i) {
            static_cast<void>(block[i * page]);
        }
        for (std::size_t i = 0; i < pages; i += stride) {
            block[i * page] = 7;
        }
        heap.commit();
        for (std::size_t i = 0; i < pages; ++i) {
            block[i * page] = 8;
        }
        heap.close(false);
    }
    const manager heap(open_only, path);
    const auto* const block = static_cast<const char*>(heap.root(0).get());
    std::size_t right = 0;
    for (std::size_t i = 0; i < pages; ++i) {
        right += std::size_t{block[i * page] == (i % stride == 0 ? 7 : 0)};
    }
    say("committed {} of {} pages", right, pages);
    report_problems(heap);
}

/// The call after which each thread's slots stand; 0: none.
using progress = std::array<std::uint64_t, threads>;

/// After the recovery from the machine's death.
progress report_recovered(const manager& heap, std::uint64_t seed) {
    const recovery_report recovery = heap.last_recovery();
    say("recovered {} lanes {} pending {} replayed {} rolled_back {} microseconds {}", heap.statistics().recovered,
        recovery.lanes, recovery.pending, recovery.replayed, recovery.rolled_back, recovery.time_ns / 1000);
    progress stands{};
    for (std::size_t thread = 0; thread < threads; ++thread) {
        stands.at(thread) = find_last_call(heap, seed, thread);
        say("stands {} {}", thread, stands.at(thread));
    }
    report_blocks(heap);
    report_problems(heap);
    return stands;
}

/// Goes on with each thread's plan behind those calls. Does not return: the machine dies.
int work(manager& heap, std::uint64_t seed, const progress& done) {
    constexpr std::uint64_t calls_a_report = 32;
    std::atomic<std::uint64_t> reports = 0;
    std::vector<std::thread> workers;
    for (std::size_t thread = 0; thread < threads; ++thread) {
        workers.emplace_back([&heap, &reports, thread, seed, first = done.at(thread)] {
            plan calls(seed, thread);
            for (std::uint64_t number = 1; number <= first; ++number) {
                calls.next();
            }
            say("call {} {}", thread, first);
            for (std::uint64_t number = first + 1;; ++number) {
                carry_out(heap, thread, calls.next());
                if (number % calls_a_report == 0) {
                    say("call {} {}", thread, number);
                    ++reports;
                    reports.notify_all();
                }
            }
        });
    }
    // Again after the heap has grown.
    for (std::uint64_t seen = 0; seen < 100; seen = reports.load()) {
        reports.wait(seen);
    }
    report_mappings(heap.path());
    for (std::thread& worker : workers) {
        worker.join();
    }
    return 1;
}

int make_and_work(const std::string& path, std::uint64_t seed) {
    manager heap(create_only, path, options());
    report_domain(heap);
    return work(heap, seed, {});
}

int recover_and_work(const std::string& path, std::uint64_t seed) {
    manager heap(open_only, path, options());
    report_domain(heap);
    return work(heap, seed, report_recovered(heap, seed));
}

int examine(const std::string& path, std::uint64_t seed) {
    {
        const manager heap(open_only, path, options());
        report_domain(heap);
        report_recovered(heap, seed);
    }
    free_all(path);
    commit_pages(path);
    say("examined");
    return 0;
}

}  // namespace

}  // namespace holdfast::dax

int main(int count, char** arguments) {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (words.size() != 3) {
        std::fputs("usage: dax_guest make|work|examine HEAP SEED, make_all|work_all|examine_all DIRECTORY SEED\n",
                   stderr);
        return 2;
    }
    try {
        auto* const step = words[0] == "make"          ? holdfast::dax::make_and_work
                           : words[0] == "work"        ? holdfast::dax::recover_and_work
                           : words[0] == "examine"     ? holdfast::dax::examine
                           : words[0] == "examine_all" ? holdfast::dax::examine_all
                                                       : holdfast::dax::work_on_all;
        return step(words[1], std::stoull(words[2]));
    } catch (const std::exception& thrown) {
        holdfast::dax::say("error {}", thrown.what());
        return 1;
    }
}
