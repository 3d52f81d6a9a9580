// holdfast::ordered_index: a map in a heap, in the order of its keys, for many threads.
//
//     holdfast::ordered_index<std::uint64_t, std::uint64_t> orders(heap, "orders");   // finds or makes it
//     orders.insert(17, 4711);
//     orders.scan(10, [](std::uint64_t key, std::uint64_t value) { return key < 20; });
//
//     holdfast::ordered_index<std::string_view, std::string_view> names(heap, "names");
//     names.upsert("stone", "a hard thing");
//
// Keys are std::string_view (bytes of any length, compared as such) or types of at most 256 bytes that are trivially
// copyable and have unique object representations and an operator<. Values are std::string_view or trivially copyable
// types of at most 1,024 bytes without addresses. A call returns a std::string for a std::string_view.
//
// An index is the FPTree (I. Oukid et al., SIGMOD 2016), as PAllocator has it for its blocks (VLDB 2017, 4.5): leaves,
// unsorted and with fingerprints, in the heap; inner nodes in DRAM, made anew at each open (docs/indexes.md).
//
// Durability `atomic`: when a call has returned, its change survives a crash; a crash within leaves all of it or
// nothing. It takes one record and one fence where key and value have at most 8 bytes each. Durability `commit`: the
// next manager::commit() makes it durable. Durability `collect`: after a crash, each call in flight is there or not,
// but the bytes of an inline value of more than 8 bytes that was replaced may be mixed. Other threads see a change only
// when it is as durable as when its call returns.
//
// Thread safety: any number of threads may call everything but the functions that say otherwise. Calls that only read
// take no lock where keys and values are inline, and else keep changes out of one leaf. close() of the manager, and in
// `atomic` and `collect` also snapshot() and collect(), need that no thread is in a call; in `commit`, commits wait for
// calls, and calls for commits. A process has at most one ordered_index for an index.
// No call may run while its heap is closed; later ones throw error(invalid_argument).
//
// Errors: error(corrupt) is thrown by the call that finds it; bad_alloc and error(no_space) leave the index as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/index/index_calls.hpp>
#include <holdfast/index/index_scan.hpp>
#include <holdfast/index/index_sources.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {

template <class Key, class Value>
struct stored_index : detail::index_head_on_media {};

template <detail::index_key Key, detail::index_value Value>
class ordered_index : public detail::index_calls<Key, Value, detail::order_of_keys<Key>> {
    using base = detail::index_calls<Key, Value, detail::order_of_keys<Key>>;

public:
    using typename base::entry;
    using typename base::owned_key;
    using typename base::owned_value;

    /// Opens or makes the index with that name. Looks at each leaf, by up to two threads. Throws error(type_mismatch)
    /// where the name bears something else; error(corrupt); error(locked) where this process has it open;
    /// error(not_found) where there is none in a heap that is open read-only; bad_alloc.
    ordered_index(manager& heap, std::string_view name)
        : base(heap, name, base::template head_of<stored_index<Key, Value>>(heap, name)) {}
    ordered_index(const ordered_index&) = delete;
    ordered_index& operator=(const ordered_index&) = delete;
    ~ordered_index() = default;

    /// Frees an index that is not open, with its contents. False where there is none.
    static bool destroy(manager& heap, std::string_view name) {
        return base::template destroy_index<stored_index<Key, Value>, ordered_index>(heap, name);
    }

    /// The entry of the smallest key that is not smaller, and of the largest that is not larger.
    [[nodiscard]] std::optional<entry> lower_bound(const Key& key) const { return one(owned_key(key), true); }
    [[nodiscard]] std::optional<entry> last_not_above(const Key& key) const { return one(owned_key(key), false); }
    [[nodiscard]] std::optional<entry> first() const { return one(std::nullopt, true); }
    [[nodiscard]] std::optional<entry> last() const { return one(std::nullopt, false); }
    [[nodiscard]] bool empty() const { return !first().has_value(); }

    /// Calls `each(key, value)` in ascending order, from the smallest key that is not smaller than `from` on, until it
    /// returns false. Each leaf is read at one moment; changes by others behind that place are seen, and `each`
    /// may change the index. Views are valid until it returns. Returns how many entries it was given.
    template <class Function>
    std::size_t scan(const Key& from, Function&& each) const {
        return run(owned_key(from), true, each);
    }
    template <class Function>
    std::size_t scan(Function&& each) const {
        return run(std::nullopt, true, each);
    }
    /// From the largest key that is not larger than `from` on.
    template <class Function>
    std::size_t scan_backward(const Key& from, Function&& each) const {
        return run(owned_key(from), false, each);
    }
    template <class Function>
    std::size_t scan_backward(Function&& each) const {
        return run(std::nullopt, false, each);
    }

    /// No other thread uses the index meanwhile. Takes entries in ascending order of distinct keys into an empty index:
    /// all of them or none. `first` to `last` give pairs of key and value, by reference or by value. Leaves are filled
    /// to nine tenths. Throws error(invalid_argument) where the index is not empty or keys do not ascend.
    template <class Iterator, class Sentinel>
    void bulk_load(Iterator first, Sentinel last) {
        if (!empty()) {
            detail::throw_index_argument(this->media().heap(), "index of bulk_load", "one with entries",
                                         "an empty one");
        }
        this->load(detail::ascending_source<Key, Value, typename base::layout, Iterator, Sentinel>(
            this->media().heap(), std::move(first), std::move(last)));
    }

private:
    using scanner = detail::index_scan<Key, Value>;

    [[nodiscard]] std::optional<entry> one(std::optional<owned_key> from, bool forward) const {
        std::optional<entry> found;
        run(
            std::move(from), forward,
            [&](const Key& key, const Value& value) {
                found.emplace(owned_key(key), owned_value(value));
                return false;
            },
            1);
        return found;
    }
    template <class Function>
    std::size_t run(std::optional<owned_key> from, bool forward, Function&& each,
                    std::size_t most = base::layout::slots) const {
        scanner place(this->opened(), std::move(from), forward);
        typename scanner::batch batch;
        std::size_t given = 0;
        while (!place.at_end()) {
            place.fetch(most, batch);
            for (std::size_t i = 0; i < batch.size(); ++i) {
                ++given;
                if (!each(batch.key(i), batch.value(i))) {
                    return given;
                }
            }
        }
        return given;
    }
};

}  // namespace holdfast
