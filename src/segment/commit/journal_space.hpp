// What a commit needs that only frees is reserved, so that blocks can be freed on a full disk.
#pragma once

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/files/heap_location.hpp"

namespace holdfast::segment {

base::result<void> reserve_journal(const heap_location& location, base::pages frontier);

/// Comes after a commit: its sequence makes the header void. On a disk short of space, gives back what is beyond the
/// reserve. Best effort.
void shorten_journal(const heap_location& location, base::pages frontier) noexcept;

}  // namespace holdfast::segment
