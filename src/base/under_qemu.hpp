// Whether this program is compiled to run under qemu-user (HOLDFAST_UNDER_QEMU, preset arm64).
#pragma once

namespace holdfast::base {

/// Then reservations are small, and tests of what qemu-user cannot do are skipped. User mode of QEMU 7.2 keeps some 20
/// bytes for each page of each mapping, also of reserved addresses, and never frees them: several GiB for the default
/// of 1 TiB.
#if defined(HOLDFAST_UNDER_QEMU)
inline constexpr bool under_qemu = true;
#else
inline constexpr bool under_qemu = false;
#endif

}  // namespace holdfast::base
