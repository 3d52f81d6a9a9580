#include "kill/oracle.hpp"

#include <sstream>

#include "kill/world.hpp"

namespace holdfast::test {

std::optional<std::string> oracle::found(std::uint64_t digest, std::uint64_t sequence) {
    const bool right =
        acknowledged_ ? digest == *acknowledged_ || (in_flight_ && digest == *in_flight_) : digest == empty_digest;
    if (!right || sequence < sequence_) {
        std::ostringstream text;
        text << std::hex << "found state " << digest << " of commit " << sequence << "; acknowledged "
             << acknowledged_.value_or(empty_digest) << " of commit " << sequence_ << ", in flight "
             << in_flight_.value_or(0);
        return text.str();
    }
    acknowledged_ = digest;
    in_flight_.reset();
    sequence_ = sequence;
    return std::nullopt;
}

std::optional<std::string> oracle::hear(const report& said) {
    last_ = said.what;
    switch (said.what) {
        case event::opened: return found(said.digest, said.sequence);
        case event::about_to_commit:
        case event::closing: in_flight_ = said.digest; return std::nullopt;
        case event::committed: sequence_ = said.sequence; [[fallthrough]];
        case event::closed:
            acknowledged_ = said.digest;
            in_flight_.reset();
            return std::nullopt;
        case event::making: second_ = {second_heap::presence::any, said.digest}; return std::nullopt;
        case event::made: second_.is = second_heap::presence::present; return std::nullopt;
        case event::removing: second_.is = second_heap::presence::any; return std::nullopt;
        case event::removed: second_ = {}; return std::nullopt;
        case event::problem:
        case event::failed: return std::string(said.message());
        default: return std::nullopt;
    }
}

}  // namespace holdfast::test
