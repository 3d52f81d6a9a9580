// contents: arrays that become longer or shorter. A block has more room than its array needs, so that adding rows takes
// time in proportion to them. What is held of an array shares its block: those bytes are not written again.
#include <algorithm>
#include <cstring>

#include "contents.hpp"

namespace holdfast::python {

using values::array;

namespace {

bool is_like(const array_content& here, const array_content& rows) {
    return here.type == rows.type && here.order == rows.order && here.shape.size() == rows.shape.size() &&
           !here.shape.empty() && std::equal(here.shape.begin() + 1, here.shape.end(), rows.shape.begin() + 1);
}

[[noreturn]] void refuse_change(const std::string& path) {
    const char* const found = "another value, type or shape";
    const char* const expected = "the array that was there before the call";
    const char* const hint = "another thread has changed it";
    throw error(errc::invalid_argument, path + ": array: found " + found + ", expected " + expected + "; " + hint,
                {path, "array", found, expected, hint, 0});
}

/// A quarter of the array as room, at least.
std::uint64_t room_for(std::uint64_t before, std::uint64_t after) {
    return after > before ? std::max(after, before + before / 2) : after;
}

void write_rows(std::byte* to, const array_content& rows, std::uint64_t bytes) {
    if (rows.data != nullptr) {
        std::memcpy(to, rows.data, bytes);
    } else {
        std::memset(to, 0, bytes);
    }
}

}  // namespace

/// Bytes that are no longer a part of the array are so in the heap until the transaction ends, which may be an abort.
bool contents::fits(const array& header, std::uint64_t before, std::uint64_t after) const {
    const std::uint64_t room = space.usable_size(header.data.get(), "data of an array");
    if (before == 0 || after == 0 || after > room) {
        return false;
    }
    return after >= before ? before >= header.bytes : after >= room / 4 && !is_held_(&header);
}

void contents::resize_array(values::dict& in, const document& key, const array_change& change, values::root& root) {
    const auto found = find(in, key);
    if (!found || found->what != kind::array) {
        refuse_change(space.heap().path());
    }
    const document now = read_array(*found, false);
    array_content here = *now.array;
    if (!is_like(here, change.rows)) {
        refuse_change(space.heap().path());
    }
    const std::uint64_t before = here.bytes;
    here.shape[0] = change.to.value_or(here.shape[0] + change.rows.shape[0]);
    here.bytes = here.shape[0] * change.bytes_of_row;
    if (auto& header = *space.object_of<array>(*found); fits(header, before, here.bytes)) {
        if (here.bytes > before) {
            std::byte* const to = header.data.get() + before;
            write_rows(to, change.rows, here.bytes - before);
            space.heap().persist(to, here.bytes - before);
        }
        space.store(header.bytes, here.bytes);
        space.store(const_cast<std::uint64_t&>(*header.shape()), here.shape[0]);
        return;
    }
    const void* const old = std::exchange(here.data, nullptr);
    const value made = build_array(here, room_for(before, here.bytes));
    if (here.bytes != 0) {
        std::byte* const to = space.object_of<array>(made)->data.get();
        const std::uint64_t kept = std::min(before, here.bytes);
        if (kept != 0) {
            std::memcpy(to, old, kept);
        }
        if (change.rows.data != nullptr) {
            write_rows(to + kept, change.rows, here.bytes - kept);
        }
    }
    put(in, key, made, root);
}

}  // namespace holdfast::python
