// For bugs of Holdfast only; input, media and the environment are checked by results. Assertions are on in the presets
// dev, asan, tsan, fuzz and crash.
#pragma once

#if !defined(HOLDFAST_CHECKED)
#define HOLDFAST_CHECKED 0
#endif

namespace holdfast::base {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace holdfast::base

#if HOLDFAST_CHECKED
#define HF_ASSERT(expression) \
    ((expression) ? static_cast<void>(0) : ::holdfast::base::assertion_failed(#expression, __FILE__, __LINE__))
#else
#define HF_ASSERT(expression) static_cast<void>(sizeof(static_cast<bool>(expression)))
#endif
