// The buckets of a hash table as its users see them. An index is below bucket_count().
#pragma once

#include <bit>
#include <cstddef>
#include <iterator>

#include <holdfast/detail/hash_node.hpp>

namespace holdfast::detail {

template <class Core>
class hash_buckets : public Core {
public:
    using typename Core::key_type;
    using typename Core::size_type;
    using local_iterator = hash_local_iterator<typename Core::node, Core::iterates_constants>;
    using const_local_iterator = hash_local_iterator<typename Core::node, true>;
    using Core::begin;
    using Core::cbegin;
    using Core::cend;
    using Core::Core;
    using Core::end;

    [[nodiscard]] size_type bucket_count() const noexcept { return this->chains().count(); }
    [[nodiscard]] size_type max_bucket_count() const noexcept { return std::bit_floor(this->max_size()); }
    /// The table must have buckets.
    [[nodiscard]] size_type bucket(const key_type& key) const { return this->chains().index_of(this->hash_of(key)); }
    [[nodiscard]] size_type bucket_size(size_type index) const noexcept {
        return static_cast<size_type>(std::distance(begin(index), end(index)));
    }
    [[nodiscard]] local_iterator begin(size_type index) noexcept {
        return local_iterator(this->chains().buckets() + index);
    }
    [[nodiscard]] const_local_iterator begin(size_type index) const noexcept {
        return const_local_iterator(this->chains().buckets() + index);
    }
    [[nodiscard]] const_local_iterator cbegin(size_type index) const noexcept { return begin(index); }
    [[nodiscard]] local_iterator end(size_type /*index*/) noexcept { return {}; }
    [[nodiscard]] const_local_iterator end(size_type /*index*/) const noexcept { return {}; }
    [[nodiscard]] const_local_iterator cend(size_type /*index*/) const noexcept { return {}; }

    [[nodiscard]] float load_factor() const noexcept { return this->occupancy().factor(bucket_count()); }
    [[nodiscard]] float max_load_factor() const noexcept { return this->occupancy().max_factor(); }
    /// Ignores values that are not positive numbers.
    void max_load_factor(float factor) { this->set_max_load(factor); }
};

}  // namespace holdfast::detail
