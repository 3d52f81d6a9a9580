// A heap that crashed in durability `collect`, before its trace: open_options::before_trace gets it.
//
//     options.before_trace = [&](holdfast::offline_heap& heap) {
//         for (const std::uint64_t handle : handles_that_the_program_kept_elsewhere) {
//             heap.keep(static_cast<std::byte*>(heap.get_address()) + handle);
//         }
//     };
//     holdfast::manager heap(holdfast::open_only, "graph.hf", options);
//
// Source: the offline phase of Makalu.
#pragma once

#include <cstddef>
#include <cstdint>

#include <holdfast/ptr.hpp>
#include <holdfast/trace.hpp>

namespace holdfast {

namespace detail {
struct offline_state;
}

/// Valid during the call. For one thread.
class offline_heap {
public:
    explicit offline_heap(detail::offline_state& state) noexcept : state_(&state) {}
    [[nodiscard]] void* get_address() const noexcept;
    /// Bytes of user space.
    [[nodiscard]] std::size_t get_size() const noexcept;
    /// One of the manager::root_count roots, where the trace begins. A change stays, as durable as the trace. Throws
    /// error(invalid_argument).
    [[nodiscard]] ptr<void>& root(std::size_t index);
    /// The trace also begins at the block that the address lies in. Media keep nothing of that: store a pointer to the
    /// block in the heap before the next crash, or keep it again. Throws error(bad_address) outside the heap.
    void keep(const void* address);
    /// As manager::register_visitor(), for this trace, if it is precise (open_options::precise_recovery).
    void register_visitor(std::uint32_t type, block_visitor visitor);

private:
    detail::offline_state* state_;
};

}  // namespace holdfast
