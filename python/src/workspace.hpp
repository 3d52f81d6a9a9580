// workspace: how operations read and change objects in the heap, within a transaction or without one.
//
// Within a transaction, changes go to the copy that the transaction has of the object, and so do reads of what was
// changed. All other reads go to the heap: a copy of what is only read would take longer than the read. Blobs never
// change, and of the header of an array its size and first length alone, as words: the rest is read where it lies.
//
// Every pointer that is followed was checked before: it leads to an allocated block that is large enough and bears the
// tag that was expected. So a damaged heap causes error(corrupt), and no access outside of the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>
#include <holdfast/values.hpp>

#include "address_map.hpp"

namespace holdfast::python {

using values::kind;
using values::value;

class workspace {
public:
    explicit workspace(manager& heap) : heap_(&heap) {}

    [[nodiscard]] manager& heap() const noexcept { return *heap_; }
    [[nodiscard]] bool in_transaction() const noexcept { return transaction_ != nullptr; }
    void begin(transaction& within) noexcept { transaction_ = &within; }
    /// A part of the transaction, `within` it, whose drop_part() leads back to here, but for what it has made and
    /// opened: `within` is aborted then. Both give the transaction `around` it to the workspace.
    void begin_part(transaction& within);
    void keep_part(transaction& around) noexcept;
    void drop_part(transaction& around) noexcept;
    [[nodiscard]] bool in_part() const noexcept { return !parts_.empty(); }
    /// Calls `each` with every block that the innermost part has made.
    template <class Function>
    void for_each_made_in_part(Function&& each) const {
        for (std::size_t i = parts_.back(); i < steps_.size(); ++i) {
            if (steps_[i].what == undo_step::of::made && made_.contains(steps_[i].at)) {
                each(steps_[i].at);
            }
        }
    }
    void end() noexcept {
        transaction_ = nullptr;
        made_.clear();
        changed_.clear();
        parts_.clear();
        forget_steps();
    }
    /// Until resume(), reads go to the heap: to what was there before the transaction.
    void suspend() noexcept { suspended_ = std::exchange(transaction_, nullptr); }
    void resume() noexcept { transaction_ = std::exchange(suspended_, nullptr); }
    /// Blocks that the transaction has made, with their bytes.
    [[nodiscard]] const address_map<std::size_t>& made() const noexcept { return made_; }

    template <class T>
    [[nodiscard]] const T& look(const T& object) const {
        if (transaction_ == nullptr) {
            return object;
        }
        void* const* const found = changed_.find(&object);
        return found == nullptr ? object : *static_cast<const T*>(*found);
    }
    template <class T>
    [[nodiscard]] T& change(T& object) {
        if (void* const* const known = changed_.find(&object)) {
            if (in_part()) {
                keep(*known, sizeof(T));
            }
            return *static_cast<T*>(*known);
        }
        if (made_.contains(&object)) {  // nobody else sees it
            if (in_part()) {
                keep(&object, sizeof(T));
            }
            return object;
        }
        T& copy = transaction_->open(object);
        if (in_part()) {
            note({undo_step::of::opened, &object, 0, 0});
            keep(&copy, sizeof(T));  // it may lie in a block that the transaction has made
        }
        changed_.add(&object, &copy);  // where it fails, the transaction must be aborted
        return copy;
    }
    /// Of a header whose words change one by one.
    [[nodiscard]] std::uint64_t word(const std::uint64_t& place) const {
        return transaction_ == nullptr ? place : transaction_->load(place);
    }
    void store(std::uint64_t& place, std::uint64_t word) {
        if (in_part()) {
            keep(&place, sizeof place);  // it may lie in a block that the transaction has made
        }
        transaction_->store(place, word);
    }
    /// A T in a new block, with room for `extra` bytes behind it.
    template <class T>
    [[nodiscard]] T* make(std::size_t extra = 0) {
        return ::new (make_block(sizeof(T) + extra, alignof(T), false)) T{};
    }
    [[nodiscard]] void* make_block(std::size_t bytes, std::size_t alignment, bool zeroed);
    void free(const void* block);

    /// The object of a value. Throws error(corrupt).
    template <class T>
    [[nodiscard]] T* object_of(const value& of) const {
        void* const found = of.object.get();
        expect_block(found, sizeof(T), "object of a value");
        if (!T::holds(of.what) || !tag_at(found).is(of.what)) {
            refuse_tag("object of a value", of.what, found);
        }
        return static_cast<T*>(found);
    }
    /// Of the allocated block that begins there, with what this transaction has asked for. Throws error(corrupt).
    [[nodiscard]] std::size_t usable_size(const void* address, const char* field) const;
    /// Throws error(corrupt) where no allocated block of that size begins at the address.
    void expect_block(const void* address, std::size_t bytes, const char* field) const;
    [[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) const;
    [[nodiscard]] static const values::object_tag& tag_at(const void* object) noexcept {
        return *static_cast<const values::object_tag*>(object);
    }

private:
    /// What a part has done, so that it can be taken back.
    struct undo_step {
        enum class of { content, opened, made, freed };
        of what;
        void* at;
        std::size_t bytes;  ///< of content and freed
        std::size_t place;  ///< of content, in contents_
    };
    void note(const undo_step& step) { steps_.push_back(step); }
    /// The bytes there, as they are at the first change in the part.
    void keep(void* at, std::size_t bytes);
    void forget_steps() noexcept;
    [[noreturn]] void refuse_tag(const char* field, kind what, const void* found) const;

    manager* heap_;
    transaction* transaction_ = nullptr;
    transaction* suspended_ = nullptr;
    address_map<std::size_t> made_;
    address_map<void*> changed_;  ///< the copies of what the transaction changes
    // Of the parts that are open:
    std::vector<std::size_t> parts_;  ///< where the steps of each begin
    std::vector<undo_step> steps_;
    std::vector<std::byte> contents_;
    address_map<std::size_t> kept_;  ///< the depth of the part that has kept the content there last
};

}  // namespace holdfast::python
