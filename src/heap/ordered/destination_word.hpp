#pragma once

#include <atomic>
#include <cstdint>

#include "segment/format/pointer_format.hpp"

namespace holdfast::heap {

[[nodiscard]] inline std::uint64_t load_word(const std::uint64_t& destination) noexcept {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(destination)).load(std::memory_order_acquire);
}

/// `word`: not null, loaded from the destination.
[[nodiscard]] inline void* target_of(const std::uint64_t& destination, std::uint64_t word) noexcept {
    return reinterpret_cast<void*>(segment::decode_pointer(reinterpret_cast<std::uintptr_t>(&destination), word));
}

}  // namespace holdfast::heap
