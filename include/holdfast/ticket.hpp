// A committed transaction that need not be durable yet.
#pragma once

#include <cstdint>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

namespace detail {
struct ticket_access;
}

/// What transaction::commit_later() returns and manager::sync() waits for. ticket() is durable. Valid while the heap is
/// open, for any thread.
class ticket {
public:
    ticket() noexcept = default;
    bool operator==(const ticket&) const noexcept = default;

private:
    friend struct detail::ticket_access;
    ticket(std::uint64_t number, std::uint64_t batch) noexcept : number_(number), batch_(batch) {}

    std::uint64_t number_ = 0;  ///< in its batch, from 1; 0: durable
    std::uint64_t batch_ = 0;   ///< that of a thread
};

}  // namespace holdfast
