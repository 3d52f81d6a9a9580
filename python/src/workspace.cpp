// Blocks and checks of a workspace.
#include "workspace.hpp"

#include <cstdio>

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
    made_.add(made, bytes);
    return made;
}

void workspace::free(const void* block) {
    made_.erase(block);
    transaction_->free(const_cast<void*>(block));
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
