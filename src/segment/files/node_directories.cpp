#include "segment/files/node_directories.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::result;
using persist::access_mode;

/// Links in it stay.
result<std::string> full_path(const std::string& path) {
    std::error_code error;
    const std::filesystem::path full = std::filesystem::absolute(path, error);
    if (error) {
        return base::os_failure(error.value(), "working directory", path);
    }
    std::string text = full.lexically_normal().string();
    while (text.size() > 1 && text.ends_with('/')) {
        text.pop_back();
    }
    return text;
}

std::uint64_t checksum_of(const node_marker_on_media& marker) noexcept {
    return base::checksum64(std::as_bytes(std::span{&marker, 1}).first(offsetof(node_marker_on_media, checksum)));
}

failure wrong_marker(const std::string& path, std::string_view field, std::string found, std::string expected) {
    return failure{failure_code::corrupt,
                   path,
                   std::string(field),
                   std::move(found),
                   std::move(expected),
                   "the directory belongs to another heap or node, or was damaged",
                   0};
}

result<std::string> place_of(persist::storage& storage, const std::string& node) {
    HF_TRY_ASSIGN(std::string target, storage.link_target(node));
    if (target.empty()) {
        return node;
    }
    return target;
}

result<node_marker_on_media> read_marker(persist::storage& storage, const std::string& path) {
    HF_TRY_ASSIGN(auto file, storage.open(path, access_mode::read_only));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size != node_marker_size) {
        return wrong_marker(path, "file size", fmt::format("{}", size), fmt::format("{}", node_marker_size));
    }
    node_marker_on_media marker{};
    HF_TRY(file->read_at(0, std::as_writable_bytes(std::span{&marker, 1})));
    if (std::memcmp(marker.magic, node_magic, sizeof node_magic) != 0) {
        return wrong_marker(path, "magic", "another", "HFSTNODE");
    }
    if (marker.version != node_version) {
        failure what =
            wrong_marker(path, "format version", fmt::format("{}", marker.version), fmt::format("{}", node_version));
        what.code = failure_code::version_unsupported;
        return what;
    }
    if (marker.checksum != checksum_of(marker)) {
        return wrong_marker(path, "checksum", fmt::format("{:#x}", marker.checksum),
                            fmt::format("{:#x}", checksum_of(marker)));
    }
    if (marker.size != node_marker_size) {
        return wrong_marker(path, "size", fmt::format("{}", marker.size), fmt::format("{}", node_marker_size));
    }
    if (marker.path_size > longest_heap_path) {
        return wrong_marker(path, "bytes of the path", fmt::format("{}", marker.path_size),
                            fmt::format("at most {}", longest_heap_path));
    }
    return marker;
}

// SEG-5: no other heap has the directory, as far as can be seen.
result<void> check_unshared(persist::storage& storage, const heap_paths& paths, std::uint64_t node,
                            const node_marker_on_media& marker) {
    const heap_paths made_for(std::string(static_cast<const char*>(marker.heap), marker.path_size));
    const auto home = storage.identity(paths.directory());
    const auto other_home = storage.identity(made_for.directory());
    if (!home || !other_home || *home == *other_home) {
        return {};
    }
    const auto here = storage.identity(paths.node(node));
    const auto there = storage.identity(made_for.node(node));
    if (!here || !there || *here != *there) {
        return {};
    }
    return failure{
        failure_code::corrupt,
        paths.node(node),
        "node directory",
        fmt::format("that of the heap {}, too", made_for.directory()),
        "one of its own",
        "a heap with directories of nodes is copied by the library (copy, snapshot): a copy of its directory "
        "alone leads to the same segments",
        0};
}

// SEG-4: the directory of a node has a marker that names heap and node.
result<void> check_node(persist::storage& storage, const heap_paths& paths, const superblock_on_media& superblock,
                        std::uint32_t node) {
    auto marker = read_marker(storage, paths.node_marker(node));
    if (!marker && marker.error().code == failure_code::missing) {
        const auto place = place_of(storage, paths.node(node));
        return failure{failure_code::missing,
                       paths.node(node),
                       "node directory",
                       place ? fmt::format("no file node in {}", *place) : "nothing",
                       fmt::format("the directory of node {}", node),
                       "mount the file system that holds it",
                       0};
    }
    if (!marker) {
        return std::move(marker).error();
    }
    const std::string path = paths.node_marker(node);
    if (std::memcmp(marker->uuid, superblock.uuid, sizeof marker->uuid) != 0) {
        return wrong_marker(path, "uuid", uuid_text(marker->uuid), uuid_text(superblock.uuid));
    }
    if (marker->node != node || marker->nodes != superblock.nodes) {
        return wrong_marker(path, "node", fmt::format("{} of {}", marker->node, marker->nodes),
                            fmt::format("{} of {}", node, superblock.nodes));
    }
    return check_unshared(storage, paths, node, *marker);
}

result<void> write_marker(persist::storage& storage, const heap_paths& paths, const superblock_on_media& superblock,
                          std::uint32_t node) {
    HF_TRY_ASSIGN(const std::string home, full_path(paths.directory()));
    if (home.size() > longest_heap_path) {
        return failure{failure_code::invalid_argument,
                       paths.directory(),
                       "path",
                       fmt::format("{} bytes", home.size()),
                       fmt::format("at most {}", longest_heap_path),
                       {},
                       0};
    }
    node_marker_on_media marker{};
    std::memcpy(marker.magic, node_magic, sizeof node_magic);
    marker.version = node_version;
    marker.size = node_marker_size;
    std::memcpy(marker.uuid, superblock.uuid, sizeof marker.uuid);
    marker.node = node;
    marker.nodes = superblock.nodes;
    marker.path_size = static_cast<std::uint32_t>(home.size());
    std::memcpy(marker.heap, home.data(), home.size());
    marker.checksum = checksum_of(marker);
    HF_TRY_ASSIGN(auto file, storage.create(paths.node_marker(node), "node.marker"));
    HF_TRY(file->write_at(0, std::as_bytes(std::span{&marker, 1}), "node.marker.write"));
    return file->sync("node.marker.sync");
}

result<std::vector<std::uint64_t>> nodes_there(persist::storage& storage, const heap_paths& paths) {
    std::vector<std::uint64_t> nodes;
    HF_TRY_ASSIGN(const std::vector<std::string> names, storage.list(paths.directory()));
    for (const std::string& name : names) {
        if (const auto node = heap_paths::node_index(name)) {
            nodes.push_back(*node);
        }
    }
    return nodes;
}

failure not_ours(const heap_paths& paths, std::uint64_t node, std::string found) {
    return failure{failure_code::invalid_argument,
                   paths.node(node),
                   "node directory",
                   std::move(found),
                   "what a heap makes there",
                   "it was not removed; where it is of no use to anybody, remove it by hand",
                   0};
}

/// Such names are "-", a uuid, "." and the node.
bool has_name_of_node(std::string_view place, std::uint64_t node) {
    constexpr std::string_view form = "-00000000-0000-0000-0000-000000000000";
    const std::string end = fmt::format(".{}", node);
    if (place.size() < form.size() + end.size() || !place.ends_with(end)) {
        return false;
    }
    place = place.substr(place.size() - form.size() - end.size(), form.size());
    return std::ranges::equal(place, form, [](char found, char wanted) {
        return wanted == '-' ? found == '-' : (found >= '0' && found <= '9') || (found >= 'a' && found <= 'f');
    });
}

result<std::vector<std::string>> names_in_node(persist::storage& storage, const heap_paths& paths, std::uint64_t node) {
    auto listed = storage.list(paths.node(node));
    if (!listed && listed.error().os_error == ENOENT) {
        return std::vector<std::string>{};
    }
    return listed;
}

/// Without a superblock, only the name that make_node_directories() gave the directory tells the heap's uuid; a marker
/// must agree with it. Segments and lanes are made after the marker.
result<void> examine_remains(persist::storage& storage, const heap_paths& paths, std::uint64_t node,
                             const std::vector<std::string>& names) {
    HF_TRY_ASSIGN(const std::string place, place_of(storage, paths.node(node)));
    const bool is_link = place != paths.node(node);
    if (is_link && !has_name_of_node(place, node)) {
        return not_ours(paths, node, fmt::format("a link to {}", place));
    }
    const auto marker = read_marker(storage, paths.node_marker(node));
    if (!marker) {
        for (const std::string& name : names) {
            if (is_link && (name == "lanes" || heap_paths::segment_index(name))) {
                return not_ours(paths, node, fmt::format("{} without a sound file node in {}", name, place));
            }
        }
        return {};
    }
    const std::string suffix = fmt::format("-{}.{}", uuid_text(marker->uuid), node);
    if (marker->node != node || (is_link && !place.ends_with(suffix))) {
        return not_ours(paths, node, fmt::format("a link to {}", place));
    }
    return check_unshared(storage, paths, node, *marker);
}

result<void> examine_node(persist::storage& storage, const heap_paths& paths, const superblock_on_media* superblock,
                          std::uint64_t node) {
    if (superblock != nullptr && node < superblock->nodes) {
        HF_TRY(check_node(storage, paths, *superblock, static_cast<std::uint32_t>(node)));
    }
    HF_TRY_ASSIGN(const std::vector<std::string> names, names_in_node(storage, paths, node));
    for (const std::string& name : names) {
        if (!heap_paths::is_node_file(name)) {
            return not_ours(paths, node, fmt::format("a file {}", name));
        }
    }
    return superblock != nullptr && node < superblock->nodes ? result<void>()
                                                             : examine_remains(storage, paths, node, names);
}

result<void> remove_node(persist::storage& storage, const heap_paths& paths, std::uint64_t node) {
    HF_TRY_ASSIGN(const std::string place, place_of(storage, paths.node(node)));
    HF_TRY_ASSIGN(const std::vector<std::string> names, names_in_node(storage, paths, node));
    const auto target = storage.identity(place);
    const auto itself = storage.identity(paths.node(node));
    const bool leads_there = target && itself && *target == *itself;
    // As long as one is left, the marker tells whose it is.
    for (const std::string& name : names) {
        if (name == "lanes" || heap_paths::segment_index(name)) {
            HF_TRY(storage.remove(fmt::format("{}/{}", paths.node(node), name), "node.remove.segment"));
        }
    }
    if (!names.empty()) {
        HF_TRY(storage.sync_directory(paths.node(node), "node.remove.segment.sync"));
    }
    HF_TRY(storage.remove(paths.node_marker(node), "node.remove.marker"));
    HF_TRY(storage.remove(paths.node_lock(node), "node.remove.lock"));
    if (place != paths.node(node) && leads_there) {
        HF_TRY(storage.remove(place, "node.remove.directory"));
        HF_TRY(storage.sync_directory(heap_paths(place).parent(), "node.remove.directory.sync"));
    }
    return storage.remove(paths.node(node), "node.remove.name");
}

}  // namespace

result<void> check_node_places(persist::storage& storage, const heap_paths& paths,
                               std::span<const std::string> places) {
    if (places.size() > maximum_nodes) {
        return failure{failure_code::invalid_argument,
                       paths.directory(),
                       "node directories",
                       fmt::format("{}", places.size()),
                       fmt::format("at most {}", maximum_nodes),
                       {},
                       0};
    }
    for (const std::string& place : places) {
        if (place.empty()) {
            continue;
        }
        if (auto listed = storage.list(place); !listed) {
            failure what = std::move(listed).error();
            what.code = what.os_error == ENOENT ? failure_code::not_found : what.code;
            what.hint = "directories for the nodes of a heap must be there before it is created";
            return what;
        }
        HF_TRY(storage.check_place(place));
    }
    return {};
}

result<void> make_node_directories(persist::storage& storage, const heap_paths& paths,
                                   const superblock_on_media& superblock, std::span<const std::string> places) {
    HF_TRY_ASSIGN(const std::string home, full_path(paths.directory()));
    const std::string name = std::filesystem::path(home).filename().string();
    std::vector<std::string> targets;
    for (std::uint32_t node = 0; node < places.size(); ++node) {
        if (places[node].empty()) {
            targets.emplace_back();
            HF_TRY(storage.make_directory(paths.node(node), "node.own_directory"));
            continue;
        }
        HF_TRY_ASSIGN(const std::string place, full_path(places[node]));
        targets.push_back(fmt::format("{}/{}-{}.{}", place, name, uuid_text(superblock.uuid), node));
        HF_TRY(storage.make_link(paths.node(node), targets.back(), "node.link"));
    }
    // What a crash leaves is found by the links.
    HF_TRY(storage.sync_directory(paths.directory(), "node.link.sync"));
    HF_TRY(storage.sync_directory(paths.parent(), "node.link.parent.sync"));
    for (std::uint32_t node = 0; node < places.size(); ++node) {
        if (!targets[node].empty()) {
            HF_TRY(storage.make_directory(targets[node], "node.directory"));
        }
        HF_TRY_ASSIGN([[maybe_unused]] const auto lock, storage.create(paths.node_lock(node), "node.lock"));
        HF_TRY(write_marker(storage, paths, superblock, node));
        HF_TRY(storage.sync_directory(paths.node(node), "node.directory.sync"));
        if (!targets[node].empty()) {
            HF_TRY(storage.sync_directory(heap_paths(targets[node]).parent(), "node.directory.parent.sync"));
        }
    }
    return {};
}

result<void> check_node_directories(persist::storage& storage, const heap_paths& paths,
                                    const superblock_on_media& superblock) {
    for (std::uint32_t node = 0; node < superblock.nodes; ++node) {
        HF_TRY(check_node(storage, paths, superblock, node));
    }
    return {};
}

result<void> open_node_directories(heap_directories& directories, const heap_paths& paths, access_mode mode) {
    HF_TRY_ASSIGN(const std::vector<std::uint64_t> nodes, nodes_there(*directories.storage, paths));
    for (const std::uint64_t node : nodes) {
        auto held = directories.storage->hold(paths.node(node));
        if (!held) {
            const int os_error = held.error().os_error;
            if (os_error == ENOENT || os_error == ENOTDIR || os_error == ELOOP) {
                continue;
            }
            return std::move(held).error();
        }
        // The held directory is the one that will be used.
        if (read_marker(**held, paths.node_marker(node))) {
            HF_TRY_ASSIGN(heap_lock lock,
                          heap_lock::acquire(**held, paths.node(node), mode, heap_lock::missing_file::do_without));
            directories.storage = std::move(held).value();
            directories.locks.push_back(std::move(lock));
        }
    }
    return {};
}

result<void> examine_node_directories(persist::storage& storage, const heap_paths& paths,
                                      const superblock_on_media* superblock) {
    HF_TRY_ASSIGN(const std::vector<std::uint64_t> nodes, nodes_there(storage, paths));
    for (const std::uint64_t node : nodes) {
        HF_TRY(examine_node(storage, paths, superblock, node));
    }
    return {};
}

result<void> remove_node_directories(persist::storage& storage, const heap_paths& paths,
                                     const superblock_on_media* superblock) {
    HF_TRY_ASSIGN(const std::vector<std::uint64_t> nodes, nodes_there(storage, paths));
    for (const std::uint64_t node : nodes) {
        HF_TRY(examine_node(storage, paths, superblock, node));
        HF_TRY(remove_node(storage, paths, node));
    }
    return {};
}

}  // namespace holdfast::segment
