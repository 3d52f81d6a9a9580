// The entries of an index of either kind, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <holdfast/hash_index.hpp>
#include <holdfast/ordered_index.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::test {

inline constexpr std::uint64_t fixed_seed = 1;

/// Calls `each(key, value)` for all entries. Returns their number.
template <class Index, class Function>
std::size_t for_each_entry(const Index& index, Function&& each) {
    const auto go_on = [&](const auto& key, const auto& value) {
        each(key, value);
        return true;
    };
    if constexpr (requires { index.for_each(go_on); }) {
        return index.for_each(go_on);
    } else {
        return index.scan(go_on);
    }
}

template <class Key, class Value>
void fix_seed(manager& /*heap*/, std::string_view /*name*/, const ordered_index<Key, Value>* /*of*/) {}
/// Lets a hash index that is to be made have the same hash in each run.
template <class Key, class Value>
void fix_seed(manager& heap, std::string_view name, const hash_index<Key, Value>* /*of*/) {
    auto& head = *heap.find_or_construct<stored_hash_index<Key, Value>>(name)();
    heap.transact([&](transaction& tx) { tx.store(head.seed, fixed_seed); });
}

}  // namespace holdfast::test
