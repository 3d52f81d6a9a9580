#include "segment/commit/dirty_pages.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/checked.hpp"
#include "base/units.hpp"

namespace holdfast::segment {

namespace {

constexpr auto pagemap_path = "/proc/self/pagemap";

/// The program's other threads stand still meanwhile.
constexpr std::uint64_t most_scanners = 4;
constexpr std::uint64_t least_share = std::uint64_t{512} << 20U;  // 4 ms; a thread costs 0.1

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

constexpr std::uint64_t page_is_file = 1U << 2U;
constexpr std::uint64_t page_is_present = 1U << 3U;
constexpr std::uint64_t page_is_swapped = 1U << 4U;
constexpr std::uint64_t page_is_zero = 1U << 5U;

constexpr std::uint64_t bit_present = std::uint64_t{1} << 63;
constexpr std::uint64_t bit_swapped = std::uint64_t{1} << 62;
constexpr std::uint64_t bit_file = std::uint64_t{1} << 61;

unsigned long scan_request() noexcept { return _IOWR('f', 16, pm_scan_arg); }

pm_scan_arg make_request(std::uint64_t start, std::uint64_t end, std::span<page_region> regions) noexcept {
    pm_scan_arg request{};
    request.size = sizeof request;
    request.start = start;
    request.end = end;
    request.vec = reinterpret_cast<std::uint64_t>(regions.data());
    request.vec_len = regions.size();
    request.category_inverted = page_is_file | page_is_zero;
    request.category_mask = page_is_file | page_is_zero;
    request.category_anyof_mask = page_is_present | page_is_swapped;
    return request;
}

void append(std::vector<memory_run>& runs, std::byte* address, std::uint64_t pages) {
    if (!runs.empty() && runs.back().address + runs.back().pages * base::page_size == address) {
        runs.back().pages += pages;
    } else {
        runs.push_back({address, pages});
    }
}

}  // namespace

base::result<dirty_scanner> dirty_scanner::open() {
    HF_TRY_ASSIGN(dirty_scanner scanner, open(method::pagemap_scan));
    // Kernels before 6.7 answer ENOTTY.
    alignas(base::page_size) static std::array<std::byte, base::page_size> probe{};
    std::vector<memory_run> runs;
    if (!scanner.scan(probe.data(), probe.size(), runs)) {
        scanner.method_ = method::pagemap_bits;
    }
    return scanner;
}

base::result<dirty_scanner> dirty_scanner::open(method how) {
    persist::descriptor pagemap(::open(pagemap_path, O_RDONLY | O_CLOEXEC));
    if (!pagemap.valid()) {
        base::failure what = base::os_failure(errno, "open", pagemap_path);
        what.code = base::failure_code::unsupported;
        what.hint = "a commit finds the changed pages there: mount /proc";
        return what;
    }
    return dirty_scanner(std::move(pagemap), how);
}

base::result<void> dirty_scanner::scan(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs) {
    HF_ASSERT(base::is_aligned(reinterpret_cast<std::uintptr_t>(begin), base::page_size) &&
              bytes % base::page_size == 0);
    const std::uint64_t workers =
        std::min<std::uint64_t>({std::max(1U, std::thread::hardware_concurrency()), most_scanners,
                                 std::max<std::uint64_t>(1, bytes / least_share)});
    std::vector<share> shares(workers);
    for (std::uint64_t i = 0; i < workers; ++i) {
        const std::uint64_t first = base::align_down(bytes / workers * i, base::page_size);
        const std::uint64_t last =
            i + 1 == workers ? bytes : base::align_down(bytes / workers * (i + 1), base::page_size);
        shares[i].begin = begin + first;
        shares[i].bytes = last - first;
    }
    {
        std::vector<std::jthread> threads;
        threads.reserve(workers);
        for (std::uint64_t i = 1; i < workers; ++i) {
            try {
                threads.emplace_back([this, &part = shares[i]]() noexcept { scan_share(part); });
            } catch (const std::system_error&) {
                scan_share(shares[i]);  // no further thread
            }
        }
        scan_share(shares[0]);
    }
    for (const share& part : shares) {
        if (part.out_of_memory) {
            throw std::bad_alloc();
        }
        HF_TRY(part.done);
        for (const memory_run& run : part.runs) {
            append(runs, run.address, run.pages);
        }
    }
    return {};
}

void dirty_scanner::scan_share(share& part) const noexcept {
    try {
        part.done = method_ == method::pagemap_scan ? scan_ioctl(part.begin, part.bytes, part.runs)
                                                    : scan_bits(part.begin, part.bytes, part.runs);
    } catch (const std::bad_alloc&) {
        part.out_of_memory = true;
    }
}

base::result<void> dirty_scanner::scan_ioctl(std::byte* begin, std::uint64_t bytes,
                                             std::vector<memory_run>& runs) const {
    std::array<page_region, 1024> regions{};
    const auto start = reinterpret_cast<std::uint64_t>(begin);
    std::uint64_t next = start;
    while (next < start + bytes) {
        pm_scan_arg request = make_request(next, start + bytes, regions);
        const int count = ::ioctl(pagemap_.get(), scan_request(), &request);
        if (count < 0) {
            if (errno == EINTR) {
                continue;
            }
            return base::os_failure(errno, "ioctl(PAGEMAP_SCAN)", pagemap_path);
        }
        for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
            const page_region& region = regions.at(i);
            append(runs, begin + (region.start - start), (region.end - region.start) / base::page_size);
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

base::result<void> dirty_scanner::scan_bits(std::byte* begin, std::uint64_t bytes,
                                            std::vector<memory_run>& runs) const {
    std::vector<std::uint64_t> bits(16 * 1024);
    const std::uint64_t first = reinterpret_cast<std::uint64_t>(begin) / base::page_size;
    const std::uint64_t count = bytes / base::page_size;
    for (std::uint64_t done = 0; done < count;) {
        const std::uint64_t now = std::min<std::uint64_t>(bits.size(), count - done);
        const auto length = ::pread(pagemap_.get(), bits.data(), now * sizeof(std::uint64_t),
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
                append(runs, begin + (done + i) * base::page_size, 1);
            }
        }
        done += entries;
    }
    return {};
}

}  // namespace holdfast::segment
