#pragma once

#include <memory>
#include <string_view>

#include "malloc/drop_in.hpp"

namespace holdfast::heap {
class engine;
}

namespace holdfast::drop_in {

/// The heap has no files where there is no path or its heap cannot be had; says why on standard error. Null where there
/// is no heap at all. May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<heap::engine> make_heap(const settings& wanted);

/// A line on standard error. Allocates nothing.
void say(std::string_view line) noexcept;
/// May throw std::bad_alloc.
void say_statistics(heap::engine& heap);

}  // namespace holdfast::drop_in
