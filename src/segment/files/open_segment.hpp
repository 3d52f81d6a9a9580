// Keeps the segment file open that most calls come to.
#pragma once

#include <cstdint>
#include <memory>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

/// Thread-safe.
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

}  // namespace holdfast::segment
