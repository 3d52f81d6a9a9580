#include <holdfast/persistent_malloc.hpp>

#include "api/manager_access.hpp"
#include "api/manager_core.hpp"
#include "base/checksum.hpp"

namespace holdfast::detail {

namespace {

/// Below the addresses that the kernel and the loader choose on x86-64 and arm64, above those of a program linked to
/// fixed addresses.
constexpr std::uintptr_t first_base = 0x3000'0000'0000;
constexpr std::uintptr_t distance = std::uintptr_t{2} << 40U;
constexpr unsigned places = 16;

manager create_somewhere(const std::string& path, open_options options) {
    options.same_address = true;
    if (options.base_address != nullptr) {
        return {create_only, path, options};
    }
    // By the path, so that different heaps can usually be open at once.
    const std::uint64_t start = base::checksum64(std::as_bytes(std::span(path)));
    for (unsigned i = 0; segment::may_map_anywhere && i < places; ++i) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        options.base_address = reinterpret_cast<void*>(first_base + (start + i) % places * distance);
        try {
            return {create_only, path, options};
        } catch (const error& refused) {
            if (refused.reason() != errc::address_taken) {
                throw;
            }
        }
    }
    options.base_address = nullptr;
    return {create_only, path, options};
}

}  // namespace

void require_same_address(const manager& heap) {
    const heap::engine& engine = manager_access::core(heap).engine();
    if ((engine.files().superblock().flags & segment::flag_same_address) == 0) {
        throw_failure(base::failure{base::failure_code::invalid_argument, engine.files().paths().directory(),
                                    "same address", "a heap that may be mapped elsewhere",
                                    "one that was created with same_address",
                                    "raw pointers in it would be wrong; use holdfast::allocator and ptr", 0});
    }
}

manager open_at_one_address(const std::string& path, const open_options& options) {
    try {
        manager opened(open_only, path, options);
        require_same_address(opened);
        return opened;
    } catch (const error& refused) {
        if (refused.reason() != errc::not_found) {
            throw;
        }
    }
    return create_somewhere(path, options);
}

}  // namespace holdfast::detail
