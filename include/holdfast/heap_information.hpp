// manager: what an open heap says of itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/extent_information.hpp>
#include <holdfast/lane_information.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/statistics.hpp>

namespace holdfast {

class heap_information : public detail::part_of_manager<heap_information> {
public:
    [[nodiscard]] bool is_open() const noexcept;
    [[nodiscard]] bool read_only() const noexcept;
    /// `commit` for a closed or read-only heap.
    [[nodiscard]] holdfast::durability durability() const noexcept;
    /// Of the open; "" for a closed heap.
    [[nodiscard]] const std::string& path() const noexcept;
    [[nodiscard]] bool check_sanity() const;  ///< check(false) finds nothing
    /// A line for each broken invariant ("EXT-2: ..."). `pages`: also for every page that differs from its checksum.
    [[nodiscard]] std::vector<std::string> check(bool pages) const;
    /// What the last check(true), or else the open with open_options::verify, compared; nothing in a heap last open in
    /// durability `atomic` or `collect`, which has no checksums.
    struct page_comparison {
        std::uint64_t compared = 0;          ///< pages
        std::uint64_t without_checksum = 0;  ///< never committed, or changed in another durability
    };
    [[nodiscard]] page_comparison last_comparison() const;
    [[nodiscard]] heap_statistics statistics() const;
    [[nodiscard]] std::string get_uuid() const;
    [[nodiscard]] std::string get_version() const;      ///< of the format: "1"
    [[nodiscard]] std::string get_description() const;  ///< of the heap; "" where none was set
    /// Throws error(read_only) for a heap opened so.
    void set_description(std::string_view description);
    /// The directories of the segments, with links followed; empty: the heap's directory.
    [[nodiscard]] std::vector<std::string> node_directories() const;
    /// "disk", "page-cache", "dax", "eadr" or "emulated" (docs/architecture.md).
    [[nodiscard]] std::string domain() const;
    /// For people: how commits of a writer in durability `commit` find pages that were stored to, on this machine and
    /// in a process with these rights.
    [[nodiscard]] static std::string search_for_changes();

    /// In order of address; `each` may free its block. Blocks that others allocate or free meanwhile may be missed or
    /// seen. Throws error.
    void for_each_block(const std::function<void(const block_info&)>& each) const;
    /// In order of address. Throws error.
    void for_each_extent(const std::function<void(const extent_info&)>& each) const;
    [[nodiscard]] protocol_counters counters() const;
    /// Who else has the heap open. Readers without a place in the file `readers` are not among them.
    [[nodiscard]] neighbours_report neighbours() const;
    /// All zero where the heap had not crashed in durability `atomic`.
    [[nodiscard]] recovery_report last_recovery() const;
    [[nodiscard]] lane_information lanes() const;  ///< throws error, as an open does

private:
    friend class manager;
    heap_information() noexcept = default;
};

}  // namespace holdfast
