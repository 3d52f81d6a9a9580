#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"

namespace holdfast::segment {

/// Owns [begin, begin + size), reserved PROT_NONE, and no part of a core dump.
class address_range {
public:
    address_range() = default;
    address_range(address_range&& other) noexcept;
    address_range& operator=(address_range&& other) noexcept;
    address_range(const address_range&) = delete;
    address_range& operator=(const address_range&) = delete;
    ~address_range();

    /// begin + `aligned_at` is a multiple of `alignment`, a power of two.
    static base::result<address_range> anywhere(std::uint64_t bytes, std::uint64_t aligned_at, std::uint64_t alignment);
    /// `address_taken` names the occupant.
    static base::result<address_range> exactly(std::byte* begin, std::uint64_t bytes);

    [[nodiscard]] std::byte* begin() const noexcept { return begin_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

private:
    address_range(std::byte* begin, std::uint64_t size) noexcept : begin_(begin), size_(size) {}
    std::byte* begin_ = nullptr;
    std::uint64_t size_ = 0;
};

/// Fails with `limit` where the process may not have so many addresses more.
base::result<void> try_to_reserve(std::uint64_t bytes);

/// ThreadSanitizer ends a process that has mappings far below the kernel's choice.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool may_map_anywhere = false;
#elif defined(__has_feature)
inline constexpr bool may_map_anywhere = !__has_feature(thread_sanitizer);
#else
inline constexpr bool may_map_anywhere = true;
#endif

enum class page_sharing {
    private_pages,  ///< a store never reaches the file
    shared_pages,   ///< in the file at once; a child of fork has no mapping
    shared_sync,    ///< with MAP_SYNC, for persistent memory
};

/// Maps part of a reserved range, readable and writable.
base::result<void> map_file(std::byte* address, std::uint64_t bytes, int fd, std::uint64_t offset,
                            const std::string& path, page_sharing sharing = page_sharing::private_pages);
base::result<void> map_zeroed(std::byte* address, std::uint64_t bytes, bool huge_pages);
/// Huge pages have 2 MiB: address and place in the file must be congruent.
enum class huge_pages {
    advise,   ///< MADV_HUGEPAGE
    none,     ///< MADV_NOHUGEPAGE
    at_once,  ///< new pages are also collapsed (MADV_COLLAPSE)
};
/// Advice. `fresh`: the whole range has its space on disk, so that collapsing pages takes no more.
void choose_pages(std::byte* address, std::uint64_t bytes, huge_pages wanted, bool fresh) noexcept;
/// The kernel's samepage merging (KSM) may put the page of zeros in the place of a private page that was stored to, and
/// then nothing tells that it was. Pages that were merged become private again.
void keep_from_merging(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: makes pages writable by one call, cheaper than a page fault for each.
void populate(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: a touch brings one page into the page cache.
void keep_pages_small(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: of a page that is not in the page cache the kernel reads none around it.
void read_page_by_page(std::byte* address, std::uint64_t bytes, bool on) noexcept;
/// Advice.
void read_ahead(std::byte* address, std::uint64_t bytes) noexcept;
/// The addresses stay reserved, as an address_range reserves them.
base::result<void> unmap(std::byte* address, std::uint64_t bytes);
/// `limit` where the process is out of mappings; then nothing is changed.
enum class page_rights { none, read, read_write };
base::result<void> set_rights(std::byte* address, std::uint64_t bytes, page_rights wanted);
/// Forgets private pages: the range shows the file again.
void drop_private_pages(std::byte* address, std::uint64_t bytes) noexcept;
/// Fails where the pages are locked in memory.
base::result<void> try_to_drop_private_pages(std::byte* address, std::uint64_t bytes);
/// Hundreds with one system call where the kernel can (Linux 6.13).
void drop_private_pages(std::span<const std::span<std::byte>> ranges) noexcept;

}  // namespace holdfast::segment
