// What the observer knows of a heap: the states in which it may be. A state is a digest of all contents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kill/reports.hpp"

namespace holdfast::test {

class oracle {
public:
    /// Follows a report. Returns how it contradicts what was known, or nothing.
    [[nodiscard]] std::optional<std::string> hear(const report& said);
    /// An examination found this state: it must be the last acknowledged commit or the one in flight, and becomes the
    /// known state. `sequence`: of the commit.
    [[nodiscard]] std::optional<std::string> found(std::uint64_t digest, std::uint64_t sequence);

    /// Whether the second heap may or must be there; its digest if it is a heap.
    struct second_heap {
        enum class presence : std::uint8_t { absent, any, present } is = presence::absent;
        std::uint64_t digest = 0;
    };
    [[nodiscard]] const second_heap& second() const noexcept { return second_; }
    /// The observer removed it.
    void second_is_gone() noexcept { second_ = {}; }

    /// A create or an open was acknowledged: from then on the heap must exist.
    [[nodiscard]] bool must_exist() const noexcept { return acknowledged_.has_value(); }
    /// What the victim did at its last report.
    [[nodiscard]] event last() const noexcept { return last_; }

private:
    std::optional<std::uint64_t> acknowledged_;
    std::optional<std::uint64_t> in_flight_;
    std::uint64_t sequence_ = 0;
    second_heap second_;
    event last_ = event::opening;
};

}  // namespace holdfast::test
