// holdfast::hash_index: a map in a heap for many threads, without an order, with shorter look-ups than an
// ordered_index.
//
//     holdfast::hash_index<std::uint64_t, std::uint64_t> orders(heap, "orders");   // finds or makes it
//     orders.insert(17, 4711);
//
// It is extendible hashing (R. Fagin et al., 1979) with buckets of fingerprints in the heap, as in Dash (B. Lu et al.,
// 2020); the directory, in DRAM, is made anew at each open. A bucket is a leaf of an ordered_index, by the hashes of
// keys. Keys, values, durability, costs, threads and errors are as <holdfast/ordered_index.hpp> says; a key needs no
// operator<.
//
// Each index has a random secret in its hash: who chooses keys, and cannot read the heap, cannot let many have one
// hash. insert() and upsert() also throw error(limit) where more keys than a bucket holds (some hundred) have one hash
// of 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/index/index_batch.hpp>
#include <holdfast/index/index_calls.hpp>
#include <holdfast/index/index_sources.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {

template <class Key, class Value>
struct stored_hash_index : detail::index_head_on_media {};

template <detail::index_hash_key Key, detail::index_value Value>
class hash_index : public detail::index_calls<Key, Value, detail::order_of_hashes<Key>> {
    using base = detail::index_calls<Key, Value, detail::order_of_hashes<Key>>;

public:
    hash_index(manager& heap, std::string_view name)
        : base(heap, name, base::template head_of<stored_hash_index<Key, Value>>(heap, name)) {}
    hash_index(const hash_index&) = delete;
    hash_index& operator=(const hash_index&) = delete;
    ~hash_index() = default;

    /// Frees an index that is not open, with its contents. False where there is none.
    static bool destroy(manager& heap, std::string_view name) {
        return base::template destroy_index<stored_hash_index<Key, Value>, hash_index>(heap, name);
    }

    /// Calls `each(key, value)` for all entries, in any order, until it returns false. Each bucket is read at one
    /// moment; an entry that is there all the time is given once. `each` may change the index. Views are valid until it
    /// returns. Returns how many entries it was given.
    template <class Function>
    std::size_t for_each(Function&& each) const {
        detail::index_batch<Key, Value, base::layout::slots> batch;
        std::size_t given = 0;
        this->visit_leaves(
            [&](const typename base::leaf& of, const std::uint64_t* from) {
                const std::uint64_t* const words = of.media();
                batch.clear();
                for (std::size_t slot = 0; slot < base::layout::slots; ++slot) {
                    if (of.is_live(slot) && this->is_from(of, slot, from)) {
                        batch.add(base::types::key_at(words, slot), base::types::value_at(words, slot));
                    }
                }
            },
            [&] {
                for (std::size_t i = 0; i < batch.size(); ++i) {
                    ++given;
                    if (!each(batch.key(i), batch.value(i))) {
                        return false;
                    }
                }
                return true;
            });
        return given;
    }
    [[nodiscard]] bool empty() const {
        return for_each([](const Key& /*key*/, const Value& /*value*/) { return false; }) == 0;
    }

    /// No other thread uses the index meanwhile. Takes entries with distinct keys, in any order, into an empty index:
    /// all of them or none. `first` to `last` give pairs of key and value, by reference or by value. Buckets are filled
    /// to nine tenths on average. Needs memory for a hash and an iterator of each entry, or for a copy of each where
    /// the iterator goes over them once or makes them itself. Throws error(invalid_argument) where the index is not
    /// empty or a key is there twice, error(limit) as insert().
    template <class Iterator, class Sentinel>
    void bulk_load(Iterator first, Sentinel last) {
        if (!empty()) {
            detail::throw_index_argument(this->media().heap(), "index of bulk_load", "one with entries",
                                         "an empty one");
        }
        if constexpr (std::forward_iterator<Iterator> && std::is_reference_v<decltype(*first)>) {
            this->load(detail::hashed_source<Key, Value, typename base::layout, detail::order_of_hashes<Key>, Iterator>(
                this->media().heap(), this->media().name(), this->media().order(), std::move(first), std::move(last)));
        } else {
            std::vector<std::pair<typename base::owned_key, typename base::owned_value>> entries;
            for (; first != last; ++first) {
                const auto& [key, value] = *first;
                entries.emplace_back(key, value);
            }
            bulk_load(entries.cbegin(), entries.cend());
        }
    }
};

}  // namespace holdfast
