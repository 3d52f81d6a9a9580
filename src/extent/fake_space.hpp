// For tests of extent and slab: a heap's address space without files, on anonymous memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/sparse_table.hpp"
#include "segment/space.hpp"

namespace holdfast::extent {

/// Grows by at least `step` pages at a time, up to `capacity` pages of the reservation. Outlives the allocators upon
/// it, so that they can be closed and opened again.
class fake_space final : public segment::space_growth {
public:
    explicit fake_space(std::uint64_t reservation = 4 * base::gibibyte,
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
    void set_capacity(std::uint64_t bytes) noexcept { capacity_ = {bytes / base::page_size}; }

    base::result<base::pages> grow(base::pages wanted) override {
        last_wanted_ = wanted;
        const std::uint64_t unit = segment::region_size / base::page_size;
        const std::uint64_t rounded = base::align_up(wanted.value, unit);
        const std::uint64_t room = base::align_down(capacity_.value - std::min(frontier_, capacity_).value, unit);
        if (rounded > room) {
            base::failure what;
            what.code = base::failure_code::no_space;
            what.field = "capacity of the test";
            what.found = fmt::format("{} pages", room);
            what.expected = fmt::format("{} pages", rounded);
            return what;
        }
        const base::pages added{std::min(std::max(rounded, step_.value), room)};
        frontier_ += added;
        ++grown_;
        return added;
    }

private:
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
    base::pages last_wanted_{};
    std::uint64_t grown_ = 0;
};

}  // namespace holdfast::extent
