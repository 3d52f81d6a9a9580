// Where the files of a heap lie: the directories of its nodes, and what their file systems are like.
#include <algorithm>

#include <fmt/format.h>

#include "segment/heap_files.hpp"
#include "segment/node_directories.hpp"

namespace holdfast::segment {

using base::failure_code;
using persist::access_mode;
using persist::domain_kind;

/// Tells the kernel how to back a mapping of a segment's user pages: the size of its pages, and the node of its memory.
void heap_files::place(std::uint64_t index, std::byte* address, std::uint64_t bytes, bool fresh) const noexcept {
    if (has_place() && sharing_ != page_sharing::shared_sync) {
        topology_->prefer_memory(node_of_segment(index), address, bytes);
    }
    // A touch of a fresh private page that is huge clears 2 MiB, so these are huge only where the program asks for it.
    if (shared() || (fresh && user_pages_ == huge_pages::at_once) || user_pages_ == huge_pages::none) {
        choose_pages(address, bytes, user_pages_, fresh && shared());
    }
}

base::result<void> heap_files::create_nodes(std::span<const std::string> places) {
    if (places.empty()) {
        return {};
    }
    paths_ = paths_.with_nodes(superblock_.nodes);
    HF_TRY(make_node_directories(storage(), paths_, superblock_, places));
    return hold_nodes(*hold_, paths_, access_mode::read_write);
}

/// The weakest domain of the heap's file systems: what the heap promises holds for every byte.
base::result<domain_kind> heap_files::domain_of_files() const {
    const auto strength = [](domain_kind kind) {
        return kind == domain_kind::eadr ? 2 : kind == domain_kind::dax ? 1 : 0;
    };
    const auto domain_of = [this](const std::string& path) -> base::result<domain_kind> {
        HF_TRY_ASSIGN(auto file, storage().open(path, access_mode::read_only));
        return persist::detect_domain(file->native_handle(), path);
    };
    HF_TRY_ASSIGN(domain_kind weakest, domain_of(paths_.objects()));
    for (std::uint32_t node = 0; node < paths_.nodes(); ++node) {
        HF_TRY_ASSIGN(const domain_kind found, domain_of(paths_.node_marker(node)));
        weakest = std::min(weakest, found, [&](domain_kind a, domain_kind b) { return strength(a) < strength(b); });
    }
    return weakest;
}

base::result<void> heap_files::add_sizes(const std::string& directory, file_statistics& sizes) const {
    HF_TRY_ASSIGN(const std::vector<std::string> names, storage().list(directory));
    for (const std::string& name : names) {
        if (!heap_paths::is_heap_file(name) || heap_paths::node_index(name)) {
            continue;
        }
        auto opened = storage().open(fmt::format("{}/{}", directory, name), access_mode::read_only);
        if (!opened && opened.error().code == failure_code::missing) {
            continue;  // another thread has shortened the heap since
        }
        HF_TRY_ASSIGN(const auto file, std::move(opened));
        HF_TRY_ASSIGN(const std::uint64_t apparent, file->size());
        HF_TRY_ASSIGN(const std::uint64_t charged, file->charged());
        sizes.apparent_bytes += apparent;
        sizes.charged_bytes += charged;
    }
    return {};
}

base::result<file_statistics> heap_files::statistics() const {
    file_statistics sizes;
    if (scratch_) {
        return sizes;
    }
    HF_TRY(add_sizes(paths_.directory(), sizes));
    for (std::uint32_t node = 0; node < paths_.nodes(); ++node) {
        HF_TRY(add_sizes(paths_.node(node), sizes));
    }
    sizes.segments = segment_count(frontier_);
    return sizes;
}

}  // namespace holdfast::segment
