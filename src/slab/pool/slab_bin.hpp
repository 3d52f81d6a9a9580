// The slabs of one class in one arena, or of one class and type, under one lock. A slab is in at most one list of its
// owner: to allocate from (`head`), `empty`, or sparse. Its descriptor says in which (SLAB-8).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_annotations.hpp"
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

}  // namespace holdfast::slab
