#include "store/persistent_memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "store/data_file.hpp"

namespace holdfast::store_engine {
namespace {

bool can_ask_for_stores() noexcept {
    static const bool can = [] {
        void* const at = ::mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) {
            return false;
        }
        const bool answered = ::madvise(at, page_size, populate_for_stores) == 0;
        ::munmap(at, page_size);
        return answered;
    }();
    return can;
}

}  // namespace

persist::domain_kind find_medium(persist::file& of, bool emulated) noexcept {
    if (!can_ask_for_stores()) {
        return persist::domain_kind::disk;
    }
    if (emulated) {
        return persist::domain_kind::emulated;
    }
    try {
        const auto found = persist::detect_domain(of.native_handle(), of.path());
        const bool is_memory =
            found && (found.value() == persist::domain_kind::dax || found.value() == persist::domain_kind::eadr);
        return is_memory ? found.value() : persist::domain_kind::disk;
    } catch (const std::exception&) {  // no memory for a failure's text, or a directory that cannot be read
        return persist::domain_kind::disk;
    }
}

int persistent_memory::mapping_flags() const noexcept {
    return is_there() && medium_ != persist::domain_kind::emulated ? persist::synchronous_mapping_flags() : MAP_SHARED;
}

void persistent_memory::write(std::uint64_t offset, const void* bytes, std::size_t size,
                              persist::site where) const noexcept {
    std::memcpy(address_.load(std::memory_order_relaxed) + offset, bytes, size);
    write_back(offset, size, where);
}

}  // namespace holdfast::store_engine
