#include "segment/commit/warm_pages.hpp"

#include <new>

namespace holdfast::segment {

bool warm_pages::add(std::byte* page) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(page);
    std::byte* const begin = page - address % block_size;
    auto found = std::ranges::find(blocks_, begin, &block::begin);
    if (found == blocks_.end()) {
        try {
            found = blocks_.insert(blocks_.begin(), {begin, 0});
        } catch (const std::bad_alloc&) {
            return false;
        }
    } else {
        std::rotate(blocks_.begin(), found, found + 1);
        found = blocks_.begin();
    }
    const std::uint64_t bit = std::uint64_t{1} << address % block_size / base::page_size;
    pages_ += (found->pages & bit) == 0 ? 1U : 0U;
    found->pages |= bit;
    return true;
}

bool warm_pages::has(const std::byte* page) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(page);
    const auto found = std::ranges::find(blocks_, page - address % block_size, &block::begin);
    return found != blocks_.end() && (found->pages >> address % block_size / base::page_size & 1) != 0;
}

}  // namespace holdfast::segment
