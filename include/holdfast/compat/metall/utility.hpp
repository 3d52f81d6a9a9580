// metall::utility: what programs use besides the manager.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>

#include <holdfast/hash.hpp>

namespace holdfast::compat::metall::utility {

namespace mutex {

/// Locks one of `Banks` mutexes of the process, for data that cannot hold one. `index` is below Banks.
template <int Banks>
std::unique_lock<std::mutex> mutex_lock(std::size_t index) {
    constexpr auto count = static_cast<std::size_t>(Banks);
    static std::mutex mutexes[count];
    return std::unique_lock<std::mutex>(mutexes[index % count]);
}

}  // namespace mutex

/// Hashes alike in each run: holdfast::hash, and others for each seed.
template <class T, unsigned Seed = 123>
struct hash {
    std::size_t operator()(const T& value) const {
        return holdfast::hash<std::uint64_t>{}(holdfast::hash<T>{}(value) + Seed);
    }
};
template <class String, unsigned Seed = 123>
struct string_hash {
    std::size_t operator()(const String& text) const {
        return hash<std::string_view, Seed>{}(std::string_view(text.data(), text.size()));
    }
};

}  // namespace holdfast::compat::metall::utility
