// holders: what Python holds of a heap, by address, and whether it is still there after another process has changed the
// heap.
//
// A dict, a list or an array that was found before goes on where its place leads to the same object: the keys and
// indexes by which it was found. Else it is gone, since its memory may be another object's.
//
// Thread safety: all functions by any number of threads, follow() under the session's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "contents.hpp"

namespace holdfast::python {

struct hold;

/// How an object was found.
struct found_at {
    std::shared_ptr<hold> in;          ///< null: the object is the dict that Python sees as the heap
    std::optional<document> key;       ///< where `in` is a dict
    std::uint64_t index = 0;           ///< where it is a list
    std::vector<std::uint64_t> parts;  ///< in the tuples that lie there, from the outermost on
};

/// An object of the heap that Python holds, counted over all its holders.
struct hold {
    const void* object = nullptr;
    std::uint64_t holders = 0;
    kind what = kind::none;
    bool is_gone = false;  ///< was made by a transaction that was aborted, or removed by another process
    std::shared_ptr<const found_at> place;
    std::uint64_t seen = 0;  ///< follow() has looked at it
};

class holders {
public:
    /// `place`: null in a heap that no other process changes.
    [[nodiscard]] std::shared_ptr<hold> add(const void* object, kind what, std::shared_ptr<const found_at> place);
    /// `closed` is read in the same step. True where it was the last array of a closed heap.
    [[nodiscard]] bool let_go(const std::shared_ptr<hold>& of, const std::atomic<bool>& closed) noexcept;
    [[nodiscard]] bool has(const void* object) const;
    [[nodiscard]] std::uint64_t arrays() const;
    /// Objects of arrays.
    [[nodiscard]] std::vector<const void*> held_arrays() const;
    /// Those who hold the object learn that it is gone.
    void forget(const void* object);
    /// Another process has changed the heap: what is no longer at its place is gone. `entries`: the dict that is the
    /// heap; null where there is none.
    void follow(const contents& in, const void* entries);

    /// Whether something was let go since the last call.
    [[nodiscard]] bool take_let_go();
    void note_let_go();

    /// Runs `body`, while nobody lets go, with the number of arrays that are held.
    template <class Body>
    void locked(Body&& body) const {
        const std::lock_guard guard(mutex_);
        body(arrays_);
    }

private:
    [[nodiscard]] bool is_there(hold& of, const contents& in, const void* entries) const;
    [[nodiscard]] bool is_at_place(const hold& of, const contents& in, const void* entries) const;

    mutable std::mutex mutex_;
    std::unordered_map<const void*, std::shared_ptr<hold>> all_;
    std::uint64_t arrays_ = 0;
    std::uint64_t changes_ = 0;  ///< calls of follow()
    bool was_let_go_ = false;
};

}  // namespace holdfast::python
