// Keys that are too long for a node: in runs of pages of their own. All keys of a tree are read here.
#pragma once

#include "store/block.hpp"
#include "store/pages.hpp"

namespace holdfast::store_engine {

/// Of a node's long key, checked. corrupted: this key is not there.
[[nodiscard]] status run_of(const transaction_pages& pages, const long_key& key, const page_header*& run);

[[nodiscard]] status read_long_key(const transaction_pages& pages, const block_header& block, unsigned index,
                                   std::string_view& key);
/// The whole key of an entry, in its page or its run; valid as long as the page.
[[nodiscard]] inline status read_key(const transaction_pages& pages, const block_header& block, unsigned index,
                                     std::string_view& key) {
    if (block.has_long_keys == 0) [[likely]] {
        key = key_at(block, index);
        return status::ok;
    }
    std::string_view whole;  // its address is taken, not `key`'s: short keys stay in registers
    HF_STORE_TRY(read_long_key(pages, block, index, whole));
    key = whole;
    return status::ok;
}

/// As find_in_leaf() and find_in_branch(), in a block that may have long keys.
[[nodiscard]] status find_in_leaf_of_long_keys(const transaction_pages& pages, const block_header& block,
                                               const order& by, std::string_view key, unsigned& index, bool& exact);
[[nodiscard]] status find_in_branch_of_long_keys(const transaction_pages& pages, const block_header& block,
                                                 const order& by, std::string_view key, unsigned& index);

/// To a run of its own, whose pages are added to `long_pages`. `node`: what the node gets.
[[nodiscard]] status create_long_key(transaction_pages& pages, std::string_view key, long_key& node,
                                     std::uint64_t& long_pages);
/// Frees a key's run, if any; the node must go.
[[nodiscard]] status release_key(transaction_pages& pages, const stored_key& key, std::uint64_t& long_pages);

}  // namespace holdfast::store_engine
