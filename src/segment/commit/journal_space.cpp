#include "segment/commit/journal_space.hpp"

#include <cstdint>
#include <new>

#include "base/units.hpp"
#include "segment/format/geometry.hpp"

namespace holdfast::segment {

namespace {

using base::page_size;
using base::pages;
using persist::access_mode;

/// Page entries, slab headers and checksums of all pages.
std::uint64_t journal_reserve(pages frontier) noexcept {
    constexpr std::uint64_t least = 64 * base::kibibyte;
    constexpr std::uint64_t bytes_a_page =
        page_entry_size + slab_header_size / base::pages_per_granule + checksum_entry_size;
    return base::align_up(least + frontier.value * bytes_a_page, page_size);
}

}  // namespace

base::result<void> reserve_journal(const heap_location& location, pages frontier) {
    const std::uint64_t wanted = journal_reserve(frontier);
    HF_TRY_ASSIGN(auto file, location.storage().open(location.paths().journal(), access_mode::read_write));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    return size >= wanted ? base::result<void>() : file->allocate(size, wanted - size, "journal.reserve");
}

void shorten_journal(const heap_location& location, pages frontier) noexcept {
    try {
        auto file = location.storage().open(location.paths().journal(), access_mode::read_write);
        const auto size = file ? (*file)->size() : base::result<std::uint64_t>(0);
        const std::uint64_t kept = journal_reserve(frontier);
        if (size && *size > kept && location.is_space_short(base::pages_for(*size - kept))) {
            static_cast<void>((*file)->resize(kept, "journal.give_back").ok());
        }
    } catch (const std::bad_alloc&) {
        return;
    }
}

}  // namespace holdfast::segment
