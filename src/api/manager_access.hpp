// The core of a manager, for the rest of the library: the C interface names types by strings, not by templates, and
// transactions, indexes and stores work below the public calls, and crash tests give a manager other files.
#pragma once

#include <utility>

#include <holdfast/manager.hpp>

namespace holdfast::detail {

struct manager_access {
    [[nodiscard]] static manager_core& core(const manager& of) { return of.core(); }
    [[nodiscard]] static manager make(core_owner of) { return manager(std::move(of)); }
    [[nodiscard]] static heap_watch watch(const manager& of) noexcept { return of.handle_.watch(); }
};

}  // namespace holdfast::detail
