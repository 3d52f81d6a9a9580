#pragma once

namespace holdfast::base {

/// QEMU 7.2 (HOLDFAST_UNDER_QEMU, preset arm64) keeps some 20 bytes for each page of each mapping, also of reserved
/// addresses, for ever: reservations are small. Tests of what it cannot do are skipped.
#if defined(HOLDFAST_UNDER_QEMU)
inline constexpr bool under_qemu = true;
#else
inline constexpr bool under_qemu = false;
#endif

}  // namespace holdfast::base
