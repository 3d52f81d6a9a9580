// Whether this program is compiled to run under qemu-user, as those of the preset arm64 are (HOLDFAST_UNDER_QEMU).
#pragma once

namespace holdfast::base {

/// QEMU 7.2's user mode keeps some 20 bytes for each page of each mapping, of addresses that are only reserved too, and
/// never gives them back: a heap with its usual 1 TiB of addresses takes it several GiB. Where this is true,
/// reservations are small, and tests of what qemu-user does not do are skipped.
#if defined(HOLDFAST_UNDER_QEMU)
inline constexpr bool under_qemu = true;
#else
inline constexpr bool under_qemu = false;
#endif

}  // namespace holdfast::base
