// Opens the heap, mapped where the caller wants it.
#pragma once

#include <cstdint>
#include <string>

#include <holdfast/manager.hpp>

namespace package_graph {

enum class open_mode { create_or_write, write, read_only };

/// Where to map the heap: anywhere, at `address`, or at any other address than that.
struct base_choice {
    enum class kind { anywhere, exactly, elsewhere };
    kind wanted = kind::anywhere;
    std::uint64_t address = 0;  ///< exactly: this one; elsewhere: not this one
};

/// Parses "any", "other" (than `previous`), or an address. Throws std::invalid_argument.
[[nodiscard]] base_choice parse_base(const std::string& text, std::uint64_t previous);

/// Throws holdfast::error. The heap is opened without commit_on_close, so that work that an error has interrupted is
/// not committed.
[[nodiscard]] holdfast::manager open_heap(const std::string& path, open_mode mode, const base_choice& base);

[[nodiscard]] std::uint64_t base_of(const holdfast::manager& heap) noexcept;

}  // namespace package_graph
