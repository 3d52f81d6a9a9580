#include "lane/record.hpp"

#include "persist/mutant.hpp"

namespace holdfast::lane {

std::uint64_t seed_of(std::uint64_t heap_key, std::uint64_t incarnation, std::uint64_t lane) noexcept {
    const std::uint64_t parts[3] = {heap_key, HF_MUTANT("lane.seed.incarnation") ? 0 : incarnation, lane};
    return XXH3_64bits(parts, sizeof parts);
}

checkpoint_time_on_media sealed_time(std::uint64_t time, std::uint64_t heap_key) noexcept {
    return {time, XXH3_64bits_withSeed(&time, sizeof time, heap_key)};
}

bool is_sealed(const checkpoint_time_on_media& time, std::uint64_t heap_key) noexcept {
    return time.seal == sealed_time(time.time, heap_key).seal;
}

}  // namespace holdfast::lane
