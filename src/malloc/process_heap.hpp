#pragma once

#include <array>
#include <cstddef>
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

/// For standard error. Allocates nothing.
class line {
public:
    line() noexcept = default;
    explicit line(std::string_view text) noexcept;
    /// Nothing where it is empty.
    void say() const noexcept;

private:
    std::array<char, 512> text_{};
    std::size_t length_ = 0;
};
inline void say(std::string_view text) noexcept { line(text).say(); }
/// May throw std::bad_alloc.
[[nodiscard]] line statistics_of(heap::engine& heap);

}  // namespace holdfast::drop_in
