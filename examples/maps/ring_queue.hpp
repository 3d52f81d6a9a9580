#pragma once

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "queue.hpp"

namespace maps {

class ring_queue final : public queue {
public:
    /// Opens the queue of that name, or makes one for 2^capacity_bits texts.
    ring_queue(holdfast::manager& heap, const char* name, unsigned capacity_bits = 16);

    bool enqueue(std::string_view text) override;
    std::optional<std::string> dequeue() override;
    bool for_each(const visitor& visit) const override;  // NOLINT(modernize-use-nodiscard)
    [[nodiscard]] std::uint64_t count() const override { return head_.back - head_.front; }

private:
    /// The text follows it.
    struct entry {
        std::uint64_t length = 0;
    };
    using place = holdfast::ptr<entry>;
    struct head {
        std::uint64_t front = 0;  ///< texts that have left
        std::uint64_t back = 0;   ///< texts that have come
        std::uint64_t capacity = 0;
        holdfast::ptr<place> ring;
    };

    [[nodiscard]] place& place_of(std::uint64_t number) const { return head_.ring[number & (head_.capacity - 1)]; }
    [[nodiscard]] static std::string_view text_of(const entry& of) noexcept;

    holdfast::manager& heap_;
    head& head_;
};

}  // namespace maps
