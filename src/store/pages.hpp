// The pages of one transaction: what its trees read, and what they write.
//
// A page that this transaction wrote is changed in place; a copy takes the place of any other. A nested transaction
// owns only what it wrote itself, so its end can leave the outer one as it was.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "store/engine.hpp"

namespace holdfast::store_engine {

/// Of a write transaction and those nested in it.
struct write_state {
    write_set changes;
    shared_lock lock;
    std::uint32_t generation = 0;  ///< of the transaction that was nested last
};

/// A page on the way from a tree's root to a place in a leaf.
struct tree_level {
    std::uint64_t number;
    const page_header* page;
    unsigned index;
};

class transaction_pages {
public:
    void read(engine& store, std::uint64_t transaction, std::uint64_t next_page) noexcept;
    void write(engine& store, write_state& state) noexcept;
    /// Nests in the transaction that these are a copy of.
    void nest();

    [[nodiscard]] status get(std::uint64_t number, const page_header*& page) const {
        return store_->pages().get(number, state_ != nullptr ? state_->changes.version.next_page : next_page_, page);
    }
    [[nodiscard]] page_header* writable(std::uint64_t number) const noexcept {
        return store_->pages().writable(number);
    }
    [[nodiscard]] bool is_writer() const noexcept { return state_ != nullptr; }
    [[nodiscard]] std::uint64_t transaction() const noexcept { return transaction_; }
    [[nodiscard]] bool owns(const page_header& page) const noexcept {
        return page.birth == transaction_ && page.generation >= first_generation_;
    }

    /// Without entries.
    [[nodiscard]] status create(page_kind kind, std::uint32_t item_size, std::uint64_t& number);
    /// For a long value, which is written behind the header. Behind it are zeros.
    [[nodiscard]] status create_run(std::uint64_t value_size, std::uint64_t& number, std::byte*& value);
    /// Lets the page be changed in place, or a copy, whose number is returned.
    [[nodiscard]] status own(std::uint64_t& number);
    void release(std::uint64_t number, const page_header& page);

    /// End a nested transaction.
    void join(transaction_pages& outer);
    void undo();

    /// The way to the last leaf of a tree that got an entry behind all others, where keys that ascend go without a
    /// search. This transaction has all its pages. Empty as soon as a page comes or goes.
    [[nodiscard]] std::span<const tree_level> edge() const noexcept { return {edge_.data(), edge_depth_}; }
    void set_edge(std::span<const tree_level> levels) noexcept {
        std::copy(levels.begin(), levels.end(), edge_.begin());
        edge_depth_ = levels.size();
    }

    [[nodiscard]] engine& store() const noexcept { return *store_; }
    [[nodiscard]] write_state* state() const noexcept { return state_; }

private:
    [[nodiscard]] bool is_dirty(std::uint64_t number, const page_header& page) const noexcept;
    void loosen(std::uint64_t number, const page_header& page);

    engine* store_ = nullptr;
    write_state* state_ = nullptr;
    std::uint64_t transaction_ = 0;
    std::uint64_t next_page_ = 0;
    std::uint32_t first_generation_ = 0;
    std::size_t edge_depth_ = 0;
    std::array<tree_level, max_depth> edge_{};
    std::vector<std::uint64_t> superseded_;  ///< pages of outer transactions that this one replaced
    // Of the outer transaction when this one began.
    std::size_t dirty_before_ = 0;
    std::size_t freed_before_ = 0;
    std::vector<std::uint64_t> loose_before_;
};

/// While it lives, changes may take of the space that is held back for those that leave the store no larger.
class space_freeing {
public:
    explicit space_freeing(const transaction_pages& pages, bool frees = true) noexcept
        : changes_(pages.state()->changes), before_(changes_.frees_space) {
        changes_.frees_space = before_ || frees;
    }
    space_freeing(const space_freeing&) = delete;
    space_freeing& operator=(const space_freeing&) = delete;
    ~space_freeing() { changes_.frees_space = before_; }

private:
    write_set& changes_;
    bool before_;
};

[[nodiscard]] constexpr std::uint64_t run_pages_for(std::uint64_t value_size) noexcept {
    return (value_size + run_header_size + page_size - 1) / page_size;
}

}  // namespace holdfast::store_engine
