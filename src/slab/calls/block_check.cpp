// block_inspector: the checks of slabs, and of what tables and lists say of their blocks.
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "slab/calls/block_inspector.hpp"
#include "slab/pool/slab_check.hpp"

namespace holdfast::slab {

using base::granule;
using base::result;
using segment::extent_kind;

class slab_checker {
public:
    slab_checker(const block_core& of, std::vector<std::string>& problems, std::span<const std::uint64_t> held)
        : of_(of), pool_(of.pool), table_(of.pool.table()), problems_(problems) {
        held_.insert(held.begin(), held.end());
    }

    void run() {
        if (of_.caches.pool == nullptr) {
            return;  // neither formatted nor opened
        }
        collect_caches();
        collect_lists();
        check_extents();
        check_guards();
        for (const auto& [slab, found] : listed_) {
            problem("SLAB-8", {slab}, fmt::format("in the lists of {} bins, and no slab that says so there", found));
        }
        for (const auto& [slab, parts] : parts_) {
            problem("SLAB-9", {slab}, fmt::format("parts {:#x} in caches, and no slab there", parts));
        }
        for (const std::uint64_t offset : held_) {
            problem("SLAB-9", base::granule_of(base::heap_offset{offset}),
                    fmt::format("offset {:#x} is held, and its state says no", offset));
        }
    }

private:
    void problem(const char* number, granule where, const std::string& text) {
        problems_.push_back(fmt::format("{}: granule {}: {}", number, where.value, text));
    }

    // SLAB-9: each part of a slab that is out is in exactly one cache, whose list has free blocks of that part alone.
    void collect_caches() {
        for (const thread_cache* cache = of_.caches.first; cache != nullptr; cache = cache->next_of_heap) {
            for (unsigned class_index = 0; class_index < class_count; ++class_index) {
                if (cache->classes[class_index].slab != 0) {
                    collect_blocks(cache->classes[class_index], class_index);
                }
            }
        }
    }

    void collect_blocks(const cached_blocks& blocks, unsigned class_index) {
        const slab_part place = blocks.place();
        const bool twice = (parts_[place.slab.value] & place.mask()) != 0;
        parts_[place.slab.value] |= place.mask();
        const std::uint8_t state = table_.state(place.slab);
        if (twice || !slab_state::is_dirty(state) || slab_state::class_of(state) != class_index ||
            blocks.upper != slab_state::kind_of(state).is_upper()) {
            problem("SLAB-9", place.slab,
                    fmt::format("{} parts from {} in a cache of class {}", place.parts, place.part, class_index));
            return;
        }
        for (unsigned i = blocks.next; i < blocks.filled; ++i) {
            const unsigned index = blocks.order[i];
            const std::uint64_t bit = std::uint64_t{1} << (index % states_a_word);
            const unsigned word = index / states_a_word;
            if ((bit & table_.free_bits(place.slab, slab_state::kind_of(state), word) &
                 place.blocks(size_classes[class_index]).bits(word)) == 0) {
                problem("SLAB-9", place.slab,
                        fmt::format("block {} in a cache, free in its word are {:#x}", index,
                                    table_.free_bits(place.slab, slab_state::kind_of(state), word)));
            }
        }
    }

    // SLAB-8: a loaded slab is in one of its owner's lists, once, iff its descriptor says so. Empty slabs have no block
    // and no part out, and are as many as the owner says.
    void collect_lists() {
        pool_.bins().for_each([this](slab_bin& bin) { collect_lists_of(bin); });
    }

    enum class list_kind : std::uint8_t { open, empty, sparse };

    void collect_lists_of(slab_bin& bin) {
        const base::scoped_lock lock(bin.mutex);
        static_cast<void>(collect_list(bin, bin.head, list_kind::open));
        const auto [empties, oldest] = collect_list(bin, bin.empty, list_kind::empty);
        if (empties != bin.empties || bin.idle > empties || oldest != bin.oldest_empty) {
            problems_.push_back(
                fmt::format("SLAB-8: {} empty slabs of class {}, type {}, {} are counted, {} of them idle", empties,
                            bin.class_index, bin.type, bin.empties, bin.idle));
        }
        static_cast<void>(collect_list(bin, bin.sparse, list_kind::sparse));
    }

    std::pair<std::uint32_t, std::uint32_t> collect_list(slab_bin& bin, std::uint32_t first, list_kind of)
        HF_REQUIRES(bin.mutex) {
        std::uint32_t previous = 0;
        std::uint32_t count = 0;
        for (std::uint32_t link = first; link != 0; ++count) {
            const granule slab{std::uint64_t{link} - 1};
            const slab_descriptor& descriptor = table_.descriptor(slab);
            const std::uint8_t state = table_.state(slab);
            const bool own = slab_state::is_loaded(state) && slab_state::class_of(state) == bin.class_index &&
                             descriptor.owner.load(std::memory_order_relaxed) == &bin && table_.type(slab) == bin.type;
            const bool empty = of == list_kind::empty;
            const bool sparse = of == list_kind::sparse;
            if (!own || descriptor.listed() == sparse || descriptor.is_sparse() != sparse ||
                descriptor.previous != previous || descriptor.is_empty != empty ||
                (empty &&
                 (table_.count_not_free(slab, slab_state::kind_of(state)) != 0 || descriptor.parts_out != 0))) {
                problem("SLAB-8", slab,
                        fmt::format("not as the list of class {}, type {} says", bin.class_index, bin.type));
            }
            if (++listed_[slab.value] > 1) {
                break;  // a ring, or a slab in two lists
            }
            previous = std::exchange(link, descriptor.next);
        }
        return {count, previous};
    }

    // SLAB-7: exactly the granules of slab extents have a state, and its class and type are those of the slab's header.
    void check_extents() {
        of_.extents.for_each([this](const extent::extent& found) {
            const granule first = base::granule_of(base::pages{found.start.value + base::pages_per_granule - 1});
            const granule end =
                base::granule_of(base::pages{found.start.value + found.length.value + base::pages_per_granule - 1});
            for (granule here = first; here < end; ++here.value) {
                if (found.kind == extent_kind::slab) {
                    check_slab(here);
                } else {
                    check_other(here);
                }
            }
        });
    }

    // SLAB-16: a guard range is a reserved extent of one granule.
    void check_guards() {
        std::uint64_t found = 0;
        pool_.source().guards().for_each([&](granule range) {
            ++found;
            if (!of_.extents.is_reserved(base::first_page(range), {base::pages_per_granule})) {
                problem("SLAB-16", range, "a guard range, and the page entry speaks of something else");
            }
        });
        if (found != pool_.source().guards().count()) {
            problem("SLAB-16", {0}, fmt::format("{} guard ranges, counted {}", found, pool_.source().guards().count()));
        }
    }

    void check_other(granule here) {
        if (table_.state(here) != slab_state::none) {
            problem("SLAB-7", here, fmt::format("state {}, and no slab there", table_.state(here)));
        }
        if (of_.pool.source().has_bitmap(here) && !has_clean_bitmap(table_, here)) {
            problem("SLAB-4", here, "live bits, and no slab there");
        }
    }

    void check_slab(granule slab) {
        if (const auto fault = header_fault(of_.space.slab_header(slab), slab)) {
            problems_.push_back(fault->message());
            return;
        }
        const unsigned class_index = class_of_block_size(of_.space.slab_header(slab).block_size);
        const size_class& size = size_classes[class_index];
        if (!has_clean_bitmap(table_, slab)) {
            problem("SLAB-4", slab, fmt::format("live bits beyond {} blocks", size.block_count));
            return;
        }
        if (of_.separates_lines && !has_whole_lines(of_.space.slab_header(slab))) {
            problem("SLAB-15", slab,
                    fmt::format("blocks of {} bytes in a heap that separates cache lines", size.block_size));
        }
        if (!has_disjoint_blocks(table_, slab)) {
            problem("SLAB-12", slab, fmt::format("blocks of {} bytes overlap those from before", size.block_size));
        }
        const std::uint64_t type = of_.space.slab_header(slab).type;
        const std::uint8_t state = table_.state(slab);
        const bool loaded = slab_state::is_loaded(state);
        const std::uint8_t morph = morph_state_of(of_.space.slab_header(slab));
        // Its older blocks are all gone by now.
        const bool as_before =
            table_.morph_state(slab) == morph || (loaded && !morph_state::has_old(table_.morph_state(slab)) &&
                                                  ((table_.morph_state(slab) ^ morph) & morph_state::upper) == 0);
        if ((!loaded && !slab_state::is_unloaded(state)) || slab_state::class_of(state) != class_index ||
            table_.type(slab) != type || !as_before) {
            problem("SLAB-7", slab,
                    fmt::format("state {} of type {} and {:#x}, header of class {}, type {} and {:#x}", state,
                                table_.type(slab), table_.morph_state(slab), class_index, type, morph));
        } else if (loaded) {
            check_descriptor(slab, class_index);
            check_block_states(slab);
        }
    }

    void check_descriptor(granule slab, unsigned class_index) {
        const slab_descriptor& descriptor = table_.descriptor(slab);
        const std::uint8_t morph = table_.morph_state(slab);
        std::uint32_t count = size_classes[class_index].block_count;
        if (morph_state::has_old(morph)) {
            count += morph_state::old_kind(morph).size().block_count;
        }
        if ((listed_.erase(slab.value) != 0) != (descriptor.listed() || descriptor.is_sparse())) {
            problem("SLAB-8", slab,
                    fmt::format("listed: {}, sparse: {}, and its owner's lists", descriptor.listed(),
                                descriptor.is_sparse()));
        }
        check_sparse(slab, descriptor);
        const auto found = parts_.find(slab.value);
        const unsigned in_caches = found == parts_.end() ? 0 : found->second;
        if (in_caches != descriptor.parts_out) {
            problem("SLAB-9", slab,
                    fmt::format("parts {:#x} are out, in caches {:#x}", descriptor.parts_out, in_caches));
        }
        parts_.erase(slab.value);
        // SLAB-10: a slab in no list and without a part out has `frees_until_check` from 1 to its number of blocks, so
        // that frees lead to a look.
        const std::int32_t frees_until_check = descriptor.frees_until_check.load(std::memory_order_relaxed);
        if (!descriptor.listed() && descriptor.parts_out == 0 &&
            (frees_until_check < 1 || frees_until_check > static_cast<std::int32_t>(count))) {
            problem("SLAB-10", slab, fmt::format("looked at after {} frees", frees_until_check));
        }
    }

    // SLAB-17: a sparse slab has no type and no part out, and its header says that it may have holes. In durability
    // `commit`, a loaded slab whose header says so is sparse. A page that is a hole has no live block.
    void check_sparse(granule slab, const slab_descriptor& descriptor) {
        const bool may_have_holes = segment::decode_slab_flags(of_.space.slab_header(slab).flags).may_have_holes;
        if (!descriptor.is_sparse()) {
            if (may_have_holes && pool_.state_.is_private()) {
                problem("SLAB-17", slab, "it may have holes, and is not sparse");
            }
            return;
        }
        if (!may_have_holes || table_.type(slab) != 0 || descriptor.parts_out != 0) {
            problem("SLAB-17", slab,
                    fmt::format("it is sparse; may have holes: {}, type {}, parts out {:#x}", may_have_holes,
                                table_.type(slab), descriptor.parts_out));
        }
        const unsigned without = pool_.sparse_.pages_without_blocks(slab);
        if (((descriptor.empty_pages | descriptor.hole_pages) & ~without) != 0 ||
            (descriptor.hole_pages & ~descriptor.empty_pages) != 0) {
            problem("SLAB-17", slab,
                    fmt::format("pages without a live block {:#x}, so they were {:#x}, holes {:#x}", without,
                                descriptor.empty_pages, descriptor.hole_pages));
        }
    }

    void check_block_states(granule slab) {
        // SLAB-5: the bitmap on media equals the block states where the slab is clean, or the owner of the log writes
        // bitmaps at once.
        const bool follows = !slab_state::is_dirty(table_.state(slab)) || !pool_.state_.tracks_changes;
        for (std::size_t word = 0; follows && word < bitmap_words; ++word) {
            const std::uint64_t on_media = table_.live_word(slab, word).load(std::memory_order_relaxed);
            if (on_media != table_.live_bits(slab, word)) {
                problem(
                    "SLAB-5", slab,
                    fmt::format("word {}: live {:#x}, on media {:#x}", word, table_.live_bits(slab, word), on_media));
            }
        }
        const slab_kinds kinds = table_.kinds_in(slab, table_.state(slab));
        for (unsigned i = 0; i < kinds.count; ++i) {
            const std::uint8_t* const states = table_.block_states(slab, kinds.kinds[i]);
            const bool may_be_overlapped = i == 0 && kinds.count == 2;
            for (std::size_t index = 0; index < kinds.kinds[i].words() * states_a_word; ++index) {
                check_block_state(slab, kinds.kinds[i].size(), index, states[index], may_be_overlapped);
            }
        }
        if (kinds.count == 2 && !overlapped_are_taken(table_, slab)) {
            problem("SLAB-13", slab, "a free block overlaps one from before");
        }
    }

    // SLAB-6: a state is `free`, `live`, `held` for a block known to be held, `pinned` for one in the set of pinned
    // ones, or `overlapped` in a morphed slab. States beyond the blocks of the slab are `free`.
    void check_block_state(granule slab, const size_class& size, std::size_t index, std::uint8_t state,
                           bool may_be_overlapped) {
        const std::uint64_t offset = base::offset_of(slab).value + index * size.block_size;
        const bool held = state == block_state::held && held_.erase(offset) != 0;
        const bool pinned = state == block_state::pinned && pool_.pins().contains(offset);
        const bool possible = index < size.block_count && (state == block_state::live || pinned ||
                                                           (state == block_state::overlapped && may_be_overlapped));
        if (state != block_state::free && !held && !possible) {
            problem("SLAB-6", slab, fmt::format("block {}: state {}", index, state));
        }
    }

    const block_core& of_;
    const slab_pool& pool_;
    const slab_table& table_;
    std::vector<std::string>& problems_;
    std::unordered_set<std::uint64_t> held_;
    std::unordered_map<std::uint64_t, unsigned> parts_;   ///< by granule
    std::unordered_map<std::uint64_t, unsigned> listed_;  ///< by granule
};

void block_inspector::check(std::vector<std::string>& problems, std::span<const std::uint64_t> held) const {
    core_.pool.remote().check(problems, base::granule_of(base::offset_of(core_.extents.frontier())));
    core_.pool.remote().merge_all();  // the checks below read block states alone
    core_.extents.check(problems);
    core_.cached_extents.check(problems);
    std::vector<std::uint64_t> all(held.begin(), held.end());
    slab::list_kept_back(core_.caches, all);
    slab_checker(core_, problems, all).run();
}

result<void> block_inspector::check_headers(granule first, std::uint64_t count) const {
    for (granule slab = first; slab.value < first.value + count; ++slab.value) {
        const unsigned class_index = slab_state::class_of(core_.pool.table().state(slab));
        if (class_index == no_class) {
            continue;  // no slab, or damaged when the heap was opened
        }
        const segment::slab_header_on_media& header = core_.space.slab_header(slab);
        if (!is_sound(header)) {
            return std::move(*header_fault(header, slab));
        }
        if (header.block_size != size_classes[class_index].block_size) {
            return base::failure{base::failure_code::corrupt,
                                 {},
                                 fmt::format("slab header of granule {}", slab.value),
                                 fmt::format("blocks of {} bytes", header.block_size),
                                 fmt::format("{} bytes", size_classes[class_index].block_size),
                                 {},
                                 0};
        }
    }
    return {};
}

result<void> block_inspector::check_bitmaps(granule first, std::uint64_t count) const {
    const slab_table& table = core_.pool.table();
    const auto damaged = [](granule slab, std::string found, std::string expected) {
        return base::failure{base::failure_code::corrupt,
                             {},
                             fmt::format("live bitmap of granule {}", slab.value),
                             std::move(found),
                             std::move(expected),
                             {},
                             0};
    };
    for (granule slab = first; slab.value < first.value + count; ++slab.value) {
        const std::uint8_t state = table.state(slab);
        if (!slab_state::is_loaded(state)) {
            continue;
        }
        if (!has_clean_bitmap(table, slab)) {
            return damaged(slab, "a bit that stands for no block", "SLAB-4: zero");
        }
        // Threads may allocate from a dirty slab beside the commit.
        for (std::size_t word = 0; !slab_state::is_dirty(state) && word < bitmap_words; ++word) {
            const std::uint64_t on_media = table.live_word(slab, word).load(std::memory_order_relaxed);
            const std::uint64_t live = table.live_bits(slab, word);
            if (on_media == live) {
                continue;
            }
            table.set_dirty(slab);            // the next commit writes it anew
            if ((on_media & live) != live) {  // else it was freed beside the commit
                return damaged(slab, fmt::format("word {}: {:#x}", word, on_media), fmt::format("SLAB-5: {:#x}", live));
            }
        }
    }
    return {};
}

}  // namespace holdfast::slab
