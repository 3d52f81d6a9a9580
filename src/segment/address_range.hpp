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

/// Whether a program may have mappings far below where the kernel puts them. ThreadSanitizer ends the process.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool may_map_anywhere = false;
#elif defined(__has_feature)
inline constexpr bool may_map_anywhere = !__has_feature(thread_sanitizer);
#else
inline constexpr bool may_map_anywhere = true;
#endif

/// What stores to a mapping of a file do.
enum class page_sharing {
    private_pages,  ///< copy on write: they never reach the file by themselves
    shared_pages,   ///< they are the file's at once; a child of fork does not have the mapping
    shared_sync,    ///< the same on media behind the memory bus, with MAP_SYNC
};

/// Maps part of a reserved range, readable and writable.
base::result<void> map_file(std::byte* address, std::uint64_t bytes, int fd, std::uint64_t offset,
                            const std::string& path, page_sharing sharing = page_sharing::private_pages);
/// Maps zeroed memory; asks for huge pages where that helps.
base::result<void> map_zeroed(std::byte* address, std::uint64_t bytes, bool huge_pages);
/// Pages of 2 MiB instead of 4 KiB, for what may have them: addresses and places in files are congruent modulo 2 MiB.
enum class huge_pages {
    advise,   ///< the kernel is told that they are welcome (MADV_HUGEPAGE)
    none,     ///< it is told that they are not
    at_once,  ///< as advise; and what is new is put together from small ones where it must be (MADV_COLLAPSE)
};
/// Advice: a kernel without huge pages, or without one that is free, is as right, only slower. `fresh`: all of the
/// range has its space on disk already, so that to put pages together takes no more.
void choose_pages(std::byte* address, std::uint64_t bytes, huge_pages wanted, bool fresh) noexcept;
/// Advice: the page cache gets no more of the file than is touched, a page of 4 KiB at a time.
void keep_pages_small(std::byte* address, std::uint64_t bytes) noexcept;
/// Advice: reads the file there into the page cache, in pages of 4 KiB, without waiting.
void read_ahead(std::byte* address, std::uint64_t bytes) noexcept;
/// Takes the memory away; the addresses stay reserved.
base::result<void> unmap(std::byte* address, std::uint64_t bytes);
/// Changes what this process may do with mapped pages; `limit` where it is out of mappings: nothing is changed then.
enum class page_rights { none, read, read_write };
base::result<void> set_rights(std::byte* address, std::uint64_t bytes, page_rights wanted);
/// Forgets private pages: the range shows the file again.
void drop_private_pages(std::byte* address, std::uint64_t bytes) noexcept;
/// The same, for a caller that must know: the kernel refuses where pages are locked in memory.
base::result<void> try_to_drop_private_pages(std::byte* address, std::uint64_t bytes);
/// The same for many ranges; one system call for hundreds of them where the kernel can (Linux 6.13).
void drop_private_pages(std::span<const std::span<std::byte>> ranges) noexcept;

}  // namespace holdfast::segment
