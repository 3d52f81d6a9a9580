// Tests have no files, but anonymous memory.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/sparse_table.hpp"
#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "segment/format/space.hpp"

namespace holdfast::extent {

/// Grows by `step` pages at least, up to `capacity`.
class fake_space final : public segment::space_growth {
public:
    static constexpr std::uint64_t default_reservation = base::under_qemu ? base::gibibyte / 2 : 4 * base::gibibyte;
    explicit fake_space(std::uint64_t reservation = default_reservation,
                        std::uint64_t capacity_bytes = ~std::uint64_t{0},
                        std::uint64_t step_bytes = segment::region_size,
                        std::uint64_t segment_size = 16 * base::mebibyte)
        : capacity_{std::min(capacity_bytes, reservation) / base::page_size},
          step_{base::align_up(step_bytes, segment::region_size) / base::page_size} {
        const segment::geometry shape{segment_size};
        user_ = map(reservation + segment::region_size);
        metadata_ = map(shape.segments_in(reservation) * shape.metadata_size());
        const std::uint64_t address = reinterpret_cast<std::uintptr_t>(user_.address());
        auto* const user = static_cast<std::byte*>(user_.address());
        view_ = segment::space_view(user + (base::align_up(address, segment::region_size) - address),
                                    static_cast<std::byte*>(metadata_.address()), shape, reservation);
    }

    [[nodiscard]] const segment::space_view& view() const noexcept { return view_; }
    [[nodiscard]] base::pages frontier() const noexcept override { return frontier_; }
    [[nodiscard]] base::pages last_wanted() const noexcept { return last_wanted_; }
    [[nodiscard]] std::uint64_t grown() const noexcept { return grown_; }
    [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
    void set_capacity(std::uint64_t bytes) noexcept { capacity_ = {bytes / base::page_size}; }
    void set_disk(std::uint64_t pages) noexcept { disk_ = pages; }
    [[nodiscard]] std::uint64_t on_disk() const {
        const std::scoped_lock lock(mutex_);
        return count_on_disk();
    }
    [[nodiscard]] bool is_backed(base::pages page) const {
        const std::scoped_lock lock(mutex_);
        return backed_.at(page.value);
    }
    [[nodiscard]] std::uint64_t given_back() const noexcept { return given_back_; }
    void give_back_at_once(bool at_once) noexcept { at_once_ = at_once; }
    [[nodiscard]] std::uint64_t count_on_disk() const noexcept { return on_disk_; }

    base::result<base::pages> grow(base::pages wanted) override {
        last_wanted_ = wanted;
        const std::uint64_t unit = segment::region_size / base::page_size;
        const std::uint64_t rounded = base::align_up(wanted.value, unit);
        const std::uint64_t room = base::align_down(capacity_.value - std::min(frontier_, capacity_).value, unit);
        if (rounded > room) {
            ++refused_;
            base::failure what;
            what.code = base::failure_code::no_space;
            what.field = "capacity of the test";
            what.found = fmt::format("{} pages", room);
            what.expected = fmt::format("{} pages", rounded);
            return what;
        }
        const base::pages added{std::min(std::max(rounded, step_.value), room)};
        const std::scoped_lock lock(mutex_);
        const base::pages backed{std::min(added.value, std::max(wanted.value, reserved_at_once_))};
        if (backed.value > disk_ - std::min(disk_, count_on_disk())) {
            ++refused_;
            return full_disk(backed.value);
        }
        backed_end_ = frontier_ + backed;
        frontier_ += added;
        backed_.resize(backed_end_.value, true);
        backed_.resize(frontier_.value, false);
        on_disk_ += backed.value;
        ++grown_;
        return added;
    }

    base::result<base::pages> grow_beyond(base::pages skipped, base::pages wanted, base::pages most) override {
        const base::pages step = std::exchange(step_, {});
        const base::pages before = frontier_;
        auto grown = grow(skipped + std::min(std::max(wanted, step), most));
        step_ = step;
        if (grown && skipped.value != 0) {
            HF_TRY(give_back(before, skipped));
        }
        return grown;
    }

    [[nodiscard]] base::pages backed_end() const noexcept override { return backed_end_; }
    /// Beyond it, entries count as never stored to.
    void set_made_from(base::pages page) noexcept { made_from_ = page; }
    [[nodiscard]] base::pages made_from() const noexcept override { return std::min(made_from_, frontier_); }
    /// What the disk reserves ahead of need.
    void reserve_at_once(std::uint64_t pages) noexcept { reserved_at_once_ = pages; }
    [[nodiscard]] bool gives_back_at_once() const noexcept override { return at_once_; }
    void let_linger(base::pages some) noexcept { may_linger_ = some; }
    [[nodiscard]] base::pages may_linger() const noexcept override { return may_linger_; }
    base::result<void> give_back(base::pages start, base::pages length) override {
        const std::scoped_lock lock(mutex_);
        on_disk_ -= length.value - holes_in(start, length);
        std::fill_n(backed_.begin() + static_cast<std::ptrdiff_t>(start.value), length.value, false);
        ++given_back_;
        return {};
    }
    base::result<void> reserve_again(base::pages start, base::pages length) override {
        const std::scoped_lock lock(mutex_);
        const std::uint64_t holes = holes_in(start, length);
        if (holes > disk_ - std::min(disk_, count_on_disk())) {
            return full_disk(holes);
        }
        std::fill_n(backed_.begin() + static_cast<std::ptrdiff_t>(start.value), length.value, true);
        on_disk_ += holes;
        return {};
    }
    void fail_shrink() noexcept { shrink_fails_ = true; }
    base::result<void> shrink(base::pages to) override {
        const std::scoped_lock lock(mutex_);
        if (std::exchange(shrink_fails_, false)) {
            base::failure what;
            what.code = base::failure_code::io;
            return what;
        }
        on_disk_ -= (frontier_ - to).value - holes_in(to, frontier_ - to);
        frontier_ = to;
        backed_.resize(to.value);
        return {};
    }

private:
    [[nodiscard]] std::uint64_t holes_in(base::pages start, base::pages length) const {
        const auto begin = backed_.begin() + static_cast<std::ptrdiff_t>(start.value);
        return static_cast<std::uint64_t>(std::count(begin, begin + static_cast<std::ptrdiff_t>(length.value), false));
    }
    [[nodiscard]] base::failure full_disk(std::uint64_t wanted) const {
        base::failure what;
        what.code = base::failure_code::no_space;
        what.field = "disk of the test";
        what.found = fmt::format("{} of {} pages in use", count_on_disk(), disk_);
        what.expected = fmt::format("{} pages", wanted);
        what.os_error = ENOSPC;
        return what;
    }
    static base::sparse_memory map(std::uint64_t bytes) {
        auto memory = base::sparse_memory::map(bytes, "space of a test");
        if (!memory) {
            throw std::runtime_error(memory.error().message());
        }
        return std::move(memory).value();
    }

    base::sparse_memory user_;
    base::sparse_memory metadata_;
    segment::space_view view_;
    base::pages capacity_{};
    base::pages step_{};
    base::pages frontier_{};
    base::pages backed_end_{};
    base::pages made_from_{~std::uint64_t{0}};
    std::uint64_t reserved_at_once_ = ~std::uint64_t{0};
    base::pages last_wanted_{};
    std::uint64_t grown_ = 0;
    std::uint64_t refused_ = 0;
    std::uint64_t given_back_ = 0;
    std::uint64_t disk_ = ~std::uint64_t{0};
    mutable std::mutex mutex_;
    std::vector<bool> backed_;
    std::uint64_t on_disk_ = 0;
    bool at_once_ = true;
    base::pages may_linger_{};
    bool shrink_fails_ = false;
};

}  // namespace holdfast::extent
