#include "heap/objects/type_registry.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

namespace {

using base::failure;
using base::failure_code;

constexpr std::uint64_t word_size = 8;

failure fault(std::uint32_t type, std::string_view field, std::string found, std::string expected) {
    failure what;
    what.code = failure_code::invalid_argument;
    what.field = fmt::format("type {}: {}", type, field);
    what.found = std::move(found);
    what.expected = std::move(expected);
    return what;
}

// TYPE-1: a type's number is from 1 to segment::type_limit - 1. (OBJ-5: it is unique.)
bool has_number(std::uint32_t type) noexcept { return type != 0 && type < segment::type_limit; }

// TYPE-2: the size is 8 bytes to 1 GiB; the stride is 0, or a multiple of 8 from the size to 1 GiB.
bool has_extent(const type_description& type) noexcept {
    return type.size >= word_size && type.size <= maximum_type_size && type.stride % word_size == 0 &&
           (type.stride == 0 || (type.stride >= type.size && type.stride <= maximum_type_size));
}

// TYPE-3: at most maximum_pointers pointers, ascending; each is a word within the size at a multiple of 8; no low bit
// but raw_pointer_bit is set.
bool has_sound_pointers(const type_description& type) noexcept {
    std::uint64_t next = 0;
    for (const std::uint32_t pointer : type.pointers) {
        const std::uint64_t offset = pointer & ~raw_pointer_bit;
        if (offset % word_size != 0 || offset < next || offset + word_size > type.size) {
            return false;
        }
        next = offset + word_size;
    }
    return type.pointers.size() <= maximum_pointers;
}

failure bad_number(std::uint32_t type) {
    return fault(type, "number", fmt::format("{}", type), fmt::format("TYPE-1: 1 to {}", segment::type_limit - 1));
}

}  // namespace

std::optional<failure> type_fault(const type_description& type) {
    if (!has_number(type.type)) {
        return bad_number(type.type);
    }
    if (!has_extent(type)) {
        return fault(type.type, "size and stride", fmt::format("{}, {}", type.size, type.stride),
                     fmt::format("TYPE-2: a size from 8 to {}; a stride that is 0, or a multiple of 8 and not less",
                                 maximum_type_size));
    }
    if (!has_sound_pointers(type)) {
        return fault(
            type.type, "pointers", fmt::format("{} offsets", type.pointers.size()),
            fmt::format("TYPE-3: at most {}, ascending, multiples of 8, within {} bytes", maximum_pointers, type.size));
    }
    return std::nullopt;
}

base::result<void> type_registry::load(object_directory& objects) {
    std::map<std::uint32_t, entry> read;
    for (auto& [type, known] : entries_) {
        if (known.visitor) {
            read[type].visitor = known.visitor;
        }
    }
    HF_TRY_ASSIGN(const auto records, objects.types());
    for (const type_record& record : records) {
        type_description found{static_cast<std::uint32_t>(std::min<std::uint64_t>(record.number, segment::type_limit)),
                               record.size, record.stride, record.pointers, record.name};
        if (auto wrong = type_fault(found)) {
            wrong->code = failure_code::corrupt;
            wrong->path = objects.path();
            return std::move(*wrong);
        }
        entry& made = read[found.type];
        made.description = std::move(found);
        made.described = true;
    }
    entries_ = std::move(read);
    return {};
}

base::result<void> type_registry::add(object_directory& objects, const type_description& added) {
    if (auto wrong = type_fault(added)) {
        return std::move(*wrong);
    }
    std::map<std::uint32_t, entry> fresh;  // needs memory: before the directory changes
    fresh[added.type].description = added;
    HF_TRY(objects.describe_type({added.type, added.size, added.stride, added.pointers, added.name}));
    put(fresh);
    return {};
}

/// Keeps a visitor. Needs no memory.
void type_registry::put(std::map<std::uint32_t, entry>& added) noexcept {
    auto node = added.extract(added.begin());
    node.mapped().described = true;
    auto done = entries_.insert(std::move(node));
    if (!done.inserted) {
        done.position->second.description = std::move(done.node.mapped().description);
        done.position->second.described = true;
    }
}

base::result<void> type_registry::add_volatile(const type_description& added) {
    if (auto wrong = type_fault(added)) {
        return std::move(*wrong);
    }
    std::map<std::uint32_t, entry> fresh;
    fresh[added.type].description = added;
    put(fresh);
    return {};
}

base::result<void> type_registry::add_visitor(std::uint32_t type, pointer_visitor visitor) {
    if (!has_number(type)) {
        return bad_number(type);
    }
    if (visitor) {
        entries_[type].visitor = std::move(visitor);
    } else if (const auto found = entries_.find(type); found != entries_.end()) {
        found->second.visitor = {};
        if (!found->second.described) {
            entries_.erase(found);
        }
    }
    return {};
}

}  // namespace holdfast::heap
