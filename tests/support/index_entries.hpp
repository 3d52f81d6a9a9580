// The entries of an index of either kind, for tests.
#pragma once

#include <cstddef>

namespace holdfast::test {

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

}  // namespace holdfast::test
