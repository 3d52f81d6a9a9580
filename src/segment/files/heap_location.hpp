// Where the files of an open heap lie, what their file systems are like, and who may change them.
//
//   - storage() leads paths() to the same directories for as long as the heap is open, wherever they are moved.
//   - Only the process that opened the heap changes it: check_process() fails in a child of fork.
//   - A scratch heap has no files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/domain.hpp"
#include "persist/machine.hpp"
#include "persist/storage.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/heap_directories.hpp"
#include "segment/files/heap_options.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

struct file_statistics {
    std::uint64_t apparent_bytes = 0;
    std::uint64_t charged_bytes = 0;
    std::uint64_t segments = 0;
};

/// Thread-safe, except for the functions of an open, and continue_in_child().
class heap_location {
public:
    heap_location(persist::storage& storage, std::string directory, persist::access_mode mode);
    heap_location(const heap_location&) = delete;
    heap_location& operator=(const heap_location&) = delete;
    ~heap_location() = default;

    // While the heap is opened.
    void set_directories(std::shared_ptr<heap_directories> directories) noexcept {
        directories_ = std::move(directories);
    }
    void set_nodes(std::uint32_t nodes) { paths_ = paths_.with_nodes(nodes); }
    void set_topology(const persist::topology& topology) noexcept { topology_ = &topology; }
    void set_scratch() noexcept { scratch_ = true; }
    base::result<void> find_domain();
    /// Comes after find_domain().
    base::result<void> choose_sharing(const mapping_options& options);
    base::result<void> check_whether_in_memory();

    [[nodiscard]] const heap_paths& paths() const noexcept { return paths_; }
    [[nodiscard]] persist::storage& storage() const noexcept {
        return directories_ != nullptr ? *directories_->storage : storage_;
    }
    /// As given to create() or open(): paths mean what they mean now.
    [[nodiscard]] persist::storage& outer_storage() const noexcept { return storage_; }
    [[nodiscard]] const std::shared_ptr<heap_directories>& directories() const noexcept { return directories_; }
    [[nodiscard]] persist::access_mode mode() const noexcept { return mode_; }
    /// Who rests between turns is a reader.
    [[nodiscard]] bool is_writer() const noexcept {
        return mode_ == persist::access_mode::read_write && (directories_ == nullptr || !directories_->rests);
    }
    [[nodiscard]] bool is_scratch() const noexcept { return scratch_; }
    [[nodiscard]] persist::domain_kind domain() const noexcept { return domain_; }
    [[nodiscard]] const page_sharing& sharing() const noexcept { return sharing_; }
    [[nodiscard]] bool shared() const noexcept { return sharing_ != page_sharing::private_pages; }

    [[nodiscard]] const persist::topology& topology() const noexcept { return *topology_; }
    /// A thread should choose its own among so many nodes.
    [[nodiscard]] std::uint32_t nodes_of_threads() const noexcept {
        return paths_.nodes() == 0 || topology_->nodes() == 1 ? 1 : paths_.nodes();
    }
    [[nodiscard]] bool has_place() const noexcept { return paths_.nodes() > 1 && topology_->nodes() > 1; }
    [[nodiscard]] unsigned node_of_segment(std::uint64_t index) const noexcept {
        return static_cast<unsigned>(index % paths_.nodes() % topology_->nodes());
    }
    /// Held around calls that reserve space of a segment in memory of its node.
    [[nodiscard]] persist::topology::preference near(std::uint64_t index) const noexcept {
        return has_place() ? persist::topology::preference(*topology_, node_of_segment(index))
                           : persist::topology::preference();
    }

    /// Durability `commit` on a file system in memory: private pages that are no mapping of the file yet (MAP-2) have
    /// their memory already. A growth only asks whether there is room for them; the commit reserves them before its
    /// commit point.
    [[nodiscard]] bool reserves_at_commit() const noexcept { return in_memory_ && !shared(); }
    /// Whether a change of the heap's size must be on media before it is used. In the domain `page-cache` no session
    /// survives a loss of power.
    [[nodiscard]] bool syncs_growth() const noexcept {
        return !shared() || domain_ != persist::domain_kind::page_cache;
    }
    /// Whether reserved space must stay so after a loss of power.
    [[nodiscard]] bool syncs_space() const noexcept {
        return shared() && syncs_growth() && domain_ != persist::domain_kind::emulated;
    }
    /// Whether a loss of power takes what a shared session has not synced.
    [[nodiscard]] bool survives_process_crash_only() const noexcept {
        return domain_ == persist::domain_kind::page_cache || domain_ == persist::domain_kind::emulated;
    }
    [[nodiscard]] bool is_in_memory() const noexcept { return in_memory_; }
    /// Whether every file system of segments has so much to spare.
    [[nodiscard]] bool has_room(base::pages wanted) const noexcept;
    /// Whether a file system has less left than `free` pages and 64 MiB.
    [[nodiscard]] bool is_space_short(base::pages free) const;
    /// `segments` stays 0.
    [[nodiscard]] base::result<file_statistics> sizes() const;

    [[nodiscard]] bool is_mine() const noexcept;
    /// `wrong_process` in a child of fork.
    [[nodiscard]] base::result<void> check_process() const;
    /// Fails with `read_only` in a reader, and names the change.
    [[nodiscard]] base::result<void> check_writer(const std::string& path, const char* change) const;
    /// The parent still has the files open and holds their locks.
    void continue_in_child() noexcept;

private:
    [[nodiscard]] base::result<persist::domain_kind> domain_of_files() const;
    base::result<void> add_sizes(const std::string& directory, file_statistics& sizes) const;

    persist::storage& storage_;
    heap_paths paths_;
    persist::access_mode mode_;
    std::uint64_t owner_;  ///< base::process_identity()
    pid_t owner_number_;   ///< for people
    persist::domain_kind domain_ = persist::domain_kind::page_cache;
    const persist::topology* topology_ = nullptr;
    std::shared_ptr<heap_directories> directories_;
    page_sharing sharing_ = page_sharing::private_pages;
    bool in_memory_ = false;
    bool scratch_ = false;
};

}  // namespace holdfast::segment
