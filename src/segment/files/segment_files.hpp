// The segment files of an open heap.
//
//   - A file below the frontier has its whole size, and space on disk for its tables, except for live bitmaps.
//   - A file beyond the frontier is the remains of something that failed. It means nothing, and may be removed.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_location.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Keeps the segment file open that most calls come to. Thread-safe.
class open_segment {
public:
    open_segment() = default;
    open_segment(const open_segment&) = delete;
    open_segment& operator=(const open_segment&) = delete;
    ~open_segment() = default;

    /// For writing. Fails as storage::open() does.
    base::result<std::shared_ptr<persist::file>> get(persist::storage& storage, const heap_paths& paths,
                                                     std::uint64_t index) {
        const base::scoped_lock lock(mutex_);
        if (file_ == nullptr || index_ != index) {
            HF_TRY_ASSIGN(auto opened, storage.open(paths.segment(index), persist::access_mode::read_write));
            file_ = std::move(opened);
            index_ = index;
        }
        return file_;
    }
    /// Another file may get the number of a removed segment.
    void forget() noexcept {
        const base::scoped_lock lock(mutex_);
        file_.reset();
    }

private:
    base::mutex mutex_;
    std::uint64_t index_ HF_GUARDED_BY(mutex_) = 0;
    std::shared_ptr<persist::file> file_ HF_GUARDED_BY(mutex_);
};

/// for_each(), open() and what concerns names are thread-safe. Callers serialise the others.
class segment_files {
public:
    explicit segment_files(const heap_location& location) noexcept : location_(location) {}
    segment_files(const segment_files&) = delete;
    segment_files& operator=(const segment_files&) = delete;
    ~segment_files() = default;

    /// Comes first.
    void set_shape(const geometry& shape) noexcept { shape_ = shape; }
    /// Bytes.
    [[nodiscard]] std::uint64_t file_length() const noexcept { return shape_.file_size(); }
    /// Open for writing.
    base::result<std::shared_ptr<persist::file>> open(std::uint64_t index) {
        return last_used_.get(location_.storage(), location_.paths(), index);
    }
    using visitor = base::function_ref<base::result<void>(persist::file&, std::uint64_t, std::uint64_t)>;
    /// Calls `each` segment by segment with the file, the first page in it and the number of pages.
    base::result<void> for_each(base::pages start, base::pages length, visitor each);

    /// Reserves the tables of user pages [from, to), and makes missing files.
    base::result<void> reserve_tables(base::pages from, base::pages to);
    /// Best effort.
    void undo_growth(base::pages from, base::pages to);
    /// Live bitmaps are left out.
    static base::result<void> allocate_tables(persist::file& file, const geometry& shape, std::uint64_t first_page,
                                              std::uint64_t last_page);
    /// Removes the content beyond the end in the last segment; durably in durability `commit`, where new space that a
    /// commit does not write must read as zero before and after that commit.
    base::result<void> clear_beyond(base::pages end);
    /// The segment lies beyond the frontier. Best effort.
    void remove(std::uint64_t index);
    /// Removes what a crashed writer left, as clear_beyond() does.
    base::result<void> remove_leftovers(base::pages frontier, bool recovered) const;
    /// Erases, durably, the checksums of the first `count` segments.
    base::result<void> forget_checksums(std::uint64_t count) const;
    base::result<void> sync(std::uint64_t count) const;

    /// Files were created since the last commit or sync_new_names(). A growth and a sync may come to the names at once.
    [[nodiscard]] bool names_changed() const noexcept HF_EXCLUDES(names_mutex_) {
        const base::scoped_lock lock(names_mutex_);
        return names_changed_;
    }
    void set_names_changed(bool changed) noexcept HF_EXCLUDES(names_mutex_) {
        const base::scoped_lock lock(names_mutex_);
        names_changed_ = changed;
    }
    /// Waits for a thread that does so.
    base::result<void> sync_new_names() HF_EXCLUDES(names_mutex_);

private:
    base::result<void> reserve_in_segment(std::uint64_t index, std::uint64_t first_page, std::uint64_t last_page);

    const heap_location& location_;
    geometry shape_;
    open_segment last_used_;
    mutable base::mutex names_mutex_;
    bool names_changed_ HF_GUARDED_BY(names_mutex_) = false;
};

}  // namespace holdfast::segment
