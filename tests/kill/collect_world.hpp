// What the victims of the kill test of durability `collect` do, and their journals, which outlive them in memory shared
// with the parent.
//
// Each thread has a list, a tree and a ring (a cycle with edges across it); all threads share a lock-free stack. An
// operation is written to the journal, carried out, and then counted as completed. One store makes it visible.
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
    pop,         ///< frees the first node of the list
    drop,        ///< drops the list without freeing it
    insert,      ///< a key into the tree
    clear,       ///< frees the tree
    lose,        ///< drops the tree without freeing it
    link,        ///< a node into the ring
    forget,      ///< drops the ring without freeing it
    stack_push,  ///< a node onto the common stack
    stack_take,  ///< takes all of the stack; `taken` entries list it
    taken,
};

struct entry {
    operation what = operation::push;
    std::uint64_t value = 0;
};

/// Of one thread.
struct journal {
    std::atomic<std::uint64_t> started{0};
    std::atomic<std::uint64_t> completed{0};
    std::array<entry, journal_size> entries{};
};

struct journals {
    std::atomic<bool> open{false};  ///< the victim has opened the heap
    std::array<journal, thread_count> of{};
    char problem[1024] = {};  ///< what went wrong in the victim, or empty

    /// For the next victim.
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

inline std::size_t list_root(unsigned thread) { return thread; }
inline std::size_t tree_root(unsigned thread) { return 100 + thread; }
inline std::size_t ring_root(unsigned thread) { return 200 + thread; }
inline constexpr std::size_t stack_root = 300;

/// Opens and recovers the heap and works with all threads (`idle`: with none) until it is killed. Its values are unique
/// for cycles below 2^24.
struct victim {
    std::uint64_t seed = 0;
    std::uint64_t cycle = 0;
    bool idle = false;
};
/// Returns an exit status if it is not killed.
int run_victim(const std::string& path, const open_options& options, journals& shared, const victim& how);

}  // namespace holdfast::test::structures
