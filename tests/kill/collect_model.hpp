// What the heap must hold after a kill: the parent's model, updated from the journals of dead victims.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kill/collect_world.hpp"

namespace holdfast::test::structures {

struct thread_model {
    std::vector<std::uint64_t> list;  ///< the first node last
    std::set<std::uint64_t> keys;
    std::vector<std::uint64_t> ring;  ///< in their order behind the first node

    void apply(const entry& done);
    bool operator==(const thread_model&) const = default;
};

class model {
public:
    /// Compares the heap with the journals. Returns "" or what differs; the model is then the heap's state. An
    /// operation that was not completed may be there or not.
    [[nodiscard]] std::string examine(manager& heap, const journals& shared);
    /// Nodes that the heap must hold after examine().
    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }

private:
    [[nodiscard]] std::string examine_thread(manager& heap, const journal& written, unsigned thread);
    [[nodiscard]] std::string examine_stack(manager& heap, const journals& shared);

    std::vector<thread_model> threads_{thread_count};
    std::set<std::uint64_t> stack_;
    std::uint64_t nodes_ = 0;
};

}  // namespace holdfast::test::structures
