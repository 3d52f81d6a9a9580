#include "store/pages.hpp"

#include <algorithm>
#include <cstring>

#include "store/block.hpp"

namespace holdfast::store_engine {

void transaction_pages::read(engine& store, std::uint64_t transaction, std::uint64_t next_page) noexcept {
    store_ = &store;
    state_ = nullptr;
    transaction_ = transaction;
    next_page_ = next_page;
}

void transaction_pages::write(engine& store, write_state& state) noexcept {
    store_ = &store;
    state_ = &state;
    transaction_ = state.changes.version.transaction;
    first_generation_ = 0;
    state.generation = 0;
    edge_depth_ = 0;
}

void transaction_pages::nest() {
    first_generation_ = ++state_->generation;
    edge_depth_ = 0;
    superseded_.clear();
    dirty_before_ = state_->changes.dirty.size();
    freed_before_ = state_->changes.freed.size();
    loose_before_ = state_->changes.loose;
}

status transaction_pages::create(page_kind kind, std::uint32_t item_size, std::uint64_t& number) {
    edge_depth_ = 0;
    HF_STORE_TRY(store_->allocate(state_->changes, 1, 0, number));
    page_header& page = *writable(number);
    page.generation = state_->generation;
    format_block(page.block, kind, block_capacity, item_size);
    return status::ok;
}

status transaction_pages::create_run(std::uint64_t value_size, std::uint64_t& number, std::byte*& value) {
    const std::uint64_t pages = run_pages_for(value_size);
    if (pages > ~std::uint32_t{0}) {
        return status::bad_value_size;
    }
    HF_STORE_TRY(store_->allocate(state_->changes, static_cast<std::uint32_t>(pages), 0, number));
    page_header& page = *writable(number);
    page.generation = state_->generation;
    format_block(page.block, page_kind::run, 0, 0);
    value = reinterpret_cast<std::byte*>(&page) + run_header_size;
    const std::size_t used = run_header_size + value_size;
    std::memset(value + value_size, 0, pages * page_size - used);
    return status::ok;
}

// Whether it is this transaction's. Others say so, too, where a damaged store uses free pages.
bool transaction_pages::is_dirty(std::uint64_t number, const page_header& page) const noexcept {
    const auto& dirty = state_->changes.dirty;
    return page.checksum < dirty.size() && dirty[page.checksum].page == number && dirty[page.checksum].live;
}

status transaction_pages::own(std::uint64_t& number) {
    const page_header* old = nullptr;
    HF_STORE_TRY(get(number, old));
    const bool of_outer = old->birth == transaction_;
    if (of_outer && !is_dirty(number, *old)) {
        return status::corrupted;
    }
    if (owns(*old)) {
        return status::ok;
    }
    write_set& changes = state_->changes;
    const std::uint64_t base = of_outer ? changes.dirty[old->checksum].base : number;
    std::uint64_t copy = 0;
    edge_depth_ = 0;
    HF_STORE_TRY(store_->allocate(changes, 1, base, copy));
    page_header& page = *writable(copy);
    const page_header head = page;
    std::memcpy(&page, old, page_size);  // whole pages are copied faster than a part that begins at an odd place
    page.birth = head.birth;
    page.checksum = head.checksum;
    page.run_pages = head.run_pages;
    page.generation = state_->generation;
    release(number, *old);
    number = copy;
    return status::ok;
}

void transaction_pages::loosen(std::uint64_t number, const page_header& page) {
    write_set& changes = state_->changes;
    if (!is_dirty(number, page)) {
        return;  // a damaged store led here: an aborted transaction of this number wrote it, and nobody has it
    }
    dirty_page& dirty = changes.dirty[page.checksum];
    dirty.live = false;
    for (std::uint32_t i = 0; i < dirty.pages; ++i) {
        changes.loose.push_back(number + i);
    }
}

void transaction_pages::release(std::uint64_t number, const page_header& page) {
    edge_depth_ = 0;
    if (page.birth != transaction_) {
        state_->changes.freed.push_back({.start = number, .count = page.run_pages, .born = page.birth, .died = 0});
        state_->changes.freed_pages += page.run_pages;
    } else if (owns(page)) {
        loosen(number, page);
    } else {
        superseded_.push_back(number);
    }
}

// What this transaction wrote is the outer one's now; pages of that which were replaced are of no use.
void transaction_pages::join(transaction_pages& outer) {
    outer.edge_depth_ = 0;
    for (const std::uint64_t number : superseded_) {
        const page_header& page = *writable(number);
        if (outer.owns(page)) {
            loosen(number, page);
        } else {
            outer.superseded_.push_back(number);
        }
    }
    superseded_.clear();
}

void transaction_pages::undo() {
    write_set& changes = state_->changes;
    // Only the list has pages that a transaction within this one took before it was undone.
    std::vector<std::uint64_t> loose = std::move(changes.loose);
    loose.insert(loose.end(), loose_before_.begin(), loose_before_.end());
    for (std::size_t i = dirty_before_; i < changes.dirty.size(); ++i) {
        for (std::uint32_t page = 0; page < changes.dirty[i].pages; ++page) {
            loose.push_back(changes.dirty[i].page + page);
        }
    }
    std::sort(loose.begin(), loose.end());
    loose.erase(std::unique(loose.begin(), loose.end()), loose.end());
    changes.loose = std::move(loose);
    changes.dirty.resize(dirty_before_);
    for (; changes.freed.size() > freed_before_; changes.freed.pop_back()) {
        changes.freed_pages -= changes.freed.back().count;
    }
    superseded_.clear();
}

}  // namespace holdfast::store_engine
