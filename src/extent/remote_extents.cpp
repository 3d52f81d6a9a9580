#include "extent/remote_extents.hpp"

#include <thread>

#include <fmt/format.h>

namespace holdfast::extent {

using base::pages;
using segment::extent_kind;

namespace {

namespace shadow_word {
constexpr std::uint64_t none = 0;
constexpr std::uint64_t claiming = 1;  ///< still live: a thread checks whether it alone frees the block
constexpr std::uint64_t freeing = 2;   ///< still live: the record of the free is on its way
constexpr std::uint64_t cleared = 3;   ///< not live, and no merge frees it yet
constexpr std::uint64_t last = 4;      ///< freed, and the end of its list
/// Freed; the next one of the list begins at page word - last. Page 0 has the roots, so this is no end.
constexpr std::uint64_t link_to(pages next) noexcept { return last + next.value; }
constexpr pages page_of(std::uint64_t link) noexcept { return {link - last}; }
}  // namespace shadow_word

/// Another thread frees the same block now, as in no correct program.
void wait_for_another() noexcept {
    base::relax_processor();
    if (!base::give_others_a_turn()) {
        std::this_thread::yield();
    }
}

bool is_block_or_reserved(std::uint64_t word) noexcept {
    const extent_kind kind = segment::decode_page_entry(word).kind;
    return kind == extent_kind::used || kind == extent_kind::reserved;
}

}  // namespace

unsigned& remote_extents::merging::depth() noexcept {
    static constinit thread_local unsigned value = 0;
    return value;
}

void remote_extents::reset(const node_layout& layout) {
    nodes_ = 1;
    sides_.clear();
    if (layout.nodes == 1) {
        return;
    }
    layout_ = layout;
    homes_ = std::make_unique<home_side[]>(layout.nodes);
    sides_ = std::vector<node_side>(layout.nodes);
    for (node_side& side : sides_) {
        auto shadows = base::sparse_table<std::uint64_t>::create(entries_.reserved().value, "shadows of page entries");
        auto lists = base::sparse_table<freed_list>::create(layout.nodes, "lists of extents freed elsewhere");
        if (!shadows || !lists) {
            sides_.clear();
            return;
        }
        side.shadows = std::move(*shadows);
        side.lists = std::move(*lists);
    }
    nodes_ = layout.nodes;
}

/// Whether the extent, with this node's claim, is used and freed by no other.
bool remote_extents::is_alone(std::uint32_t node, pages start) const noexcept {
    for (std::uint32_t other = 0; other < nodes_; ++other) {
        if (other == node) {
            continue;
        }
        std::uint64_t found = shadow(other, start).load(std::memory_order_seq_cst);
        while (found == shadow_word::claiming && other > node) {  // the higher node gives way
            wait_for_another();
            found = shadow(other, start).load(std::memory_order_seq_cst);
        }
        if (found != shadow_word::none) {
            return false;
        }
    }
    const std::uint64_t word =
        std::atomic_ref<std::uint64_t>(entries_.space().page_entry_word(start)).load(std::memory_order_seq_cst);
    return segment::decode_page_entry(word).kind == extent_kind::used;
}

bool remote_extents::claim(std::uint32_t node, pages start) noexcept {
    const std::atomic_ref<std::uint64_t> own = shadow(node, start);
    std::uint64_t found = shadow_word::none;
    while (!own.compare_exchange_strong(found, shadow_word::claiming, std::memory_order_seq_cst)) {
        if (found != shadow_word::claiming) {
            return false;
        }
        wait_for_another();
        found = shadow_word::none;
    }
    const bool alone = is_alone(node, start);
    own.store(alone ? shadow_word::freeing : shadow_word::none, std::memory_order_seq_cst);
    return alone;
}

void remote_extents::unclaim(std::uint32_t node, pages start) noexcept {
    shadow(node, start).store(shadow_word::none, std::memory_order_release);
}

void remote_extents::clear(std::uint32_t node, pages start) noexcept {
    shadow(node, start).store(shadow_word::cleared, std::memory_order_release);
}

bool remote_extents::clear_claimed(pages start) noexcept {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        std::uint64_t found = shadow_word::freeing;
        if (shadow(node, start).compare_exchange_strong(found, shadow_word::cleared, std::memory_order_acq_rel)) {
            return true;
        }
    }
    return false;
}

/// A merge takes the whole list, so it needs no version counters.
bool remote_extents::release(std::uint32_t node, pages start, pages length) noexcept {
    freed_list& list = sides_[node].lists[home_of(start)];
    std::uint64_t head = list.head.load(std::memory_order_relaxed);
    do {
        shadow(node, start).store(head == 0 ? shadow_word::last : head, std::memory_order_release);
    } while (!list.head.compare_exchange_weak(head, shadow_word::link_to(start), std::memory_order_acq_rel,
                                              std::memory_order_relaxed));
    const std::uint64_t extents = list.extents.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t waits = list.pages.fetch_add(length.value, std::memory_order_relaxed) + length.value;
    return extents >= late_extents || waits >= late_pages;
}

bool remote_extents::is_cleared(std::uint32_t node, pages start) const noexcept {
    return shadow(node, start).load(std::memory_order_acquire) == shadow_word::cleared;
}

/// Sequentially consistent after the caller's change of the entry: of the two that free at once, one sees the other.
bool remote_extents::is_taken(pages start) const noexcept {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        std::uint64_t found = shadow(node, start).load(std::memory_order_seq_cst);
        while (found == shadow_word::claiming) {
            wait_for_another();
            found = shadow(node, start).load(std::memory_order_seq_cst);
        }
        if (found != shadow_word::none) {
            return true;
        }
    }
    return false;
}

bool remote_extents::is_gone(pages start) const noexcept {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        if (shadow(node, start).load(std::memory_order_acquire) >= shadow_word::cleared) {
            return true;
        }
    }
    return false;
}

bool remote_extents::next_list(std::uint32_t home, home_side& of) noexcept {
    for (std::uint32_t node = 0; node < nodes_; ++node) {
        freed_list& list = sides_[node].lists[home];
        if (list.head.load(std::memory_order_relaxed) == 0) {
            continue;  // a line that was never written stays so
        }
        // The counts go first: of an extent that comes meanwhile, too many may then be counted, never too few, by which
        // a merge would leave it.
        list.extents.store(0, std::memory_order_relaxed);
        list.pages.store(0, std::memory_order_relaxed);
        of.next = list.head.exchange(0, std::memory_order_acq_rel);
        of.node = node;
        if (of.next != 0) {
            return true;
        }
    }
    return false;
}

/// Nothing where the entry was overwritten, which check() names.
std::optional<extent> remote_extents::take_one(std::uint32_t node, pages start) noexcept {
    std::uint64_t& place = entries_.space().page_entry_word(start);
    const std::uint64_t word = entries_.load(start);
    const pages length = segment::decode_page_entry(word).length;
    const std::uint64_t reserved = segment::encode({extent_kind::reserved, length});
    const bool sound = is_block_or_reserved(word) &&
                       (writer_ != nullptr ? writer_->replace(place, word, reserved)
                        : word == reserved ? true
                                           : entries_.replace(start, word, {extent_kind::reserved, length}));
    // The entry must say that the block is not live before the shadow stops saying so.
    shadow(node, start).store(shadow_word::none, std::memory_order_release);
    return sound ? std::optional(extent{start, length, extent_kind::reserved}) : std::nullopt;
}

std::size_t remote_extents::take(std::uint32_t home, std::span<extent> out) noexcept {
    home_side& of = homes_[home];
    const base::scoped_lock lock(of.mutex);
    std::size_t taken = 0;
    while (taken < out.size() && (of.next != 0 || next_list(home, of))) {
        const pages start = shadow_word::page_of(of.next);
        const std::uint64_t link = shadow(of.node, start).load(std::memory_order_acquire);
        of.next = link == shadow_word::last ? 0 : link;
        if (const auto one = take_one(of.node, start)) {
            out[taken++] = *one;
        }
    }
    if (taken != 0 && writer_ != nullptr) {
        writer_->make_durable();
    }
    of.merged.fetch_add(taken, std::memory_order_relaxed);
    return taken;
}

pages remote_extents::waiting(std::uint32_t home) const noexcept {
    pages sum{};
    for (const node_side& side : sides_) {
        sum += {side.lists[home].pages.load(std::memory_order_relaxed)};
    }
    return sum;
}

pages remote_extents::waiting() const noexcept {
    pages sum{};
    for (std::uint32_t home = 0; active() && home < nodes_; ++home) {
        sum += waiting(home);
    }
    return sum;
}

std::uint64_t remote_extents::merged() const noexcept {
    std::uint64_t sum = 0;
    for (std::uint32_t home = 0; active() && home < nodes_; ++home) {
        sum += homes_[home].merged.load(std::memory_order_relaxed);
    }
    return sum;
}

// EXT-10: an extent with a shadow is used or reserved, not of that node, and has no other shadow.
void remote_extents::check(std::vector<std::string>& problems, pages frontier) const {
    for (pages page{0}; active() && page < frontier; ++page.value) {
        unsigned found = 0;
        for (std::uint32_t node = 0; node < nodes_; ++node) {
            const std::uint64_t word = shadow(node, page).load(std::memory_order_acquire);
            found += word == shadow_word::none ? 0U : 1U;
            if (word != shadow_word::none &&
                (home_of(page) == node || !is_block_or_reserved(entries_.load(page)) || found > 1)) {
                problems.push_back(fmt::format("EXT-10: page {}: node {} has shadow {}, {} in all; the entry is {:#x}",
                                               page.value, node, word, found, entries_.load(page)));
            }
        }
    }
}

}  // namespace holdfast::extent
