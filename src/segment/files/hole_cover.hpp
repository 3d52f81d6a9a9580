// A reader of a copied heap must not take space, but reading a hole does so on some file systems (tmpfs): it maps zeros
// of its own over holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "persist/storage.hpp"

namespace holdfast::segment {

struct mapped_window {
    std::byte* address;
    std::uint64_t offset;
    std::uint64_t size;
};

/// Runs while the heap is opened, in one thread.
class hole_cover {
public:
    hole_cover() = default;
    hole_cover(const hole_cover&) = delete;
    hole_cover& operator=(const hole_cover&) = delete;
    ~hole_cover() = default;

    void require() noexcept { required_ = true; }
    [[nodiscard]] bool is_required() const noexcept { return required_; }
    /// `limit` where there are too many holes. Does nothing unless it is_required() and reading takes space.
    base::result<void> cover(persist::file& file, std::span<const mapped_window> windows);

private:
    std::uint64_t covered_ = 0;  ///< each a mapping
    bool required_ = false;
};

}  // namespace holdfast::segment
