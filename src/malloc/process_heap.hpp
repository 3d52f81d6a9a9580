// Makes the heap of a process as its settings ask, and says on standard error what the program should know.
#pragma once

#include <memory>
#include <string_view>

#include "malloc/drop_in.hpp"

namespace holdfast::heap {
class engine;
}

namespace holdfast::drop_in {

/// The heap has no files where there is no path or its heap cannot be had. Null where there is no heap at all. Says why
/// it failed. May throw std::bad_alloc.
[[nodiscard]] std::unique_ptr<heap::engine> make_heap(const settings& wanted);

/// Writes a line on standard error. Allocates nothing.
void say(std::string_view line) noexcept;
/// May throw std::bad_alloc.
void say_statistics(heap::engine& heap);

}  // namespace holdfast::drop_in
