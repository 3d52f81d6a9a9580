// Programs of Boost.Interprocess over Holdfast: change the includes to this one, and one alias:
//
//     namespace bip = holdfast::compat::interprocess;
//
// A managed_mapped_file is then a Holdfast heap: crash-safe, growing by grow(), with one writing process. Calls are as
// Boost.Interprocess's documentation says, except for docs/porting.md; what cannot be ported does not compile. Nothing
// is [[nodiscard]]: the programs were not written for it.
#pragma once

#include <cstddef>

#include <holdfast/compat/interprocess/allocators.hpp>
#include <holdfast/compat/interprocess/containers.hpp>
#include <holdfast/compat/interprocess/errors.hpp>
#include <holdfast/compat/interprocess/managed_mapped_file.hpp>
#include <holdfast/compat/interprocess/refused.hpp>
#include <holdfast/compat/interprocess/smart_pointers.hpp>
#include <holdfast/compat/interprocess/synchronization.hpp>
#include <holdfast/ptr.hpp>

namespace holdfast::compat::interprocess {

/// 8 bytes, aligned to 8; ignores the other parameters of Boost.Interprocess's template.
template <class T, class Difference = std::ptrdiff_t, class Offset = std::size_t, std::size_t Alignment = 0>
using offset_ptr = ptr<T>;
using holdfast::to_raw_pointer;

}  // namespace holdfast::compat::interprocess
