#include "api/made_blocks.hpp"

#include <algorithm>

namespace holdfast::detail {

made_block* made_blocks::find_by_index(const std::byte* address) {
    const auto below = by_address_.lower_bound(address);
    if (below == by_address_.end()) {
        return nullptr;
    }
    made_block& found = all_[below->second];
    return static_cast<std::size_t>(address - found.block) < found.bytes ? &found : nullptr;
}

void made_blocks::index_last() {
    for (std::size_t i = all_.size() == few + 1 ? 0 : all_.size() - 1; i < all_.size(); ++i) {
        by_address_[all_[i].block] = i;
    }
}

std::byte* made_blocks::make(heap::group_operations& of, const heap_life::watch& life, std::byte* base,
                             const heap::block_request& wanted) {
    if (!(held_in_ == life)) {
        held_ = of.new_list();
        held_in_ = life;
    }
    held_->make_room();
    if (all_.size() == all_.capacity()) {
        all_.reserve(2 * all_.size() + few);
    }
    slab::held_block held;
    held_->begin();
    if (!of.hold(wanted, held)) {
        held_->end();
        return nullptr;
    }
    held_->add(held);
    all_.push_back({base + held.offset, wanted.bytes, 0});
    if (all_.size() > few) {
        try {
            index_last();
        } catch (const std::bad_alloc&) {
            free_last(of);
            throw;
        }
    }
    return all_.back().block;
}

void made_blocks::drop(made_block& block, std::size_t depth) noexcept {
    block.dropped_in = depth;
    deepest_drop_ = std::max(deepest_drop_, depth);
}

void made_blocks::limit_drops(std::size_t depth) noexcept {
    if (deepest_drop_ <= depth) {
        return;
    }
    for (made_block& each : all_) {
        each.dropped_in = std::min(each.dropped_in, depth);
    }
    deepest_drop_ = depth;
}

void made_blocks::undo_drops(std::size_t depth) noexcept {
    if (deepest_drop_ <= depth) {
        return;
    }
    for (made_block& each : all_) {
        each.dropped_in = each.dropped_in > depth ? 0 : each.dropped_in;
    }
    deepest_drop_ = depth;
}

std::span<const slab::held_block> made_blocks::kept() {
    if (all_.empty()) {
        return {};
    }
    if (std::all_of(all_.begin(), all_.end(), [](const made_block& each) { return each.dropped_in == 0; })) {
        return held_->all();
    }
    kept_.clear();
    for (std::size_t i = 0; i < all_.size(); ++i) {
        if (all_[i].dropped_in == 0) {
            kept_.push_back(held_->all()[i]);
        }
    }
    return kept_;
}

void made_blocks::forget_kept(heap::group_operations& of) noexcept {
    for (std::size_t i = 0; i < all_.size(); ++i) {
        if (all_[i].dropped_in != 0) {
            of.release(held_->all()[i]);
        }
    }
    held_->clear();
    clear();
}

void made_blocks::free_last(heap::group_operations& of) noexcept {
    of.release(held_->all().back());
    held_->remove_last();
    forget_last();
}

void made_blocks::free_all(heap::group_operations& of) noexcept {
    while (!all_.empty()) {
        free_last(of);
    }
}

void made_blocks::forget_last() noexcept {
    by_address_.erase(all_.back().block);
    all_.pop_back();
    if (all_.size() <= few) {
        by_address_.clear();
    }
}

void made_blocks::clear() noexcept {
    all_.clear();
    by_address_.clear();
    deepest_drop_ = 0;
}

}  // namespace holdfast::detail
