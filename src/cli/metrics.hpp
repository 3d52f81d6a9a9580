// What Prometheus reads of heaps: its text format, version 0.0.4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <holdfast/heap_glance.hpp>
#include <holdfast/manager.hpp>

#include "store.hpp"
#include "store_files.hpp"

namespace holdfast_cli {

/// A heap or a store at a moment, as far as it can be read.
struct reading {
    std::string heap;  ///< or the store
    std::optional<holdfast::heap_glance> glance;
    std::optional<store_numbers> store;
    std::optional<holdfast::heap_statistics> statistics;
    std::string name_in_heap;                     ///< of a store that lies in the heap
    std::optional<store_file_glance> store_file;  ///< of one whose heap is not open: nothing else is known then
    /// Why there is neither: the name of the error's code, and its message.
    std::string reason;
    std::string message;
    std::uint64_t replacements = 0;  ///< how often another heap had the name, since somebody looks
};

/// What the files of a heap say: takes no lock. A store is opened as a reader does. Never throws error.
[[nodiscard]] reading inspect(const std::string& heap);
/// What the files of its stores say, as inspect() does.
[[nodiscard]] std::vector<reading> inspect_store_files(const std::string& heap);
/// A heap that is named twice would be two series of one name, for which Prometheus refuses all.
[[nodiscard]] std::vector<std::string> each_once(const std::vector<std::string>& heaps);
/// Each metric once, with its help, and a line for each heap that has it.
[[nodiscard]] std::string prometheus_text(const std::vector<reading>& all);

}  // namespace holdfast_cli
