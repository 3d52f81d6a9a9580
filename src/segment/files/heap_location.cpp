#include "segment/files/heap_location.hpp"

#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process_identity.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::pages;
using persist::access_mode;
using persist::domain_kind;

}  // namespace

heap_location::heap_location(persist::storage& storage, std::string directory, access_mode mode)
    : storage_(storage),
      paths_(std::move(directory)),
      mode_(mode),
      owner_(base::process_identity()),
      owner_number_(::getpid()) {}

base::result<void> heap_location::find_domain() {
    HF_TRY_ASSIGN(domain_, domain_of_files());
    return {};
}

base::result<void> heap_location::choose_sharing(const mapping_options& options) {
    if (!options.shared) {
        return {};
    }
    const bool synchronous = domain_ == domain_kind::dax || domain_ == domain_kind::eadr;
    if (!synchronous && options.syncs_records) {
        domain_ = domain_kind::disk;
    }
    sharing_ = synchronous ? page_sharing::shared_sync : page_sharing::shared_pages;
    if (options.domain) {
        const domain_kind wanted = *options.domain;
        const bool possible = wanted == domain_ || wanted == domain_kind::page_cache || wanted == domain_kind::disk ||
                              wanted == domain_kind::emulated || (wanted == domain_kind::dax && synchronous);
        if (!possible) {
            return failure{failure_code::promise_unavailable,
                           paths_.directory(),
                           "persistence domain",
                           std::string(persist::to_string(domain_)),
                           std::string(persist::to_string(wanted)),
                           "put the heap on a file system that is mounted with dax, or ask for another domain",
                           0};
        }
        domain_ = wanted;
    }
    return {};
}

base::result<void> heap_location::check_whether_in_memory() {
    in_memory_ = true;
    for (const std::string& directory : paths_.segment_directories()) {
        HF_TRY_ASSIGN(const bool memory, storage().is_memory(directory));
        in_memory_ = in_memory_ && memory;
    }
    return {};
}

bool heap_location::has_room(pages wanted) const noexcept {
    constexpr std::uint64_t spare = 4 * base::mebibyte;
    if (scratch_) {
        return true;
    }
    try {
        return std::ranges::all_of(paths_.segment_directories(), [&](const std::string& directory) {
            const auto left = storage().available(directory);
            return !left || *left >= base::to_bytes(wanted) + spare;
        });
    } catch (const std::bad_alloc&) {
        return false;
    }
}

bool heap_location::is_space_short(pages free) const {
    constexpr std::uint64_t enough = 64 * base::mebibyte;
    const auto is_short = [&](const std::string& directory) {
        const auto left = storage().available(directory);
        return left && *left < base::to_bytes(free) + enough;
    };
    return is_short(paths_.directory()) || std::ranges::any_of(paths_.segment_directories(), is_short);
}

base::result<file_statistics> heap_location::sizes() const {
    file_statistics sizes;
    HF_TRY(add_sizes(paths_.directory(), sizes));
    for (std::uint32_t node = 0; node < paths_.nodes(); ++node) {
        HF_TRY(add_sizes(paths_.node(node), sizes));
    }
    return sizes;
}

base::result<void> heap_location::add_sizes(const std::string& directory, file_statistics& sizes) const {
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

/// The weakest of the file systems: what the heap promises holds for every byte.
base::result<domain_kind> heap_location::domain_of_files() const {
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

bool heap_location::is_mine() const noexcept { return base::process_identity() == owner_; }

base::result<void> heap_location::check_process() const {
    if (is_mine()) {
        return {};
    }
    return failure{failure_code::wrong_process,
                   paths_.directory(),
                   "process",
                   fmt::format("{}", ::getpid()),
                   fmt::format("{}, which opened the heap", owner_number_),
                   "a child of fork must not touch its parent's heap",
                   0};
}

base::result<void> heap_location::check_writer(const std::string& path, const char* change) const {
    if (is_writer()) {
        return {};
    }
    return failure{failure_code::read_only, path, change, "a heap opened read-only", "a writer", {}, 0};
}

void heap_location::continue_in_child() noexcept {
    sharing_ = page_sharing::private_pages;
    directories_.reset();
    scratch_ = true;
    owner_ = base::process_identity();
    owner_number_ = ::getpid();
}

}  // namespace holdfast::segment
