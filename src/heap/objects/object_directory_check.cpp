#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.hpp"
#include "heap/objects/object_directory.hpp"

namespace holdfast::heap {

bool object_directory::is_zero(cell first, cell count) const noexcept {
    return std::all_of(address(first), address(first + count), [](std::byte b) { return b == std::byte{0}; });
}

void object_directory::check(std::vector<std::string>& problems,
                             const std::function<std::uint64_t(std::uint64_t offset)>& block_bytes) {
    if (auto done = load(); !done) {
        problems.push_back("OBJ-1: " + done.error().message());
        return;
    }
    for (const auto& [offset, position] : by_offset_) {
        const auto entry = read(position);
        if (!entry) {
            problems.push_back("OBJ-1: " + entry.error().message());
            continue;
        }
        const auto wanted = base::checked_multiply(entry->count, entry->type_size);
        if (const std::uint64_t bytes = block_bytes(offset); bytes == 0 || !wanted || bytes < *wanted) {
            problems.push_back(fmt::format(
                "OBJ-3: object \"{}\" at offset {:#x} holds {} elements of {} bytes, its block has {} bytes",
                index_name(entry.value()), offset, entry->count, entry->type_size, bytes));
        }
    }
    if (const auto types = this->types(); !types) {
        problems.push_back("OBJ-5: " + types.error().message());
    }
    for (const auto& [position, cells] : free_.runs()) {
        if (!is_zero(position, cells)) {
            problems.push_back(fmt::format("OBJ-4: free cells at byte {} are not zero", position * cell_size));
        }
    }
}

bool object_directory::is_indexed(cell position, const object_entry& entry) const {
    if (entry.kind == object_kind::heap) {
        return heap_record_ == position;
    }
    if (entry.kind == object_kind::type) {
        const auto known = types_.find(entry.count);
        return known != types_.end() && known->second == position;
    }
    const auto known = by_offset_.find(entry.offset);
    return known != by_offset_.end() && known->second == position;
}

/// Returns its end. Reads it only where it reaches beyond `from`.
base::result<object_directory::cell> object_directory::check_record(cell position, cell from) const {
    object_record_on_media header{};
    std::memcpy(&header, address(position), sizeof header);
    const cell next_free = free_.next_from(position);
    if (header.cells == 0 || header.cells > next_free - position) {
        return corrupt(position, "cells", fmt::format("{}", header.cells),
                       fmt::format("1 to {}, up to what is free", next_free - position));
    }
    const cell end = position + header.cells;
    if (end > from) {
        HF_TRY_ASSIGN(const object_entry entry, read(position));
        if (!is_indexed(position, entry)) {
            return corrupt(position, "offset", fmt::format("{:#x}", entry.offset), "the record that was written here");
        }
    }
    return end;
}

base::result<void> object_directory::page_check::page(std::uint64_t at) {
    HF_TRY(directory_.load());
    const cell first = at / cell_size;
    const cell end = std::min(first + cells_per_page, directory_.end_cell());
    const cell group = base::align_down(first, cells_per_group);
    next_ = std::max(next_, group + cells_per_page);
    while (next_ < end) {
        const cell free_to = directory_.free_.end_of_free(next_);
        if (free_to > next_) {
            const cell from = std::max(next_, first);
            const cell to = std::min(free_to, end);
            if (from < to && !directory_.is_zero(from, to - from)) {
                return directory_.corrupt(from, "free cells", "bytes that are not zero", "OBJ-4: zeros");
            }
            next_ = to;
            continue;
        }
        HF_TRY_ASSIGN(next_, directory_.check_record(next_, first));
    }
    return {};
}

}  // namespace holdfast::heap
