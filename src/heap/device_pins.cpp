#include "heap/device_pins.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "heap/heap_operations.hpp"
#include "segment/format/page_runs.hpp"

namespace holdfast::heap {

using base::failure;
using base::failure_code;

failure device_pins::refused(std::uint64_t offset, std::uint64_t bytes, const char* found, const char* expected) const {
    // The program's address, of which `offset` is the distance also where it lies outside of the heap.
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(heap_.files().view().base()) + offset;
    return {failure_code::bad_address,
            heap_.files().paths().directory(),
            fmt::format("{} bytes at {:#x}", bytes, address),
            found,
            expected,
            {},
            0};
}

base::result<void> device_pins::check_writer(const char* operation) const {
    HF_TRY(heap_.check_process());
    if (heap_.read_only()) {
        return failure{failure_code::read_only,
                       heap_.files().paths().directory(),
                       operation,
                       "a heap opened read-only",
                       "a writer",
                       {},
                       0};
    }
    return {};
}

base::result<std::uint64_t> device_pins::find_block(std::uint64_t offset, std::uint64_t bytes) const {
    const slab::block_inspector& look = heap_.blocks().inspect();
    const std::uint64_t end = base::to_bytes(heap_.files().frontier());
    if (bytes == 0 || offset >= end || bytes > end - offset) {
        return refused(offset, bytes, bytes == 0 ? "nothing" : "addresses outside of the heap", "a part of a block");
    }
    const auto block = look.block_around({offset});
    if (!block) {
        return refused(offset, bytes, "memory that is not allocated", "a part of an allocated block");
    }
    HF_TRY_ASSIGN(const std::size_t usable, look.usable_size(heap_.files().view().address({*block})));
    if (offset - *block > usable || bytes > usable - (offset - *block)) {
        return refused(offset, bytes, "bytes behind the end of their block", "a part of one block");
    }
    return *block;
}

base::result<void> device_pins::pin(const void* begin, std::uint64_t bytes) {
    HF_TRY(check_writer("pin"));
    const std::uint64_t offset = heap_.files().view().offset(begin).value;
    HF_TRY_ASSIGN(const std::uint64_t block, find_block(offset, bytes));
    slab::pin_place place = slab::pinned_blocks::make_place();
    const auto range = ranges_.emplace(offset, bytes);
    try {
        pinned_block& of = blocks_[block];
        keep_pages();
        if (of.ranges++ == 0) {
            void* const address = heap_.files().view().address({block});
            slab::held_block found;
            of.is_object = !heap_.blocks().find_allocated(address, found);
            if (!of.is_object) {
                heap_.blocks().pin(address, std::move(place));
            }
        }
    } catch (...) {
        ranges_.erase(range);
        if (const auto of = blocks_.find(block); of != blocks_.end() && of->second.ranges == 0) {
            blocks_.erase(of);
        }
        throw;
    }
    return {};
}

base::result<void> device_pins::unpin(const void* begin, std::uint64_t bytes) {
    HF_TRY(check_writer("unpin"));
    const std::uint64_t offset = heap_.files().view().offset(begin).value;
    const auto [first, last] = ranges_.equal_range(offset);
    const auto range = std::find_if(first, last, [bytes](const auto& each) { return each.second == bytes; });
    if (range == last) {
        return refused(offset, bytes, "a range that is not pinned", "one that pin() was called with");
    }
    auto node = ranges_.extract(range);
    try {
        keep_pages();
    } catch (...) {
        ranges_.insert(std::move(node));
        throw;
    }
    const auto of = std::prev(blocks_.upper_bound(offset));
    if (--of->second.ranges == 0) {
        if (!of->second.is_object) {
            static_cast<void>(heap_.blocks().unpin(heap_.files().view().address({of->first})));
        }
        blocks_.erase(of);
    }
    return {};
}

std::vector<std::uint64_t> device_pins::blocks() const {
    std::vector<std::uint64_t> offsets;
    offsets.reserve(blocks_.size());
    for (const auto& [offset, of] : blocks_) {
        offsets.push_back(offset);
    }
    return offsets;
}

void device_pins::keep_pages() {
    if (heap_.files().shared()) {
        return;
    }
    segment::free_runs pages;
    for (const auto& [offset, bytes] : ranges_) {
        segment::append_run(pages, base::page_of(base::heap_offset{offset}),
                            {base::divide_up(offset + bytes, base::page_size)});
    }
    heap_.files().commits().keep(pages);
}

}  // namespace holdfast::heap
