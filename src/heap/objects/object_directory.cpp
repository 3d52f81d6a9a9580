#include "heap/objects/object_directory.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <span>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/units.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;

std::uint64_t string_bytes(const object_entry& entry) noexcept {
    return entry.name.size() + entry.type.size() + entry.description.size();
}

/// Takes the checksum field as 0.
std::uint64_t checksum_of(const std::byte* record, std::uint64_t cells) {
    object_record_on_media header{};
    std::memcpy(&header, record, sizeof header);
    header.checksum = 0;
    base::running_checksum checksum;
    checksum.add(std::as_bytes(std::span{&header, 1}));
    checksum.add({record + sizeof header, (cells - 1) * cell_size});
    return checksum.value();
}

}  // namespace

failure object_directory::corrupt(cell position, std::string_view field, std::string found,
                                  std::string expected) const {
    return failure{failure_code::corrupt,
                   files_.paths().objects(),
                   fmt::format("record at byte {}: {}", position * cell_size, field),
                   std::move(found),
                   std::move(expected),
                   {},
                   0};
}

/// OBJ-1 of one record.
base::result<object_entry> object_directory::read(cell position) const {
    object_record_on_media header{};
    std::memcpy(&header, address(position), sizeof header);
    if (header.magic != object_magic) {
        return corrupt(position, "magic", fmt::format("{:#x}", header.magic), fmt::format("{:#x}", object_magic));
    }
    const std::uint64_t group_end = base::align_down(position, cells_per_group) + cells_per_group;
    const std::uint64_t strings = std::uint64_t{header.name_length} + header.type_length + header.description_length;
    if (header.cells != cells_for(strings) || position + header.cells > std::min(group_end, end_cell())) {
        return corrupt(position, "cells", fmt::format("{}", header.cells),
                       fmt::format("{}, within the group", cells_for(strings)));
    }
    const std::uint64_t checksum = checksum_of(address(position), header.cells);
    if (checksum != header.checksum) {
        return corrupt(position, "checksum", fmt::format("{:#x}", checksum), fmt::format("{:#x}", header.checksum));
    }
    if (header.kind < 1 || header.kind > 5) {
        return corrupt(position, "kind", fmt::format("{}", header.kind), "1 to 5");
    }
    const std::uint64_t frontier = base::to_bytes(files_.frontier());
    const auto bytes = base::checked_multiply(header.count, header.type_size);
    const auto kind = static_cast<object_kind>(header.kind);
    const bool is_empty = bytes == 0U && kind != object_kind::heap;
    if (kind != object_kind::type &&
        (!bytes || is_empty || header.offset >= frontier || *bytes > frontier - header.offset)) {
        // No caller gets an address outside the heap. OBJ-3 takes longer.
        return corrupt(position, "offset, count and type size",
                       fmt::format("{:#x}, {}, {}", header.offset, header.count, header.type_size),
                       fmt::format("within the {} bytes of user space", frontier));
    }
    object_entry entry;
    entry.kind = static_cast<object_kind>(header.kind);
    const auto* text = reinterpret_cast<const char*>(address(position) + sizeof header);
    entry.name.assign(text, header.name_length);
    entry.type.assign(text + header.name_length, header.type_length);
    entry.description.assign(text + header.name_length + header.type_length, header.description_length);
    entry.offset = header.offset;
    entry.count = header.count;
    entry.type_size = header.type_size;
    return entry;
}

base::result<void> object_directory::load() {
    if (loaded_) {
        return {};
    }
    named_.clear();
    unique_.clear();
    by_offset_.clear();
    free_.clear();
    anonymous_ = 0;
    heap_record_.reset();
    types_.clear();
    for (cell group = 0; group < end_cell(); group += cells_per_group) {
        HF_TRY(load_page_range(std::min(group + cells_per_page, end_cell()),
                               std::min(group + cells_per_group, end_cell())));
    }
    loaded_ = true;
    return {};
}

base::result<void> object_directory::load_page_range(cell begin, cell end) {
    cell free_from = begin;
    for (cell position = begin; position < end;) {
        std::uint32_t word = 0;
        std::memcpy(&word, address(position), sizeof word);
        if (word == 0) {
            ++position;
            continue;
        }
        free_.add(free_from, position - free_from);
        HF_TRY_ASSIGN(const object_entry entry, read(position));
        HF_TRY(index_record(position, entry));
        position += cells_for(string_bytes(entry));
        free_from = position;
    }
    free_.add(free_from, end - free_from);
    return {};
}

/// Checks OBJ-2, and OBJ-5's unique numbers.
base::result<void> object_directory::index_record(cell position, const object_entry& entry) {
    if (entry.kind == object_kind::heap) {
        heap_record_ = position;
        return {};
    }
    if (entry.kind == object_kind::type) {
        if (!types_.emplace(entry.count, position).second) {
            return corrupt(position, "count", fmt::format("a second type {}", entry.count), "OBJ-5: one record a type");
        }
        return {};
    }
    if (!by_offset_.emplace(entry.offset, position).second) {
        return corrupt(position, "offset", fmt::format("a second object at {:#x}", entry.offset),
                       "one object at an offset");
    }
    if (entry.kind == object_kind::anonymous) {
        ++anonymous_;
        return {};
    }
    auto& names = entry.kind == object_kind::named ? named_ : unique_;
    if (!names.emplace(index_name(entry), position).second) {
        return corrupt(position, "name", fmt::format("a second \"{}\"", index_name(entry)), "names that are unique");
    }
    return {};
}

void object_directory::add_grown_space(std::uint64_t from_bytes, std::uint64_t to_bytes) {
    for (cell position = from_bytes / cell_size; position < to_bytes / cell_size;) {
        const cell group = base::align_down(position, cells_per_group);
        const cell first = std::max(position, group + cells_per_page);
        const cell end = std::min(group + cells_per_group, to_bytes / cell_size);
        if (first < end) {
            free_.add(first, end - first);
        }
        position = end;
    }
}

/// Grows the file if no run is long enough. May throw std::bad_alloc before it takes a cell.
base::result<object_directory::cell> object_directory::allocate_cells(std::uint64_t cells) {
    if (cells > longest_record_cells) {
        return failure{failure_code::invalid_argument,
                       files_.paths().objects(),
                       "name, type name and description",
                       fmt::format("{} bytes", (cells - 1) * cell_size),
                       fmt::format("at most {}", (longest_record_cells - 1) * cell_size),
                       {},
                       0};
    }
    while (true) {
        if (const auto position = free_.take(cells)) {
            return *position;
        }
        // At worst this group is too short, and the record goes into the next.
        const std::uint64_t before = files_.objects_size();
        try {
            HF_TRY(files_.grow_objects(cells * cell_size + 2 * base::page_size));
            add_grown_space(before, files_.objects_size());
        } catch (const std::bad_alloc&) {  // the next load() finds what the file has grown
            loaded_ = false;
            throw;
        }
    }
}

/// By one 8-byte store.
void object_directory::mark(cell position, std::uint32_t magic, std::uint64_t cells) {
    auto& word = *reinterpret_cast<std::uint64_t*>(address(position));
    std::atomic_ref<std::uint64_t>(word).store(magic | cells << 32U, std::memory_order_release);
    if (persist_) {
        persist_(&word, sizeof word);
    }
}

/// Until its last store the record bears `unfinished_magic`.
void object_directory::clear_cells(cell position, std::uint64_t cells) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    std::memset(address(position) + word, 0, cells * cell_size - word);
    if (persist_) {
        persist_(address(position), cells * cell_size);
    }
    mark(position, 0, 0);
}

std::vector<std::byte> object_directory::record_of(const object_entry& entry) {
    const std::uint64_t cells = cells_for(string_bytes(entry));
    object_record_on_media header{};
    header.magic = object_magic;
    header.cells = static_cast<std::uint32_t>(cells);
    header.kind = static_cast<std::uint32_t>(entry.kind);
    header.name_length = static_cast<std::uint32_t>(entry.name.size());
    header.type_length = static_cast<std::uint32_t>(entry.type.size());
    header.description_length = static_cast<std::uint32_t>(entry.description.size());
    header.offset = entry.offset;
    header.count = entry.count;
    header.type_size = entry.type_size;
    std::vector<std::byte> whole(cells * cell_size);
    std::memcpy(whole.data(), &header, sizeof header);
    std::byte* text = whole.data() + sizeof header;
    for (const std::string* part : {&entry.name, &entry.type, &entry.description}) {
        if (!part->empty()) {
            std::memcpy(text, part->data(), part->size());
        }
        text += part->size();
    }
    header.checksum = checksum_of(whole.data(), cells);
    std::memcpy(whole.data(), &header, sizeof header);
    return whole;
}

void object_directory::write(cell position, const std::vector<std::byte>& record) {
    const std::uint64_t cells = record.size() / cell_size;
    mark(position, unfinished_magic, cells);
    constexpr std::size_t word = sizeof(std::uint64_t);
    std::memcpy(address(position) + word, record.data() + word, record.size() - word);
    if (persist_) {
        persist_(address(position), record.size());
    }
    mark(position, object_magic, cells);
}

void object_directory::erase_record(cell position, const object_entry& entry, free_cells::place freed) {
    const std::uint64_t cells = cells_for(string_bytes(entry));
    mark(position, unfinished_magic, cells);
    clear_cells(position, cells);
    free_.add(position, cells, std::move(freed));
}

base::result<void> object_directory::repair(const std::function<std::uint64_t(std::uint64_t offset)>& block_bytes) {
    loaded_ = false;
    std::set<std::uint64_t> seen;
    for (cell group = 0; group < end_cell(); group += cells_per_group) {
        const cell end = std::min(group + cells_per_group, end_cell());
        for (cell position = group + cells_per_page; position < end;) {
            HF_TRY_ASSIGN(const std::uint64_t passed, repair_cells(position, end, seen, block_bytes));
            position += passed;
        }
    }
    return {};
}

base::result<std::uint64_t> object_directory::repair_cells(
    cell position, cell end, std::set<std::uint64_t>& seen,
    const std::function<std::uint64_t(std::uint64_t)>& block_bytes) {
    std::uint32_t words[2];
    std::memcpy(words, address(position), sizeof words);
    if (words[0] == 0) {
        if (!is_zero(position, 1)) {
            clear_cells(position, 1);
        }
        return std::uint64_t{1};
    }
    if (words[0] == unfinished_magic) {
        if (words[1] == 0 || words[1] > end - position) {
            return corrupt(position, "cells", fmt::format("{}", words[1]), "1 to the end of the group");
        }
        clear_cells(position, words[1]);
        return std::uint64_t{words[1]};
    }
    HF_TRY_ASSIGN(const object_entry entry, read(position));
    const std::uint64_t cells = cells_for(string_bytes(entry));
    // A crash while a description was replaced may leave both; this one goes.
    const bool is_object = entry.kind != object_kind::heap && entry.kind != object_kind::type;
    const std::uint64_t other = entry.kind == object_kind::type ? ~entry.count : 0;
    const bool first = seen.insert(is_object ? entry.offset : other).second;
    if (!first || (is_object && block_bytes(entry.offset) == 0)) {
        mark(position, unfinished_magic, cells);
        clear_cells(position, cells);
    } else if (persist_) {
        persist_(address(position), cells * cell_size);  // it may be visible, and not on media
    }
    return cells;
}

base::result<void> object_directory::insert(const object_entry& entry) {
    HF_TRY(load());
    HF_TRY_ASSIGN(const auto existing, find(entry.kind, index_name(entry)));
    if (existing && entry.kind != object_kind::anonymous) {
        return failure{failure_code::name_exists,
                       files_.paths().directory(),
                       fmt::format("object \"{}\"", index_name(entry)),
                       "constructed before",
                       "a new name",
                       {},
                       0};
    }
    if (by_offset_.contains(entry.offset)) {
        return failure{failure_code::invalid_argument,
                       files_.paths().directory(),
                       fmt::format("object \"{}\"", index_name(entry)),
                       fmt::format("another object at offset {:#x}", entry.offset),
                       "one object at an offset",
                       {},
                       0};
    }
    const std::vector<std::byte> record = record_of(entry);
    free_cells::place unused = free_cells::make_place();
    HF_TRY_ASSIGN(const cell position, allocate_cells(record.size() / cell_size));
    try {
        HF_TRY(index_record(position, entry));
    } catch (const std::bad_alloc&) {
        by_offset_.erase(entry.offset);  // index_record() failed at the name
        free_.add(position, record.size() / cell_size, std::move(unused));
        throw;
    }
    write(position, record);
    return {};
}

base::result<std::optional<object_entry>> object_directory::find(object_kind kind, std::string_view name) {
    HF_TRY(load());
    if (kind == object_kind::anonymous) {
        return std::optional<object_entry>{};
    }
    const auto& names = kind == object_kind::named ? named_ : unique_;
    const auto found = names.find(name);
    if (found == names.end()) {
        return std::optional<object_entry>{};
    }
    HF_TRY_ASSIGN(object_entry entry, read(found->second));
    return std::optional<object_entry>{std::move(entry)};
}

base::result<std::optional<object_entry>> object_directory::find_at(std::uint64_t offset) {
    HF_TRY(load());
    const auto found = by_offset_.find(offset);
    if (found == by_offset_.end()) {
        return std::optional<object_entry>{};
    }
    HF_TRY_ASSIGN(object_entry entry, read(found->second));
    return std::optional<object_entry>{std::move(entry)};
}

base::result<object_directory::cell> object_directory::position_of(std::uint64_t offset) {
    HF_TRY(load());
    const auto found = by_offset_.find(offset);
    if (found == by_offset_.end()) {
        return failure{failure_code::not_found,
                       files_.paths().directory(),
                       "object",
                       fmt::format("none at offset {:#x}", offset),
                       "an object of the directory",
                       {},
                       0};
    }
    return found->second;
}

base::result<void> object_directory::erase_at(std::uint64_t offset) {
    HF_TRY_ASSIGN(const cell position, position_of(offset));
    HF_TRY_ASSIGN(const object_entry entry, read(position));
    free_cells::place freed = free_cells::make_place();
    by_offset_.erase(offset);
    if (entry.kind == object_kind::anonymous) {
        --anonymous_;
    } else {
        auto& names = entry.kind == object_kind::named ? named_ : unique_;
        names.erase(names.find(index_name(entry)));
    }
    erase_record(position, entry, std::move(freed));
    return {};
}

/// Writes the new record first: a failure to grow changes nothing. May throw std::bad_alloc before it stores.
base::result<object_directory::cell> object_directory::replace_record(cell position, const object_entry& entry) {
    HF_TRY_ASSIGN(const object_entry old, read(position));
    const std::vector<std::byte> record = record_of(entry);
    free_cells::place freed = free_cells::make_place();
    HF_TRY_ASSIGN(const cell fresh, allocate_cells(record.size() / cell_size));
    write(fresh, record);
    erase_record(position, old, std::move(freed));
    return fresh;
}

base::result<void> object_directory::replace(cell position, const object_entry& entry) {
    HF_TRY_ASSIGN(const cell fresh, replace_record(position, entry));
    if (entry.kind == object_kind::heap) {
        heap_record_ = fresh;
        return {};
    }
    by_offset_.find(entry.offset)->second = fresh;
    if (entry.kind != object_kind::anonymous) {
        auto& names = entry.kind == object_kind::named ? named_ : unique_;
        names.find(index_name(entry))->second = fresh;
    }
    return {};
}

base::result<void> object_directory::describe_at(std::uint64_t offset, std::string_view description) {
    HF_TRY_ASSIGN(const cell position, position_of(offset));
    HF_TRY_ASSIGN(object_entry entry, read(position));
    entry.description = description;
    return replace(position, entry);
}

base::result<std::string> object_directory::heap_description() {
    HF_TRY(load());
    if (!heap_record_) {
        return std::string{};
    }
    HF_TRY_ASSIGN(object_entry entry, read(*heap_record_));
    return std::move(entry.description);
}

base::result<void> object_directory::describe_heap(std::string_view description) {
    HF_TRY(load());
    object_entry entry;
    entry.kind = object_kind::heap;
    entry.description = description;
    if (heap_record_) {
        return replace(*heap_record_, entry);
    }
    const std::vector<std::byte> record = record_of(entry);
    HF_TRY_ASSIGN(const cell position, allocate_cells(record.size() / cell_size));
    write(position, record);
    heap_record_ = position;
    return {};
}

base::result<std::vector<type_record>> object_directory::types() {
    HF_TRY(load());
    std::vector<type_record> found;
    for (const auto& [number, position] : types_) {
        HF_TRY_ASSIGN(object_entry entry, read(position));
        std::vector<std::uint32_t> pointers(entry.description.size() / sizeof(std::uint32_t));
        if (pointers.size() * sizeof(std::uint32_t) != entry.description.size()) {
            return corrupt(position, "description length", fmt::format("{}", entry.description.size()),
                           "OBJ-5: a multiple of 4");
        }
        if (!pointers.empty()) {
            std::memcpy(pointers.data(), entry.description.data(), entry.description.size());
        }
        found.push_back({number, entry.type_size, entry.offset, std::move(pointers), std::move(entry.name)});
    }
    return found;
}

base::result<void> object_directory::describe_type(const type_record& type) {
    HF_TRY(load());
    object_entry entry;
    entry.kind = object_kind::type;
    entry.name = type.name;
    entry.offset = type.stride;
    entry.count = type.number;
    entry.type_size = type.size;
    const auto bytes = std::as_bytes(std::span(type.pointers));
    entry.description.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const auto known = types_.find(type.number); known != types_.end()) {
        HF_TRY_ASSIGN(known->second, replace_record(known->second, entry));
        return {};
    }
    const std::vector<std::byte> record = record_of(entry);
    std::map<std::uint64_t, cell> added{{type.number, 0}};
    HF_TRY_ASSIGN(added.begin()->second, allocate_cells(record.size() / cell_size));
    write(added.begin()->second, record);
    types_.merge(added);  // without memory
    return {};
}

base::result<std::uint64_t> object_directory::count(object_kind kind) {
    HF_TRY(load());
    switch (kind) {
        case object_kind::named: return std::uint64_t{named_.size()};
        case object_kind::unique: return std::uint64_t{unique_.size()};
        case object_kind::anonymous: return anonymous_;
        case object_kind::heap: return std::uint64_t{heap_record_ ? 1U : 0U};
        case object_kind::type: return std::uint64_t{types_.size()};
    }
    return std::uint64_t{0};
}

base::result<std::vector<object_entry>> object_directory::list(object_kind kind) {
    HF_TRY(load());
    std::vector<object_entry> entries;
    for (const auto& [offset, position] : by_offset_) {
        HF_TRY_ASSIGN(object_entry entry, read(position));
        if (entry.kind == kind) {
            entries.push_back(std::move(entry));
        }
    }
    std::sort(entries.begin(), entries.end(), [](const object_entry& a, const object_entry& b) {
        return std::tie(a.name, a.type, a.offset) < std::tie(b.name, b.type, b.offset);
    });
    return entries;
}

base::result<void> object_directory::for_each_offset(base::function_ref<void(std::uint64_t offset)> each) {
    HF_TRY(load());
    for (const auto& [offset, position] : by_offset_) {
        each(offset);
    }
    return {};
}

}  // namespace holdfast::heap
