// What the victims of the kill test of durability `collect` do to a heap, and the journal of it that outlives them:
// memory shared with the parent, outside of the heap.
//
// Each thread has a list, a tree and a ring (a cycle with edges across it); all share a stack without locks. An
// operation is written to the journal, done, and then counted as completed. Each becomes visible by one store.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include <holdfast/manager.hpp>

namespace holdfast::test::structures {

inline constexpr unsigned thread_count = 4;
inline constexpr std::uint64_t journal_size = 8192;
inline constexpr std::uint64_t key_limit = 64;

enum class operation : std::uint32_t {
    push,        ///< a node in front of the list
    pop,         ///< the first node of the list goes, and is freed
    drop,        ///< the list goes, and is not freed
    insert,      ///< a key into the tree
    clear,       ///< the tree goes, and is freed
    lose,        ///< the tree goes, and is not freed
    link,        ///< a node into the ring
    forget,      ///< the ring goes, and is not freed
    stack_push,  ///< a node onto the stack of all
    stack_take,  ///< all of that stack goes; `taken` says, one by one, what it was
    taken,
};

struct entry {
    operation what = operation::push;
    std::uint64_t value = 0;
};

/// Of one thread, in shared memory.
struct journal {
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> completed{0};
    std::array<entry, journal_size> entries{};
};

struct journals {
    std::atomic<bool> open{false};  ///< the victim has the heap
    std::array<journal, thread_count> of{};
    char problem[1024] = {};  ///< what went wrong in the victim; empty where nothing did

    /// For another victim.
    void clear() noexcept {
        open = false;
        for (journal& one : of) {
            one.started = 0;
            one.completed = 0;
        }
        problem[0] = '\0';
    }
    [[nodiscard]] std::uint64_t completed() const noexcept {
        std::uint64_t sum = 0;
        for (const journal& one : of) {
            sum += one.completed.load(std::memory_order_acquire);
        }
        return sum;
    }
};

struct node {
    ptr<node> next;
    ptr<node> other;
    std::uint64_t value = 0;
};

// Roots of the heap.
inline std::size_t list_root(unsigned thread) { return thread; }
inline std::size_t tree_root(unsigned thread) { return 100 + thread; }
inline std::size_t ring_root(unsigned thread) { return 200 + thread; }
inline constexpr std::size_t stack_root = 300;

/// Opens the heap, recovers it, and works with all threads (`idle`: with none) until the process is killed. Its values
/// are new ones in each cycle of less than 2^24.
struct victim {
    std::uint64_t seed = 0;
    std::uint64_t cycle = 0;
    bool idle = false;
};
/// Returns an exit status where it is not killed.
int run_victim(const std::string& path, const open_options& options, journals& shared, const victim& how);

}  // namespace holdfast::test::structures
