// For tests of tracing: a heap that can crash, random graphs in it, and a reference marker that shares no code with the
// real one.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "extent/extent.hpp"
#include "extent/fake_space.hpp"
#include "heap/heap.hpp"
#include "heap/trace/trace.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/test_support.hpp"
#include "slab/pool/slab_check.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

class traced_heap {
public:
    explicit traced_heap(std::uint64_t capacity = 64 * base::mebibyte, std::uint64_t reservation = 256 * base::mebibyte)
        : space_(reservation, capacity, segment::region_size, 4 * base::mebibyte) {
        segment::must(space_.grow({512}));
        make();
        segment::must(blocks_->format());
    }

    [[nodiscard]] const segment::space_view& view() const noexcept { return space_.view(); }
    [[nodiscard]] base::pages frontier() const noexcept { return space_.frontier(); }
    [[nodiscard]] slab::block_allocator& blocks() noexcept { return *blocks_; }

    std::uint64_t allocate(std::uint64_t bytes, std::uint32_t type = 0) {
        void* const block = type == 0 ? blocks_->allocate(bytes, 8) : blocks_->allocate_typed(bytes, 8, type);
        if (block == nullptr) {
            throw std::runtime_error(slab::block_allocator::last_failure().message());
        }
        std::fill_n(static_cast<std::byte*>(block), segment::must(blocks_->inspect().usable_size(block)), std::byte{0});
        return view().offset(block).value;
    }
    void free(std::uint64_t offset) { segment::must(blocks_->free(view().address({offset}))); }
    [[nodiscard]] std::uint64_t& word(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<std::uint64_t*>(view().address({offset}));
    }
    void point(std::uint64_t at, std::uint64_t to, std::uint16_t stamp = 0) const noexcept {
        word(at) = segment::encode_pointer(at, to, stamp);
    }
    void root(std::uint64_t index, std::uint64_t to) const noexcept { point(index * 8, to); }
    [[nodiscard]] std::uint64_t address_of(std::uint64_t offset) const noexcept {
        return reinterpret_cast<std::uintptr_t>(view().address({offset}));
    }

    /// DRAM is lost, and bitmaps are random subsets, as if unwritten for long.
    void crash(std::uint64_t seed) {
        std::mt19937_64 random(seed);
        blocks_->close();
        segment::must(extents_->entries().read_blocks(frontier(), [&](const extent::extent& found) {
            if (found.kind != segment::extent_kind::slab) {
                return;
            }
            const base::granule at = base::granule_of(found.start);
            if (slab::is_morphed(view().slab_header(at))) {
                return;  // its old half is durable (TRACE-7)
            }
            const unsigned index = slab::class_of_block_size(view().slab_header(at).block_size);
            for (std::size_t i = 0; index != slab::no_class && i < slab::bitmap_words; ++i) {
                const std::uint64_t half = random();
                view().live_bitmap(at)[i] = half & random() & slab::valid_bits(slab::size_classes[index], i);
            }
        }));
        make();
    }
    [[nodiscard]] base::result<trace_report> trace(const type_registry& types, const trace_options& options,
                                                   std::span<const std::uint64_t> objects = {},
                                                   std::optional<trace_flush> flush = std::nullopt) {
        return recover_by_tracing(view(), *extents_, frontier(), objects, types, options, flush);
    }
    void open() { segment::must(blocks_->open(frontier(), true)); }
    [[nodiscard]] std::set<std::uint64_t> live() const {
        std::set<std::uint64_t> found;
        blocks_->inspect().for_each_block(
            [&found](base::heap_offset offset, std::uint64_t, std::uint32_t) { found.insert(offset.value); });
        return found;
    }
    [[nodiscard]] std::vector<std::string> problems() const {
        std::vector<std::string> found;
        blocks_->inspect().check(found);
        return found;
    }
    /// Page entries, headers and bitmaps.
    [[nodiscard]] std::span<std::uint64_t> metadata() const {
        const std::uint64_t segments = (base::to_bytes(frontier()) + 4 * base::mebibyte - 1) / (4 * base::mebibyte);
        auto* const first = reinterpret_cast<std::uint64_t*>(view().metadata_of(0));
        return {first, reinterpret_cast<std::uint64_t*>(view().metadata_of(segments))};
    }
    [[nodiscard]] bool is_page_entry(const std::uint64_t& word) const {
        const auto& shape = view().shape();
        const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&word) - view().metadata_of(0)) %
                        shape.metadata_size();
        return at >= shape.page_entries_at() && at < shape.bitmaps_at();
    }

private:
    void make() {
        blocks_.reset();
        extents_ = std::make_unique<extent::extent_allocator>(space_.view(), space_);
        blocks_ = std::make_unique<slab::block_allocator>(space_.view(), *extents_);
    }

    extent::fake_space space_;
    std::unique_ptr<extent::extent_allocator> extents_;
    std::unique_ptr<slab::block_allocator> blocks_;
};

/// Page entries and slab headers define the blocks, allocated or not.
class reference_marker {
public:
    struct block {
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
        std::uint32_t type = 0;
    };

    reference_marker(const traced_heap& heap, const type_registry& types, const trace_options& options)
        : heap_(heap), types_(types), options_(options) {
        for (std::uint64_t page = 0; page < heap.frontier().value;) {
            const auto entry = segment::decode_page_entry(heap.view().page_entry_word({page}));
            const bool counts = entry.kind == segment::extent_kind::used || entry.kind == segment::extent_kind::slab ||
                                entry.kind == segment::extent_kind::roots;
            if (counts) {
                extents_[page * base::page_size] = entry;
            }
            page += counts ? entry.length.value : 1;
        }
    }

    [[nodiscard]] std::set<std::uint64_t> mark(const std::vector<std::uint64_t>& objects = {}) {
        for (std::uint64_t at = 0; at < root_count * 8; at += 8) {
            follow(at, true, options_.raw_pointers);
        }
        for (const std::uint64_t object : objects) {
            reach(object);
        }
        while (!waiting_.empty()) {
            const block next = waiting_.front();
            waiting_.pop_front();
            read(next);
        }
        return reached_;
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

private:
    std::optional<block> find(std::uint64_t offset) const {
        auto after = extents_.upper_bound(offset);
        if (after == extents_.begin()) {
            return std::nullopt;
        }
        const auto& [start, entry] = *std::prev(after);
        if (offset >= start + base::to_bytes(entry.length) || entry.kind == segment::extent_kind::roots) {
            return std::nullopt;
        }
        if (entry.kind == segment::extent_kind::used) {
            return block{start, base::to_bytes(entry.length), entry.type};
        }
        const auto& header = heap_.view().slab_header({start / base::granule_size});
        const std::uint64_t index = (offset - start) / header.block_size;
        if (index >= base::granule_size / header.block_size) {
            return std::nullopt;
        }
        return block{start + index * header.block_size, header.block_size, static_cast<std::uint32_t>(header.type)};
    }
    void reach(std::uint64_t offset) {
        const auto found = find(offset);
        if (found && reached_.insert(found->offset).second) {
            bytes_ += found->bytes;
            waiting_.push_back(*found);
        }
    }
    void follow(std::uint64_t at, bool as_pointer, bool as_address) {
        const std::uint64_t word = heap_.word(at);
        if (as_pointer && (word << 16U) != 0) {
            reach(at + (word << 16U >> 16U) - (std::uint64_t{1} << 47U));
        }
        if (as_address) {
            reach(word - heap_.address_of(0));
        }
    }
    void read(const block& of) {
        const auto* const type = options_.mode == trace_mode::precise ? types_.find(of.type) : nullptr;
        if (type == nullptr) {
            for (std::uint64_t at = of.offset; at < of.offset + of.bytes; at += 8) {
                follow(at, true, options_.raw_pointers);
            }
            return;
        }
        const type_description& layout = type->description;
        for (std::uint64_t start = 0; start + layout.size <= of.bytes; start += layout.stride) {
            for (const std::uint32_t pointer : layout.pointers) {
                const bool raw = pointer % 2 != 0;
                follow(of.offset + start + pointer - (raw ? 1 : 0), !raw, raw && options_.raw_pointers);
            }
            if (layout.stride == 0) {
                break;
            }
        }
    }

    const traced_heap& heap_;
    const type_registry& types_;
    trace_options options_;
    std::map<std::uint64_t, segment::page_entry> extents_;
    std::set<std::uint64_t> reached_;
    std::deque<block> waiting_;
    std::uint64_t bytes_ = 0;
};

/// Type 1: two pointers an element; 2: an address and a pointer; 3: none; 4: arrays of three words with one pointer.
inline type_registry example_types() {
    type_registry types;
    segment::must(types.add_volatile({1, 48, 48, {0, 24}, "pair"}));
    segment::must(types.add_volatile({2, 32, 0, {8 | raw_pointer_bit, 16}, "single"}));
    segment::must(types.add_volatile({3, 8, 8, {}, "leaf"}));
    segment::must(types.add_volatile({4, 24, 24, {16}, "array"}));
    return types;
}

/// Blocks of all sizes and types, with pointers to starts and insides of blocks, to themselves, to free blocks and out
/// of the heap; addresses; small numbers; noise. Returns those that stay allocated.
inline std::vector<std::uint64_t> random_graph(traced_heap& heap, std::mt19937_64& random, std::size_t count) {
    std::vector<std::uint64_t> blocks;
    const auto below = [&random](std::uint64_t limit) { return random() % limit; };
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bytes = below(50) == 0  ? 16'384 + below(300'000)
                                    : below(4) == 0 ? 8 + below(14'000)
                                                    : 8 + below(200);
        blocks.push_back(heap.allocate(bytes, static_cast<std::uint32_t>(below(6))));
    }
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t words =
            segment::must(heap.blocks().inspect().usable_size(heap.view().address({blocks[i]}))) / 8;
        for (std::uint64_t k = 0; k < words; k += 1 + below(1 + words / 8)) {
            const std::uint64_t at = blocks[i] + 8 * k;
            const std::uint64_t target = blocks[below(count)] + (below(4) == 0 ? below(64) : 0);
            switch (below(8)) {
                case 0: heap.word(at) = random(); break;
                case 1: heap.word(at) = below(1000); break;
                case 2: heap.word(at) = heap.address_of(target); break;
                case 3: heap.point(at, at); break;
                case 4: heap.point(at, below(base::to_bytes(heap.frontier()) + 100'000)); break;
                default: heap.point(at, target, static_cast<std::uint16_t>(random())); break;
            }
        }
    }
    for (std::size_t i = 0; i < count / 10; ++i) {
        heap.free(blocks[i]);
    }
    blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(count / 10));
    for (int i = 0; i < 4; ++i) {
        heap.root(below(root_count), blocks[below(blocks.size())]);
    }
    return blocks;
}

}  // namespace holdfast::heap
