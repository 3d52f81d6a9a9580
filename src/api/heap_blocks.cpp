#include <cstring>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"

namespace holdfast {

using base::failure;
using base::failure_code;

void* detail::allocate_slow(heap_blocks& heap, std::size_t bytes) {
    return heap.allocate_aligned(bytes, bytes >= 16 ? 16 : 8);
}

ptr<void>& heap_blocks::root(size_type index) {
    detail::refuse_read_only(core().engine(), "root, to be written");
    return const_cast<ptr<void>&>(std::as_const(*this).root(index));
}

const ptr<void>& heap_blocks::root(size_type index) const {
    if (index >= root_count) {
        throw_failure(failure{
            failure_code::invalid_argument, handle().path(), "root", fmt::format("{}", index), "less than 512", {}, 0});
    }
    return reinterpret_cast<ptr<void>*>(core().engine().files().view().base())[index];
}

void* heap_blocks::allocate(size_type bytes) {
    if (void* const block = handle().fast_path()->allocate(bytes)) [[likely]] {
        return block;
    }
    return detail::allocate_slow(*this, bytes);
}

void* heap_blocks::allocate(size_type bytes, const std::nothrow_t&) noexcept {
    const detail::manager_core* const heap = handle().open_core();
    return heap != nullptr && !heap->engine().read_only() && bytes != 0
               ? heap->engine().allocate(bytes, bytes >= 16 ? 16 : 8)
               : nullptr;
}

void* heap_blocks::allocate_aligned(size_type bytes, size_type alignment) {
    return core().allocate(bytes, alignment, 0);
}

void* heap_blocks::allocate(size_type bytes, const allocation_traits& traits) {
    const std::size_t least = bytes >= 16 ? 16 : 8;
    void* const block = core().allocate(bytes, traits.alignment == 0 ? least : traits.alignment, traits.type);
    if (traits.zeroed) {
        heap::engine& engine = core().engine();
        const slab::change_call call(engine.changes());
        heap::zero(engine, block, value_or_throw(engine.blocks().inspect().usable_size(block)), heap::zeros::stored);
    }
    return block;
}

void heap_blocks::pin(const void* begin, size_type bytes) {
    heap::engine& engine = core().engine();
    core().plain().refuse_inside("pin");
    const std::lock_guard guard(engine.object_mutex());
    value_or_throw(engine.pins().pin(begin, bytes));
}

void heap_blocks::unpin(const void* begin, size_type bytes) {
    heap::engine& engine = core().engine();
    core().plain().refuse_inside("unpin");
    const std::lock_guard guard(engine.object_mutex());
    value_or_throw(engine.pins().unpin(begin, bytes));
}

void heap_blocks::deallocate(void* address) {
    if (!handle().fast_path()->free(address)) [[unlikely]] {
        deallocate_slow(address);
    }
}

void heap_blocks::deallocate_slow(void* address) {
    if (address == nullptr) {
        return;
    }
    core().deallocate(address);
}

heap_blocks::size_type heap_blocks::usable_size(const void* address) const {
    return value_or_throw(core().engine().blocks().inspect().usable_size(address));
}

std::uint32_t heap_blocks::type_of(const void* address) const {
    return value_or_throw(core().engine().blocks().inspect().type_of(address));
}

bool heap_blocks::separates_cache_lines() const { return core().engine().separates_cache_lines(); }

bool heap_blocks::all_memory_deallocated() const { return core().engine().blocks().inspect().all_free(); }
const segment_manager* heap_blocks::get_segment_manager() const noexcept {
    const detail::manager_core* const heap = handle().core_or_null();
    return heap != nullptr ? heap->handle() : nullptr;
}

bool heap_blocks::belongs_to_segment(const void* address) const noexcept {
    const detail::manager_core* const heap = handle().open_core();
    if (heap == nullptr) {
        return false;
    }
    const segment::heap_files& files = heap->engine().files();
    return files.view().offset(address).value < base::to_bytes(files.frontier());
}

heap_blocks::handle_t heap_blocks::get_handle_from_address(const void* address) const {
    return core().offset_of(address);
}

void* heap_blocks::get_address_from_handle(handle_t handle) const {
    const segment::heap_files& files = core().engine().files();
    if (handle >= base::to_bytes(files.frontier())) {
        throw_failure(failure{failure_code::bad_address,
                              core().path(),
                              "handle",
                              fmt::format("{:#x}", handle),
                              fmt::format("less than {:#x}", base::to_bytes(files.frontier())),
                              {},
                              0});
    }
    return files.view().address({handle});
}

void* heap_blocks::get_address() const noexcept {
    const detail::manager_core* const heap = handle().open_core();
    return heap != nullptr ? heap->engine().files().view().base() : nullptr;
}
heap_blocks::size_type heap_blocks::get_size() const { return core().handle()->get_size(); }
heap_blocks::size_type heap_blocks::get_free_memory() const { return core().handle()->get_free_memory(); }
bool heap_blocks::follow_this_thread() {
    heap::engine& engine = core().engine();
    return !engine.read_only() && engine.blocks().small().follow_this_thread();
}

}  // namespace holdfast
