#include "open_heap.hpp"

#include <random>
#include <stdexcept>

#include <fmt/format.h>

namespace package_graph {
namespace {

constexpr std::uint64_t tebi = std::uint64_t{1} << 40;
constexpr std::uint64_t alignment = std::uint64_t{2} << 20;

/// A random address between 32 and 64 TiB: far below the addresses that Linux chooses, so usually free.
[[nodiscard]] std::uint64_t random_address() {
    std::random_device random;
    std::uniform_int_distribution<std::uint64_t> among((32 * tebi) / alignment, (64 * tebi) / alignment);
    return among(random) * alignment;
}

[[nodiscard]] holdfast::manager open_at(const std::string& path, open_mode mode, std::uint64_t address) {
    holdfast::open_options options;
    options.commit_on_close = false;
    options.base_address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    switch (mode) {
        case open_mode::create_or_write: return {holdfast::open_or_create, path, options};
        case open_mode::write: return {holdfast::open_only, path, options};
        case open_mode::read_only: break;
    }
    return {holdfast::open_read_only, path, options};
}

}  // namespace

base_choice parse_base(const std::string& text, std::uint64_t previous) {
    if (text == "any") {
        return {};
    }
    if (text == "other") {
        return {base_choice::kind::elsewhere, previous};
    }
    std::size_t length = 0;
    std::uint64_t address = 0;
    try {
        address = std::stoull(text, &length, 0);
    } catch (const std::logic_error&) {
        length = 0;
    }
    if (length != text.size() || address == 0 || address % alignment != 0) {
        throw std::invalid_argument(
            fmt::format("--base: found '{}', expected any, other, or an address that is a multiple of 2 MiB", text));
    }
    return {base_choice::kind::exactly, address};
}

holdfast::manager open_heap(const std::string& path, open_mode mode, const base_choice& base) {
    if (base.wanted != base_choice::kind::elsewhere) {
        return open_at(path, mode, base.address);
    }
    for (int attempt = 1;; ++attempt) {
        const std::uint64_t address = random_address();
        if (address == base.address) {
            continue;
        }
        try {
            return open_at(path, mode, address);
        } catch (const holdfast::error& failure) {
            if (failure.reason() != holdfast::errc::address_taken || attempt == 16) {
                throw;
            }
        }
    }
}

std::uint64_t base_of(const holdfast::manager& heap) noexcept {
    return reinterpret_cast<std::uintptr_t>(heap.get_address());
}

}  // namespace package_graph
