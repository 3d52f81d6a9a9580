#include "store/free_space.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace holdfast::store_engine {

void free_space::clear() noexcept { *this = free_space(); }

void free_space::reserve(std::uint64_t pages) {
    if (pages > died_.size()) {
        const std::uint64_t rounded = (pages + pages / 4 + 1023) / 64 * 64;
        ready_.resize(rounded / 64);
        holes_.resize(rounded / 64);
        died_.resize(rounded);
    }
}

void free_space::set_ready(std::uint64_t page) noexcept {
    std::uint64_t& word = ready_[page / 64];
    const std::uint64_t mask = std::uint64_t{1} << (page % 64);
    if ((word & mask) != 0) {
        return;
    }
    word |= mask;
    ++ready_count_;
    first_word_ = std::min(first_word_, page / 64);
    failed_run_ = ~std::uint64_t{0};
    if (is_backed(page)) {
        ++backed_count_;
        first_backed_word_ = std::min(first_backed_word_, page / 64);
    }
}

void free_space::clear_ready(std::uint64_t page) noexcept {
    std::uint64_t& word = ready_[page / 64];
    const std::uint64_t mask = std::uint64_t{1} << (page % 64);
    if ((word & mask) != 0) {
        word &= ~mask;
        --ready_count_;
        backed_count_ -= is_backed(page) ? 1U : 0U;
    }
}

std::uint64_t free_space::take_backed() noexcept {
    if (backed_count_ == 0) {
        return 0;
    }
    while ((ready_[first_backed_word_] & ~holes_[first_backed_word_]) == 0) {  // ends, as backed_count_ > 0
        ++first_backed_word_;
    }
    const std::uint64_t bits = ready_[first_backed_word_] & ~holes_[first_backed_word_];
    const std::uint64_t page = first_backed_word_ * 64 + static_cast<unsigned>(std::countr_zero(bits));
    clear_ready(page);
    return page;
}

std::uint64_t free_space::take_run(std::uint64_t count) noexcept {
    if (count > ready_count_ || count >= failed_run_) {
        return 0;
    }
    while (ready_[first_word_] == 0) {  // ends, as ready_count_ > 0
        ++first_word_;
    }
    std::uint64_t length = 0;
    for (std::uint64_t page = first_word_ * 64; page < died_.size(); ++page) {
        if (page % 64 == 0 && ready_[page / 64] == 0) {
            length = 0;
            page += 63;
            continue;
        }
        length = bit(ready_, page) ? length + 1 : 0;
        if (length == count) {
            const std::uint64_t start = page + 1 - count;
            for (std::uint64_t taken = start; taken <= page; ++taken) {
                clear_ready(taken);
            }
            return start;
        }
    }
    failed_run_ = count;
    return 0;
}

void free_space::add_ready(std::uint64_t start, std::uint64_t count) {
    reserve(start + count);
    for (std::uint64_t page = start; page < start + count; ++page) {
        died_[page] = 0;
        set_ready(page);
    }
}

void free_space::add_freed(const freed_extent_on_media& freed) {
    reserve(freed.start + freed.count);
    std::fill_n(died_.begin() + static_cast<std::ptrdiff_t>(freed.start), freed.count, freed.died);
    incoming_.push_back(freed);
}

void free_space::forget(std::uint64_t start, std::uint64_t count) noexcept {
    for (std::uint64_t page = start; page < start + count && page < died_.size(); ++page) {
        clear_ready(page);
        died_[page] = 0;
    }
}

// An entry is ready, or waits for one snapshot that sees it; when that is gone, it is looked at again.
void free_space::place(const freed_extent_on_media& freed, std::span<const std::uint64_t> snapshots) {
    const auto blocker = std::lower_bound(snapshots.begin(), snapshots.end(), freed.born);
    if (blocker != snapshots.end() && *blocker < freed.died) {
        // The last that sees it: the youngest of many readers tends to stay longest.
        const auto behind = std::lower_bound(blocker, snapshots.end(), freed.died);
        blocked_[*std::prev(behind)].push_back(freed);
        return;
    }
    for (std::uint64_t page = freed.start; page < freed.start + freed.count; ++page) {
        if (died_[page] == freed.died) {
            died_[page] = 0;
            set_ready(page);
        }
    }
}

void free_space::release(std::span<const std::uint64_t> snapshots) {
    std::vector<freed_extent_on_media> again;
    again.swap(incoming_);
    for (auto bucket = blocked_.begin(); bucket != blocked_.end();) {
        if (std::binary_search(snapshots.begin(), snapshots.end(), bucket->first)) {
            ++bucket;
            continue;
        }
        again.insert(again.end(), bucket->second.begin(), bucket->second.end());
        bucket = blocked_.erase(bucket);
    }
    for (const freed_extent_on_media& freed : again) {
        place(freed, snapshots);
    }
}

std::uint64_t free_space::all_pages() const noexcept {
    std::uint64_t pages = ready_count_;
    for (const freed_extent_on_media& freed : incoming_) {
        pages += freed.count;
    }
    for (const auto& bucket : blocked_) {
        for (const freed_extent_on_media& freed : bucket.second) {
            pages += freed.count;
        }
    }
    return pages;
}

bool free_space::would_release(std::span<const std::uint64_t> snapshots) const noexcept {
    const auto is_seen = [&](const freed_extent_on_media& freed) {
        const auto blocker = std::lower_bound(snapshots.begin(), snapshots.end(), freed.born);
        return blocker != snapshots.end() && *blocker < freed.died;
    };
    for (const auto& bucket : blocked_) {
        for (const freed_extent_on_media& freed : bucket.second) {
            if (!is_seen(freed) && freed.start < died_.size() && died_[freed.start] == freed.died) {
                return true;
            }
        }
    }
    return std::any_of(incoming_.begin(), incoming_.end(), [&](const auto& freed) { return !is_seen(freed); });
}

bool free_space::has_free(std::uint64_t start, std::uint64_t count) const noexcept {
    for (std::uint64_t page = start; page < start + count; ++page) {
        if (is_ready(page) || (page < died_.size() && died_[page] != 0)) {
            return true;
        }
    }
    return false;
}

void free_space::set_backed(std::uint64_t start, std::uint64_t count, bool backed) {
    reserve(start + count);
    for (std::uint64_t page = start; page < start + count; ++page) {
        const std::uint64_t mask = std::uint64_t{1} << (page % 64);
        if (is_backed(page) == backed) {
            continue;
        }
        holes_[page / 64] ^= mask;
        if (is_ready(page)) {
            backed_count_ += backed ? 1U : ~std::uint64_t{0};
            first_backed_word_ = backed ? std::min(first_backed_word_, page / 64) : first_backed_word_;
        }
    }
}

bool free_space::has_holes(std::uint64_t start, std::uint64_t end) const noexcept {
    for (std::uint64_t page = start; page < end && page < died_.size(); ++page) {
        if (page % 64 == 0 && holes_[page / 64] == 0) {
            page += 63;
        } else if (!is_backed(page)) {
            return true;
        }
    }
    return false;
}

extent_on_media free_space::lowest_without_blocks(std::uint64_t limit) noexcept {
    if (ready_count_ == backed_count_) {
        return {.start = 0, .count = 0};
    }
    while (ready_[first_word_] == 0) {  // ends, as ready_count_ > 0
        ++first_word_;
    }
    const std::uint64_t page = first_word_ * 64 + static_cast<unsigned>(std::countr_zero(ready_[first_word_]));
    return is_backed(page) ? extent_on_media{.start = 0, .count = 0} : run_without_blocks(page, limit);
}

extent_on_media free_space::run_without_blocks(std::uint64_t from, std::uint64_t limit) const noexcept {
    if (ready_count_ == backed_count_) {
        return {.start = 0, .count = 0};
    }
    for (std::uint64_t word = std::max(first_word_, from / 64); word < ready_.size(); ++word) {
        std::uint64_t bits = ready_[word] & holes_[word];
        if (word == from / 64) {
            bits &= ~std::uint64_t{0} << (from % 64);
        }
        if (bits == 0) {
            continue;
        }
        const std::uint64_t start = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
        std::uint64_t count = 1;
        while (count < limit && bit(ready_, start + count) && bit(holes_, start + count)) {
            ++count;
        }
        return {.start = start, .count = count};
    }
    return {.start = 0, .count = 0};
}

std::vector<extent_on_media> free_space::ready_runs() const {
    std::vector<extent_on_media> runs;
    for (std::uint64_t word = 0; word < ready_.size(); ++word) {
        for (std::uint64_t bits = ready_[word]; bits != 0; bits &= bits - 1) {
            const std::uint64_t page = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
            if (!runs.empty() && runs.back().start + runs.back().count == page) {
                ++runs.back().count;
            } else {
                runs.push_back({.start = page, .count = 1});
            }
        }
    }
    return runs;
}

std::uint64_t free_space::cut(std::uint64_t next_page) {
    while (next_page > meta_pages && is_ready(next_page - 1)) {
        --next_page;
        clear_ready(next_page);
        holes_[next_page / 64] &= ~(std::uint64_t{1} << (next_page % 64));  // it is free no more, so it counts no more
    }
    return next_page;
}

void free_space::serialise(std::vector<std::byte>& list, std::span<const extent_on_media> lent) const {
    const auto append = [&list](const void* bytes, std::size_t size) {
        const auto* from = static_cast<const std::byte*>(bytes);
        list.insert(list.end(), from, from + size);
    };
    std::vector<extent_on_media> ready = ready_runs();
    ready.insert(ready.end(), lent.begin(), lent.end());
    std::vector<freed_extent_on_media> freed;
    const auto collect = [&](const freed_extent_on_media& entry) {
        for (std::uint64_t page = entry.start; page < entry.start + entry.count; ++page) {
            if (died_[page] != entry.died) {
                continue;
            }
            freed_extent_on_media* last = freed.empty() ? nullptr : &freed.back();
            if (last != nullptr && last->start + last->count == page && last->born == entry.born &&
                last->died == entry.died) {
                ++last->count;
            } else {
                freed.push_back({.start = page, .count = 1, .born = entry.born, .died = entry.died});
            }
        }
    };
    for (const auto& entry : incoming_) {
        collect(entry);
    }
    for (const auto& bucket : blocked_) {
        for (const auto& entry : bucket.second) {
            collect(entry);
        }
    }
    list.clear();
    const free_list_on_media head{.ready_count = ready.size(), .freed_count = freed.size()};
    append(&head, sizeof(head));
    append(ready.data(), ready.size() * sizeof(ready[0]));
    append(freed.data(), freed.size() * sizeof(freed[0]));
}

void free_space::lengthen(std::vector<std::byte>& list) {
    free_list_on_media head{};
    std::memcpy(&head, list.data(), sizeof(head));
    for (std::uint64_t i = 0; i < head.ready_count; ++i) {
        const std::size_t at = sizeof(head) + i * sizeof(extent_on_media);
        extent_on_media all{};
        std::memcpy(&all, list.data() + at, sizeof(all));
        if (all.count < 2) {
            continue;
        }
        const std::array<extent_on_media, 2> parts = {
            {{.start = all.start, .count = 1}, {.start = all.start + 1, .count = all.count - 1}}};
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), sizeof(all), std::byte{0});
        std::memcpy(list.data() + at, parts.data(), sizeof(parts));
        ++head.ready_count;
        std::memcpy(list.data(), &head, sizeof(head));
        return;
    }
}

// A page that is named twice, or that a transaction to come has freed, would be free again after a transaction has
// taken it.
status free_space::load(std::span<const std::byte> list, std::uint64_t next_page, std::uint64_t transaction) {
    clear();
    free_list_on_media head{};
    if (list.size() < sizeof(head)) {
        return status::corrupted;
    }
    std::memcpy(&head, list.data(), sizeof(head));
    const std::uint64_t most = list.size() / sizeof(extent_on_media);
    if (head.ready_count > most || head.freed_count > most ||
        list.size() != sizeof(head) + head.ready_count * sizeof(extent_on_media) +
                           head.freed_count * sizeof(freed_extent_on_media)) {
        return status::corrupted;
    }
    const auto is_new_inside = [this, next_page](std::uint64_t start, std::uint64_t count) {
        return start >= meta_pages && count > 0 && start < next_page && count <= next_page - start &&
               !has_free(start, count);
    };
    reserve(next_page);
    const std::byte* at = list.data() + sizeof(head);
    for (std::uint64_t i = 0; i < head.ready_count; ++i, at += sizeof(extent_on_media)) {
        extent_on_media extent{};
        std::memcpy(&extent, at, sizeof(extent));
        if (!is_new_inside(extent.start, extent.count)) {
            return status::corrupted;
        }
        add_ready(extent.start, extent.count);
        set_backed(extent.start, extent.count, false);
    }
    for (std::uint64_t i = 0; i < head.freed_count; ++i, at += sizeof(freed_extent_on_media)) {
        freed_extent_on_media freed{};
        std::memcpy(&freed, at, sizeof(freed));
        if (!is_new_inside(freed.start, freed.count) || freed.died == 0 || freed.died > transaction) {
            return status::corrupted;
        }
        add_freed(freed);
        set_backed(freed.start, freed.count, false);  // it may have become ready, and a hole, since
    }
    return status::ok;
}

}  // namespace holdfast::store_engine
