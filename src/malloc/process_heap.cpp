#include "malloc/process_heap.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/units.hpp"
#include "heap/heap.hpp"

namespace holdfast::drop_in {

using heap::engine;

line::line(std::string_view text) noexcept {
    const int length = std::snprintf(text_.data(), text_.size(), "holdfast-malloc: %.*s\n",
                                     static_cast<int>(text.size()), text.data());
    length_ = std::min(static_cast<std::size_t>(std::max(length, 0)), text_.size() - 1);
}

void line::say() const noexcept {
    if (length_ != 0) {
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), length_);
    }
}

namespace {

/// If it is free: far from what the kernel and the loader choose.
constexpr std::uintptr_t wanted_base = segment::may_map_anywhere ? 0x2000'0000'0000 : 0;

heap::engine_options options_of(const settings& wanted) {
    heap::engine_options options;
    options.files.mapping.capacity = wanted.capacity;
    options.durability = heap::durability_kind::collect;
    options.accept_process_crash_only = true;
    options.hardened = wanted.hardened;
    return options;
}

std::string expanded(const std::string& path) {
    const auto at = path.find("%p");
    return at == std::string::npos ? path : path.substr(0, at) + std::to_string(::getpid()) + path.substr(at + 2);
}

base::result<void> free_unreached(engine& heap) {
    heap::trace_options options;
    options.raw_pointers = (heap.files().superblock().flags & segment::flag_same_address) != 0;
    HF_TRY(heap::trace_open_heap(heap, heap.types(), options));
    return {};
}

/// Null on failure.
std::unique_ptr<engine> open_at(const std::string& path, const settings& wanted) {
    heap::engine_options options = options_of(wanted);
    auto opened = engine::open(path, persist::access_mode::read_write, options);
    if (opened) {
        if (auto freed = free_unreached(**opened); !freed) {
            say(freed.error().message());
        }
    } else if (opened.error().code == base::failure_code::not_found) {
        options.files.same_address = true;
        options.files.mapping.base_address = reinterpret_cast<std::byte*>(wanted_base);  // NOLINT
        opened = engine::create(path, options);
        if (!opened && opened.error().code == base::failure_code::address_taken) {
            options.files.mapping.base_address = nullptr;
            opened = engine::create(path, options);
        }
        if (!opened && opened.error().code == base::failure_code::already_exists) {
            opened = engine::open(path, persist::access_mode::read_write, options_of(wanted));  // created meanwhile
        }
    }
    if (opened) {
        return std::move(*opened);
    }
    if (opened.error().code != base::failure_code::locked) {
        say(opened.error().message());
    }
    return nullptr;
}

}  // namespace

std::unique_ptr<engine> make_heap(const settings& wanted) {
    if (!wanted.path.empty()) {
        if (auto opened = open_at(expanded(wanted.path), wanted)) {
            return opened;
        }
    }
    auto made = engine::create_scratch(options_of(wanted));
    if (!made) {
        say(made.error().message());
        return nullptr;
    }
    return std::move(*made);
}

line statistics_of(engine& heap) {
    const auto numbers = heap.statistics();
    if (!numbers) {
        return line(numbers.error().message());
    }
    std::array<char, 256> text{};
    std::snprintf(text.data(), text.size(), "%s: %llu bytes of user space, %llu blocks of %llu bytes are allocated",
                  heap.files().paths().directory().c_str(), static_cast<unsigned long long>(numbers->user_bytes),
                  static_cast<unsigned long long>(numbers->allocated_blocks),
                  static_cast<unsigned long long>(numbers->allocated_bytes));
    return line(text.data());
}

settings settings_from_environment() {
    settings found;
    // Not in a setuid program, whose user would choose what it opens.
    const auto text_of = [](const char* name) {
        const char* const text = ::secure_getenv(name);
        return std::string_view(text == nullptr ? "" : text);
    };
    found.path = text_of("HOLDFAST_MALLOC_HEAP");
    const auto is_on = [&](const char* name) {
        const std::string_view text = text_of(name);
        return !text.empty() && text != "0";
    };
    found.hardened = is_on("HOLDFAST_MALLOC_HARDENED");
    found.statistics = is_on("HOLDFAST_MALLOC_STATS");
    found.upkeep_thread = is_on("HOLDFAST_MALLOC_UPKEEP_THREAD");
    if (const std::string_view size = text_of("HOLDFAST_MALLOC_SIZE"); !size.empty()) {
        char* end = nullptr;
        constexpr std::string_view units = "KMGT";
        const bool has_digit = size.front() >= '0' && size.front() <= '9';  // strtoull() takes signs and spaces, too
        const std::uint64_t number = has_digit ? std::strtoull(size.data(), &end, 10) : 0;
        const std::string_view unit(has_digit ? end : "");
        const auto place = unit.empty() ? std::string_view::npos : units.find(unit.front());
        const auto factor = std::uint64_t{1} << (place == std::string_view::npos ? 0 : 10 * (place + 1));
        const auto bytes = base::checked_multiply(number, factor);
        if (!bytes || number == 0 || unit.size() > 1 || (unit.size() == 1 && place == std::string_view::npos)) {
            say("HOLDFAST_MALLOC_SIZE is no size, and ignored: digits, and K, M, G or T");
        } else {
            found.capacity = *bytes;
        }
    }
    return found;
}

}  // namespace holdfast::drop_in
