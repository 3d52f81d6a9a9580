#include "store/checked_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

namespace holdfast::store_engine {

status checked_pages::begin_anew(std::uint64_t pages) noexcept {
    longest_.reset();
    return extend(pages);
}

status checked_pages::extend(std::uint64_t pages) noexcept {
    constexpr std::uint64_t least = std::uint64_t{1} << 18U;
    std::unique_ptr<bits> longer(new (std::nothrow) bits);
    if (!longer) {
        return status::no_memory;
    }
    longer->pages = std::max(2 * pages, least);
    const std::size_t size = longer->pages / 8 + 8;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return last_error();
    }
    longer->memory = mapping(static_cast<std::byte*>(at), size);
    longer->older = std::move(longest_);
    longest_ = std::move(longer);
    all_.store(longest_.get(), std::memory_order_release);
    words_.store(static_cast<word*>(at), std::memory_order_release);
    return status::ok;
}

void checked_pages::remove(std::uint64_t start, std::uint64_t count) const noexcept {
    for (const bits* one = all_.load(); one != nullptr; one = one->older.get()) {
        auto* const words = reinterpret_cast<word*>(one->memory.start());
        for (std::uint64_t number = start; number < std::min(start + count, one->pages); ++number) {
            words[number / 64].fetch_and(~(std::uint64_t{1} << (number % 64)), std::memory_order_relaxed);
        }
    }
}

}  // namespace holdfast::store_engine
