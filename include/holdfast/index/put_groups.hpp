// Puts in the domain `disk`, where a leaf's lock is kept for as long as its record waits for the disk. The calls that
// come meanwhile queue, and who gets the lock next stores all of them that fit the leaf as one transaction: a leaf that
// many threads put into, such as the last one of ascending keys, takes an entry of each thread a sync, not one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <vector>

#include <holdfast/index/index_tree.hpp>
#include <holdfast/index/leaf_entries.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::detail {

/// A call that waits, on the stack of its thread.
template <class Key, class Value>
struct waiting_put {
    enum class stage : std::uint8_t {
        queued,
        taken,  ///< by the thread that has the lock of the leaf, and stores it or gives it back before it unlocks
        stored
    };

    const Key& key;
    const Value& value;
    put_mode mode;
    std::uint8_t print;
    bool was_there = false;  ///< once stored
    std::atomic<stage> now{stage::queued};
};

/// Thread-safe.
template <class Key, class Value>
class put_queue {
public:
    using put = waiting_put<Key, Value>;
    static constexpr std::size_t most_together = 64;
    struct puts {
        std::array<put*, most_together> each;
        std::size_t count = 0;
    };

    void add(put& one) {
        const std::lock_guard lock(mutex_);
        entries_.push_back({one.key, &one, false});
    }
    /// Those whose keys are `wanted`, but `but`; at most `most_together`. They become taken.
    template <class Wanted>
    void take(puts& to, const put& but, const Wanted& wanted) noexcept {
        const std::lock_guard lock(mutex_);
        for (entry& each : entries_) {
            if (each.is_taken || each.of == &but || !wanted(each.key)) {
                continue;
            }
            if (to.count == most_together) {
                return;
            }
            each.is_taken = true;
            each.of->now.store(put::stage::taken, std::memory_order_relaxed);
            to.each[to.count++] = each.of;
        }
    }
    void give_back(put& one) noexcept {
        const std::lock_guard lock(mutex_);
        find(one)->is_taken = false;
        one.now.store(put::stage::queued, std::memory_order_release);
    }
    /// Whoever has taken it is waited for. Again: nothing.
    void remove(put& one) noexcept {
        short_wait wait;
        while (!try_remove(one)) {
            wait();
        }
    }

private:
    /// With the key beside it: a look at those that wait reads no other thread's stack.
    struct entry {
        Key key;
        put* of;
        bool is_taken;
    };

    [[nodiscard]] auto find(const put& one) noexcept {
        return std::find_if(entries_.begin(), entries_.end(), [&one](const entry& each) { return each.of == &one; });
    }
    [[nodiscard]] bool try_remove(put& one) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = find(one);
        if (found == entries_.end()) {
            return true;
        }
        if (found->is_taken && one.now.load(std::memory_order_acquire) != put::stage::stored) {
            return false;
        }
        one.now.store(put::stage::stored, std::memory_order_relaxed);
        *found = entries_.back();
        entries_.pop_back();
        return true;
    }

    std::mutex mutex_;
    std::vector<entry> entries_;
};

/// Changes of one leaf as one transaction. The caller has the leaf's lock.
template <class Key, class Value, class Order>
class leaf_group {
    using types = index_types<Key, Value, Order>;
    using layout = typename types::layout;
    using leaf = typename types::leaf;
    using put = waiting_put<Key, Value>;

public:
    leaf_group(const index_media<Key, Value, Order>& media, leaf& of)
        : tx_(media.heap()), leaf_(of), words_(of.media()), free_(of.free()) {
        for (std::size_t cell = 0; cell < layout::cells; ++cell) {
            headers_[cell] = of.header_of(cell);
        }
    }

    /// False where there is no slot, or where an earlier one of the group has the key. May throw: then the group is of
    /// no use any more.
    [[nodiscard]] bool add(put& one) {
        if (has(one)) {
            return false;
        }
        const std::size_t found = types::find_slot(leaf_, one.key, one.print);
        std::size_t slot = found;
        one.was_there = found != layout::slots;
        if (!one.was_there && one.mode != put_mode::update) {
            slot = free_.slot_for(one.print);
            if (slot == layout::slots) {
                return false;
            }
            free_.take(slot);
            store(slot, 0, one.key);
            store(slot, types::key_words::words, one.value);
            std::uint64_t& header = headers_[layout::cell_of(slot)];
            header = with_entry(header, layout::entry_of(slot), one.print);
        } else if (one.was_there && one.mode != put_mode::insert) {
            if constexpr (types::value_words::is_block) {
                tx_.free(types::target(words_ + layout::word_of(slot, types::key_words::words)));
            }
            store(slot, types::key_words::words, one.value);
        }
        members_[count_++] = {&one, slot};
        return true;
    }
    /// Throws, and nothing is changed.
    void commit() {
        for (std::size_t cell = 0; cell < layout::cells; ++cell) {
            std::uint64_t& header = words_[layout::header_of(cell)];
            if (headers_[cell] != leaf_.header_of(cell)) {
                tx_.store(header, headers_[cell]);
            }
        }
        tx_.commit();
        for (std::size_t i = 0; i < count_; ++i) {
            const put& one = *members_[i].of;
            if (!one.was_there && one.mode != put_mode::update) {
                leaf_.set_print(members_[i].slot, one.print);
                leaf_.set_live(members_[i].slot, true);
            }
        }
    }

private:
    struct member {
        put* of;
        std::size_t slot;
    };

    [[nodiscard]] bool has(const put& one) const noexcept {
        return std::any_of(
            members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(count_),
            [&one](const member& each) { return each.of->print == one.print && equal_keys(each.of->key, one.key); });
    }
    template <class T>
    void store(std::size_t slot, std::size_t from, const T& value) {
        if constexpr (is_index_text<T>) {
            std::uint64_t& word = words_[layout::word_of(slot, from)];
            tx_.store(word, word_of_target(&word, make_text(tx_, value)));
        } else {
            const auto encoded = index_words<T>::encode(value);
            for (std::size_t i = 0; i < encoded.size(); ++i) {
                tx_.store(words_[layout::word_of(slot, from + i)], encoded[i]);
            }
        }
    }

    transaction tx_;
    leaf& leaf_;
    std::uint64_t* words_;
    free_slots<layout> free_;
    std::array<std::uint64_t, layout::cells> headers_{};
    std::array<member, put_queue<Key, Value>::most_together + 1> members_{};
    std::size_t count_ = 0;
};

/// The puts of an index in the domain `disk`. Thread-safe.
template <class Key, class Value, class Order>
class put_groups {
    using types = index_types<Key, Value, Order>;
    using leaf = typename types::leaf;
    using tree = index_tree<Key, Value, Order>;
    using queue = put_queue<Key, Value>;
    using put = waiting_put<Key, Value>;

public:
    /// Durable when it returns. Whether the key was there.
    [[nodiscard]] bool operator()(tree& of, const Key& key, const Value& value, put_mode mode) {
        put own{key, value, mode, fingerprint<Key>(key)};
        const queued_put in_queue(queue_, own);
        for (;;) {
            const auto at = of.descend_to(key, own.print);  // waits for who has the leaf's lock
            if (own.now.load(std::memory_order_acquire) == put::stage::stored) {
                return own.was_there;
            }
            if (!of.is_warm(at) || !at.node->lock.lock_if(at.version)) {
                continue;
            }
            const write_guard locked(at.node->lock);
            // The last one that had this lock has stored it, or left it in the queue.
            if (own.now.load(std::memory_order_acquire) == put::stage::stored) {
                return own.was_there;
            }
            // Out of the queue before the next one with this lock finds it there, and stores it again, or at all.
            try {
                if (store_with_others(of.media(), *at.node, own)) {
                    queue_.remove(own);
                    return own.was_there;
                }
                of.split(*at.node, key);
            } catch (...) {
                queue_.remove(own);
                throw;
            }
        }
    }

private:
    class queued_put {
    public:
        queued_put(queue& all, put& own) : all_(all), own_(own) { all_.add(own_); }
        queued_put(const queued_put&) = delete;
        queued_put& operator=(const queued_put&) = delete;
        ~queued_put() { all_.remove(own_); }

    private:
        queue& all_;
        put& own_;
    };

    /// False where the leaf has no room for `own`.
    [[nodiscard]] bool store_with_others(const index_media<Key, Value, Order>& media, leaf& of, put& own) {
        typename queue::puts others;
        const leaf_range range(media, of);
        queue_.take(others, own, [&](const Key& one) { return range.has(one); });
        if (others.count == 0) {
            return store_alone(media, of, own);
        }
        std::size_t kept = 0;
        try {
            leaf_group<Key, Value, Order> group(media, of);
            if (!group.add(own)) {
                give_back(others, 0);
                return false;
            }
            for (std::size_t i = 0; i < others.count; ++i) {
                if (group.add(*others.each[i])) {
                    std::swap(others.each[kept++], others.each[i]);
                }
            }
            group.commit();
        } catch (...) {
            give_back(others, 0);
            return store_alone(media, of, own);  // it may have been too much at once
        }
        for (std::size_t i = 0; i < kept; ++i) {
            others.each[i]->now.store(put::stage::stored, std::memory_order_release);
        }
        give_back(others, kept);
        return true;
    }
    [[nodiscard]] static bool store_alone(const index_media<Key, Value, Order>& media, leaf& of, put& own) {
        leaf_entries<Key, Value, Order> entries(media, of);
        const std::optional<bool> was_there = entries.put(own.key, own.value, own.mode, own.print);
        own.was_there = was_there.value_or(false);
        return was_there.has_value();
    }
    void give_back(typename queue::puts& taken, std::size_t from) noexcept {
        for (std::size_t i = from; i < taken.count; ++i) {
            queue_.give_back(*taken.each[i]);
        }
    }

    /// Of the keys of a leaf, while the caller has its lock.
    class leaf_range {
    public:
        using bound = typename types::bound;
        leaf_range(const index_media<Key, Value, Order>& media, const leaf& of) noexcept
            : order_(media.order()), words_(of.media()), next_(types::next_of(words_)) {}
        [[nodiscard]] bool has(const Key& key) const noexcept {
            const bound place = order_.bound_of(key);
            return (!types::has_low(words_) || !(place < types::low_of(words_))) &&
                   (next_ == nullptr || place < types::low_of(next_));
        }

    private:
        const Order& order_;
        const std::uint64_t* words_;
        const std::uint64_t* next_;
    };

    queue queue_;
};

}  // namespace holdfast::detail
