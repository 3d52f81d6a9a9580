// Where environments of LMDB's interface lie. The memory outlives them and is used again, so a transaction that
// outlives its environment can tell, and touches nothing of it.
#pragma once

#include <optional>

#include "store/environment.hpp"

namespace holdfast::store_engine {

struct environment_place {
    std::atomic<std::uint64_t> closes{0};
    std::optional<environment> held;
};

/// `storage`: where the data file lies.
[[nodiscard]] environment& create_environment(persist::storage& storage = persist::posix_storage());
/// Undoes the write transaction of this thread, which unlocks the store. One of another thread goes on: its end closes
/// the environment.
void close_environment(environment& env) noexcept;

}  // namespace holdfast::store_engine
