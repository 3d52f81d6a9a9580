// Blocks and checks of a workspace.
#include "workspace.hpp"

#include <cstdio>
#include <cstring>

namespace holdfast::python {

namespace {

std::string as_text(const void* address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
}

}  // namespace

void* workspace::make_block(std::size_t bytes, std::size_t alignment, bool zeroed) {
    void* const made = transaction_->allocate(bytes, {alignment, zeroed});
    if (in_part()) {
        note({undo_step::of::made, made, 0, 0});
    }
    made_.add(made, bytes);
    return made;
}

void workspace::free(const void* block) {
    if (const std::size_t* const made = made_.find(block); made != nullptr && in_part()) {
        note({undo_step::of::freed, const_cast<void*>(block), *made, 0});
    }
    made_.erase(block);
    transaction_->free(const_cast<void*>(block));
}

void workspace::begin_part(transaction& within) {
    parts_.push_back(steps_.size());
    transaction_ = &within;
}

void workspace::keep(void* at, std::size_t bytes) {
    const auto [depth, is_new] = kept_.add(at, 0);
    if (!is_new && *depth == parts_.size()) {
        return;
    }
    const auto* const from = static_cast<const std::byte*>(at);
    note({undo_step::of::content, at, bytes, contents_.size()});
    try {
        contents_.insert(contents_.end(), from, from + bytes);
    } catch (const std::bad_alloc&) {
        steps_.pop_back();
        throw;
    }
    *depth = parts_.size();
}

void workspace::forget_steps() noexcept {
    steps_.clear();
    contents_.clear();
    kept_.clear();
}

/// What the part has kept is what the one around it goes back to.
void workspace::keep_part(transaction& around) noexcept {
    const std::size_t begin = parts_.back();
    parts_.pop_back();
    transaction_ = &around;
    if (parts_.empty()) {
        forget_steps();
        return;
    }
    for (std::size_t i = begin; i < steps_.size(); ++i) {
        if (steps_[i].what == undo_step::of::content) {
            *kept_.add(steps_[i].at, 0).first = parts_.size();  // it is there
        }
    }
}

void workspace::drop_part(transaction& around) noexcept {
    while (steps_.size() > parts_.back()) {
        const undo_step& last = steps_.back();
        switch (last.what) {
            case undo_step::of::content:
                if (std::memcmp(last.at, contents_.data() + last.place, last.bytes) != 0) {
                    std::memcpy(last.at, contents_.data() + last.place, last.bytes);
                }
                contents_.resize(last.place);
                kept_.erase(last.at);
                break;
            case undo_step::of::opened: changed_.erase(last.at); break;
            case undo_step::of::made: made_.erase(last.at); break;
            case undo_step::of::freed: made_.add(last.at, last.bytes); break;  // it has room: it was there
        }
        steps_.pop_back();
    }
    parts_.pop_back();
    transaction_ = &around;
}

std::size_t workspace::usable_size(const void* address, const char* field) const {
    try {
        const std::size_t* const made = made_.find(address);
        return made != nullptr ? *made : address == nullptr ? 0 : heap_->usable_size(address);
    } catch (const error& failure) {
        if (failure.reason() != errc::bad_address) {
            throw;
        }
        refuse(field, "a pointer to " + as_text(address), "a pointer to an allocated block of this heap");
    }
}

void workspace::expect_block(const void* address, std::size_t bytes, const char* field) const {
    if (const std::size_t usable = usable_size(address, field); usable < bytes) {
        refuse(field, "a block of " + std::to_string(usable) + " bytes", "at least " + std::to_string(bytes));
    }
}

void workspace::refuse_tag(const char* field, kind what, const void* found) const {
    const values::object_tag& tag = tag_at(found);
    refuse(field, "kind " + std::to_string(static_cast<unsigned>(tag.what)),
           "kind " + std::to_string(static_cast<unsigned>(what)) + " with its mark");
}

void workspace::refuse(const std::string& field, const std::string& found, const std::string& expected) const {
    const std::string& path = heap_->path();
    throw error(errc::corrupt, path + ": " + field + ": found " + found + ", expected " + expected,
                {path, field, found, expected, "restore the heap from a snapshot", 0});
}

}  // namespace holdfast::python
