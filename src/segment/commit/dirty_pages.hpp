// Pages that a private mapping has stored to are anonymous in the kernel's page table, so no fault handler and no write
// barrier is needed. The PAGEMAP_SCAN ioctl (Linux 6.7) reads the table, else /proc/self/pagemap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "persist/descriptor.hpp"

namespace holdfast::segment {

struct memory_run {
    std::byte* address = nullptr;
    std::uint64_t pages = 0;
};

/// Not thread-safe.
class dirty_scanner {
public:
    enum class method { pagemap_scan, pagemap_bits };

    /// `unsupported` where /proc/self/pagemap cannot be read. Tries PAGEMAP_SCAN first.
    static base::result<dirty_scanner> open();
    static base::result<dirty_scanner> open(method how);

    /// Appends dirty runs in order of address, neighbours merged. The range is page-aligned.
    base::result<void> scan(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs);
    [[nodiscard]] method used() const noexcept { return method_; }

private:
    dirty_scanner(persist::descriptor pagemap, method how) noexcept : pagemap_(std::move(pagemap)), method_(how) {}
    struct share {
        std::byte* begin = nullptr;
        std::uint64_t bytes = 0;
        std::vector<memory_run> runs;
        base::result<void> done;
        bool out_of_memory = false;
    };
    void scan_share(share& part) const noexcept;
    base::result<void> scan_ioctl(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs) const;
    base::result<void> scan_bits(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs) const;

    persist::descriptor pagemap_;
    method method_;
};

}  // namespace holdfast::segment
