// Compiled with AVX2 (cmake/holdfast_layers.cmake), so it must not use templates or inline functions that other files
// use: the linker keeps one copy for all, perhaps this one.
#if defined(__AVX2__)

#include <cstddef>
#include <cstdint>

#include <xxhash.h>

namespace holdfast::base {

std::uint64_t checksum64_by_avx2(const void* bytes, std::size_t size, std::uint64_t seed) noexcept;

std::uint64_t checksum64_by_avx2(const void* bytes, std::size_t size, std::uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace holdfast::base

#endif
