#include "base/checksum.hpp"

#include <new>

#include <xxhash.h>

namespace holdfast::base {

#if defined(__x86_64__)

std::uint64_t checksum64_by_avx2(const void* bytes, std::size_t size, std::uint64_t seed) noexcept;

namespace {

/// False until it is initialised, which changes no checksum.
const bool has_avx2 = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
}();
constexpr std::size_t worth_a_call = 512;  // bytes; wider instructions gain nothing below

}  // namespace

std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return has_avx2 && bytes.size() >= worth_a_call ? checksum64_by_avx2(bytes.data(), bytes.size(), seed)
                                                    : XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

#else

std::uint64_t checksum64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

#endif

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
