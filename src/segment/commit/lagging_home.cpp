#include "segment/commit/lagging_home.hpp"

#include <cstring>
#include <utility>

namespace holdfast::segment {

using base::page_size;

void lagging_home::begin(const superblock_on_media& home) { home_ = std::make_unique<superblock_on_media>(home); }

void lagging_home::go_on(const superblock_on_media& home) noexcept { *home_ = home; }

void lagging_home::end() noexcept {
    home_.reset();
    pages_.clear();
}

bool lagging_home::is_as_committed(std::uint64_t place, const std::byte* memory) const noexcept {
    const std::byte* const last = find(place);
    return last != nullptr && std::memcmp(last, memory, page_size) == 0;
}

void lagging_home::put(std::uint64_t place, std::span<const std::byte> content, std::uint64_t version) {
    page& kept = pages_[place];
    if (kept.content == nullptr) {
        kept.content = std::make_unique_for_overwrite<std::byte[]>(page_size);
    }
    std::memcpy(kept.content.get(), content.data(), page_size);
    kept.version = version;
}

void lagging_home::lay_over(std::uint64_t place, std::span<std::byte> content) const noexcept {
    const std::uint64_t end = place + content.size() / page_size;
    for (auto at = pages_.lower_bound(place); at != pages_.end() && at->first < end; ++at) {
        std::memcpy(content.data() + (at->first - place) * page_size, at->second.content.get(), page_size);
    }
}

}  // namespace holdfast::segment
