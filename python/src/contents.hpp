// contents: the operations on values, dicts and lists in a heap. All that change something need a transaction.
//
// Errors: those of transaction (bad_alloc, error), and error(corrupt) for what is damaged. Then the transaction must be
// aborted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_set>
#include <vector>

#include "document.hpp"
#include "workspace.hpp"

namespace holdfast::python {

/// Whether Python holds the object, which must then stay; asked for dicts, lists and arrays that are to be freed.
using holds_function = std::function<bool(const void* object)>;

class contents {
public:
    contents(manager& heap, holds_function is_held) : space(heap), is_held_(std::move(is_held)) {}

    // Values.
    /// Allocates what the document needs.
    [[nodiscard]] value build(const document& from);
    /// A dict, a list and an array are read as the place of their object; with `deep`, with all that is in them.
    [[nodiscard]] document read(const value& from, bool deep) const;
    /// Frees what the value owns; or, where Python holds a part of it, moves all of it to `detached`.
    void drop(const value& unwanted, values::root& root);
    /// Frees those detached values that Python no longer holds a part of.
    void sweep(values::root& root, bool all);
    /// As sweep(), with some hundreds of blocks in a call, and a value in pieces; false while there is more to be
    /// freed. `free`: empty at first; the objects that are known to be held by nobody, since nothing happens between
    /// the calls.
    [[nodiscard]] bool sweep_some(values::root& root, bool all, std::unordered_set<const void*>& free);

    /// Gives the array under a key another first length: rows of zeros or those of `change` more, or fewer. In its
    /// block where that is possible; what Python holds of the array keeps its elements. Throws error(invalid_argument)
    /// where there is no such array.
    void resize_array(values::dict& in, const document& key, const array_change& change, values::root& root);

    // Dicts.
    [[nodiscard]] std::optional<value> find(const values::dict& in, const document& key) const;
    void put(values::dict& in, const document& key, const value& content, values::root& root);
    [[nodiscard]] bool erase(values::dict& in, const document& key, values::root& root);
    void clear(values::dict& in, values::root& root);
    /// The entry after `at` (null: the first, or backwards the last); null at the end.
    [[nodiscard]] const values::dict_entry* step(const values::dict& in, const values::dict_entry* at,
                                                 bool backwards) const;
    [[nodiscard]] const values::dict_entry& expect_entry(const values::dict_entry* at) const;
    /// After so many steps along the entries of a dict that says that it has `size`. Throws error(corrupt) where they
    /// are more than that, or than the heap has room for.
    void expect_step(std::uint64_t steps, std::uint64_t size) const;
    /// Calls `each` with every entry, in order, and with its place. It may free the entry.
    template <class Function>
    void for_each_entry(const values::dict& in, Function&& each) const {
        const std::uint64_t size = space.look(in).size;
        std::uint64_t passed = 0;
        for (const values::dict_entry* at = step(in, nullptr, false); at != nullptr; ++passed) {
            expect_step(passed + 1, size);
            const values::dict_entry entry = expect_entry(at);
            each(entry, at);
            at = entry.following.get();
        }
    }

    // Lists. Indexes are in range.
    [[nodiscard]] const value& at(const values::sequence& in, std::uint64_t index) const;
    void assign(values::sequence& in, std::uint64_t index, const value& content, values::root& root);
    /// Replaces `removed` elements from `index` on by `added`.
    void splice(values::sequence& in, std::uint64_t index, std::uint64_t removed, const std::vector<value>& added,
                values::root& root);

    workspace space;

private:
    [[nodiscard]] value build_blob(const document& from);
    /// `room`: of the block of its data.
    [[nodiscard]] value build_array(const array_content& from, std::uint64_t room);
    [[nodiscard]] bool fits(const values::array& header, std::uint64_t before, std::uint64_t after) const;
    [[nodiscard]] value build_sequence(const document& from);
    [[nodiscard]] document read_array(const value& from, bool deep) const;
    [[nodiscard]] bool is_held(const std::vector<value>& parts) const;
    void release(const value& unwanted);
    [[nodiscard]] bool take_apart(const value& whole, std::uint64_t most, std::vector<value>& parts);
    void release_index(const values::dict& of);

    [[nodiscard]] values::dict_entry* find_entry(const values::dict& in, const document& key, std::uint64_t hash) const;
    [[nodiscard]] bool is_same(const value& stored, const document& key) const;
    [[nodiscard]] values::dict_bucket& bucket(const values::dict& in, std::uint64_t index) const;
    void insert(values::dict& in, const document& key, std::uint64_t hash, const value& content);
    void add_bucket(values::dict& in);
    void index_all(values::dict& in);
    void link(values::dict& in, values::dict_entry& entry, std::uint64_t buckets);
    void unlink(values::dict& in, values::dict_entry& gone);
    void unlink_from_bucket(values::dict& in, values::dict_entry& gone);

    /// Takes an element out whose value has gone elsewhere.
    void splice_out(values::sequence& in, std::uint64_t index);
    /// A copy of the elements in a new block with another capacity; frees the old block.
    [[nodiscard]] value* move_elements(values::sequence& in, std::uint64_t capacity);
    /// Throws error(corrupt) where the elements are not there.
    [[nodiscard]] value* elements_of(const values::sequence& in) const;

    holds_function is_held_;
};

}  // namespace holdfast::python
