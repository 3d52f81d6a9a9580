#include "store/page_checksum.hpp"

#include "base/checksum.hpp"

namespace holdfast::store_engine {

std::uint32_t page_checksum(const page_header& page, std::uint64_t number) noexcept {
    constexpr std::size_t begin = offsetof(page_header, generation);
    constexpr std::size_t block = offsetof(page_header, block);
    const auto* bytes = reinterpret_cast<const std::byte*>(&page);
    const std::uint64_t seed = number * 0x9E3779B97F4A7C15U ^ page.birth;
    const block_header& head = page.block;
    std::size_t first_end = page_size;
    std::size_t second_begin = page_size;
    switch (head.kind) {
        case page_kind::run: first_end = page.run_pages * page_size; break;
        case page_kind::packed:
            first_end = block + sizeof(block_header) + std::size_t{head.count} * head.item_size;
            break;
        default:
            first_end = block + sizeof(block_header) + std::size_t{head.count} * sizeof(std::uint16_t);
            second_begin = block + head.upper;
    }
    // A damaged header is not believed: the checksum is wrong in any case.
    if (head.kind != page_kind::run && (first_end > page_size || second_begin > page_size)) {
        first_end = page_size;
        second_begin = page_size;
    }
    std::uint64_t sum = base::checksum64({bytes + begin, first_end - begin}, seed);
    if (second_begin < page_size) {
        sum = base::checksum64({bytes + second_begin, page_size - second_begin}, sum);
    }
    return static_cast<std::uint32_t>(sum);
}

std::uint64_t meta_checksum(const meta_on_media& meta) noexcept {
    return base::checksum64({reinterpret_cast<const std::byte*>(&meta), offsetof(meta_on_media, checksum)});
}

std::uint64_t bytes_checksum(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
    return base::checksum64(bytes, seed);
}

}  // namespace holdfast::store_engine
