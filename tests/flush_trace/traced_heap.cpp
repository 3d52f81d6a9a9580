#include "flush_trace/traced_heap.hpp"

#include <stdexcept>

#include "heap/operations/destination_operations.hpp"
#include "lane/lane_set.hpp"

namespace holdfast::flush_trace {

namespace {

constexpr std::uint64_t reservation = 16 * base::gibibyte;
constexpr std::uint64_t lanes_there_is_room_for = 4;

/// The counter of the processor would make each run another one.
lane::lane_options options_of_lanes() {
    lane::lane_options options;
    options.heap_key = 0x5eed;
    options.incarnation = 1;
    options.clock = lane::record_clock::source::memory;
    return options;
}

void require(const base::result<void>& done) {
    if (!done) {
        throw std::runtime_error(done.error().message());
    }
}

base::sparse_memory memory_of_lanes() {
    auto memory = base::sparse_memory::map(lane::lanes_file_size(lanes_there_is_room_for, lane::default_slots),
                                           "lanes of a trace");
    if (!memory) {
        throw std::runtime_error(memory.error().message());
    }
    return std::move(memory).value();
}

}  // namespace

traced_heap::traced_heap(media_trace& trace, std::size_t destinations)
    : space_(reservation, ~std::uint64_t{0}, 64 * base::mebibyte, segment::default_segment_size),
      lanes_(memory_of_lanes()),
      extents_(space_.view(), space_),
      blocks_(space_.view(), extents_),
      operations_(recording_domain{trace}, space_.view(), *this, blocks_, options_of_lanes()) {
    if (!space_.grow({segment::region_size / base::page_size})) {
        throw std::runtime_error("no first region");
    }
    require(blocks_.format());
    require(operations_.open());
    auto* const words = static_cast<std::uint64_t*>(
        operations_.allocate({.bytes = destinations * sizeof(std::uint64_t), .zeroed = true}));
    if (words == nullptr) {
        throw std::runtime_error(slab::block_allocator::last_failure().message());
    }
    destinations_ = {words, destinations};
    trace.clear();
}

traced_heap::~traced_heap() { blocks_.close(); }

void traced_heap::allocate(std::size_t destination, std::uint64_t bytes) {
    if (operations_.allocate_to(destinations_[destination], {.bytes = bytes}) == nullptr) {
        throw std::runtime_error(slab::block_allocator::last_failure().message());
    }
}

void traced_heap::release(std::size_t destination) {
    if (operations_.free_from(destinations_[destination]) != heap::operation_result::done) {
        throw std::runtime_error(slab::block_allocator::last_failure().message());
    }
}

std::uint64_t traced_heap::entry_line(std::size_t destination) const noexcept {
    const std::uint64_t& word = destinations_[destination];
    const base::heap_offset block = space_.view().offset(heap::target_of(word, word));
    const std::uint64_t& entry = space_.view().page_entry_word({block.value / base::page_size});
    return reinterpret_cast<std::uintptr_t>(&entry) / base::cache_line_size;
}

base::result<void> traced_heap::grow_lanes(std::uint64_t bytes) {
    if (bytes > lane::lanes_file_size(lanes_there_is_room_for, lane::default_slots)) {
        base::failure what;
        what.code = base::failure_code::no_space;
        return what;
    }
    lanes_size_ = std::max(lanes_size_, bytes);
    return {};
}

std::uint64_t traced_heap::metadata_bytes() const noexcept {
    const segment::geometry& shape = space_.view().shape();
    return base::divide_up(space_.frontier().value, shape.pages()) * shape.metadata_size();
}

std::uint64_t traced_heap::extent_of(heap_part part) const noexcept {
    switch (part) {
        case heap_part::lanes: return lanes_size_;
        case heap_part::metadata: return metadata_bytes();
        default: return base::to_bytes(space_.frontier());
    }
}

place traced_heap::place_of(const media_write& written) const noexcept {
    const auto offset_from = [&](const std::byte* begin) {
        return written.line * base::cache_line_size - reinterpret_cast<std::uintptr_t>(begin);
    };
    if (const std::uint64_t in_lanes = offset_from(lanes()); in_lanes < lanes_size_) {
        return {heap_part::lanes, in_lanes};
    }
    if (const std::uint64_t in_metadata = offset_from(space_.view().metadata_of(0)); in_metadata < metadata_bytes()) {
        return {heap_part::metadata, in_metadata};
    }
    return {heap_part::user, offset_from(space_.view().base())};
}

}  // namespace holdfast::flush_trace
