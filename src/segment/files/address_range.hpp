// A range of addresses that belongs to one heap: reserved at open, mapped piece by piece, given back at close.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace holdfast::segment {

/// Owns [begin, begin + size), reserved PROT_NONE. Movable.
class address_range {
public:
    address_range() = default;
    address_range(address_range&& other) noexcept;
    address_range& operator=(address_range&& other) noexcept;
    address_range(const address_range&) = delete;
    address_range& operator=(const address_range&) = delete;
    ~address_range();

    /// Reserves `bytes` anywhere, such that begin + `aligned_at` is a multiple of `alignment` (a power of two).
    static base::result<address_range> anywhere(std::uint64_t bytes, std::uint64_t aligned_at, std::uint64_t alignment);
    /// Reserves exactly [begin, begin + bytes) or fails with address_taken, naming who occupies it.
    static base::result<address_range> exactly(std::byte* begin, std::uint64_t bytes);

    [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

private:
    address_range(std::byte* begin, std::uint64_t size) noexcept : begin_(begin), size_(size) {}
    std::byte* begin_ = nullptr;
    std::uint64_t size_ = 0;
};

/// Whether a program may have mappings far below the addresses that the kernel chooses. ThreadSanitizer ends a process
/// that has one.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool may_map_anywhere = false;
#elif defined(__has_feature)
inline constexpr bool may_map_anywhere = !__has_feature(thread_sanitizer);
#else
inline constexpr bool may_map_anywhere = true;
#endif

/// What stores to a mapping of a file do.
enum class page_sharing {
    private_pages,  ///< copy on write: a store never reaches the file
    shared_pages,   ///< a store is in the file at once; a child of fork has no mapping
    shared_sync,    ///< as shared_pages, with MAP_SYNC: for persistent memory
};

/// Maps part of a reserved range, readable and writable.
base::result<void> map_file(std::byte* address, std::uint64_t bytes, int fd, std::uint64_t offset,
                            const std::string& path, page_sharing sharing = page_sharing::private_pages);
/// Maps zeroed memory; asks for huge pages where that helps.
base::result<void> map_zeroed(std::byte* address, std::uint64_t bytes, bool huge_pages);
/// Whether the kernel should use pages of 2 MiB. It can only where address and place in the file are congruent modulo 2
/// MiB.
enum class huge_pages {
    advise,   ///< the kernel may use them (MADV_HUGEPAGE)
    none,     ///< the kernel must not use them (MADV_NOHUGEPAGE)
    at_once,  ///< as advise; new pages are also collapsed into huge ones (MADV_COLLAPSE)
};
/// Advice: without a huge page the range works as well, only slower. `fresh`: the whole range has its space on disk, so
/// that collapsing pages takes no more space.
void choose_pages(std::byte* address, std::uint64_t bytes, huge_pages wanted, bool fresh) noexcept;
/// Makes all pages writable with one call, which costs less than a page fault for each. Advice: where it fails, the
/// pages are faulted in when they are touched.
void populate(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: a touch brings one page of 4 KiB of the file into the page cache, and no more.
void keep_pages_small(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: starts to read this part of the file into the page cache, and does not wait for it.
void read_ahead(std::byte* address, std::uint64_t bytes) noexcept;
/// Takes the memory away; the addresses stay reserved.
base::result<void> unmap(std::byte* address, std::uint64_t bytes);
/// Changes what this process may do with mapped pages. `limit` where the process is out of mappings; then nothing is
/// changed.
enum class page_rights { none, read, read_write };
base::result<void> set_rights(std::byte* address, std::uint64_t bytes, page_rights wanted);
/// Forgets private pages: the range shows the file again.
void drop_private_pages(std::byte* address, std::uint64_t bytes) noexcept;
/// Forgets private pages, and reports it where the kernel refuses: it does so where pages are locked in memory.
base::result<void> try_to_drop_private_pages(std::byte* address, std::uint64_t bytes);
/// Forgets the private pages of many ranges, with one system call for hundreds of them where the kernel can (Linux
/// 6.13).
void drop_private_pages(std::span<const std::span<std::byte>> ranges) noexcept;

}  // namespace holdfast::segment
