#include <holdfast/detail/interruptible_waits.hpp>

#include "base/interruption.hpp"

namespace holdfast::detail {

interruptible_waits::interruptible_waits(bool (*gives_up)() noexcept) noexcept
    : before_(base::interruption::ask(gives_up)) {}
interruptible_waits::~interruptible_waits() { base::interruption::ask(before_); }

}  // namespace holdfast::detail
