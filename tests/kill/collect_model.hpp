// What the heap must hold after a kill: the parent's own model, brought up to date from the journals of the dead.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kill/collect_world.hpp"

namespace holdfast::test::structures {

/// The structures of one thread.
struct thread_model {
    std::vector<std::uint64_t> list;  ///< the first node last
    std::set<std::uint64_t> keys;
    std::vector<std::uint64_t> ring;  ///< in the order in which they follow the first one

    void apply(const entry& done);
    bool operator==(const thread_model&) const = default;
};

class model {
public:
    /// Compares the heap with what the journals say; the model is the heap's state from then on. "" or what differs.
    /// An operation that was not completed may be there or not.
    [[nodiscard]] std::string examine(manager& heap, const journals& shared);
    /// Nodes that the heap must hold, after examine().
    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }

private:
    [[nodiscard]] std::string examine_thread(manager& heap, const journal& written, unsigned thread);
    [[nodiscard]] std::string examine_stack(manager& heap, const journals& shared);

    std::vector<thread_model> threads_{thread_count};
    std::set<std::uint64_t> stack_;
    std::uint64_t nodes_ = 0;
};

}  // namespace holdfast::test::structures
