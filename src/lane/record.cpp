#include "lane/record.hpp"

namespace holdfast::lane {

std::uint64_t seed_of(std::uint64_t heap_key, std::uint64_t incarnation, std::uint64_t lane) noexcept {
    const std::uint64_t parts[3] = {heap_key, incarnation, lane};
    return XXH3_64bits(parts, sizeof parts);
}

}  // namespace holdfast::lane
