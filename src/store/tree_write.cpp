// A full page is split; one that is less than a third full is united with a neighbour that has room.
#include <algorithm>
#include <cstring>

#include "store/tree.hpp"

namespace holdfast::store_engine {
namespace {

std::size_t size_of(page_kind kind, const block_header& block, const tree_entry& item) noexcept {
    switch (kind) {
        case page_kind::branch: return branch_size(item.key.text.size());
        case page_kind::packed: return block.item_size;
        default: return leaf_size(item.key.text.size(), item.value.size());
    }
}

std::byte* insert_entry(block_header& block, unsigned index, const tree_entry& item) noexcept {
    switch (block.kind) {
        case page_kind::branch: insert_branch(block, index, item.key, item.child); return nullptr;
        case page_kind::packed: insert_packed(block, index, item.key.text); return nullptr;
        default: return insert_leaf(block, index, item.key, item.value, item.flags);
    }
}

// What tells two leaves apart: the shortest beginning of a key that is above all on the left, or, unless bytes are
// compared, a whole key. A long one gets a run of its own.
status separator_between(transaction_pages& pages, tree_record& record, const order& by, const block_header& left,
                         const block_header& right, long_key& memory, stored_key& separator) {
    std::string_view above;
    HF_STORE_TRY(read_key(pages, right, 0, above));
    if (by.kind == order_kind::bytes && right.kind != page_kind::packed && left.count != 0) {
        std::string_view below;
        HF_STORE_TRY(read_key(pages, left, left.count - 1U, below));
        const std::size_t most = std::min(above.size(), below.size());
        std::size_t common = 0;
        while (common < most && above[common] == below[common]) {
            ++common;
        }
        above = above.substr(0, std::min(common + 1, above.size()));
    }
    separator = {.text = above};
    if (above.size() > max_short_separator && stored_key_at(right, 0).is_long) {
        HF_STORE_TRY(create_long_key(pages, above, memory, record.long_pages));
        separator = {.text = as_text(memory), .is_long = true};
    }
    return status::ok;
}

// Removes an entry of a branch with its key. The first entry's key has no meaning, and no run.
status forget_child(transaction_pages& pages, tree_record& record, block_header& parent, unsigned index) {
    HF_STORE_TRY(release_key(pages, stored_key_at(parent, index), record.long_pages));
    remove_at(parent, index);
    if (index != 0 || parent.count == 0) {
        return status::ok;
    }
    const stored_key first = stored_key_at(parent, 0);
    if (first.is_long) {
        HF_STORE_TRY(release_key(pages, first, record.long_pages));
        const std::uint64_t child = child_at(parent, 0);
        remove_at(parent, 0);
        insert_branch(parent, 0, {}, child);
    }
    return status::ok;
}

}  // namespace

void tree_cursor::count_page(page_kind kind, int by) noexcept {
    std::uint64_t& count = kind == page_kind::branch ? record_->branch_pages : record_->leaf_pages;
    count += static_cast<std::uint64_t>(static_cast<std::int64_t>(by));
}

status tree_cursor::own_path() {
    const std::span<const level> edge = pages_->edge();
    if (!edge.empty() && edge.size() == depth_ && edge.back().number == levels_[depth_ - 1].number) {
        return status::ok;
    }
    for (unsigned depth = 0; depth < depth_; ++depth) {
        level& here = levels_[depth];
        const std::uint64_t before = here.number;
        HF_STORE_TRY(pages_->own(here.number));
        if (here.number != before) {
            HF_STORE_TRY(pages_->get(here.number, here.page));
            if (depth == 0) {
                record_->root = here.number;
            } else {
                set_child(writable_at(depth - 1), levels_[depth - 1].index, here.number);
            }
        }
    }
    return status::ok;
}

status tree_cursor::plant() {
    const page_kind kind = record_->item_size != 0 ? page_kind::packed : page_kind::leaf;
    std::uint64_t number = 0;
    HF_STORE_TRY(pages_->create(kind, record_->item_size, number));
    record_->root = number;
    record_->depth = 1;
    count_page(kind, 1);
    levels_[0] = {.number = number, .page = nullptr, .index = 0};
    HF_STORE_TRY(pages_->get(number, levels_[0].page));
    depth_ = 1;
    return status::ok;
}

status tree_cursor::insert(std::string_view key, std::string_view value, std::uint16_t flags, std::byte** written) {
    if (record_->item_size != 0 && key.size() != record_->item_size) {
        return status::corrupted;  // no tree of keys is packed
    }
    if (key.size() <= max_key) {
        return insert_stored(key, {.key = {.text = key}, .value = value, .child = 0, .flags = flags}, written);
    }
    long_key memory;
    HF_STORE_TRY(create_long_key(*pages_, key, memory, record_->long_pages));
    const stored_key stored{.text = as_text(memory), .is_long = true};
    return insert_stored(key, {.key = stored, .value = value, .child = 0, .flags = flags}, written);
}

status tree_cursor::insert_stored(std::string_view key, const tree_entry& item, std::byte** written) {
    if (record_->root == 0) {
        HF_STORE_TRY(plant());
    } else {
        HF_STORE_TRY(own_path());
    }
    block_header& leaf = writable_block();
    std::byte* at = nullptr;
    if (size_of(leaf.kind, leaf, item) <= free_bytes(leaf)) {
        at = insert_entry(leaf, index(), item);
    } else {
        HF_STORE_TRY(insert_into_full(key, item));
        bool exact = false;
        HF_STORE_TRY(seek(key, exact));
        if (!exact) {
            return status::corrupted;  // the order contradicts itself
        }
        if (block().kind == page_kind::leaf) {
            at = mutable_value_at(writable_block(), index());
        }
    }
    if (pages_->edge().empty() && index() + 1U == block().count && in_last_leaf()) {
        pages_->set_edge({levels_.data(), depth_});
    }
    if (written != nullptr) {
        *written = at;
    }
    return status::ok;
}

// Before a split, a full leaf gives entries to a neighbour that has room: where keys come in no order, pages are four
// fifths full, not two thirds (the B*-tree of Knuth, volume 3, 6.2.4).
status tree_cursor::insert_into_full(std::string_view key, const tree_entry& item) {
    bool shifted = false;
    if (depth_ > 1 && (index() != block().count || !in_last_leaf())) {
        HF_STORE_TRY(shift_to_neighbour(true, shifted));
        if (!shifted) {
            HF_STORE_TRY(shift_to_neighbour(false, shifted));
        }
    }
    if (shifted) {
        bool exact = false;
        HF_STORE_TRY(seek(key, exact));
        HF_STORE_TRY(exact ? status::corrupted : own_path());
        block_header& leaf = writable_block();
        if (size_of(leaf.kind, leaf, item) <= free_bytes(leaf)) {
            insert_entry(leaf, index(), item);
            return status::ok;
        }
    }
    return split(depth_ - 1, item);
}

status tree_cursor::shift_to_neighbour(bool left, bool& shifted) {
    const level& above = levels_[depth_ - 2];
    block_header& parent = writable_at(depth_ - 2);
    block_header& full = writable_block();
    if (left ? above.index == 0 : above.index + 1U >= parent.count) {
        return status::ok;
    }
    const unsigned beside = left ? above.index - 1 : above.index + 1;
    std::uint64_t number = child_at(parent, beside);
    const page_header* neighbour = nullptr;
    HF_STORE_TRY(pages_->get(number, neighbour));
    if (neighbour->block.kind != full.kind || neighbour->block.item_size != full.item_size) {
        return status::corrupted;
    }
    std::size_t longest = full.has_long_keys != 0 ? max_short_separator : 0;
    for (unsigned i = 0; i < full.count; ++i) {
        longest = std::max(longest, stored_key_at(full, i).text.size());
    }
    // The separator may grow to a key of the full leaf, or the short part of a long one.
    if (free_bytes(neighbour->block) * 6 < neighbour->block.capacity || full.count < 4 ||
        free_bytes(parent) < branch_size(longest)) {
        return status::ok;
    }
    HF_STORE_TRY(pages_->own(number));
    set_child(parent, beside, number);
    block_header& target = pages_->writable(number)->block;
    const unsigned before = target.count;
    while (full.count > 1) {
        const unsigned from = left ? 0 : full.count - 1U;
        if (used_bytes(target) + size_at(full, from) > used_bytes(full) - size_at(full, from)) {
            break;
        }
        insert_copy(target, left ? target.count : 0U, full, from);
        remove_at(full, from);
    }
    if (target.count == before) {
        return status::ok;  // the separator may be one of the neighbour's, and longer
    }
    const unsigned slot = left ? above.index : beside;
    long_key memory;
    stored_key separator;
    HF_STORE_TRY(left ? separator_between(*pages_, *record_, *by_, target, full, memory, separator)
                      : separator_between(*pages_, *record_, *by_, full, target, memory, separator));
    const std::uint64_t child = child_at(parent, slot);
    HF_STORE_TRY(release_key(*pages_, stored_key_at(parent, slot), record_->long_pages));
    remove_at(parent, slot);
    insert_branch(parent, slot, separator, child);
    shifted = true;
    return status::ok;
}

// How many entries, with the new one, stay on the left. A tree that grows at an end fills its pages; else both halves
// have nearly as many bytes.
unsigned tree_cursor::split_point(const block_header& block, unsigned depth, const tree_entry& item) const noexcept {
    const unsigned index = levels_[depth].index + (block.kind == page_kind::branch ? 1U : 0U);
    const unsigned count = block.count + 1U;
    const std::size_t room = block.capacity - sizeof(block_header);
    if (index == block.count && in_last_leaf()) {
        return block.count;
    }
    const std::size_t added = size_of(block.kind, block, item);
    const std::size_t total = used_bytes(block) + added;
    std::size_t left = 0;
    unsigned best = 0;
    std::size_t best_difference = ~std::size_t{0};
    for (unsigned i = 0; i + 1 < count; ++i) {
        left += i == index ? added : size_at(block, i < index ? i : i - 1);
        const std::size_t right = total - left;
        const std::size_t difference = left > right ? left - right : right - left;
        if (left <= room && right <= room && difference < best_difference) {
            best = i + 1;
            best_difference = difference;
        }
    }
    return best;
}

status tree_cursor::split(unsigned depth, const tree_entry& item) {
    block_header& left = writable_at(depth);
    const bool is_branch = left.kind == page_kind::branch;
    const unsigned index = levels_[depth].index + (is_branch ? 1U : 0U);
    const unsigned stay = split_point(left, depth, item);
    const unsigned count = left.count + 1U;
    std::uint64_t number = 0;
    HF_STORE_TRY(pages_->create(left.kind, left.item_size, number));
    count_page(left.kind, 1);
    block_header& right = pages_->writable(number)->block;
    std::array<char, max_node> promoted;
    long_key memory;
    stored_key separator;
    for (unsigned i = stay; i < count; ++i) {
        const bool first_of_branch = is_branch && i == stay;
        if (first_of_branch) {  // its key goes up
            const unsigned from = i < index ? i : i - 1;
            const stored_key key = i == index ? item.key : stored_key_at(left, from);
            std::memcpy(promoted.data(), key.text.data(), key.text.size());
            separator = {.text = {promoted.data(), key.text.size()}, .is_long = key.is_long};
            insert_branch(right, 0, {}, i == index ? item.child : child_at(left, from));
        } else if (i == index) {
            insert_entry(right, i - stay, item);
        } else {
            insert_copy(right, i - stay, left, i < index ? i : i - 1);
        }
    }
    truncate_block(left, index < stay ? stay - 1 : stay);
    if (index < stay) {
        insert_entry(left, index, item);
    }
    if (!is_branch) {
        HF_STORE_TRY(separator_between(*pages_, *record_, *by_, left, right, memory, separator));
    }
    return add_child(depth, separator, number);
}

status tree_cursor::add_child(unsigned depth, const stored_key& separator, std::uint64_t right) {
    if (depth > 0) {
        const tree_entry item{.key = separator, .value = {}, .child = right, .flags = 0};
        block_header& parent = writable_at(depth - 1);
        if (branch_size(separator.text.size()) <= free_bytes(parent)) {
            insert_branch(parent, levels_[depth - 1].index + 1, separator, right);
            return status::ok;
        }
        return split(depth - 1, item);
    }
    if (record_->depth + 1U > max_depth) {
        return status::map_full;
    }
    std::uint64_t root = 0;
    HF_STORE_TRY(pages_->create(page_kind::branch, 0, root));
    count_page(page_kind::branch, 1);
    block_header& block = pages_->writable(root)->block;
    insert_branch(block, 0, {}, levels_[0].number);
    insert_branch(block, 1, separator, right);
    record_->root = root;
    ++record_->depth;
    return status::ok;
}

status tree_cursor::replace(std::string_view value, std::uint16_t flags, std::byte** written) {
    const std::size_t old_size = this->value().size();
    const space_freeing frees(*pages_, value.size() <= old_size);
    HF_STORE_TRY(own_path());
    block_header& leaf = writable_block();
    if (old_size == value.size()) {
        std::byte* at = mutable_value_at(leaf, index());
        set_flags_at(leaf, index(), flags);
        if (value.data() != nullptr && !value.empty()) {
            std::memmove(at, value.data(), value.size());
        }
        if (written != nullptr) {
            *written = at;
        }
        return status::ok;
    }
    // The node moves, but not the run of a long key.
    std::array<char, max_key> copy;
    const stored_key stored = stored_key_at(leaf, index());
    std::memcpy(copy.data(), stored.text.data(), stored.text.size());
    const stored_key same{.text = {copy.data(), stored.text.size()}, .is_long = stored.is_long};
    std::string_view key = same.text;
    if (same.is_long) {
        HF_STORE_TRY(this->key(key));
    }
    remove_at(leaf, index());
    return insert_stored(key, {.key = same, .value = value, .child = 0, .flags = flags}, written);
}

// --- removal --------------------------------------------------------------------------------------------------------

status tree_cursor::remove() {
    const space_freeing frees(*pages_);
    HF_STORE_TRY(own_path());
    block_header& leaf = writable_block();
    std::array<char, max_key> copy;
    const stored_key stored = stored_key_at(leaf, index());
    std::memcpy(copy.data(), stored.text.data(), stored.text.size());
    const stored_key removed{.text = {copy.data(), stored.text.size()}, .is_long = stored.is_long};
    std::string_view key = removed.text;
    if (removed.is_long) {
        HF_STORE_TRY(this->key(key));
    }
    remove_at(leaf, index());
    const bool is_low = leaf.count == 0 || used_bytes(leaf) * 3 < leaf.capacity;
    if (is_low) {
        HF_STORE_TRY(rebalance(depth_ - 1));
        bool exact = false;
        const status found = seek(key, exact);
        HF_STORE_TRY(found == status::not_found ? status::ok : found);
    }
    return release_key(*pages_, removed, record_->long_pages);  // it was looked for until here
}

status tree_cursor::rebalance(unsigned depth) {
    if (depth == 0) {
        return shrink_root();
    }
    const block_header& block = levels_[depth].page->block;
    if (block.count == 0) {
        return drop_child(depth);
    }
    if (used_bytes(block) * 3 >= block.capacity) {
        return status::ok;
    }
    const unsigned index = levels_[depth - 1].index;
    bool merged = false;
    if (index + 1U < levels_[depth - 1].page->block.count) {
        HF_STORE_TRY(try_merge(depth, index, merged));
    }
    if (!merged && index > 0) {
        HF_STORE_TRY(try_merge(depth, index - 1, merged));
    }
    return merged ? rebalance(depth - 1) : status::ok;
}

status tree_cursor::shrink_root() {
    for (;;) {
        const page_header* page = nullptr;
        HF_STORE_TRY(pages_->get(record_->root, page));
        const block_header& block = page->block;
        const bool is_branch = block.kind == page_kind::branch;
        if (block.count > (is_branch ? 1U : 0U)) {
            return status::ok;
        }
        const std::uint64_t number = record_->root;
        record_->root = block.count == 0 ? 0 : child_at(block, 0);
        record_->depth = narrow<std::uint16_t>(block.count == 0 ? 0 : record_->depth - 1U);
        count_page(block.kind, -1);
        pages_->release(number, *page);
        if (record_->root == 0) {
            depth_ = 0;
            return status::ok;
        }
    }
}

status tree_cursor::drop_child(unsigned depth) {
    count_page(levels_[depth].page->block.kind, -1);
    pages_->release(levels_[depth].number, *levels_[depth].page);
    HF_STORE_TRY(forget_child(*pages_, *record_, writable_at(depth - 1), levels_[depth - 1].index));
    return rebalance(depth - 1);
}

// Unites two children, left_index and the next, if one page holds both.
status tree_cursor::try_merge(unsigned depth, unsigned left_index, bool& merged) {
    block_header& parent = writable_at(depth - 1);
    std::uint64_t left_number = child_at(parent, left_index);
    const std::uint64_t right_number = child_at(parent, left_index + 1);
    const page_header* left = nullptr;
    const page_header* right = nullptr;
    HF_STORE_TRY(pages_->get(left_number, left));
    HF_STORE_TRY(pages_->get(right_number, right));
    const block_header& block = right->block;
    if (block.kind != left->block.kind || block.item_size != left->block.item_size) {
        return status::corrupted;
    }
    const stored_key separator = stored_key_at(parent, left_index + 1);
    std::size_t needed = used_bytes(block);
    if (block.kind == page_kind::branch) {
        needed += even(separator.text.size());
    }
    if (needed > free_bytes(left->block)) {
        return status::ok;
    }
    HF_STORE_TRY(pages_->own(left_number));
    set_child(parent, left_index, left_number);
    block_header& target = pages_->writable(left_number)->block;
    const unsigned before = target.count;
    for (unsigned i = 0; i < block.count; ++i) {
        if (block.kind == page_kind::branch && i == 0) {
            insert_branch(target, before, separator, child_at(block, 0));
        } else {
            insert_copy(target, before + i, block, i);
        }
    }
    count_page(block.kind, -1);
    pages_->release(right_number, *right);
    if (block.kind != page_kind::branch) {  // of branches it lives on below
        HF_STORE_TRY(release_key(*pages_, separator, record_->long_pages));
    }
    remove_at(parent, left_index + 1);
    merged = true;
    return status::ok;
}

// --- whole trees ----------------------------------------------------------------------------------------------------

namespace {

class tree_dropper {
public:
    explicit tree_dropper(transaction_pages& pages) noexcept : pages_(pages) {}

    [[nodiscard]] status drop(const tree_record& record, unsigned nested) {
        if (record.root == 0) {
            return status::ok;
        }
        return record.depth > max_depth || nested > most_nested ? status::corrupted
                                                                : drop_page(record, record.root, 1, nested);
    }

private:
    [[nodiscard]] status drop_page(const tree_record& record, std::uint64_t number, unsigned depth, unsigned nested) {
        // In a damaged store many ways may lead to a page.
        if (++dropped_ > pages_.state()->changes.version.next_page) {
            return status::corrupted;
        }
        const page_header* page = nullptr;
        HF_STORE_TRY(pages_.get(number, page));
        const block_header& block = page->block;
        const bool is_leaf = depth >= record.depth;
        if (block.kind == page_kind::run || is_leaf != (block.kind != page_kind::branch)) {
            return status::corrupted;
        }
        for (unsigned i = 0; i < block.count; ++i) {
            HF_STORE_TRY(is_leaf ? drop_value(block, i, nested)
                                 : drop_page(record, child_at(block, i), depth + 1, nested));
            HF_STORE_TRY(release_key(pages_, stored_key_at(block, i), long_pages_));
        }
        pages_.release(number, *page);
        return status::ok;
    }

    [[nodiscard]] status drop_value(const block_header& block, unsigned index, unsigned nested) {
        const std::uint16_t flags = flags_at(block, index);
        if ((flags & node_is_tree) != 0) {
            return drop(record_from(value_at(block, index)), nested + 1);
        }
        if ((flags & node_is_long) != 0) {
            const std::uint64_t number = long_value_from(value_at(block, index)).page;
            const page_header* run = nullptr;
            HF_STORE_TRY(pages_.get(number, run));
            pages_.release(number, *run);
        }
        return status::ok;
    }

    transaction_pages& pages_;
    std::uint64_t dropped_ = 0;
    std::uint64_t long_pages_ = 0;  ///< means nothing when all is dropped
};

}  // namespace

status drop_tree(transaction_pages& pages, tree_record& record) {
    HF_STORE_TRY(tree_dropper(pages).drop(record, 0));
    record = {.root = 0,
              .entries = 0,
              .branch_pages = 0,
              .leaf_pages = 0,
              .long_pages = 0,
              .flags = record.flags,
              .depth = 0,
              .item_size = record.item_size};
    return status::ok;
}

}  // namespace holdfast::store_engine
