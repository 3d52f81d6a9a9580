#include "segment/lane_file.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

}  // namespace

base::result<void> lane_file::open(std::uint64_t limit) {
    HF_TRY_ASSIGN(const bool there, location_.storage().exists(location_.paths().lanes()));
    std::unique_ptr<persist::file> file;
    if (there) {
        HF_TRY_ASSIGN(file,
                      location_.storage().open(location_.paths().lanes(),
                                               location_.shared() ? access_mode::read_write : access_mode::read_only));
    } else if (location_.shared() && !superblock_.has_pending_lanes()) {
        HF_TRY_ASSIGN(file, location_.storage().create(location_.paths().lanes(), "lanes.create"));
        HF_TRY(location_.storage().sync_directory(location_.paths().directory(), "lanes.create.sync"));
    } else {
        return failure{
            failure_code::missing, location_.paths().lanes(), "file", "nothing", "the heap's redo rings", {}, 0};
    }
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    if (size > limit) {
        return failure{failure_code::corrupt,
                       location_.paths().lanes(),
                       "file size",
                       fmt::format("{}", size),
                       fmt::format("at most {}", limit),
                       {},
                       0};
    }
    HF_TRY_ASSIGN(range_, address_range::anywhere(base::align_up(limit, page_size), 0, region_size));
    size_ = base::align_down(size, page_size);
    if (size_ == 0) {
        return {};
    }
    if (superblock_.is_copied() && location_.is_writer()) {
        HF_TRY(file->allocate(0, size_, "copied.lanes"));
    }
    HF_TRY(map_file(range_.begin(), size_, file->native_handle(), 0, location_.paths().lanes(), location_.sharing()));
    const mapped_window whole{range_.begin(), 0, size_};
    return cover_.cover(*file, {&whole, 1});
}

base::result<void> lane_file::grow_lanes(std::uint64_t bytes) {
    HF_TRY(location_.check_process());
    if (bytes <= size_) {
        return {};
    }
    if (bytes > range_.size()) {
        return failure{failure_code::limit,
                       location_.paths().lanes(),
                       "size",
                       fmt::format("{}", bytes),
                       fmt::format("at most {}", range_.size()),
                       {},
                       0};
    }
    const std::uint64_t to = base::align_up(bytes, page_size);
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().lanes(), access_mode::read_write));
    HF_TRY(file->allocate(size_, to - size_, "lanes.allocate"));
    HF_TRY(file->sync("lanes.sync"));
    HF_TRY(map_file(range_.begin() + size_, to - size_, file->native_handle(), size_, location_.paths().lanes(),
                    location_.sharing()));
    size_ = to;
    return {};
}

base::result<void> lane_file::sync(persist::site where) const {
    if (size_ == 0) {
        return {};
    }
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().lanes(), access_mode::read_write));
    return file->sync(where);
}

base::result<void> lane_file::remove_copied() const {
    HF_TRY(location_.storage().remove(location_.paths().lanes(), "copied.lanes.remove"));
    return location_.storage().sync_directory(location_.paths().directory(), "copied.lanes.remove.sync");
}

}  // namespace holdfast::segment
