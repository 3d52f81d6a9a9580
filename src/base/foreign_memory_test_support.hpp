// For tests that count the memory of a process.
#pragma once

namespace holdfast::base {

/// An emulator or a sanitizer has memory of its own in the process.
#if defined(HOLDFAST_UNDER_QEMU)
inline constexpr bool has_memory_of_others = true;
#elif defined(__has_feature)
inline constexpr bool has_memory_of_others = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool has_memory_of_others = false;
#endif

}  // namespace holdfast::base
