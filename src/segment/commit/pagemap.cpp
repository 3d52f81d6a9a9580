#include "segment/commit/pagemap.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

constexpr auto pagemap_path = "/proc/self/pagemap";

// As in Linux 6.7; Debian 12's headers are older.
struct page_region {
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t categories;
};
struct pm_scan_arg {
    std::uint64_t size;
    std::uint64_t flags;
    std::uint64_t start;
    std::uint64_t end;
    std::uint64_t walk_end;
    std::uint64_t vec;
    std::uint64_t vec_len;
    std::uint64_t max_pages;
    std::uint64_t category_inverted;
    std::uint64_t category_mask;
    std::uint64_t category_anyof_mask;
    std::uint64_t return_mask;
};
static_assert(sizeof(pm_scan_arg) == 96);

constexpr std::uint64_t page_is_written = 1U << 1U;
constexpr std::uint64_t page_is_file = 1U << 2U;
constexpr std::uint64_t page_is_present = 1U << 3U;
constexpr std::uint64_t page_is_swapped = 1U << 4U;
constexpr std::uint64_t page_is_zero = 1U << 5U;

constexpr std::uint64_t protect_what_matches = 1U << 0U;
constexpr std::uint64_t fail_where_unwatched = 1U << 1U;

constexpr std::uint64_t bit_present = std::uint64_t{1} << 63;
constexpr std::uint64_t bit_swapped = std::uint64_t{1} << 62;
constexpr std::uint64_t bit_file = std::uint64_t{1} << 61;

std::uint64_t as_wanted(pagemap::written afterwards) noexcept {
    return fail_where_unwatched | (afterwards == pagemap::written::are_protected_again ? protect_what_matches : 0);
}

unsigned long scan_request() noexcept { return _IOWR('f', 16, pm_scan_arg); }

}  // namespace

void append(std::vector<memory_run>& runs, const memory_run& run) {
    if (!runs.empty() && runs.back().address + runs.back().pages * base::page_size == run.address) {
        runs.back().pages += run.pages;
    } else {
        runs.push_back(run);
    }
}

base::result<pagemap> pagemap::open() {
    persist::descriptor file(::open(pagemap_path, O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
        base::failure what = base::os_failure(errno, "open", pagemap_path);
        what.code = base::failure_code::unsupported;
        what.hint = "a commit finds the changed pages there: mount /proc";
        return what;
    }
    return pagemap(std::move(file));
}

template <class Request>
base::result<void> pagemap::scan(std::byte* begin, std::uint64_t bytes, const Request& wanted,
                                 std::vector<memory_run>& runs) const {
    std::array<page_region, 1024> regions;  // the kernel fills what it counts, and allocates as many
    const std::uint64_t most = std::min<std::uint64_t>(regions.size(), bytes / base::page_size / 2 + 1);
    const auto start = reinterpret_cast<std::uint64_t>(begin);
    std::uint64_t next = start;
    while (next < start + bytes) {
        pm_scan_arg request{};
        request.size = sizeof request;
        request.start = next;
        request.end = start + bytes;
        request.vec = reinterpret_cast<std::uint64_t>(regions.data());
        request.vec_len = most;
        wanted(request);
        const int count = ::ioctl(file_.get(), scan_request(), &request);
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            return base::os_failure(errno, "ioctl(PAGEMAP_SCAN)", pagemap_path);
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            const page_region& region = regions.at(i);
            append(runs, {begin + (region.start - start), (region.end - region.start) / base::page_size});
        }
        // Where the last region just fills the array, kernels report a walk_end before its end.
        const std::uint64_t last = count == 0 ? 0 : regions.at(static_cast<std::size_t>(count) - 1).end;
        const std::uint64_t walked = std::max<std::uint64_t>(request.walk_end, last);
        if (walked <= next) {
            return base::failure{
                base::failure_code::io, pagemap_path, "ioctl(PAGEMAP_SCAN)", "no progress", "progress", {}, 0};
        }
        next = walked;
    }
    return {};
}

base::result<void> pagemap::find_private(std::byte* begin, std::uint64_t bytes, swapped pages_in_swap,
                                         std::vector<memory_run>& runs) const {
    return scan(
        begin, bytes,
        [pages_in_swap](pm_scan_arg& request) {
            request.category_inverted = page_is_file | page_is_zero;
            request.category_mask = page_is_file | page_is_zero;
            request.category_anyof_mask = page_is_present | (pages_in_swap == swapped::found ? page_is_swapped : 0);
        },
        runs);
}

base::result<void> pagemap::find_written(std::byte* begin, std::uint64_t bytes, written afterwards,
                                         std::vector<memory_run>& runs) const {
    return scan(
        begin, bytes,
        [afterwards](pm_scan_arg& request) {
            request.return_mask = page_is_written;  // the kernel has a quick search for just this answer
            request.flags = as_wanted(afterwards);
            request.category_mask = page_is_written;
        },
        runs);
}

base::result<void> pagemap::find_stored(std::byte* begin, std::uint64_t bytes, written afterwards,
                                        std::vector<memory_run>& runs) const {
    return scan(
        begin, bytes,
        [afterwards](pm_scan_arg& request) {
            request.flags = as_wanted(afterwards);
            request.category_inverted = page_is_file | page_is_zero;
            request.category_mask = page_is_written | page_is_file | page_is_zero;
            request.category_anyof_mask = page_is_present | page_is_swapped;
        },
        runs);
}

base::result<void> pagemap::find_private_by_entries(std::byte* begin, std::uint64_t bytes,
                                                    std::vector<memory_run>& runs) const {
    std::vector<std::uint64_t> bits(16 * 1024);
    const std::uint64_t first = reinterpret_cast<std::uint64_t>(begin) / base::page_size;
    const std::uint64_t count = bytes / base::page_size;
    for (std::uint64_t done = 0; done < count;) {
        const std::uint64_t now = std::min<std::uint64_t>(bits.size(), count - done);
        const auto length = ::pread(file_.get(), bits.data(), now * sizeof(std::uint64_t),
                                    static_cast<off_t>((first + done) * sizeof(std::uint64_t)));
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length < static_cast<ssize_t>(sizeof(std::uint64_t))) {
            return base::os_failure(length < 0 ? errno : EIO, "read", pagemap_path);
        }
        const auto entries = static_cast<std::uint64_t>(length) / sizeof(std::uint64_t);
        for (std::uint64_t i = 0; i < entries; ++i) {
            if ((bits[i] & (bit_present | bit_swapped)) != 0 && (bits[i] & bit_file) == 0) {
                append(runs, {begin + (done + i) * base::page_size, 1});
            }
        }
        done += entries;
    }
    return {};
}

}  // namespace holdfast::segment
