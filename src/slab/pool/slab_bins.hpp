// One bin for each class and arena, and one for each class and type number, which lives until reset(): a slab's owner
// is never gone. Arena i belongs to node i modulo the number of nodes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.hpp"
#include "base/units.hpp"
#include "slab/pool/slab_table.hpp"

namespace holdfast::slab {

struct slab_part {
    base::granule slab{};
    unsigned part = 0;
    unsigned parts = 1;
    friend bool operator==(const slab_part&, const slab_part&) = default;

    [[nodiscard]] unsigned mask() const noexcept { return ((1U << parts) - 1) << part; }
    [[nodiscard]] block_range blocks(const size_class& size) const noexcept {
        return blocks_of_parts(size, part, parts);
    }
};

/// How many of `blocks` must be free to make a slab worth a look, after none was.
[[nodiscard]] constexpr std::uint32_t worth_a_scan(std::uint32_t blocks) noexcept {
    return std::max({blocks / 16, std::min(blocks / 8, std::uint32_t{16}), std::uint32_t{1}});
}

[[nodiscard]] constexpr std::uint32_t link_to(base::granule slab) noexcept {
    return static_cast<std::uint32_t>(slab.value + 1);
}
[[nodiscard]] constexpr base::granule linked(std::uint32_t link) noexcept { return {std::uint64_t{link} - 1}; }

/// The slabs of one class in one arena, or of one class and type, under one lock. A slab is in at most one list of its
/// owner: to allocate from (`head`), `empty`, or sparse. Its descriptor says in which (SLAB-8).
struct alignas(base::cache_line_size) slab_bin {
    base::mutex mutex;
    unsigned class_index = 0;
    unsigned arena = 0;
    std::uint32_t type = 0;
    std::uint32_t head HF_GUARDED_BY(mutex) = 0;   ///< granule + 1
    std::uint32_t empty HF_GUARDED_BY(mutex) = 0;  ///< granule + 1; the youngest
    std::uint32_t oldest_empty HF_GUARDED_BY(mutex) = 0;
    std::uint32_t empties HF_GUARDED_BY(mutex) = 0;
    std::uint32_t idle HF_GUARDED_BY(mutex) = 0;    ///< the least `empties` in this period
    std::uint32_t sparse HF_GUARDED_BY(mutex) = 0;  ///< granule + 1
    /// When it last gave a part or a block.
    std::uint64_t last_use HF_GUARDED_BY(mutex) = 0;
};

class slab_lists {
public:
    explicit slab_lists(const slab_table& table) noexcept : table_(table) {}

    /// The slab is new, or being morphed under its old owner's lock.
    void adopt(slab_bin& owner, base::granule slab) const noexcept;
    /// The slab is in no list.
    void link(slab_bin& owner, base::granule slab, bool empty) const noexcept HF_REQUIRES(owner.mutex);
    void unlink(slab_bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    /// The slab is in no list and has no part out.
    void link_sparse(slab_bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    void unlink_sparse(slab_bin& owner, base::granule slab) const noexcept HF_REQUIRES(owner.mutex);
    [[nodiscard]] static bool has_listed(const slab_bin& of) noexcept HF_REQUIRES(of.mutex) {
        return (of.head | of.empty) != 0;
    }
    [[nodiscard]] static base::granule first_listed(const slab_bin& of) noexcept HF_REQUIRES(of.mutex) {
        return linked(of.head != 0 ? of.head : of.empty);
    }

private:
    void push(std::uint32_t& head, base::granule slab) const noexcept;
    void take_out(std::uint32_t& head, base::granule slab) const noexcept;

    const slab_table& table_;
};

inline constexpr unsigned maximum_arenas = 64;

struct typed_bin : slab_bin {
    std::vector<std::uint32_t> waiting HF_GUARDED_BY(mutex);  ///< granules found at open; loaded ones may remain
    /// So many at the front were tried in this pass without space for their bitmaps.
    std::size_t refused HF_GUARDED_BY(mutex) = 0;
    typed_bin* next = nullptr;
};

/// Thread-safe, except for reset(). No other lock is taken while its own is held.
class slab_bins {
public:
    /// Makes an arena for each core. May throw std::bad_alloc.
    void reset(unsigned nodes);

    [[nodiscard]] unsigned arenas() const noexcept { return arenas_; }
    /// Of the `turn`-th thread, on this node of so many.
    [[nodiscard]] unsigned arena_of_thread(unsigned node, unsigned machine_nodes, unsigned turn) const noexcept;
    [[nodiscard]] slab_bin& of(unsigned arena, unsigned class_index) const noexcept {
        return bins_[arena * class_count + class_index];
    }
    [[nodiscard]] unsigned count() const noexcept { return arenas_ * class_count; }
    [[nodiscard]] slab_bin& operator[](unsigned number) const noexcept { return bins_[number]; }

    /// Null where there was never such a slab.
    [[nodiscard]] typed_bin* find_typed(unsigned class_index, std::uint32_t type) noexcept HF_EXCLUDES(typed_mutex_);
    /// May throw std::bad_alloc.
    [[nodiscard]] typed_bin& typed(unsigned class_index, std::uint32_t type) HF_EXCLUDES(typed_mutex_);
    template <class Act>
    void for_each(Act act) const {
        for (unsigned i = 0; i < count(); ++i) {
            act(bins_[i]);
        }
        for (typed_bin* each = first_typed_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
            act(*each);
        }
    }

private:
    unsigned nodes_ = 1;
    unsigned arenas_ = 0;
    std::unique_ptr<slab_bin[]> bins_;
    base::mutex typed_mutex_;
    std::unordered_map<std::uint64_t, std::unique_ptr<typed_bin>> typed_bins_ HF_GUARDED_BY(typed_mutex_);
    std::atomic<typed_bin*> first_typed_{nullptr};  ///< only grows, so it is walked without the lock
};

}  // namespace holdfast::slab
