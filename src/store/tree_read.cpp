#include <algorithm>

#include "store/tree.hpp"

namespace holdfast::store_engine {
namespace {

// Whether the way to the tree's last entry is known.
bool has_edge(const transaction_pages& pages, const tree_record& record) noexcept {
    const std::span<const tree_level> edge = pages.edge();
    return !edge.empty() && edge.front().number == record.root && edge.size() == record.depth &&
           edge.back().page->block.count != 0;
}

}  // namespace

// Branches are above, one leaf below: no way down a damaged tree is longer than the tree is deep.
status tree_cursor::enter(unsigned depth, std::uint64_t number) {
    level& here = levels_[depth];
    here.number = number;
    HF_STORE_TRY(pages_->get(number, here.page));
    const page_kind kind = here.page->block.kind;
    const bool is_leaf = depth + 1U == record_->depth;
    const bool fits = is_leaf ? (record_->item_size != 0 ? kind == page_kind::packed : kind == page_kind::leaf)
                              : kind == page_kind::branch && here.page->block.count != 0;
    if (!fits || (kind == page_kind::packed && here.page->block.item_size != record_->item_size)) {
        return status::corrupted;
    }
    // A change of a page changes those above it. Where the medium lost a write of one of these, an older one lies
    // there, and leads to pages that others have by now.
    return depth > 0 && here.page->birth > levels_[depth - 1U].page->birth ? status::corrupted : status::ok;
}

status tree_cursor::seek(std::string_view key, bool& exact) {
    exact = false;
    depth_ = 0;
    if (record_->root == 0) {
        return status::not_found;
    }
    if (has_edge(*pages_, *record_)) {
        const std::span<const level> edge = pages_->edge();
        const block_header& last = edge.back().page->block;
        if (last.has_long_keys == 0 && compare(*by_, key_at(last, last.count - 1U), key) < 0) {
            std::copy(edge.begin(), edge.end(), levels_.begin());
            depth_ = record_->depth;
            set_index(last.count);
            return status::ok;
        }
    }
    const unsigned depth = record_->depth;
    if (depth == 0 || depth > max_depth) {
        return status::corrupted;
    }
    std::uint64_t number = record_->root;
    for (unsigned at = 0;; ++at) {
        HF_STORE_TRY(enter(at, number));
        level& here = levels_[at];
        if (at + 1 == depth) {
            if (here.page->block.has_long_keys != 0) [[unlikely]] {
                HF_STORE_TRY(find_in_leaf_of_long_keys(*pages_, here.page->block, *by_, key, here.index, exact));
            } else {
                const place found = find_in_leaf(here.page->block, *by_, key);
                here.index = found.index;
                exact = found.exact;
            }
            depth_ = depth;
            return status::ok;
        }
        if (here.page->block.has_long_keys != 0) [[unlikely]] {
            HF_STORE_TRY(find_in_branch_of_long_keys(*pages_, here.page->block, *by_, key, here.index));
        } else {
            here.index = find_in_branch(here.page->block, *by_, key);
        }
        number = child_at(here.page->block, here.index);
    }
}

status tree_cursor::descend_to_edge(unsigned depth, std::uint64_t number, bool right) {
    for (unsigned at = depth;; ++at) {
        HF_STORE_TRY(enter(at, number));
        level& here = levels_[at];
        const unsigned count = here.page->block.count;
        here.index = right && count != 0 ? count - 1 : 0;
        if (at + 1U == record_->depth) {
            depth_ = record_->depth;
            return count == 0 ? status::corrupted : status::ok;
        }
        number = child_at(here.page->block, here.index);
    }
}

status tree_cursor::first() {
    depth_ = 0;
    if (record_->root == 0) {
        return status::not_found;
    }
    return record_->depth == 0 || record_->depth > max_depth ? status::corrupted
                                                             : descend_to_edge(0, record_->root, false);
}

status tree_cursor::last() {
    depth_ = 0;
    if (record_->root == 0) {
        return status::not_found;
    }
    if (has_edge(*pages_, *record_)) {
        std::copy(pages_->edge().begin(), pages_->edge().end(), levels_.begin());
        depth_ = record_->depth;
        set_index(block().count - 1U);
        return status::ok;
    }
    return record_->depth == 0 || record_->depth > max_depth ? status::corrupted
                                                             : descend_to_edge(0, record_->root, true);
}

status tree_cursor::step_leaf(bool right) {
    unsigned depth = depth_ - 1;
    do {
        if (depth == 0) {
            return status::not_found;
        }
        --depth;
    } while (right ? levels_[depth].index + 1U >= levels_[depth].page->block.count : levels_[depth].index == 0);
    levels_[depth].index += right ? 1U : ~0U;
    const unsigned before = depth_;
    const status outcome =
        descend_to_edge(depth + 1, child_at(levels_[depth].page->block, levels_[depth].index), !right);
    if (outcome != status::ok) {
        depth_ = 0;
        return outcome;
    }
    depth_ = before;
    return status::ok;
}

status tree_cursor::previous_leaf() { return step_leaf(false); }

bool tree_cursor::in_last_leaf() const noexcept {
    for (unsigned depth = 0; depth + 1 < depth_; ++depth) {
        if (levels_[depth].index + 1U < levels_[depth].page->block.count) {
            return false;
        }
    }
    return true;
}

status tree_cursor::go_to_entry() { return on_entry() ? status::ok : placed() ? step_leaf(true) : status::not_found; }

status tree_cursor::next() {
    level& leaf = levels_[depth_ - 1];
    if (leaf.index + 1U < leaf.page->block.count) {
        ++leaf.index;
        return status::ok;
    }
    return step_leaf(true);
}

status tree_cursor::previous() {
    level& leaf = levels_[depth_ - 1];
    if (leaf.index > 0) {
        --leaf.index;
        return status::ok;
    }
    return step_leaf(false);
}

}  // namespace holdfast::store_engine
