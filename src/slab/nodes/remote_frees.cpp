#include "slab/nodes/remote_frees.hpp"

#include <bit>
#include <thread>

#include <fmt/format.h>

#include "slab/pool/slab_table.hpp"
#include "slab/pool/slab_upkeep.hpp"

namespace holdfast::slab {

using base::granule;

namespace {

constinit thread_local bool merging = false;

/// Still live: a thread at home checks whether another node frees the block. Others wait only for the end of this
/// check: two frees that waited for each other would never end.
constexpr std::uint8_t claiming_at_home = block_state::live | block_state::freeing;

std::uint8_t load(const std::uint8_t* byte) noexcept {
    return std::atomic_ref<std::uint8_t>(const_cast<std::uint8_t&>(*byte)).load(std::memory_order_seq_cst);
}
void store(std::uint8_t* byte, std::uint8_t value) noexcept {
    std::atomic_ref<std::uint8_t>(*byte).store(value, std::memory_order_release);
}
bool replace(std::uint8_t* byte, std::uint8_t& expected, std::uint8_t value) noexcept {
    return std::atomic_ref<std::uint8_t>(*byte).compare_exchange_strong(expected, value, std::memory_order_seq_cst);
}

/// Another thread frees the same block now, as in no correct program.
void wait_for_another() noexcept {
    base::relax_processor();
    if (!base::give_others_a_turn()) {
        std::this_thread::yield();
    }
}

std::uint64_t gone_bits_of(const std::uint8_t* shadows) noexcept {
    return detail::gather_states(shadows, [](std::uint64_t eight) { return eight >> 2U | eight >> 3U; });
}
std::uint64_t any_bits_of(const std::uint8_t* shadows) noexcept {
    return detail::gather_states(shadows,
                                 [](std::uint64_t eight) { return eight | eight >> 1U | eight >> 2U | eight >> 3U; });
}

std::vector<slab_kind> every_kind() {
    std::vector<slab_kind> kinds;
    for (const slab_bank bank : {slab_bank::lower, slab_bank::upper}) {
        for (unsigned class_index = 0; class_index < class_count; ++class_index) {
            if (bank == slab_bank::lower || can_morph(class_index)) {
                kinds.emplace_back(class_index, bank);
            }
        }
    }
    return kinds;
}

}  // namespace

bool remote_frees::is_merging() noexcept { return merging; }

void remote_frees::start(slab_upkeep& upkeep, slab_table& table, unsigned nodes, std::uint64_t granules_a_segment) {
    upkeep_ = &upkeep;
    table_ = &table;
    nodes_ = 1;
    segment_shift_ = static_cast<unsigned>(std::countr_zero(granules_a_segment));
    sides_ = std::vector<node_side>(nodes > 1 ? nodes : 0);
    homes_ = std::make_unique<home_side[]>(sides_.size());
    distances_.assign(sides_.size() * slab_kind::count, 0);
    if (nodes > 1 && map(nodes)) {
        nodes_ = nodes;
        reciprocal_ = ~std::uint64_t{0} / nodes + 1;
        table.set_shadows(this);
    }
}

bool remote_frees::map(unsigned nodes) {
    for (unsigned node = 0; node < nodes; ++node) {
        node_side& side = sides_[node];
        std::array<const std::uint8_t*, slab_kind::count> states_of_tables{};
        for (const slab_kind kind : every_kind()) {
            const std::uint8_t* const states = table_->block_states({0}, kind);
            std::size_t at = 0;
            while (at < side.tables.size() && states_of_tables[at] != states) {
                ++at;
            }
            if (at == side.tables.size()) {
                const auto stride = static_cast<std::uint64_t>(table_->block_states({1}, kind) - states);
                auto made =
                    base::sparse_table<std::uint8_t>::create(table_->granules() * stride, "shadows of block states");
                if (!made) {
                    return false;
                }
                side.tables.push_back({std::move(*made), stride});
                states_of_tables[at] = states;
            }
            distances_[node * slab_kind::count + kind.index()] =
                reinterpret_cast<std::uintptr_t>(&side.tables[at].shadows[0]) -
                reinterpret_cast<std::uintptr_t>(states);
        }
        auto next = base::sparse_table<std::uint32_t>::create(table_->granules(), "slabs with shadows");
        auto lists = base::sparse_table<slab_list>::create(nodes, "lists of slabs with shadows");
        if (!next || !lists) {
            return false;
        }
        side.next = std::move(*next);
        side.lists = std::move(*lists);
    }
    return true;
}

/// Callers read the state after it, sequentially consistent: a merge changes the state first, then the shadow.
bool remote_frees::has_shadow(const block_at& block, unsigned home) const noexcept {
    for (unsigned node = 0; node < nodes_; ++node) {
        if (node != home && load(shadow_of(node, block.kind, block.state)) != shadow::none) {
            return true;
        }
    }
    return false;
}

bool remote_frees::is_live(const block_at& block) const noexcept {
    return !has_shadow(block, home_of(block.slab)) && load(block.state) == block_state::live;
}

/// Whether the block, with this thread's claim, is live and freed by no other node.
bool remote_frees::is_alone(const block_at& block, unsigned home) const noexcept {
    for (unsigned node = 0; node < nodes_; ++node) {
        if (node == home || node == block.node) {
            continue;
        }
        std::uint8_t found = load(shadow_of(node, block.kind, block.state));
        while (found == shadow::claiming && node > block.node) {  // the higher node gives way
            wait_for_another();
            found = load(shadow_of(node, block.kind, block.state));
        }
        if (found != shadow::none) {
            return false;
        }
    }
    std::uint8_t state = load(block.state);
    while (state == claiming_at_home) {  // that thread gives way, or was first
        wait_for_another();
        state = load(block.state);
    }
    return state == block_state::live;
}

bool remote_frees::claim_shadow(const block_at& block, unsigned home) noexcept {
    std::uint8_t* const own = shadow_of(block.node, block.kind, block.state);
    std::uint8_t found = shadow::none;
    while (!replace(own, found, shadow::claiming)) {
        if (found != shadow::claiming) {
            return false;
        }
        wait_for_another();
        found = shadow::none;
    }
    if (!is_alone(block, home)) {
        store(own, shadow::none);
        return false;
    }
    // A merge that takes the slab from the list before the shadow is `freed` puts it back.
    note(block.node, home, block.slab);
    return true;
}

remote_frees::outcome remote_frees::free(const block_at& block) noexcept {
    const unsigned home = home_of(block.slab);
    if (block.node == no_node || block.node == home) {
        if (has_shadow(block, home) || load(block.state) != block_state::live) {
            return outcome::refused;
        }
        if (!slab_state::is_dirty(table_->state(block.slab))) {
            upkeep_->note_change(block.slab);
        }
        store(block.state, block_state::free);
        return outcome::at_home;
    }
    if (!claim_shadow(block, home)) {
        return outcome::refused;
    }
    store(shadow_of(block.node, block.kind, block.state), shadow::freed);
    merge_when_late(block.node, home);
    return outcome::elsewhere;
}

bool remote_frees::claim(const block_at& block) noexcept {
    const unsigned home = home_of(block.slab);
    if (is_remote(block)) {
        if (!claim_shadow(block, home)) {
            return false;
        }
        store(shadow_of(block.node, block.kind, block.state), shadow::freeing);
        return true;
    }
    std::uint8_t live = block_state::live;
    if (!replace(block.state, live, claiming_at_home)) {
        return false;
    }
    const bool alone = !has_shadow(block, home);
    store(block.state, alone ? block_state::freeing : block_state::live);
    return alone;
}

void remote_frees::unclaim(const block_at& block) noexcept {
    if (is_remote(block)) {
        store(shadow_of(block.node, block.kind, block.state), shadow::none);
    } else {
        store(block.state, block_state::live);
    }
}

void remote_frees::clear(const block_at& block) noexcept {
    if (is_remote(block)) {
        store(shadow_of(block.node, block.kind, block.state), shadow::held);
    } else {
        store(block.state, block_state::held);
    }
}

void remote_frees::release(const block_at& block) noexcept {
    if (is_remote(block)) {
        store(shadow_of(block.node, block.kind, block.state), shadow::freed);
        merge_when_late(block.node, home_of(block.slab));
    } else {
        store(block.state, block_state::free);
    }
}

void remote_frees::hold(const block_at& block) noexcept {
    if (is_remote(block)) {
        std::uint8_t state = block_state::live;
        while (!replace(block.state, state, block_state::held) && state == claiming_at_home) {
            wait_for_another();  // it gives way
            state = block_state::live;
        }
        store(shadow_of(block.node, block.kind, block.state), shadow::none);
    }
}

/// A merge takes the whole list, so it needs no version counters.
void remote_frees::note(unsigned node, unsigned home, granule slab) noexcept {
    const std::atomic_ref<std::uint32_t> next(sides_[node].next[slab.value]);
    std::uint32_t found = none;
    // Sequentially consistent, after the claim: a thread of this node sees that a merge took the slab out, or the merge
    // sees the claim.
    if (next.load(std::memory_order_seq_cst) != none ||
        !next.compare_exchange_strong(found, entering, std::memory_order_seq_cst)) {
        return;
    }
    slab_list& list = sides_[node].lists[home];
    std::uint32_t head = list.head.load(std::memory_order_relaxed);
    do {
        next.store(head == none ? last : head, std::memory_order_relaxed);
    } while (!list.head.compare_exchange_weak(head, static_cast<std::uint32_t>(slab.value + 1),
                                              std::memory_order_release, std::memory_order_relaxed));
    list.slabs.fetch_add(1, std::memory_order_relaxed);
}

void remote_frees::merge(unsigned home) noexcept {
    const base::scoped_lock lock(homes_[home].mutex);
    merge_locked(home);
}

void remote_frees::merge_all() noexcept {
    for (unsigned home = 0; active() && home < nodes_; ++home) {
        merge(home);
    }
}

void remote_frees::merge_if_due(unsigned home) noexcept {
    std::uint32_t slabs = 0;
    for (const node_side& side : sides_) {
        slabs += side.lists[home].slabs.load(std::memory_order_relaxed);
    }
    if (slabs >= epoch && homes_[home].mutex.try_lock()) {
        merge_locked(home);
        homes_[home].mutex.unlock();
    }
}

void remote_frees::merge_when_late(unsigned node, unsigned home) noexcept {
    if (sides_[node].lists[home].slabs.load(std::memory_order_relaxed) >= late_epoch) [[unlikely]] {
        if (homes_[home].mutex.try_lock()) {
            merge_locked(home);
            homes_[home].mutex.unlock();
        }
    }
}

void remote_frees::merge_locked(unsigned home) noexcept {
    merging = true;
    bool found = false;
    for (unsigned node = 0; node < nodes_; ++node) {
        slab_list& list = sides_[node].lists[home];
        if (list.head.load(std::memory_order_relaxed) == none) {
            continue;  // a line that was never written stays so
        }
        found = true;
        std::uint32_t here = list.head.exchange(none, std::memory_order_acquire);
        list.slabs.store(0, std::memory_order_relaxed);
        while (here != none && here != last) {
            const granule slab{std::uint64_t{here} - 1};
            // From here on a claim puts the slab into the list again; merge_slab() sees the claims before this.
            here = std::atomic_ref(sides_[node].next[slab.value]).exchange(none, std::memory_order_seq_cst);
            merge_slab(node, slab, homes_[home]);
        }
    }
    if (found) {
        homes_[home].merges.fetch_add(1, std::memory_order_relaxed);
    }
    merging = false;
}

void remote_frees::merge_slab(unsigned node, granule slab, home_side& home) noexcept {
    const std::uint8_t state = table_->state(slab);
    if (!slab_state::is_loaded(state)) {
        return;  // the slab is gone, and every free of its blocks was refused
    }
#if !defined(HF_STATES_ONE_BY_ONE)                        // the sanitizer knows no fences
    std::atomic_thread_fence(std::memory_order_seq_cst);  // loads of eight bytes are not seq_cst
#endif
    merged_blocks all;
    for (const slab_kind kind : table_->kinds_in(slab, state)) {
        const merged_blocks some = merge_kind(node, slab, kind);
        all = {all.freed + some.freed, all.unfinished || some.unfinished};
    }
    if (all.unfinished) {
        note(node, home_of(slab), slab);
    }
    home.slabs.fetch_add(1, std::memory_order_relaxed);
    home.blocks.fetch_add(all.freed, std::memory_order_relaxed);
    if (all.freed != 0) {
        upkeep_->note_frees(slab, all.freed);
    }
}

/// Blocks of a slab that is morphed meanwhile become older blocks, which are freed alike.
remote_frees::merged_blocks remote_frees::merge_kind(unsigned node, granule slab, slab_kind kind) noexcept {
    std::uint8_t* const states = table_->block_states(slab, kind);
    std::uint8_t* const shadows = shadow_of(node, kind, states);
    merged_blocks done;
    for (std::size_t word = 0; word < kind.words(); ++word) {
        for (std::uint64_t bits = any_bits_of(shadows + word * states_a_word); bits != 0; bits &= bits - 1) {
            const std::size_t at = word * states_a_word + static_cast<std::size_t>(std::countr_zero(bits));
            std::uint8_t state = block_state::live;
            if (load(shadows + at) != shadow::freed) {
                done.unfinished = true;
                continue;
            }
            if (!slab_state::is_dirty(table_->state(slab))) {
                upkeep_->note_change(slab);
            }
            // The state must say that the block is not live before the shadow stops saying so.
            const bool was_live = replace(states + at, state, block_state::held);
            if (state == claiming_at_home) {  // that thread will see the shadow
                done.unfinished = true;
                continue;
            }
            store(shadows + at, shadow::none);
            if (was_live) {
                store(states + at, block_state::free);
                ++done.freed;
            }
        }
    }
    return done;
}

std::uint64_t freed_bits_of(const remote_frees& shadows, granule of, slab_kind kind, std::size_t word) noexcept {
    return shadows.freed_bits(of, kind, word);
}

std::uint64_t remote_frees::freed_bits(granule slab, slab_kind kind, std::size_t word) const noexcept {
    const std::uint8_t* const states = table_->block_states(slab, kind) + word * states_a_word;
    const unsigned home = home_of(slab);
    std::uint64_t bits = 0;
    for (unsigned node = 0; node < nodes_; ++node) {
        bits |= node == home ? 0 : gone_bits_of(shadow_of(node, kind, states));
    }
    return bits;
}

remote_frees::counters remote_frees::merged() const noexcept {
    counters sum;
    for (std::size_t home = 0; home < sides_.size(); ++home) {
        sum.merges += homes_[home].merges.load(std::memory_order_relaxed);
        sum.slabs += homes_[home].slabs.load(std::memory_order_relaxed);
        sum.blocks += homes_[home].blocks.load(std::memory_order_relaxed);
    }
    return sum;
}

void remote_frees::check(std::vector<std::string>& problems, granule end) const {
    for (granule slab{0}; active() && slab < end; ++slab.value) {
        const std::uint8_t state = table_->state(slab);
        if (!slab_state::is_loaded(state)) {
            continue;
        }
        for (const slab_kind kind : table_->kinds_in(slab, state)) {
            check_kind(problems, slab, kind);
        }
    }
}

void remote_frees::check_kind(std::vector<std::string>& problems, granule slab, slab_kind kind) const {
    const std::uint8_t* const states = table_->block_states(slab, kind);
    for (std::size_t word = 0; word < kind.words(); ++word) {
        std::uint64_t of_any = 0;
        for (unsigned node = 0; node < nodes_; ++node) {
            const std::uint64_t bits = any_bits_of(shadow_of(node, kind, states) + word * states_a_word);
            const bool listed = bits == 0 || sides_[node].next[slab.value] != none;
            const bool live = (bits & ~live_bits_of(states + word * states_a_word)) == 0;
            if (!listed || !live || (bits & of_any) != 0 || (bits != 0 && node == home_of(slab))) {
                problems.push_back(fmt::format(
                    "SLAB-14: granule {}: word {}: node {} has shadows {:#x}, others "
                    "{:#x}; live {:#x}; listed: {}",
                    slab.value, word, node, bits, of_any, live_bits_of(states + word * states_a_word), listed));
            }
            of_any |= bits;
        }
    }
}

}  // namespace holdfast::slab
