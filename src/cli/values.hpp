// What Python programs keep in a heap (docs/python.md): `ls`, `get` and `dump` of it.
#pragma once

#include <string>
#include <vector>

#include <holdfast/manager.hpp>

#include "commands.hpp"
#include "output.hpp"

namespace holdfast_cli {

/// A table of the keys, down to `depth` levels, with types, lengths and sizes; nothing where Python has written
/// nothing.
void print_values(const holdfast::manager& heap, unsigned depth);
[[nodiscard]] json list_values(const holdfast::manager& heap, unsigned depth);

/// Prints the value that the keys lead to as JSON; without keys, all of it. Arrays have type, shape and elements, or
/// their size where they are no plain numbers; bytes are hexadecimal; a dict whose keys are not all texts has entries.
int get(const arguments& given, const std::vector<std::string>& keys);

}  // namespace holdfast_cli
