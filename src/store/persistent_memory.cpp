#include "store/persistent_memory.hpp"

#include <sys/mman.h>

#include <cstring>

namespace holdfast::store_engine {

void persistent_memory::find(persist::file& of, bool emulated) noexcept {
    forget();
    if (emulated) {
        kind_ = persist::domain_kind::emulated;
        file_ = &of;
        return;
    }
    const auto found = persist::detect_domain(of.native_handle(), of.path());
    if (found && (found.value() == persist::domain_kind::dax || found.value() == persist::domain_kind::eadr)) {
        kind_ = found.value();
        file_ = &of;
    }
}

int persistent_memory::mapping_flags() const noexcept {
    return is_there() && kind_ != persist::domain_kind::emulated ? persist::synchronous_mapping_flags() : MAP_SHARED;
}

void persistent_memory::write(std::uint64_t offset, const void* bytes, std::size_t size,
                              persist::site where) const noexcept {
    std::memcpy(address_.load(std::memory_order_relaxed) + offset, bytes, size);
    write_back(offset, size, where);
}

}  // namespace holdfast::store_engine
