// For applications that know their blocks by address: before each block lies its number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "applications/application.hpp"

namespace bench {

/// Of one thread. The memory outlives it.
class numbered_blocks {
public:
    /// Up to so many blocks at the same time.
    numbered_blocks(application_memory& memory, std::size_t most) : memory_(memory), most_(most) {
        for (std::size_t which = most; which > 0; --which) {
            free_.push_back(static_cast<std::uint32_t>(which - 1));
        }
    }
    numbered_blocks(const numbered_blocks&) = delete;
    numbered_blocks& operator=(const numbered_blocks&) = delete;
    ~numbered_blocks() = default;

    /// Aligned to 16 bytes.
    [[nodiscard]] void* allocate(std::size_t size) {
        require_answer(!free_.empty(), "more blocks at the same time than there is room for");
        const std::uint32_t which = free_.back();
        auto* const before = static_cast<prefix*>(memory_.allocate(which, sizeof(prefix) + size));
        before->which = which;
        free_.pop_back();
        ++calls_;
        return before + 1;
    }
    void release(void* block) {
        const std::uint32_t which = (static_cast<const prefix*>(block) - 1)->which;
        memory_.release(which);
        free_.push_back(which);
        ++calls_;
    }
    /// An allocation is one, a free is one.
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }
    [[nodiscard]] std::size_t live() const noexcept { return most_ - free_.size(); }

private:
    struct alignas(16) prefix {
        std::uint32_t which;
    };

    application_memory& memory_;
    std::size_t most_;
    std::vector<std::uint32_t> free_;
    std::uint64_t calls_ = 0;
};

}  // namespace bench
