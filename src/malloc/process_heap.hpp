// Makes the heap of a process as its settings ask, and says on standard error what the program should know.
#pragma once

#include <memory>
#include <string_view>

#include "malloc/drop_in.hpp"

namespace holdfast::heap {
class engine;
}

namespace holdfast::drop_in {

/// The heap at the settings' path, or one without files where there is no path or that heap cannot be had. Null where
/// there is no heap at all. May throw std::bad_alloc. Says why it failed.
[[nodiscard]] std::unique_ptr<heap::engine> make_heap(const settings& wanted);

/// Writes a line on standard error. Allocates nothing.
void say(std::string_view line) noexcept;
/// Says how much is allocated. May throw std::bad_alloc.
void say_statistics(heap::engine& heap);

}  // namespace holdfast::drop_in
