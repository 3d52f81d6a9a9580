// A queue of texts in a ring of pointers. Not one of the maps, but the same in all that matters: each change is one
// transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace maps {

/// One thread at a time.
class queue {
public:
    /// Returns whether to go on.
    using visitor = std::function<bool(std::string_view text)>;

    queue() = default;
    queue(const queue&) = delete;
    queue& operator=(const queue&) = delete;
    virtual ~queue() = default;

    /// False where the queue is full.
    virtual bool enqueue(std::string_view text) = 0;
    /// The text that was in the queue the longest time.
    virtual std::optional<std::string> dequeue() = 0;
    /// Visits the texts in the order in which they came. Returns false where the visitor ended it.
    virtual bool for_each(const visitor& visit) const = 0;  // NOLINT(modernize-use-nodiscard)
    [[nodiscard]] virtual std::uint64_t count() const = 0;
};

}  // namespace maps
