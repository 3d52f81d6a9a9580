#include "segment/files/heap_paths.hpp"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "segment/files/lane_places.hpp"

namespace holdfast::segment {

namespace {

/// Nothing for any other name.
std::optional<std::uint64_t> number_of(std::string_view name, std::string_view prefix,
                                       fmt::format_string<std::uint64_t&> form) {
    if (!name.starts_with(prefix)) {
        return std::nullopt;
    }
    const std::string_view digits = name.substr(prefix.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
    if (error != std::errc{} || end != digits.end() || digits != fmt::format(form, number)) {
        return std::nullopt;
    }
    return number;
}

}  // namespace

std::string heap_paths::segment(std::uint64_t index) const {
    return fmt::format("{}/segment.{:06}", nodes_ == 0 ? directory_ : node(index % nodes_), index);
}

std::string heap_paths::node(std::uint64_t node) const { return fmt::format("{}/node.{}", directory_, node); }

std::vector<std::string> heap_paths::segment_directories() const {
    if (nodes_ == 0) {
        return {directory_};
    }
    std::vector<std::string> directories;
    for (std::uint64_t of = 0; of < nodes_; ++of) {
        directories.push_back(node(of));
    }
    return directories;
}

std::string heap_paths::parent() const {
    const std::size_t last = directory_.find_last_not_of('/');
    const std::size_t slash = last == std::string::npos ? last : directory_.rfind('/', last);
    if (slash == std::string::npos) {
        return last == std::string::npos ? "/" : ".";
    }
    return slash == 0 ? "/" : directory_.substr(0, slash);
}

bool heap_paths::is_heap_file(const std::string& name) {
    if (name == "superblock" || name == "superblock.new" || name == "objects" || name == "lock" || name == "lanes" ||
        name == "readers") {
        return true;
    }
    return segment_index(name) || node_index(name) || store_number(name) || log_number(name) ||
           number_of(name, prefix_of_lane_log, "{:06}");
}

bool heap_paths::is_node_file(const std::string& name) {
    return name == "node" || name == "lock" || name == "lanes" || segment_index(name);
}

std::optional<std::uint64_t> heap_paths::segment_index(std::string_view name) {
    return number_of(name, "segment.", "{:06}");
}

std::optional<std::uint64_t> heap_paths::log_number(std::string_view name) {
    return number_of(name, log_prefix, "{:06}");
}

std::optional<std::uint64_t> heap_paths::node_index(std::string_view name) {
    const auto number = number_of(name, "node.", "{}");
    return number && *number < maximum_nodes ? number : std::nullopt;
}

std::string store_path(const heap_paths& paths, std::uint64_t number) {
    return fmt::format("{}/store.{:06}", paths.directory(), number);
}

std::optional<std::uint64_t> store_number(std::string_view name) { return number_of(name, "store.", "{:06}"); }

base::result<void> sync_segment_names(persist::storage& storage, const heap_paths& paths, persist::site where) {
    for (const std::string& directory : paths.segment_directories()) {
        HF_TRY(storage.sync_directory(directory, where));
    }
    return {};
}

}  // namespace holdfast::segment
