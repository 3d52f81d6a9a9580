// Which process this is, for what a process knows of itself. A process number of the system is not enough: in a
// namespace of processes of its own, a child may have its parent's.
#pragma once

#include <cstdint>

namespace holdfast::base {

/// Differs from that of each process that this one descends from by fork() or clone(). Thread-safe, and safe in a child
/// of fork(). Costs two system calls at the first use, then one.
[[nodiscard]] std::uint64_t process_identity() noexcept;

}  // namespace holdfast::base
