#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "persist/domain.hpp"
#include "persist/machine.hpp"
#include "segment/files/address_range.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Which private memory the kernel watches for stores (commit/dirty_pages.hpp).
enum class store_watch { never, where_it_pays, everywhere };

/// Who opens a heap that crashed is told how its commits go home, where that takes long.
struct replay_watch {
    std::function<void(std::uint64_t done, std::uint64_t all)> tell{};  ///< bytes; may be empty
    std::chrono::milliseconds interval{1'000};
};

struct mapping_options {
    std::uint64_t reservation = 0;          ///< bytes; 0: the default
    std::byte* base_address = nullptr;      ///< null: anywhere
    std::uint64_t capacity = 0;             ///< of the frontier; 0: none
    std::uint64_t maximum_uncommitted = 0;  ///< bytes; 0: by the memory of the machine and the process's groups
    bool verify = false;                    ///< SEG-2, before the open returns
    /// Durability `atomic` and `collect`.
    bool shared = false;
    bool by_turns = false;                       ///< as heap_directories.hpp, neighbours::turns
    huge_pages user_pages = huge_pages::advise;  ///< metadata has none: its space is reserved page by page
    const persist::topology* topology = &persist::machine_topology::here();
    /// On ordinary files the domain is `disk` and not `page-cache`.
    bool syncs_records = false;
    store_watch watch = store_watch::where_it_pays;
    replay_watch on_replay{};
    std::optional<persist::domain_kind> domain;  ///< of shared pages: no more than the media can do
};

struct creation_options {
    mapping_options mapping;
    std::uint64_t segment_size = 0;  ///< 0: default_segment_size, or less where the process may not have so much
    bool same_address = false;
    bool separate_cache_lines = false;  ///< flag_separate_lines
    /// The segments lie in them by turns, one for each node; "": inside the heap's directory. Empty: all lie in the
    /// heap's directory.
    std::vector<std::string> node_places;
};

}  // namespace holdfast::segment
