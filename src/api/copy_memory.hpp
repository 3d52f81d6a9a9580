// Memory of one transaction for its copies, given back as a whole. The object has the first two KiB.
#pragma once

#include <cstddef>
#include <memory_resource>

#include "base/hot.hpp"
#include "base/units.hpp"

namespace holdfast::detail {

class copy_memory {
public:
    /// May throw std::bad_alloc.
    [[nodiscard]] HF_HOT std::byte* take(std::size_t bytes, std::size_t alignment) {
        const std::size_t at = base::align_up(used_, alignment);
        if (at <= sizeof first_ && bytes <= sizeof first_ - at && alignment <= base::cache_line_size) [[likely]] {
            used_ = at + bytes;
            return &first_[at];
        }
        return take_more(bytes, alignment);
    }
    HF_HOT void release() noexcept {
        used_ = 0;
        if (has_more_) [[unlikely]] {
            more_.release();
            has_more_ = false;
        }
    }

private:
    [[nodiscard, gnu::noinline]] std::byte* take_more(std::size_t bytes, std::size_t alignment) {
        has_more_ = true;
        return static_cast<std::byte*>(more_.allocate(bytes, alignment));
    }

    std::size_t used_ = 0;
    alignas(base::cache_line_size) std::byte first_[2048];
    std::pmr::monotonic_buffer_resource more_;
    bool has_more_ = false;
};

}  // namespace holdfast::detail
