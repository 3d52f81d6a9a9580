#include "api/pending_commits.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "api/manager_core.hpp"

namespace holdfast::detail {

namespace {

using base::failure;
using base::failure_code;

constexpr std::uint64_t step = sizeof(std::uint64_t);
/// A larger batch is carried out at once.
constexpr std::size_t most_waiting = 2048;

void append_word(std::vector<heap::data_piece>& to, std::uint64_t offset, std::uint64_t value) {
    if (to.empty() || to.back().words == to.back().values.size() ||
        to.back().offset + to.back().words * step != offset) {
        to.emplace_back().offset = offset;
    }
    heap::data_piece& last = to.back();
    last.values[last.words++] = value;
}

}  // namespace

pending_batch::pending_batch(manager_core& heap, std::uint64_t index)
    : heap_(heap), index_(index), made_(heap.engine().destinations()->groups().new_list()) {}

/// Null for a word outside of the blocks that the batch has made.
std::uint64_t* pending_batch::find_made(std::uint64_t offset) const {
    for (const slab::held_block& each : made_->all()) {
        if (offset - each.offset < each.bytes()) {
            return reinterpret_cast<std::uint64_t*>(heap_.engine().files().view().address({offset}));
        }
    }
    return nullptr;
}

/// `dropped`: offsets of freed blocks that the batch has made.
std::vector<void*> pending_batch::freed_with(std::span<void* const> more, std::vector<std::uint64_t>& dropped) {
    std::vector<void*> all = freed_;
    heap::engine& engine = heap_.engine();
    for (void* const each : more) {
        const std::uint64_t offset = engine.files().view().offset(each).value;
        const auto made = made_->all();
        slab::held_block found;
        if (std::any_of(made.begin(), made.end(), [&](const auto& one) { return one.offset == offset; })) {
            dropped.push_back(offset);
        } else if (std::find(all.begin(), all.end(), each) != all.end()) {
            throw_failure(failure{failure_code::bad_address,
                                  heap_.path(),
                                  fmt::format("address {}", each),
                                  "a block that a transaction that waits for a sync has freed already",
                                  "the start of an allocated block",
                                  {},
                                  0});
        } else if (!engine.blocks().find_allocated(each, found)) {
            throw_last_failure(engine);
        } else {
            all.push_back(each);
        }
    }
    return all;
}

/// The new words win. Those of blocks that the batch has made are left out.
std::vector<pending_batch::word> pending_batch::words_with(std::span<const heap::data_piece> more) {
    std::vector<word> added;
    for (const heap::data_piece& piece : more) {
        for (std::uint64_t i = 0; i < piece.words; ++i) {
            if (const std::uint64_t offset = piece.offset + i * step; find_made(offset) == nullptr) {
                added.push_back({offset, piece.values[i]});
            }
        }
    }
    std::sort(added.begin(), added.end());
    std::vector<word> all;
    all.reserve(added.size() + words_.size());
    std::set_union(added.begin(), added.end(), words_.begin(), words_.end(), std::back_inserter(all));
    return all;
}

ticket pending_batch::add(const heap::group_request& changes) {
    const base::scoped_lock lock(mutex_);
    const std::size_t blocks =
        std::max(made_->all().size() + changes.made.size(), freed_.size() + changes.freed.size());
    if (blocks >= heap_.engine().destinations()->groups().largest()) {
        carry_out();  // nothing could carry out both together
    }
    std::vector<std::uint64_t> dropped;
    std::vector<void*> freed = freed_with(changes.freed, dropped);
    std::vector<word> words = words_with(changes.data);
    made_->make_room(changes.made.size());
    // From here on nothing fails.
    for (const heap::data_piece& piece : changes.data) {
        for (std::uint64_t i = 0; i < piece.words; ++i) {
            if (std::uint64_t* const place = find_made(piece.offset + i * step)) {
                std::atomic_ref<std::uint64_t>(*place).store(piece.values[i], std::memory_order_relaxed);
            }
        }
    }
    for (const slab::held_block& each : changes.made) {
        made_->add(each);
    }
    for (const std::uint64_t offset : dropped) {
        heap_.engine().destinations()->groups().release(made_->remove(offset));
    }
    freed_ = std::move(freed);
    words_ = std::move(words);
    ++added_;
    return ticket_access::make(added_, index_);
}

std::vector<heap::data_piece> pending_batch::pieces() const {
    std::vector<heap::data_piece> all;
    for (const slab::held_block& each : made_->all()) {
        auto* const content = reinterpret_cast<std::uint64_t*>(heap_.engine().files().view().address({each.offset}));
        for (std::uint64_t i = 0; each.bytes() <= content_in_group && i < each.bytes() / step; ++i) {
            append_word(all, each.offset + i * step,
                        std::atomic_ref<std::uint64_t>(content[i]).load(std::memory_order_relaxed));
        }
    }
    for (const word& each : words_) {
        append_word(all, each.offset, each.value);
    }
    return all;
}

/// Whether there are any; the caller waits for them.
bool pending_batch::write_back_large_blocks() const {
    bool found = false;
    for (const slab::held_block& each : made_->all()) {
        if (each.bytes() > content_in_group) {
            heap_.engine().flush(heap_.engine().files().view().address({each.offset}), each.bytes());
            found = true;
        }
    }
    return found;
}

void pending_batch::carry_out() {
    heap::engine& engine = heap_.engine();
    const std::vector<heap::data_piece> data = pieces();
    if (write_back_large_blocks()) {
        engine.drain();
    }
    if (!data.empty() || !made_->all().empty() || !freed_.empty()) {
        if (!engine.destinations()->groups().commit({made_->all(), freed_, data})) {
            throw_last_failure(engine);
        }
    }
    made_->clear();
    freed_.clear();
    words_.clear();
    durable_ = added_;
}

void pending_batch::sync(std::uint64_t number) {
    const base::scoped_lock lock(mutex_);
    if (durable_ < std::min(number, added_)) {
        carry_out();
    }
}

bool pending_batch::is_large() const {
    const base::scoped_lock lock(mutex_);
    return words_.size() > most_waiting || made_->all().size() + freed_.size() > most_waiting / 2;
}

void pending_batch::read(std::uint64_t begin, std::size_t bytes, std::uint64_t* to) const {
    const base::scoped_lock lock(mutex_);
    std::memcpy(to, heap_.engine().files().view().address({begin}), bytes);
    auto next = std::lower_bound(words_.begin(), words_.end(), word{begin, 0});
    for (; next != words_.end() && next->offset - begin < bytes; ++next) {
        const std::uint64_t at = next->offset - begin;
        std::memcpy(to + at / step, &next->value, std::min(step, bytes - at));
    }
}

bool pending_batch::has(std::uint64_t begin, std::uint64_t bytes) const {
    const base::scoped_lock lock(mutex_);
    const auto next = std::lower_bound(words_.begin(), words_.end(), word{begin, 0});
    return next != words_.end() && next->offset - begin < bytes;
}

bool pending_batch::has_made(std::uint64_t begin, std::uint64_t bytes) const {
    const base::scoped_lock lock(mutex_);
    const auto made = made_->all();
    return std::any_of(made.begin(), made.end(), [begin, bytes](const slab::held_block& each) {
        const std::uint64_t at = begin - each.offset;
        return at < each.bytes() && bytes <= each.bytes() - at;
    });
}

std::shared_ptr<pending_batch> pending_commits::find_own() const {
    const base::scoped_lock lock(mutex_);
    const auto found = by_thread_.find(std::this_thread::get_id());
    return found == by_thread_.end() ? nullptr : batches_[found->second];
}

std::shared_ptr<pending_batch> pending_commits::find_or_make_own(manager_core& heap) {
    const base::scoped_lock lock(mutex_);
    const std::thread::id own = std::this_thread::get_id();
    if (const auto found = by_thread_.find(own); found != by_thread_.end()) {
        return batches_[found->second];
    }
    auto made = std::make_shared<pending_batch>(heap, batches_.size());
    batches_.reserve(batches_.size() + 1);
    by_thread_.emplace(own, batches_.size());
    batches_.push_back(made);
    count_.store(batches_.size(), std::memory_order_relaxed);
    return made;
}

std::shared_ptr<pending_batch> pending_commits::find(std::uint64_t batch) const {
    const base::scoped_lock lock(mutex_);
    return batch < batches_.size() ? batches_[batch] : nullptr;
}

void pending_commits::sync_all() {
    std::vector<std::shared_ptr<pending_batch>> all;
    {
        const base::scoped_lock lock(mutex_);
        all = batches_;
    }
    for (const auto& each : all) {
        each->sync();
    }
}

}  // namespace holdfast::detail
