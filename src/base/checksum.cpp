#include "base/checksum.hpp"

#include <new>

#include <xxhash.h>

namespace holdfast::base {

std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint32_t page_checksum(std::span<const std::byte> page) noexcept {
    const auto low = static_cast<std::uint32_t>(checksum64(page));
    return low == 0 ? 1U : low;
}

running_checksum::running_checksum(std::uint64_t seed) : state_(XXH3_createState()) {
    if (state_ == nullptr) {
        throw std::bad_alloc();
    }
    XXH3_64bits_reset_withSeed(static_cast<XXH3_state_t*>(state_), seed);
}

running_checksum::~running_checksum() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void running_checksum::add(std::span<const std::byte> bytes) noexcept {
    XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

std::uint64_t running_checksum::value() const noexcept {
    return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

}  // namespace holdfast::base
