#include "api/opened_objects.hpp"

#include <cstring>

namespace holdfast::detail {

namespace {

/// Zeros: what the type's copy leaves out is the same in all copies.
void copy_to(std::uint64_t* to, const void* from, const shadow_type& type) {
    std::memset(to, 0, base::align_up(type.size, sizeof(std::uint64_t)));
    type.copy(to, from);
}

bool is_in_copy(const opened_object& of, const void* address) noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(address) -
                                    reinterpret_cast<const std::byte*>(of.copy)) < of.type->size;
}

}  // namespace

const opened_object* opened_objects::find_by_index(const std::byte* object) const {
    const auto found = by_object_.find(object);
    return found == by_object_.end() ? nullptr : &all_[found->second];
}

const opened_object* opened_objects::find_around(const void* place) const noexcept {
    const auto found = std::find_if(all_.begin(), all_.end(), [place](const opened_object& each) {
        return static_cast<std::size_t>(static_cast<const std::byte*>(place) - each.object) < each.type->size;
    });
    return found == all_.end() ? nullptr : &*found;
}

const opened_object* opened_objects::find_by_copy(const void* address) const noexcept {
    const auto found = std::find_if(all_.begin(), all_.end(),
                                    [address](const opened_object& each) { return is_in_copy(each, address); });
    return found == all_.end() ? nullptr : &*found;
}

std::byte* opened_objects::original_of(const void* place) const {
    if (ranges_ == 0) {
        return nullptr;
    }
    const auto* const address = static_cast<const std::byte*>(place);
    const opened_object* found = nullptr;
    if (all_.size() <= few) {
        found = find_by_copy(place);
    } else if (const auto below = by_copy_.lower_bound(address);
               below != by_copy_.end() && is_in_copy(all_[below->second], place)) {
        found = &all_[below->second];
    }
    return found == nullptr ? nullptr : found->object + (address - reinterpret_cast<const std::byte*>(found->copy));
}

opened_object opened_objects::empty_copy(std::byte* object, const shadow_type& type) {
    opened_object made{object, nullptr, &type};
    const std::size_t bytes = 2 * made.stride() * sizeof(std::uint64_t);
    made.copy = reinterpret_cast<std::uint64_t*>(memory_.take(bytes, made.alignment()));
    std::memset(made.copy, 0, bytes);
    return made;
}

std::uint64_t* opened_objects::copy_again(const void* from, const opened_object& of) {
    auto* const made =
        reinterpret_cast<std::uint64_t*>(memory_.take(of.stride() * sizeof(std::uint64_t), of.alignment()));
    copy_to(made, from, *of.type);
    return made;
}

opened_object opened_objects::copy_by_type(std::byte* object, const shadow_type& type) {
    opened_object made{object, nullptr, &type};
    made.copy =
        reinterpret_cast<std::uint64_t*>(memory_.take(3 * made.stride() * sizeof(std::uint64_t), made.alignment()));
    copy_to(made.copy, object, type);
    std::memcpy(made.first(), made.copy, made.words() * sizeof(std::uint64_t));
    copy_to(made.twin(), object, type);
    return made;
}

void opened_objects::index_next(const std::byte* object) {
    for (std::size_t i = all_.size() == few ? 0 : few; i < few; ++i) {
        by_object_[all_[i].object] = i;
    }
    by_object_[object] = all_.size();
}

void opened_objects::note_range() {
    ++ranges_;
    const std::size_t last = all_.size() - 1;
    if (last < few) {
        return;  // they are looked for one by one
    }
    for (std::size_t i = last == few ? 0 : last; i <= last; ++i) {
        by_copy_[reinterpret_cast<const std::byte*>(all_[i].copy)] = i;
    }
}

void opened_objects::shrink(std::size_t count) noexcept {
    while (all_.size() > count) {
        by_object_.erase(all_.back().object);
        by_copy_.erase(reinterpret_cast<const std::byte*>(all_.back().copy));
        all_.pop_back();
    }
    if (all_.size() <= few) {  // they are looked for one by one again
        by_object_.clear();
        by_copy_.clear();
    }
}

}  // namespace holdfast::detail
