#include <utility>

#include <fmt/format.h>
#include <holdfast/offline_heap.hpp>

#include "api/manager_core.hpp"

namespace holdfast {

namespace detail {

struct offline_state {
    heap::heap_parts& heap;
    std::vector<std::uint64_t>& roots;

    [[nodiscard]] const std::string& path() const { return heap.files().paths().directory(); }
};

namespace {

class forwarding_visitor final : public pointer_visitor {
public:
    explicit forwarding_visitor(heap::pointer_sink& sink) noexcept : sink_(sink) {}
    void visit_pointer(void* word) override { sink_.pointer(word); }
    void visit_address(void* word) override { sink_.raw(word); }

private:
    heap::pointer_sink& sink_;
};

}  // namespace

heap::pointer_visitor inner_visitor(block_visitor visitor) {
    if (!visitor) {
        return {};
    }
    return [visitor = std::move(visitor)](void* block, std::uint64_t bytes, heap::pointer_sink& sink) {
        forwarding_visitor visit(sink);
        visitor(block, bytes, visit);
    };
}

heap::before_trace_call calls_before_trace(const open_options& options) {
    if (!options.before_trace) {
        return {};
    }
    return [called = options.before_trace](heap::heap_parts& of, std::vector<std::uint64_t>& roots) {
        offline_state state{of, roots};
        offline_heap heap(state);
        called(heap);
    };
}

}  // namespace detail

void* offline_heap::get_address() const noexcept { return state_->heap.files().view().base(); }

std::size_t offline_heap::get_size() const noexcept { return base::to_bytes(state_->heap.files().frontier()); }

ptr<void>& offline_heap::root(std::size_t index) {
    if (index >= heap::root_count) {
        throw_failure(base::failure{base::failure_code::invalid_argument,
                                    state_->path(),
                                    "root",
                                    fmt::format("{}", index),
                                    "less than 512",
                                    {},
                                    0});
    }
    return reinterpret_cast<ptr<void>*>(state_->heap.files().view().base())[index];
}

void offline_heap::keep(const void* address) {
    const std::uint64_t offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(get_address());
    if (offset >= get_size()) {
        throw_failure(base::failure{base::failure_code::bad_address,
                                    state_->path(),
                                    "keep",
                                    fmt::format("{}", address),
                                    "an address in the heap",
                                    {},
                                    0});
    }
    state_->roots.push_back(offset);
}

void offline_heap::register_visitor(std::uint32_t type, block_visitor visitor) {
    value_or_throw(state_->heap.types().add_visitor(type, detail::inner_visitor(std::move(visitor))));
}

}  // namespace holdfast
