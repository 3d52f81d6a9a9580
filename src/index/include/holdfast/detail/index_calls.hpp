// The calls that ordered_index and hash_index share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/detail/index_check.hpp>

namespace holdfast {

struct index_statistics {
    std::uint64_t leaves = 0;
    std::uint64_t slots = 0;           ///< entries for which there is room
    std::uint64_t leaf_bytes = 0;      ///< in the heap, without keys and values of any length
    std::uint64_t retired_leaves = 0;  ///< freed by clear() and by the next open
    std::uint64_t inner_nodes = 0;
    std::uint64_t height = 0;      ///< levels of inner nodes
    std::uint64_t dram_bytes = 0;  ///< inner nodes, the directory, and what is kept of leaves
};

namespace detail {

template <class Key, class Value, class Order>
class index_calls : protected index_check<Key, Value, Order> {
    using base = index_check<Key, Value, Order>;

public:
    using key_type = Key;
    using mapped_type = Value;
    using owned_key = typename base::owned_key;      ///< Key, or std::string
    using owned_value = typename base::owned_value;  ///< Value, or std::string
    using entry = std::pair<owned_key, owned_value>;

    index_calls(const index_calls&) = delete;
    index_calls& operator=(const index_calls&) = delete;

    /// False, and nothing changes, where the key is there. Throws error(read_only), as do all changes.
    bool insert(const Key& key, const Value& value) { return !this->put(key, value, put_mode::insert); }
    /// False where the key is not there.
    bool update(const Key& key, const Value& value) { return this->put(key, value, put_mode::update); }
    /// True where the key is new.
    bool upsert(const Key& key, const Value& value) { return !this->put(key, value, put_mode::upsert); }
    /// False where the key was not there.
    bool remove(const Key& key) { return base::remove(key); }

    [[nodiscard]] std::optional<owned_value> find(const Key& key) const { return base::find(key); }
    [[nodiscard]] bool contains(const Key& key) const { return base::find(key).has_value(); }
    /// Looks at every leaf, and reads those that were not used since the open.
    [[nodiscard]] std::size_t size() const { return base::size(); }

    /// Numbers of one moment; splits and merges wait meanwhile.
    [[nodiscard]] index_statistics statistics() const {
        index_statistics all;
        const std::lock_guard structure(this->structure_mutex_);
        all.leaves = this->leaves_in_order().size();
        all.slots = all.leaves * base::layout::slots;
        {
            const std::lock_guard retired(this->retired_mutex_);
            all.retired_leaves = this->retired_.size();
        }
        all.leaf_bytes = (all.leaves + all.retired_leaves) * base::layout::bytes;
        all.inner_nodes = this->inner_pool_.in_use();
        all.height = this->height_.load();
        all.dram_bytes = this->inner_pool_.bytes() + this->leaf_pool_.bytes() + this->directory_.bytes();
        return all;
    }

    // No other thread uses the index in these.

    /// Removes all entries in one step, then frees their memory; a crash, or too little memory, leaves that to the next
    /// clear() or open. Where it throws, nothing has changed.
    void clear() { base::clear(); }
    /// A line for each broken invariant ("IDX-3: ...").
    [[nodiscard]] std::vector<std::string> check() { return base::check(); }

protected:
    /// `Stored`: the type of the named object.
    template <class Stored>
    index_calls(manager& heap, std::string_view name, Stored& head)
        : base(heap, name, head), claim_(heap, name, &head) {
        this->open();
    }
    ~index_calls() = default;

    template <class Stored>
    [[nodiscard]] static Stored& head_of(manager& heap, std::string_view name) {
        if (!heap.read_only()) {
            return *heap.find_or_construct<Stored>(name)();
        }
        auto* const found = heap.find<Stored>(name).first;
        if (found == nullptr) {
            throw_index_missing(heap, name);
        }
        return *found;
    }
    /// Frees the contents, then the head.
    template <class Stored, class Index>
    static bool destroy_index(manager& heap, std::string_view name) {
        if (heap.find<Stored>(name).first == nullptr) {
            return false;
        }
        Index(heap, name).free_all();
        return heap.destroy<Stored>(name);
    }

private:
    index_claim claim_;
};

}  // namespace detail

}  // namespace holdfast
