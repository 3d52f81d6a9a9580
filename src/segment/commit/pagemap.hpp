// What the kernel says of this process's memory: page tables, and counts of page faults.
//
// Page tables: the ioctl PAGEMAP_SCAN (Linux 6.7), or the entries of /proc/self/pagemap. Thread-safe.
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "persist/descriptor.hpp"

namespace holdfast::segment {

struct memory_run {
    std::byte* address = nullptr;
    std::uint64_t pages = 0;
};

[[nodiscard]] inline std::byte* end_of(const memory_run& run) noexcept {
    return run.address + run.pages * base::page_size;
}

/// Unites it with the last run where they touch.
void append(std::vector<memory_run>& runs, const memory_run& run);

/// Ranges are page-aligned. Runs are appended in order of address, neighbours merged.
class pagemap {
public:
    /// `unsupported` where /proc/self/pagemap cannot be read.
    static base::result<pagemap> open();

    enum class swapped { found, left_out };
    /// Private pages of a private mapping, by the ioctl. Zero pages are none. Protected pages that are not mapped look
    /// as if they were in swap: `left_out` finds neither.
    base::result<void> find_private(std::byte* begin, std::uint64_t bytes, swapped pages_in_swap,
                                    std::vector<memory_run>& runs) const;
    /// Without the ioctl; a zero page that was read is found, too.
    base::result<void> find_private_by_entries(std::byte* begin, std::uint64_t bytes,
                                               std::vector<memory_run>& runs) const;

    enum class written { stay, are_protected_again };
    /// Pages of watched memory (write_watch.hpp) that were stored to since they were protected. Fails where a part of
    /// the range is not watched. After a failure any page may be protected again that was not found. Pages
    /// that were dropped while they were not protected may be found, too.
    base::result<void> find_written(std::byte* begin, std::uint64_t bytes, written afterwards,
                                    std::vector<memory_run>& runs) const;

    /// Those of find_written() that are private: a fault has happened at each. Others stay as they are. Takes several
    /// times as long as find_written().
    base::result<void> find_stored(std::byte* begin, std::uint64_t bytes, written afterwards,
                                   std::vector<memory_run>& runs) const;

    /// No scan succeeds any more.
    void close() noexcept { file_.reset(); }

private:
    explicit pagemap(persist::descriptor file) noexcept : file_(std::move(file)) {}
    template <class Request>
    base::result<void> scan(std::byte* begin, std::uint64_t bytes, const Request& wanted,
                            std::vector<memory_run>& runs) const;

    persist::descriptor file_;
};

/// Page faults. Memory that is protected takes one at the first store to each of its pages, whoever of this process
/// makes it, system calls included. So as many pages at most were stored to as there were faults.
[[nodiscard]] inline std::uint64_t faults_of(int whom) noexcept {
    rusage used{};
    ::getrusage(whom, &used);
    return static_cast<std::uint64_t>(used.ru_minflt) + static_cast<std::uint64_t>(used.ru_majflt);
}
[[nodiscard]] inline std::uint64_t faults_of_process() noexcept { return faults_of(RUSAGE_SELF); }
[[nodiscard]] inline std::uint64_t faults_of_thread() noexcept { return faults_of(RUSAGE_THREAD); }

}  // namespace holdfast::segment
