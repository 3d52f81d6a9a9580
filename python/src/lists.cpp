// contents: lists.
#include <algorithm>

#include "contents.hpp"

namespace holdfast::python {

using values::sequence;

namespace {

/// Up to so many elements are moved in their places; more are written to a new block, which needs no log.
constexpr std::uint64_t most_moved = 16;
constexpr std::uint64_t least_capacity = 4;

}  // namespace

value* contents::elements_of(const sequence& in) const {
    if (in.size > in.capacity || in.capacity > (std::uint64_t{1} << 46) / sizeof(value)) {
        space.refuse("size of a list", std::to_string(in.size), "at most its capacity, " + std::to_string(in.capacity));
    }
    value* const elements = in.elements.get();
    if (in.capacity != 0) {
        space.expect_block(elements, in.capacity * sizeof(value), "elements of a list");
    }
    return elements;
}

const value& contents::at(const sequence& in, std::uint64_t index) const {
    const sequence& header = space.look(in);
    value* const elements = elements_of(header);
    if (index >= header.size) {
        space.refuse("index in a list", std::to_string(index), "less than " + std::to_string(header.size));
    }
    return space.look(elements[index]);
}

void contents::assign(sequence& in, std::uint64_t index, const value& content, values::root& root) {
    value& element = space.change(const_cast<value&>(elements_of(space.look(in))[index]));
    const value before = element;
    element = content;
    drop(before, root);
}

value* contents::move_elements(sequence& in, std::uint64_t capacity) {
    sequence& header = space.change(in);
    value* const old = elements_of(header);
    auto* const made = static_cast<value*>(space.make_block(capacity * sizeof(value), alignof(value), true));
    for (std::uint64_t i = 0; i < header.size; ++i) {
        ::new (made + i) value(space.look(old[i]));
    }
    if (header.capacity != 0) {
        space.free(old);
    }
    header.elements = made;
    header.capacity = capacity;
    return made;
}

void contents::splice(sequence& in, std::uint64_t index, std::uint64_t removed, const std::vector<value>& added,
                      values::root& root) {
    sequence& header = space.change(in);
    value* elements = elements_of(header);
    std::vector<value> dropped;
    for (std::uint64_t i = 0; i < removed; ++i) {
        dropped.push_back(space.look(elements[index + i]));
    }
    const std::uint64_t size = header.size - removed + added.size();
    const std::uint64_t behind = header.size - index - removed;
    const bool moves = removed != added.size() && behind > most_moved;
    if (size > header.capacity || moves) {
        const std::uint64_t capacity =
            size > header.capacity ? std::max({least_capacity, size, 2 * header.capacity}) : header.capacity;
        elements = move_elements(in, capacity);
    }
    if (added.size() > removed) {
        for (std::uint64_t i = behind; i-- > 0;) {
            space.change(elements[index + added.size() + i]) = space.look(elements[index + removed + i]);
        }
    } else if (added.size() < removed) {
        for (std::uint64_t i = 0; i < behind; ++i) {
            space.change(elements[index + added.size() + i]) = space.look(elements[index + removed + i]);
        }
    }
    for (std::size_t i = 0; i < added.size(); ++i) {
        space.change(elements[index + i]) = added[i];
    }
    header.size = size;
    for (const value& each : dropped) {
        drop(each, root);
    }
}

void contents::splice_out(sequence& in, std::uint64_t index) {
    sequence& header = space.change(in);
    value* const elements = elements_of(header);
    for (std::uint64_t i = index; i + 1 < header.size; ++i) {
        space.change(elements[i]) = space.look(elements[i + 1]);
    }
    --header.size;
}

}  // namespace holdfast::python
