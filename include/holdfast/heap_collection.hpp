// manager: collection, the types that it knows, and frees that a program keeps back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/collect.hpp>
#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/trace.hpp>

namespace holdfast {

class heap_collection : public detail::part_of_manager<heap_collection> {
public:
    /// Frees every allocated block that the roots and the objects of the directory do not reach (leaks), in any
    /// durability; in `commit` with the next commit(). All other threads stand still. A reserved block is neither a
    /// root nor freed. Throws error. docs/tracing.md says what counts as a pointer.
    collect_report collect(const collect_options& options = {});
    /// What the recovery of this open reached and freed; nothing where the heap had not crashed in durability
    /// `collect`. blocks_freed is a lower bound: the crash may have lost which small blocks were allocated.
    [[nodiscard]] std::optional<collect_report> last_recovery_trace() const;
    /// For precise collection; replaces the type's layout. As durable as an object. Throws error(invalid_argument),
    /// error(read_only).
    void register_type(const type_layout& layout);
    template <class T>
    void register_type(std::uint32_t type, std::string name = {}) {
        register_type(layout_of<T>(type, std::move(name)));
    }
    [[nodiscard]] std::vector<type_layout> registered_types() const;
    /// In this process `visitor`, unless empty, finds the pointers of the type, instead of its layout. Throws
    /// error(invalid_argument) for a bad type number.
    void register_visitor(std::uint32_t type, block_visitor visitor);
    /// Lets `filter` decide on every free from now on (deallocate, free_from, destroy, allocators); an empty one ends
    /// that. No other thread uses the heap meanwhile. Blocks that it keeps at the close stay allocated until collect()
    /// frees them. Throws error(unsupported) in durability `atomic`, where frees are durable at once.
    void set_free_filter(free_filter filter);
    /// deallocate() without the filter.
    void free_now(void* block);

private:
    friend class manager;
    heap_collection() noexcept = default;
};

}  // namespace holdfast
