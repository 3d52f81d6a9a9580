// Which process this is, for what a process knows of itself. A process number of the system is not enough: in a
// namespace of processes of its own, a child may have its parent's.
#pragma once

#include <cstdint>

namespace holdfast::base {

/// Differs from that of each process that this one descends from by fork() or clone(); one that shares its parent's
/// memory (vfork) counts as its parent. Thread-safe, and safe in a child of fork(). Makes system calls at the first use
/// in a process alone, where the kernel can wipe a page in children, else one a call.
[[nodiscard]] std::uint64_t process_identity() noexcept;

}  // namespace holdfast::base
