// holdfast::ordered_index: a map in a heap, in the order of its keys, for many threads. In durability `atomic` every
// change is durable when its call returns.
//
//     holdfast::ordered_index<std::uint64_t, std::uint64_t> orders(heap, "orders");   // finds or makes it
//     orders.insert(17, 4711);
//     orders.scan(10, [](std::uint64_t key, std::uint64_t value) { return key < 20; });
//
//     holdfast::ordered_index<std::string_view, std::string_view> names(heap, "names");
//     names.upsert("stone", "a hard thing");
//
// Keys are std::string_view (bytes of any length, compared as such) or types of at most 256 bytes that are trivially
// copyable and have unique object representations and an operator<: integers, enumerations, structs without padding.
// Values are std::string_view or trivially copyable types of at most 1,024 bytes without addresses. A call returns a
// std::string for a std::string_view.
//
// An index is the FPTree (I. Oukid et al., 2016; PAllocator 5.3): leaves, unsorted and with fingerprints, in the heap;
// inner nodes in DRAM, made anew at each open. A leaf is laid out so that an entry and the word that says that it is
// there are one record (docs/index.md).
//
// Durability `atomic`: after a crash an insertion, a removal or a new value is there wholly or not at all, and it is
// there when the call has returned. It takes one record and one fence where key and value have at most 8 bytes each.
// Durability `commit`: the next manager::commit() makes it durable. Durability `collect`: after a crash, each call in
// flight is there or not, but the bytes of an inline value of more than 8 bytes that was replaced may be mixed. Other
// threads see a change only when it is as durable as when its call returns.
//
// Thread safety: any number of threads may call everything but the functions that say otherwise. Calls that only read
// take no lock where keys and values are inline, and else keep changes out of one leaf. commit(), close(), snapshot()
// and collect() of the manager need that no thread is in a call, as ever. At most one ordered_index of a process leads
// to an index. It ends before its heap is closed.
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

#include <holdfast/detail/index_check.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {

/// The named object of an ordered_index: what `holdfast ls` shows.
template <class Key, class Value>
struct stored_index : detail::index_head_on_media {};

struct index_statistics {
    std::uint64_t leaves = 0;
    std::uint64_t slots = 0;           ///< entries for which the leaves have room
    std::uint64_t leaf_bytes = 0;      ///< of all leaves in the heap, without keys and values of any length
    std::uint64_t retired_leaves = 0;  ///< kept for later splits; freed by clear() and by the next open
    std::uint64_t inner_nodes = 0;
    std::uint64_t height = 0;      ///< levels of inner nodes
    std::uint64_t dram_bytes = 0;  ///< of inner nodes, and of what is kept of the leaves
};

template <detail::index_key Key, detail::index_value Value>
class ordered_index : private detail::index_check<Key, Value> {
    using base = detail::index_check<Key, Value>;

public:
    using key_type = Key;
    using mapped_type = Value;
    using owned_key = typename base::owned_key;      ///< Key, or std::string
    using owned_value = typename base::owned_value;  ///< Value, or std::string
    using entry = std::pair<owned_key, owned_value>;

    /// Opens the index with that name, or makes it. Time: that of looking at each leaf, by up to two threads. Throws
    /// error(type_mismatch) where the name bears something else; error(corrupt); error(locked) where this process has
    /// the index open; error(not_found) where there is none in a heap that is open read-only; bad_alloc.
    ordered_index(manager& heap, std::string_view name) : ordered_index(heap, name, head_of(heap, name)) {}
    ordered_index(const ordered_index&) = delete;
    ordered_index& operator=(const ordered_index&) = delete;
    ~ordered_index() = default;

    /// Frees an index that is not open, with all that it holds. False where there is none of that name.
    static bool destroy(manager& heap, std::string_view name) {
        if (heap.find<stored_index<Key, Value>>(name).first == nullptr) {
            return false;
        }
        ordered_index(heap, name).free_all();
        return heap.destroy<stored_index<Key, Value>>(name);
    }

    /// Adds an entry. False, and nothing changes, where the key is there. Throws error(read_only), as do all that
    /// change something.
    bool insert(const Key& key, const Value& value) { return !this->put(key, value, detail::put_mode::insert); }
    /// Gives a key that is there another value. False where it is not there.
    bool update(const Key& key, const Value& value) { return this->put(key, value, detail::put_mode::update); }
    /// Either of the two. True where the key is new.
    bool upsert(const Key& key, const Value& value) { return !this->put(key, value, detail::put_mode::upsert); }
    /// False where the key is not there.
    bool remove(const Key& key) { return base::remove(key); }

    [[nodiscard]] std::optional<owned_value> find(const Key& key) const { return base::find(key); }
    [[nodiscard]] bool contains(const Key& key) const { return base::find(key).has_value(); }
    /// The entry with the smallest key that is not smaller, and the one with the largest key that is not larger.
    [[nodiscard]] std::optional<entry> lower_bound(const Key& key) const { return one({owned_key(key)}, true); }
    [[nodiscard]] std::optional<entry> last_not_above(const Key& key) const { return one({owned_key(key)}, false); }
    [[nodiscard]] std::optional<entry> first() const { return one({}, true); }
    [[nodiscard]] std::optional<entry> last() const { return one({}, false); }

    /// Calls `each(key, value)` in ascending order, from the smallest key that is not smaller than `from` on, until it
    /// returns false. Each leaf is read at one moment; changes by others behind that place are seen, and `each` may
    /// change the index itself. Views are valid until `each` returns. Returns how many entries it was given.
    template <class Function>
    std::size_t scan(const Key& from, Function&& each) const {
        return run({owned_key(from)}, true, each);
    }
    template <class Function>
    std::size_t scan(Function&& each) const {
        return run({}, true, each);
    }
    /// In descending order, from the largest key that is not larger than `from` on.
    template <class Function>
    std::size_t scan_backward(const Key& from, Function&& each) const {
        return run({owned_key(from)}, false, each);
    }
    template <class Function>
    std::size_t scan_backward(Function&& each) const {
        return run({}, false, each);
    }

    /// The number of entries. It looks at every leaf, and reads those that were not used since the open.
    [[nodiscard]] std::size_t size() const {
        std::size_t sum = 0;
        typename base::scan_place place;
        while (!place.at_end) {
            sum += this->count_leaf(place);
        }
        return sum;
    }
    [[nodiscard]] bool empty() const { return !first().has_value(); }

    // No other thread uses the index in these.

    /// Removes all entries in one step, then frees their memory; a crash meanwhile leaves that to the next open.
    void clear() { base::clear(); }
    /// Takes entries in ascending order of distinct keys into an empty index: all of them or none. `first` to `last`
    /// give pairs of key and value. Leaves are filled to nine tenths. Throws error(invalid_argument) where the index is
    /// not empty, or for keys that do not ascend.
    template <class Iterator, class Sentinel>
    void bulk_load(Iterator first, Sentinel last) {
        if (!empty()) {
            detail::throw_index_argument(this->heap_, "index of bulk_load", "one with entries", "an empty one");
        }
        base::bulk_load([&](std::pair<Key, Value>& next) {
            if (first == last) {
                return false;
            }
            const auto& [key, value] = *first;
            next = {Key(key), Value(value)};
            ++first;
            return true;
        });
    }
    /// Every broken invariant, a line each ("IDX-3: ..."). Reads all of the index.
    [[nodiscard]] std::vector<std::string> check() { return base::check(); }
    [[nodiscard]] index_statistics statistics() const {
        index_statistics all;
        all.leaves = this->leaves_in_order().size();
        all.slots = all.leaves * base::layout::slots;
        all.retired_leaves = this->retired_.size();
        all.leaf_bytes = (all.leaves + all.retired_leaves) * base::layout::bytes;
        all.inner_nodes = this->inner_pool_.in_use();
        all.height = this->height_.load();
        all.dram_bytes = this->inner_pool_.bytes() + this->leaf_pool_.bytes();
        return all;
    }

private:
    using scan_place = typename base::scan_place;

    ordered_index(manager& heap, std::string_view name, stored_index<Key, Value>& head)
        : base(heap, name, head), claim_(heap, name, &head) {
        this->open();
    }
    [[nodiscard]] static stored_index<Key, Value>& head_of(manager& heap, std::string_view name) {
        if (!heap.read_only()) {
            return *heap.find_or_construct<stored_index<Key, Value>>(name)();
        }
        auto* const found = heap.find<stored_index<Key, Value>>(name).first;
        if (found == nullptr) {
            detail::throw_index_missing(heap, name);
        }
        return *found;
    }
    [[nodiscard]] std::optional<entry> one(std::optional<owned_key> from, bool forward) const {
        std::optional<entry> found;
        run(
            {std::move(from)}, forward,
            [&](const Key& key, const Value& value) {
                found.emplace(owned_key(key), owned_value(value));
                return false;
            },
            1);
        return found;
    }
    template <class Function>
    std::size_t run(scan_place place, bool forward, Function&& each, std::size_t most = base::layout::slots) const {
        typename base::batch_of_leaf batch;
        std::size_t given = 0;
        while (!place.at_end) {
            forward ? this->fetch_forward(place, most, batch) : this->fetch_backward(place, most, batch);
            for (std::size_t i = 0; i < batch.size(); ++i) {
                ++given;
                if (!each(batch.key(i), batch.value(i))) {
                    return given;
                }
            }
        }
        return given;
    }

    detail::index_claim claim_;
};

}  // namespace holdfast
