// What the observer outside knows of a heap: which states it may be in. A state is a digest of all contents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kill/reports.hpp"

namespace holdfast::test {

class oracle {
public:
    /// Follows a report; what contradicts what was known is a problem.
    [[nodiscard]] std::optional<std::string> hear(const report& said);
    /// A state that somebody found: it must be the last acknowledged commit, or the one in flight, and then it is the
    /// state. `sequence`: of the commit.
    [[nodiscard]] std::optional<std::string> found(std::uint64_t digest, std::uint64_t sequence);

    /// The second heap: may be absent (or no heap), or must be; if it is a heap, its digest.
    struct second_heap {
        enum class presence : std::uint8_t { absent, any, present } is = presence::absent;
        std::uint64_t digest = 0;
    };
    [[nodiscard]] const second_heap& second() const noexcept { return second_; }
    /// The observer took it away.
    void second_is_gone() noexcept { second_ = {}; }

    /// An open, or a create, has told of success: the heap must be there from now on.
    [[nodiscard]] bool must_exist() const noexcept { return acknowledged_.has_value(); }
    /// What the victim was doing when it last spoke.
    [[nodiscard]] event last() const noexcept { return last_; }

private:
    std::optional<std::uint64_t> acknowledged_;
    std::optional<std::uint64_t> in_flight_;
    std::uint64_t sequence_ = 0;
    second_heap second_;
    event last_ = event::opening;
};

}  // namespace holdfast::test
