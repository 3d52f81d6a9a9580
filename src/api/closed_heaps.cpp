#include <filesystem>

#include <fmt/format.h>
#include <holdfast/closed_heaps.hpp>
#include <holdfast/manager.hpp>

#include "api/lane_files.hpp"
#include "api/manager_core.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast {

namespace {

/// A thread that uses the path later must not depend on the working directory of that time.
std::string full_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::path full = std::filesystem::absolute(path, error);
    return error || path.empty() ? path : full.string();
}

}  // namespace

void closed_heaps::copy(const std::string& source, const std::string& destination,
                        const std::vector<std::string>& node_directories) {
    value_or_throw(heap::copy(source, destination, node_directories));
}
std::future<void> closed_heaps::copy_async(const std::string& source, const std::string& destination) {
    return std::async(std::launch::async, [from = full_path(source), to = full_path(destination)] { copy(from, to); });
}
bool closed_heaps::remove(const std::string& path) { return value_or_throw(heap::remove(path)); }
std::future<bool> closed_heaps::remove_async(const std::string& path) {
    return std::async(std::launch::async, [full = full_path(path)] { return remove(full); });
}
bool closed_heaps::consistent(const std::string& path) {
    return heap::engine::open(path, persist::access_mode::read_only, {}).ok();
}
std::string closed_heaps::get_uuid(const std::string& path) {
    return segment::uuid_text(value_or_throw(heap::read_superblock(path)).uuid);
}
std::string closed_heaps::get_version(const std::string& path) {
    return fmt::format("{}", value_or_throw(heap::read_superblock(path)).version);
}
std::string closed_heaps::get_description(const std::string& path) {
    return manager(open_read_only, path).get_description();
}

lane_information closed_heaps::lanes(const std::string& path) {
    const segment::heap_paths paths(path);
    const auto held = value_or_throw(segment::open_heap_directory(persist::posix_storage(), paths));
    return value_or_throw(read_lanes(value_or_throw(heap::read_superblock(*held, paths)), *held, paths));
}

}  // namespace holdfast
