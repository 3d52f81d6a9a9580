#include "slab/slab_check.hpp"

#include <bit>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "slab/slab.hpp"

namespace holdfast::slab {

using base::granule;
using segment::extent_kind;

std::optional<base::failure> header_fault(const segment::slab_header_on_media& header, granule of) {
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.field = fmt::format("slab header {}", of.value);
    what.found = fmt::format("block size {}, {} blocks, flags {:#x}, type {}", header.block_size, header.block_count,
                             header.flags, header.type);
    if (!has_known_class(header)) {
        what.expected = "SLAB-1: the block size of a size class";
    } else if (!has_right_count(header)) {
        what.expected = fmt::format("SLAB-2: {} blocks", base::granule_size / header.block_size);
    } else if (!has_no_flags(header)) {
        what.expected = "SLAB-3: flags and reserved fields zero";
    } else if (!has_possible_type(header)) {
        what.expected = fmt::format("SLAB-11: a type number below {}", segment::type_limit);
    } else {
        return std::nullopt;
    }
    return what;
}

/// One run over all slabs, bins and caches of an allocator while its threads stand still.
class slab_checker {
public:
    slab_checker(const block_allocator& of, std::vector<std::string>& problems, std::span<const std::uint64_t> held)
        : of_(of), pool_(of.pool_), table_(of.pool_.table()), problems_(problems) {
        for (const std::uint64_t offset : held) {
            ++cached_[offset];  // as good as in a cache
        }
    }

    void run() {
        if (of_.caches_.pool == nullptr) {
            return;  // neither formatted nor opened
        }
        collect_caches();
        collect_lists();
        check_extents();
        for (const auto& [slab, found] : listed_) {
            problem("SLAB-8", {slab},
                    fmt::format("in the list of {} bins, with no free block or no slab there", found));
        }
        for (const auto& [offset, times] : cached_) {
            problem("SLAB-9", base::granule_of(base::heap_offset{offset}),
                    fmt::format("offset {:#x} is in {} caches, and not taken", offset, times));
        }
    }

private:
    void problem(const char* number, granule where, const std::string& text) {
        problems_.push_back(fmt::format("{}: granule {}: {}", number, where.value, text));
    }

    void collect_caches() {
        for (const thread_cache* cache = of_.caches_.first; cache != nullptr; cache = cache->next_of_heap) {
            for (const cached_blocks& blocks : cache->classes) {
                for (std::uint32_t i = 0; i < blocks.count; ++i) {
                    ++cached_[blocks.offsets[i]];
                }
            }
        }
    }

    // SLAB-8: a loaded slab is in its owner's list, once, iff it has a free block; at most one in a list has no block
    // out: the spare.
    void collect_lists() {
        for (unsigned i = 0; i < pool_.arenas_ * class_count; ++i) {
            collect_list(pool_.bins_[i]);
        }
        for (auto* each = pool_.first_typed_.load(std::memory_order_acquire); each != nullptr; each = each->next) {
            collect_list(*each);
        }
    }

    void collect_list(slab_pool::bin& bin) {
        const base::scoped_lock lock(bin.mutex);
        std::uint32_t previous = 0;
        for (std::uint32_t link = bin.head; link != 0;) {
            const granule slab{std::uint64_t{link} - 1};
            const slab_twin& twin = table_.twin(slab);
            const std::uint8_t state = table_.state(slab);
            const bool own = state == slab_state::loaded(bin.class_index, bin.type != 0) && twin.arena == bin.arena &&
                             table_.type_in_state(slab, state) == bin.type;
            const bool empty = twin.free_count == size_classes[bin.class_index].block_count;
            if (!own || twin.listed != 1 || twin.previous != previous || (link == bin.spare) != empty) {
                problem("SLAB-8", slab,
                        fmt::format("not as the list of class {}, type {} says", bin.class_index, bin.type));
            }
            if (++listed_[slab.value] > 1) {
                return;  // a ring, or two lists that share a slab
            }
            previous = std::exchange(link, twin.next);
        }
    }

    // SLAB-7: exactly the granules of slab extents have a state, and its class and type are those of the slab's header.
    void check_extents() {
        of_.extents_.for_each([this](const extent::extent& found) {
            const granule first = base::granule_of(base::pages{found.start.value + base::pages_per_granule - 1});
            const granule end =
                base::granule_of(base::pages{found.start.value + found.length.value + base::pages_per_granule - 1});
            for (granule here = first; here < end; ++here.value) {  // granules that begin in this extent
                if (found.kind == extent_kind::slab) {
                    check_slab(here);
                } else {
                    check_other(here);
                }
            }
        });
    }

    void check_other(granule here) {
        if (table_.state(here) != slab_state::none) {
            problem("SLAB-7", here, fmt::format("state {}, and no slab there", table_.state(here)));
        }
        if (of_.pool_.has_bitmap(here) && !has_clean_bitmap(table_, here, nullptr)) {
            problem("SLAB-4", here, "live bits, and no slab there");
        }
    }

    void check_slab(granule slab) {
        if (const auto fault = header_fault(of_.space_.slab_header(slab), slab)) {
            problems_.push_back(fault->message());
            return;
        }
        const unsigned class_index = class_of_block_size(of_.space_.slab_header(slab).block_size);
        const size_class& kind = size_classes[class_index];
        if (!has_clean_bitmap(table_, slab, &kind)) {
            problem("SLAB-4", slab, fmt::format("live bits beyond {} blocks", kind.block_count));
            return;
        }
        const std::uint64_t type = of_.space_.slab_header(slab).type;
        const std::uint8_t state = table_.state(slab);
        const bool loaded = state == slab_state::loaded(class_index, type != 0);
        if ((!loaded && state != slab_state::unloaded(class_index, type != 0)) ||
            table_.type_in_state(slab, state) != type) {
            problem("SLAB-7", slab,
                    fmt::format("state {} of type {}, header of class {} and type {}", state,
                                table_.type_in_state(slab, state), class_index, type));
        } else if (loaded) {
            check_twin(slab, kind);
        }
    }

    void check_twin(granule slab, const size_class& kind) {
        const slab_twin& twin = table_.twin(slab);
        const auto taken = table_.taken(slab, kind);
        std::size_t out = 0;
        for (std::size_t word = 0; word < taken.size(); ++word) {
            const std::uint64_t live = table_.live_bits(slab, word);
            // SLAB-5: a live block is taken; a block that the slab does not have is not.
            if ((live & ~taken[word]) != 0 || (taken[word] & ~valid_bits(kind, word)) != 0) {
                problem("SLAB-5", slab, fmt::format("word {}: live {:#x}, taken {:#x}", word, live, taken[word]));
            }
            // SLAB-10: no free block lies before the first word that is searched for one.
            if (word < twin.first_word && taken[word] != valid_bits(kind, word)) {
                problem("SLAB-10", slab,
                        fmt::format("free blocks in word {}, searched from {}", word, twin.first_word));
            }
            out += static_cast<std::size_t>(std::popcount(taken[word]));
            check_cached(slab, kind, word, taken[word] & ~live);
        }
        // SLAB-6: the free count is the number of blocks that are not taken.
        if (twin.free_count != kind.block_count - out) {
            problem("SLAB-6", slab,
                    fmt::format("free count {}, {} blocks out of {}", twin.free_count, out, kind.block_count));
        }
        if ((listed_.erase(slab.value) != 0) != (twin.free_count != 0)) {
            problem("SLAB-8", slab, fmt::format("{} free blocks, in a list: {}", twin.free_count, twin.listed));
        }
    }

    // SLAB-9: a block is in a thread's cache, in one, or held, iff it is taken and not live.
    void check_cached(granule slab, const size_class& kind, std::size_t word, std::uint64_t in_caches) {
        for (; in_caches != 0; in_caches &= in_caches - 1) {
            const std::uint64_t index = word * 64 + static_cast<std::uint64_t>(std::countr_zero(in_caches));
            const std::uint64_t offset = base::offset_of(slab).value + index * kind.block_size;
            const auto found = cached_.find(offset);
            if (found == cached_.end() || found->second != 1) {
                problem("SLAB-9", slab, fmt::format("block {}: taken, not live, and not in one cache", index));
            } else {
                cached_.erase(found);
            }
        }
    }

    const block_allocator& of_;
    const slab_pool& pool_;
    const slab_table& table_;
    std::vector<std::string>& problems_;
    std::unordered_map<std::uint64_t, unsigned> cached_;  ///< times that an offset is in caches
    std::unordered_map<std::uint64_t, unsigned> listed_;  ///< times that a granule is in lists
};

void block_allocator::check(std::vector<std::string>& problems, std::span<const std::uint64_t> held) const {
    extents_.check(problems);
    cached_extents_.check(problems);
    slab_checker(*this, problems, held).run();
}

}  // namespace holdfast::slab
