// The tables in DRAM about slabs, flat and sparse, indexed by granule.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/sparse_table.hpp"
#include "base/units.hpp"
#include "segment/format/space.hpp"
#include "slab/classes/size_classes.hpp"
#include "slab/pool/block_states.hpp"
#include "slab/pool/layout.hpp"

namespace holdfast::slab {

class remote_frees;
[[nodiscard]] std::uint64_t freed_bits_of(const remote_frees& shadows, base::granule of, slab_kind kind,
                                          std::size_t word) noexcept;

/// States, block states and live bitmaps are atomic; slab_descriptor says what guards descriptors.
class slab_table {
public:
    [[nodiscard]] base::result<void> reset(const segment::space_view& space) {
        fast_granules_ = granules_ = space.reservation() / base::granule_size;
        shadows_ = nullptr;
        HF_TRY_ASSIGN(states_, base::sparse_table<std::uint8_t>::create(granules_, "states of slabs"));
        HF_TRY_ASSIGN(types_, base::sparse_table<std::uint32_t>::create(granules_, "types of slabs"));
        HF_TRY_ASSIGN(entries_, base::sparse_table<slab_entry>::create(granules_, "descriptors of slabs"));
        HF_TRY_ASSIGN(morph_states_, base::sparse_table<std::uint8_t>::create(granules_, "earlier classes of slabs"));
        for (const slab_bank bank : {slab_bank::lower, slab_bank::upper}) {
            auto& states = block_states_[static_cast<std::size_t>(bank)];
            for (unsigned shift = least_state_shift; shift <= most_state_shift; ++shift) {
                HF_TRY_ASSIGN(states[shift - least_state_shift],
                              base::sparse_table<std::uint8_t>::create(granules_ << shift, "states of blocks"));
            }
            for (unsigned i = 0; i < class_count; ++i) {
                kinds_[slab_kind(i, bank).index()] = {&states[state_shifts[i] - least_state_shift][0],
                                                      size_classes[i].reciprocal, 1U << state_shifts[i]};
            }
        }
        live_ = reinterpret_cast<std::byte*>(space.live_bitmap({0}));
        live_stride_ = static_cast<std::uint64_t>(space.metadata_of(1) - space.metadata_of(0));
        granule_mask_ = space.shape().granules() - 1;
        segment_shift_ = static_cast<unsigned>(std::countr_zero(space.shape().granules()));
        return {};
    }

    /// Classes with about as many blocks share a table. States are `free` when a slab is made or released; those beyond
    /// its blocks always are.
    [[nodiscard]] std::uint8_t* block_states(base::granule of, slab_kind kind) const noexcept {
        const state_kind& found = kinds_[kind.index()];
        return found.states + of.value * found.stride;
    }
    /// The slab is loaded. Bytes behind the last block have a state too, never `live`.
    struct found_block_state {
        std::uint8_t* state;
        bool is_start;
    };
    [[nodiscard]] found_block_state find_block_state(std::uint64_t offset, slab_kind kind) const noexcept {
        const state_kind& found = kinds_[kind.index()];
        const block_position at(offset % base::granule_size, found.reciprocal);
        return {found.states + offset / base::granule_size * found.stride + at.index(), at.is_start()};
    }
    /// Null where no block begins at the offset.
    [[nodiscard]] std::uint8_t* block_state_at(std::uint64_t offset, slab_kind kind) const noexcept {
        const found_block_state found = find_block_state(offset, kind);
        return found.is_start ? found.state : nullptr;
    }
    /// Null unless a live older block begins there.
    [[nodiscard]] std::uint8_t* old_block_state_at(std::uint64_t offset) const noexcept {
        const std::uint8_t morph = this->morph_state(base::granule_of(base::heap_offset{offset}));
        if (!morph_state::has_old(morph)) {
            return nullptr;
        }
        std::uint8_t* const state = block_state_at(offset, morph_state::old_kind(morph));
        return state != nullptr && std::atomic_ref(*state).load(std::memory_order_acquire) == block_state::live
                   ? state
                   : nullptr;
    }

    /// SLAB-4 must hold. Returns the number of live blocks.
    std::uint32_t load_states(base::granule of, slab_kind kind) const noexcept {
        std::uint32_t live_blocks = 0;
        std::uint8_t* const first = block_states(of, kind);
        for (std::size_t word = 0; word < kind.words(); ++word) {
            const std::uint64_t live = live_word(of, kind.first_word() + word).load(std::memory_order_acquire);
            live_blocks += count_bits(live);
            for (std::size_t bit = 0; live != 0 && bit < states_a_word; ++bit) {
                first[word * states_a_word + bit] = (live >> bit & 1) != 0 ? block_state::live : block_state::free;
            }
        }
        return live_blocks;
    }
    [[nodiscard]] std::uint32_t count_not_free(base::granule of, slab_kind kind) const noexcept {
        const std::size_t words = kind.words();
        return static_cast<std::uint32_t>(words * states_a_word) - count_free(block_states(of, kind), words);
    }
    [[nodiscard]] std::uint64_t free_bits(base::granule of, slab_kind kind, std::size_t word) const noexcept {
        return free_bits_of(block_states(of, kind) + word * states_a_word) & valid_bits(kind.size(), word);
    }
    /// Slabs below `end` that have changed since their bitmaps were written, in order of address.
    template <class Each>
    void for_each_dirty(base::granule end, Each each) const {
        constexpr std::uint64_t at_once = 8;
        constexpr std::uint64_t dirty = 0x8080808080808080;
        static_assert(slab_state::first_loaded == 0x80);
        for (std::uint64_t first = 0; first < end.value; first += at_once) {
            const std::uint64_t behind = std::min(first + at_once, end.value);
            if (behind == first + at_once && (detail::load_states(&states_[first]) & dirty) == 0) {
                continue;
            }
            for (base::granule slab{first}; slab.value < behind; ++slab.value) {
                if (slab_state::is_dirty(state(slab))) {
                    each(slab);
                }
            }
        }
    }
    /// Other threads stand still.
    void write_bitmap(base::granule of, slab_kind kind) const noexcept {
        const auto write = [](std::atomic_ref<std::uint64_t> word, std::uint64_t live) {
            if (word.load(std::memory_order_relaxed) != live) {
                word.store(live, std::memory_order_relaxed);
            }
        };
        if (morph_state(of) != 0) {
            for (std::size_t word = 0; word < bitmap_words; ++word) {
                write(live_word(of, word), live_bits(of, word));
            }
            return;
        }
        std::uint64_t* const words = live_address(of) + kind.first_word();
        for (std::size_t word = 0; word < kind.words(); ++word) {
            write(std::atomic_ref(words[word]), live_bits_of_kind(of, kind, kind.first_word() + word));
        }
    }
    void clear_bitmap(base::granule of) const noexcept {
        for (std::size_t word = 0; word < bitmap_words; ++word) {
            if (live_word(of, word).load(std::memory_order_relaxed) != 0) {
                live_word(of, word).store(0, std::memory_order_relaxed);
            }
        }
    }

    /// The slab was loaded when the line changed; one that is gone since has no live block.
    void bits_of_line(const std::uint64_t* line, std::span<std::uint64_t, 8> bits) const noexcept {
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(line) - live_);
        const base::granule of{(at / live_stride_ << segment_shift_) + at % live_stride_ / segment::bitmap_size};
        const std::uint64_t first = at % live_stride_ % segment::bitmap_size / sizeof(std::uint64_t);
        for (std::size_t i = 0; i < bits.size(); ++i) {
            bits[i] = live_bits(of, first + i);
        }
    }
    /// What a word of the bitmap on media must be.
    [[nodiscard]] std::uint64_t live_bits(base::granule of, std::size_t word) const noexcept {
        for (;;) {
            const std::uint8_t now = state(of);
            if (!slab_state::is_loaded(now)) {
                return now == slab_state::none ? 0 : live_word(of, word).load(std::memory_order_acquire);
            }
            const std::uint8_t before = morph_state(of);
            const slab_kind present = slab_state::kind_of(now);
            const bool is_other = before != 0 && present.bank() != bank_of(word >= bitmap_words / 2);
            const bool has_blocks = !is_other || morph_state::has_old(before);
            const slab_kind kind = is_other && has_blocks ? morph_state::old_kind(before) : present;
            const std::uint64_t live = has_blocks ? live_bits_of_kind(of, kind, word) : 0;
            if (before == 0 || state(of) == now) {
                return live;  // else: it was morphed between the loads
            }
        }
    }
    [[nodiscard]] slab_kinds kinds_in(base::granule of, std::uint8_t state) const noexcept {
        const unsigned class_index = slab_state::class_of(state);
        if (class_index == no_class) {
            return {};
        }
        const std::uint8_t morph = this->morph_state(of);
        const slab_kind present = slab_state::is_loaded(state) ? slab_state::kind_of(state)
                                                               : slab_kind(class_index, morph_state::bank(morph));
        return morph_state::has_old(morph) ? slab_kinds{{present, morph_state::old_kind(morph)}, 2}
                                           : slab_kinds{{present}, 1};
    }

    [[nodiscard]] std::uint64_t granules() const noexcept { return granules_; }
    /// Below it, the state alone says whether a block is live: all, or none with shadows.
    [[nodiscard]] std::uint64_t fast_granules() const noexcept { return fast_granules_; }
    /// From now on a block may be free though its state is `live`.
    void set_shadows(const remote_frees* shadows) noexcept {
        shadows_ = shadows;
        refuse_fast_frees();
    }
    /// Only one thread may use the heap.
    void refuse_fast_frees() noexcept { fast_granules_ = 0; }
    /// No other thread may use the slabs any more.
    void forget_entries() noexcept { entries_.discard(); }

    [[nodiscard]] std::uint8_t state(base::granule of) const noexcept {
        return std::atomic_ref<std::uint8_t>(states_[of.value]).load(std::memory_order_acquire);
    }
    /// Called by one thread at a time for a granule; for a slab with live blocks, under the lock of its owner. A free
    /// between the two stores of the version takes the slow path, which waits for that lock.
    void set_state(base::granule of, std::uint8_t state) const noexcept {
        const std::atomic_ref<std::uint8_t> now(states_[of.value]);
        fast_slab& fast = entries_[of.value].fast;
        const std::atomic_ref version(fast.version);
        if (slab_state::is_dirty(now.load(std::memory_order_relaxed))) {  // an open touches no entry of a slab
            version.store(next_version(version.load(std::memory_order_relaxed)), std::memory_order_relaxed);
        }
        now.store(state, std::memory_order_release);
        if (slab_state::is_dirty(state)) {
            const slab_kind kind = slab_state::kind_of(state);
            std::atomic_ref(fast.states).store(block_states(of, kind), std::memory_order_release);
            version.store(next_version(version.load(std::memory_order_relaxed)) | kinds_[kind.index()].reciprocal,
                          std::memory_order_release);
        }
    }
    [[nodiscard]] slab_kind kind_in(base::granule of) const noexcept { return slab_state::kind_of(state(of)); }
    /// Needs the lock of the owner.
    void set_dirty(base::granule of) const noexcept {
        const std::uint8_t now = state(of);
        if (!slab_state::is_dirty(now)) {
            set_state(of, slab_state::loaded(slab_state::kind_of(now)));
        }
    }
    /// Where the slab is not loaded or the state is not `from`, nothing happens.
    void replace_block_state(std::uint64_t offset, std::uint8_t from, std::uint8_t to) const noexcept {
        const base::granule slab = base::granule_of(base::heap_offset{offset});
        if (slab.value >= granules_ || !slab_state::is_loaded(state(slab))) {
            return;
        }
        for (const slab_kind kind : kinds_in(slab, state(slab))) {
            if (std::uint8_t* const state = block_state_at(offset, kind)) {
                std::uint8_t expected = from;
                std::atomic_ref(*state).compare_exchange_strong(expected, to, std::memory_order_acq_rel);
            }
        }
    }
    [[nodiscard]] slab_entry& entry(base::granule of) const noexcept { return entries_[of.value]; }
    /// In a slab that is not dirty no block begins.
    [[nodiscard]] static found_block_state find_block_state_fast(fast_slab& fast, std::uint64_t offset) noexcept {
        const std::uint64_t version = std::atomic_ref(fast.version).load(std::memory_order_acquire);
        std::uint8_t* const first = std::atomic_ref(fast.states).load(std::memory_order_acquire);
        const block_position at(offset % base::granule_size, static_cast<std::uint32_t>(version));
        bool is_start = false;
        if (holds(fast.version, version)) [[likely]] {
            is_start = at.is_start();
        }
        return {first + at.index(), is_start};
    }
    /// Constant until the slab is morphed; 0 before.
    [[nodiscard]] std::uint8_t morph_state(base::granule of) const noexcept {
        return std::atomic_ref<std::uint8_t>(morph_states_[of.value]).load(std::memory_order_acquire);
    }
    /// Comes before set_state().
    void set_morph_state(base::granule of, std::uint8_t morph) const noexcept {
        if (this->morph_state(of) != morph) {
            std::atomic_ref<std::uint8_t>(morph_states_[of.value]).store(morph, std::memory_order_release);
        }
    }
    /// 0: none. Constant while a block is out.
    [[nodiscard]] std::uint32_t type(base::granule of) const noexcept {
        return std::atomic_ref<std::uint32_t>(types_[of.value]).load(std::memory_order_relaxed);
    }
    /// Comes before set_state().
    void set_type(base::granule of, std::uint32_t type) const noexcept {
        if (this->type(of) != type) {
            std::atomic_ref<std::uint32_t>(types_[of.value]).store(type, std::memory_order_relaxed);
        }
    }
    [[nodiscard]] slab_descriptor& descriptor(base::granule of) const noexcept { return entries_[of.value].descriptor; }
    /// Right for a loaded slab after a commit or a checkpoint.
    [[nodiscard]] std::uint64_t* live_address(base::granule of) const noexcept {
        return reinterpret_cast<std::uint64_t*>(live_ + (of.value >> segment_shift_) * live_stride_ +
                                                (of.value & granule_mask_) * segment::bitmap_size);
    }
    [[nodiscard]] std::atomic_ref<std::uint64_t> live_word(base::granule of, std::size_t word) const noexcept {
        return std::atomic_ref<std::uint64_t>(live_address(of)[word]);
    }

    template <class Each>
    void for_each_range(base::granule first, base::granule end, Each each) const {
        each("states", &states_[first.value], &states_[end.value - 1] + 1);
        each("types", &types_[first.value], &types_[end.value - 1] + 1);
        each("descriptors", &entries_[first.value], &entries_[end.value - 1] + 1);
        for (const auto& bank : block_states_) {
            for (unsigned i = 0; i < bank.size(); ++i) {
                each("block states", &bank[i][first.value << (i + least_state_shift)],
                     &bank[i][(end.value << (i + least_state_shift)) - 1] + 1);
            }
        }
    }

private:
    [[nodiscard]] static constexpr std::uint64_t next_version(std::uint64_t version) noexcept {
        return (version | ~std::uint32_t{0}) + 1;
    }
    [[nodiscard]] std::uint64_t live_bits_of_kind(base::granule of, slab_kind kind, std::size_t word) const noexcept {
        const std::size_t index = word - kind.first_word();
        if (index >= kind.words()) {
            return 0;
        }
        const std::uint64_t gone = shadows_ == nullptr ? 0 : freed_bits_of(*shadows_, of, kind, index);
        return live_bits_of(block_states(of, kind) + index * states_a_word) & ~gone;
    }

    static constexpr unsigned banks = 2;
    static constexpr unsigned least_state_shift = 6;
    static constexpr unsigned most_state_shift = 13;  ///< 8,192 blocks of 8 bytes
    /// By class: the binary logarithm of the room for states.
    static constexpr std::array<std::uint8_t, class_count> state_shifts = [] {
        std::array<std::uint8_t, class_count> shifts{};
        for (unsigned i = 0; i < class_count; ++i) {
            const auto bits = static_cast<unsigned>(
                std::bit_width((base::granule_size + size_classes[i].block_size - 1) / size_classes[i].block_size - 1));
            shifts[i] = static_cast<std::uint8_t>(bits < least_state_shift ? least_state_shift : bits);
        }
        return shifts;
    }();
    static_assert(std::ranges::max(state_shifts) == most_state_shift);

    struct state_kind {
        std::uint8_t* states;
        std::uint32_t reciprocal;
        std::uint32_t stride;  ///< of states; a product is faster than a shift
    };

    std::array<state_kind, slab_kind::count> kinds_{};
    std::byte* live_ = nullptr;
    std::uint64_t live_stride_ = 0;
    std::uint64_t granule_mask_ = 0;
    std::uint64_t granules_ = 0;
    std::uint64_t fast_granules_ = 0;
    const remote_frees* shadows_ = nullptr;  ///< null with one node
    unsigned segment_shift_ = 0;
    base::sparse_table<std::uint8_t> states_;
    base::sparse_table<std::uint32_t> types_;
    base::sparse_table<slab_entry> entries_;
    base::sparse_table<std::uint8_t> morph_states_;
    std::array<std::array<base::sparse_table<std::uint8_t>, most_state_shift - least_state_shift + 1>, banks>
        block_states_;
};

}  // namespace holdfast::slab
