// The operations of durability `collect` for one persistence domain.
//
// Invariants:
//   COLLECT-1: an entry of a block or slab, and before it the slab's header, is durable before anything of its extent
//              is handed out; it is durably withdrawn before the extent is reused.
//   COLLECT-2: on media, the bitmap of a granule that is no slab is always zero (SLAB-4).
#pragma once

#include <algorithm>
#include <utility>

#include "heap/collect/collect_operations.hpp"
#include "lane/effects.hpp"

namespace holdfast::heap {

template <persist::persistence_domain Domain>
class collect_operations_of final : public block_operations, private slab::slab_log, private extent::entry_writer {
public:
    collect_operations_of(Domain domain, segment::space_view space, extent::extent_allocator& extents,
                          slab::block_allocator& blocks) noexcept
        : domain_(std::move(domain)), space_(space), extents_(extents), blocks_(blocks) {
        blocks_.use_log(this, nullptr);
        blocks_.slabs().set_traced(true);
        extent::remote_of(extents_).set_writer(this);
    }
    ~collect_operations_of() override {
        extent::remote_of(extents_).set_writer(nullptr);
        blocks_.forget_log();
    }
    collect_operations_of(const collect_operations_of&) = delete;
    collect_operations_of& operator=(const collect_operations_of&) = delete;

    void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept override {
        if (slab::class_for(bytes, alignment) != slab::no_class) {
            return type == 0 ? blocks_.allocate(bytes, alignment) : blocks_.allocate_typed(bytes, alignment, type);
        }
        slab::held_block held;
        if (!(type == 0 ? blocks_.hold(blocks_.this_cache(), bytes, alignment, held)
                        : blocks_.hold_typed(bytes, alignment, type, held))) {
            return nullptr;
        }
        keep(held);
        return space_.address({held.offset});
    }

    void keep(const slab::held_block& held) noexcept override {
        if (held.is_small()) {
            blocks_.keep(held);
            return;
        }
        domain_.store(*held.place.word, held.place.set, "collect.pages.entry");
        persist_word(*held.place.word, "collect.pages.fence");
    }

    bool deallocate(void* block) noexcept override {
        slab::held_block found;
        if (!blocks_.find_allocated(block, found)) {
            return false;
        }
        return found.block.kind == lane::block_kind::pages ? withdraw(block, found) : blocks_.try_free(block);
    }
    bool deallocate_exactly(void* block) noexcept override {
        slab::held_block found;
        if (blocks_.find_allocated(block, found) && found.block.kind == lane::block_kind::pages) {
            return withdraw(block, found);  // exact by the page entry
        }
        return blocks_.free_exactly(block);
    }

    void flush(const void* begin, std::uint64_t bytes) noexcept override {
        domain_.flush(begin, bytes, "collect.user.flush");
    }
    void drain() noexcept override { domain_.fence("collect.user.fence"); }

    void write_back() noexcept override {
        blocks_.slabs().write_bitmaps();
        extents_.for_each([this](const extent::extent& found) {
            if (found.kind == segment::extent_kind::slab) {
                flush_bitmap(base::granule_of(found.start), "collect.bitmap.flush");
            }
        });
        // Recovery ignores free extents, but the next open of a clean heap does not.
        const std::uint64_t per_segment = space_.shape().pages();
        const std::uint64_t end = extents_.frontier().value;
        for (std::uint64_t page = 0; page < end; page += per_segment) {
            const std::uint64_t count = std::min(per_segment, end - page);
            domain_.flush(&space_.page_entry_word({page}), count * segment::page_entry_size, "collect.entries.flush");
        }
        domain_.fence("collect.write_back.fence");
    }

private:
    /// False: another thread freed the block first.
    [[nodiscard]] bool withdraw(void* block, const slab::held_block& found) noexcept {
        const segment::page_entry withdrawn{segment::extent_kind::reserved, {found.block.length}};
        bool done = blocks_.whole_pages().claim(found);
        if (done && !blocks_.whole_pages().clear_elsewhere(found)) {
            done = domain_.replace_if(*found.place.word, found.place.set, segment::encode(withdrawn),
                                      "collect.pages.withdrawn");
            blocks_.whole_pages().end_claim(found);
            if (done) {
                persist_word(*found.place.word, "collect.pages.withdrawn_fence");
            }
        }
        if (!done) {
            blocks_.inspect().leave_refusal(block);
            return false;
        }
        blocks_.release(blocks_.this_cache(), found);
        return true;
    }

    // entry_writer: what merges take serves anew after settle()
    bool replace(std::uint64_t& word, std::uint64_t expected, std::uint64_t wanted) noexcept override {
        if (expected != wanted && !domain_.replace_if(word, expected, wanted, "collect.merge.withdrawn")) {
            return false;
        }
        domain_.flush(&word, sizeof word, "collect.merge.flush");
        return true;
    }
    void settle() noexcept override { domain_.fence("collect.merge.fence"); }

    bool slab_created(base::granule slab, const slab::size_class& kind, std::uint32_t type) noexcept override {
        const std::uint64_t offset = base::offset_of(slab).value;
        const lane::block_word block{lane::block_kind::slab, kind.block_size, type};
        lane::store_slab_header(space_, offset, block, {}, [this](std::uint64_t& word, std::uint64_t value) {
            domain_.store(word, value, "collect.slab.header");
        });
        const segment::slab_header_on_media& header = space_.slab_header(slab);
        domain_.flush(&header, sizeof header, "collect.slab.header_flush");
        domain_.fence("collect.slab.header_fence");
        const lane::block_place place = lane::place_of(space_, offset, block);
        domain_.store(*place.word, place.set, "collect.slab.entry");
        persist_word(*place.word, "collect.slab.fence");
        return true;
    }

    void slab_released(base::granule slab, const slab::size_class& /*kind*/, std::uint32_t /*type*/) noexcept override {
        // It is zero, and must be so on media before the granule is no slab (SLAB-4).
        flush_bitmap(slab, "collect.slab.bitmap_flush");
        domain_.fence("collect.slab.bitmap_fence");
        std::uint64_t& entry = space_.page_entry_word(base::first_page(slab));
        domain_.store(entry, segment::encode({segment::extent_kind::reserved, {base::pages_per_granule}, 0}),
                      "collect.slab.withdrawn");
        persist_word(entry, "collect.slab.withdrawn_fence");
    }

    void slab_morphed(base::granule slab, slab::slab_kind from, slab::slab_kind to) noexcept override {
        lane::switch_slab_header(
            space_, base::offset_of(slab).value, slab::slab_word(to), slab::slab_word(from),
            [this](std::uint64_t& word, std::uint64_t value) { domain_.store(word, value, "collect.slab.morphed"); });
        const segment::slab_header_on_media& header = space_.slab_header(slab);
        domain_.flush(&header, sizeof header, "collect.slab.morphed_flush");
        domain_.fence("collect.slab.morphed_fence");
    }

    // Tracing reads the old blocks' bits (TRACE-7).
    void old_blocks_written(base::granule slab) noexcept override {
        flush_bitmap(slab, "collect.slab.old_flush");
        domain_.fence("collect.slab.old_fence");
    }

    void flush_bitmap(base::granule slab, persist::site where) noexcept {
        domain_.flush(space_.live_bitmap(slab), segment::bitmap_size, where);
    }
    void persist_word(const std::uint64_t& word, persist::site where) noexcept {
        domain_.flush(&word, sizeof word, where);
        domain_.fence(where);
    }

    Domain domain_;
    segment::space_view space_;
    extent::extent_allocator& extents_;
    slab::block_allocator& blocks_;
};

}  // namespace holdfast::heap
