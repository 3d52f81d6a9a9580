#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include <holdfast/detail/heap_handle.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"

namespace holdfast::detail {

void end_of_core::operator()(manager_core* of) const noexcept {
    if (of->is_open() && !of->engine().files().location().is_mine()) {
        of->leave_to_parent();
        return;
    }
    const std::unique_ptr<manager_core> gone(of);
}

fast_path_copy::fast_path_copy() noexcept : fast_path_copy(slab::fast_path::of_no_heap()) {}

fast_path_copy::fast_path_copy(const slab::fast_path& of) noexcept {
    static_assert(sizeof blocks_ == sizeof of && std::is_trivially_copyable_v<slab::fast_path>);
    std::memcpy(blocks_, &of, sizeof blocks_);
}

fast_path_copy& fast_path_copy::operator=(fast_path_copy&& other) noexcept {
    if (this != &other) {
        std::memcpy(blocks_, other.blocks_, sizeof blocks_);
        std::memcpy(other.blocks_, &slab::fast_path::of_no_heap(), sizeof blocks_);
    }
    return *this;
}

heap_handle::heap_handle(core_owner core) : core_(std::move(core)), fast_path_(core_->fast_path()) {}
heap_handle::heap_handle(heap_handle&& other) noexcept = default;
heap_handle& heap_handle::operator=(heap_handle&& other) noexcept = default;
heap_handle::~heap_handle() = default;

manager_core& heap_handle::core() const {
    if (core_ == nullptr) [[unlikely]] {
        throw_moved_from();
    }
    return *core_;
}

manager_core* heap_handle::open_core() const noexcept {
    return core_ != nullptr && core_->is_open() ? core_.get() : nullptr;
}
std::uint64_t heap_handle::key() const noexcept { return core_ != nullptr ? core_->handle()->key() : 0; }
heap_watch heap_handle::watch() const noexcept { return core_ != nullptr ? core_->life() : heap_watch(); }
void heap_handle::renew_fast_path() noexcept { fast_path_ = core_->fast_path(); }

const std::string& heap_handle::path() const noexcept {
    static const std::string none;
    return core_ != nullptr ? core_->path() : none;
}

heap_watch watch_of(const manager& heap) noexcept { return manager_access::watch(heap); }

}  // namespace holdfast::detail
