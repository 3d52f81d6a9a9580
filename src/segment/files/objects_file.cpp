#include "segment/files/objects_file.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/interruption.hpp"
#include "base/units.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/private_memory.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

constexpr std::uint64_t size_step = 64 * base::kibibyte;

}  // namespace

base::result<void> objects_file::map_committed() {
    committed_size_ = adopted_size_ = superblock_.now().objects_size;
    set_size(committed_size_);
    return map_from(0);
}

base::result<void> objects_file::follow_growth(std::uint64_t bytes) {
    const std::uint64_t before = size_;
    if (bytes > room_) {
        return failure{failure_code::limit,
                       location_.paths().objects(),
                       "size",
                       fmt::format("{}", bytes),
                       fmt::format("at most {} in all", room_),
                       "open the heap again",
                       0};
    }
    committed_size_ = adopted_size_ = bytes;
    set_size(bytes);
    return map_from(before);
}

base::result<void> objects_file::grow(std::uint64_t bytes) {
    HF_TRY(location_.check_process());
    HF_TRY(location_.check_writer(location_.paths().objects(), "growth"));
    const std::uint64_t step = base::align_up(std::max(bytes, std::max(size_step, size_ / 8)), page_size);
    if (step > room_ - size_) {
        return failure{failure_code::limit,
                       location_.paths().objects(),
                       "size",
                       fmt::format("{}", size_),
                       fmt::format("at most {} in all", room_),
                       room_ < objects_area_size ? "the process may have more addresses (ulimit -v)" : "",
                       0};
    }
    if (location_.is_scratch()) {
        HF_TRY(map_zeroed(begin_ + size_, step, false));
        set_size(size_ + step);
        return {};
    }
    const base::cancellation_off until_done;
    HF_TRY(superblock_.mark_running());
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().objects(), access_mode::read_write));
    HF_TRY(file->allocate(size_, step, "grow.allocate_objects"));
    if (location_.shared()) {
        if (location_.syncs_growth()) {
            HF_TRY(file->sync("grow.objects.sync"));
        }
        HF_TRY(map_file(begin_ + size_, step, file->native_handle(), size_, location_.paths().objects(),
                        location_.sharing()));
        const std::uint64_t size = size_ + step;
        HF_TRY(superblock_.write_size([size](superblock_on_media& next) { next.objects_size = size; }));
        committed_size_ = adopted_size_ = size;
    } else {
        HF_TRY(map_zeroed(begin_ + size_, step, false));
    }
    set_size(size_ + step);
    return {};
}

base::result<void> objects_file::map_adopted() {
    HF_TRY(map_from(adopted_size_));
    adopted_size_ = committed_size_;
    return {};
}

/// [from, committed_size())
base::result<void> objects_file::map_from(std::uint64_t from) {
    if (committed_size_ == from) {
        return {};
    }
    HF_TRY_ASSIGN(auto file,
                  location_.storage().open(location_.paths().objects(),
                                           location_.shared() ? access_mode::read_write : access_mode::read_only));
    HF_TRY(map_file(begin_ + from, committed_size_ - from, file->native_handle(), from, location_.paths().objects(),
                    location_.sharing()));
    const mapped_window whole{begin_, 0, committed_size_};
    return cover_.cover(*file, {&whole, 1});
}

base::result<void> objects_file::remove_leftovers() const {
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().objects(), access_mode::read_write));
    HF_TRY(file->resize(size_, "open.resize_objects"));
    return file->sync("open.sync_objects");
}

base::result<void> objects_file::forget_checksums() const {
    const std::vector<std::byte> zeros(page_size);
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().objects(), access_mode::read_write));
    for (std::uint64_t page = 0; page * page_size < superblock_.now().objects_size; page += objects_group_pages) {
        HF_TRY(file->write_at(page * page_size, zeros, "open.stale_checksums.write_objects"));
    }
    return file->sync("open.stale_checksums.sync_objects");
}

base::result<void> objects_file::sync() const {
    HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().objects(), access_mode::read_write));
    return file->sync("shared.objects.sync");
}

base::result<void> objects_file::show_to_child(bool shown) const {
    return size_ == 0 ? base::result<void>() : show_range_to_child(begin_, size_, shown);
}

base::result<void> objects_file::copy_for_child() {
    const byte_range all{0, size_};
    return size_ == 0 ? base::result<void>() : replace_by_copy(begin_, size_, std::span(&all, 1));
}

}  // namespace holdfast::segment
