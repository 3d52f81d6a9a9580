// Blocks that a transaction has reserved, until a group makes them allocated: in DRAM alone, so a crash forgets them. A
// transaction adds one without lock or look-up; a check and a close see all lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

/// Used by one thread at a time. In durability `commit` a list that has begun is a change until it ends, for a commit
/// drops what the program stores to the blocks meanwhile.
class held_blocks {
public:
    /// `changes`: null where no commit drops pages. It must outlive the calls, not the object.
    explicit held_blocks(slab::change_gate* changes) noexcept : changes_(changes) {}
    held_blocks(const held_blocks&) = delete;
    held_blocks& operator=(const held_blocks&) = delete;
    ~held_blocks() = default;

    /// Comes before the first block is chosen. Does nothing where the list has begun.
    void begin() noexcept {
        if (changes_ != nullptr && !has_begun_) {
            entered_ = changes_->enter();
            has_begun_ = true;
        }
    }
    /// Where the list is empty.
    void end() noexcept {
        if (has_begun_ && blocks_.empty()) {
            has_begun_ = false;
            changes_->leave_anywhere(entered_);
        }
    }
    /// May throw std::bad_alloc; the next `more` calls of add() do not.
    void make_room(std::size_t more = 1) {
        if (blocks_.capacity() - blocks_.size() < more) {
            blocks_.reserve(2 * blocks_.size() + more + few);
        }
    }
    void add(const slab::held_block& held) noexcept { blocks_.push_back(held); }
    void remove_last() noexcept {
        blocks_.pop_back();
        end();
    }
    /// The list must hold that block.
    slab::held_block remove(std::uint64_t offset) noexcept {
        const auto found = std::find_if(blocks_.begin(), blocks_.end(),
                                        [offset](const slab::held_block& each) { return each.offset == offset; });
        const slab::held_block removed = *found;
        blocks_.erase(found);
        return removed;
    }
    void clear() noexcept {
        blocks_.clear();
        end();
    }
    [[nodiscard]] std::span<const slab::held_block> all() const noexcept { return blocks_; }

private:
    static constexpr std::size_t few = 16;
    std::vector<slab::held_block> blocks_;
    slab::change_gate* changes_;
    slab::thread_cache* entered_ = nullptr;
    bool has_begun_ = false;
};

/// Thread-safe.
class held_block_lists {
public:
    /// Watched as long as somebody has it. May throw std::bad_alloc.
    [[nodiscard]] std::shared_ptr<held_blocks> make(slab::change_gate* changes) {
        auto made = std::make_shared<held_blocks>(changes);
        const base::scoped_lock lock(mutex_);
        std::erase_if(lists_, [](const auto& each) { return each.use_count() == 1; });
        lists_.push_back(made);
        return made;
    }
    /// No transaction changes its list meanwhile. May throw std::bad_alloc.
    void list_small(std::vector<std::uint64_t>& offsets) {
        const base::scoped_lock lock(mutex_);
        for (const auto& list : lists_) {
            for (const slab::held_block& each : list->all()) {
                if (each.is_small()) {
                    offsets.push_back(each.offset);
                }
            }
        }
    }
    /// No transaction changes its list meanwhile.
    template <class Release>
    void release_all(Release&& release) noexcept {
        const base::scoped_lock lock(mutex_);
        for (const auto& list : lists_) {
            for (const slab::held_block& each : list->all()) {
                release(each);
            }
            list->clear();
        }
    }

private:
    base::mutex mutex_;
    std::vector<std::shared_ptr<held_blocks>> lists_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::heap
