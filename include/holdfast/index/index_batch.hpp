#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <holdfast/index/index_words.hpp>

namespace holdfast::detail {

/// Copied entries of one leaf.
template <class Key, class Value, std::size_t Slots>
class index_batch {
public:
    index_batch() {
        if constexpr (std::is_same_v<entries, std::vector<entry>>) {
            entries_.resize(Slots);
        }
    }
    void clear() noexcept {
        count_ = 0;
        texts_.clear();
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    void add(const Key& key, const Value& value) {
        entry& to = entries_[count_++];
        to.key = keep(key);
        to.value = keep(value);
    }
    [[nodiscard]] Key key(std::size_t i) const noexcept { return give<Key>(entries_[i].key); }
    [[nodiscard]] Value value(std::size_t i) const noexcept { return give<Value>(entries_[i].value); }

private:
    struct place {
        std::size_t begin;
        std::size_t length;
    };
    template <class T>
    using kept = std::conditional_t<is_index_text<T>, place, T>;
    template <class T>
    [[nodiscard]] kept<T> keep(const T& value) {
        if constexpr (is_index_text<T>) {
            texts_.append(value);
            return {texts_.size() - value.size(), value.size()};
        } else {
            return value;
        }
    }
    template <class T>
    [[nodiscard]] T give(const kept<T>& from) const noexcept {
        if constexpr (is_index_text<T>) {
            return T(texts_).substr(from.begin, from.length);
        } else {
            return from;
        }
    }
    struct entry {
        kept<Key> key;
        kept<Value> value;
    };
    static constexpr std::size_t most_bytes_inside = 8192;  // a scan needs no memory of its own
    using entries =
        std::conditional_t<Slots * sizeof(entry) <= most_bytes_inside, std::array<entry, Slots>, std::vector<entry>>;
    entries entries_;  // an array's are of any content
    std::size_t count_ = 0;
    std::string texts_;
};

}  // namespace holdfast::detail
