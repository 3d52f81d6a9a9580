// A map from numbers to numbers: what all kinds of maps here have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace maps {

/// Each change is one transaction: after a crash it is there wholly or not at all, and it is there if the function has
/// returned. One thread at a time; several need a lock of their own around each call.
class map {
public:
    /// Returns whether to go on.
    using visitor = std::function<bool(std::uint64_t key, std::uint64_t value)>;

    map() = default;
    map(const map&) = delete;
    map& operator=(const map&) = delete;
    virtual ~map() = default;

    /// Replaces the value of a key that is there. Returns whether the key is new.
    virtual bool insert(std::uint64_t key, std::uint64_t value) = 0;
    /// Returns the value that was there.
    virtual std::optional<std::uint64_t> remove(std::uint64_t key) = 0;
    [[nodiscard]] virtual std::optional<std::uint64_t> look_up(std::uint64_t key) const = 0;
    /// Visits every key, trees in ascending order. Returns false where the visitor ended it.
    virtual bool for_each(const visitor& visit) const = 0;  // NOLINT(modernize-use-nodiscard)

    [[nodiscard]] bool is_empty() const {
        return for_each([](std::uint64_t /*key*/, std::uint64_t /*value*/) { return false; });
    }
    /// Visits all keys.
    [[nodiscard]] std::uint64_t count() const {
        std::uint64_t found = 0;
        for_each([&](std::uint64_t /*key*/, std::uint64_t /*value*/) { return ++found != 0; });
        return found;
    }
};

/// A map that knows what must hold in it.
class checked_map : public map {
public:
    /// The first rule of its structure that is broken; empty where all hold.
    [[nodiscard]] virtual std::string problem() const = 0;
    /// How many blocks of the heap it must have, without its head: more are leaked.
    [[nodiscard]] virtual std::uint64_t block_count() const = 0;
};

}  // namespace maps
