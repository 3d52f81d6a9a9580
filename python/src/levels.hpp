// levels: the transactions of a heap that are open, each within the one before. The innermost has the workspace.
//
// Where all that is stored is to be covered, elements of arrays too, there is a transact_scope around each.
//
// Thread safety: none; for the thread that has the session's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <holdfast/manager.hpp>
#include <holdfast/ticket.hpp>
#include <holdfast/transact_scope.hpp>
#include <holdfast/transaction.hpp>

#include "workspace.hpp"

namespace holdfast::python {

class levels {
public:
    levels(manager& heap, workspace& space) : heap_(&heap), space_(&space) {}
    levels(const levels&) = delete;
    levels& operator=(const levels&) = delete;
    ~levels();

    /// Begins one, within those that are open. Where it throws, nothing has begun.
    void begin(std::uint64_t number, bool by_task, bool covers_all);
    /// As begin() of the first, in a scope that has begun.
    void begin_in(std::unique_ptr<transact_scope> all, std::uint64_t number, bool by_task);
    /// Ends the innermost. Where it throws, it is open, and as at its begin.
    [[nodiscard]] ticket commit(bool durable);
    /// Takes back what the innermost has done; then it is to be left.
    void abort();
    void leave() noexcept;
    /// In a thread that has not begun them.
    void leave_to_owner() noexcept;

    [[nodiscard]] bool any() const noexcept { return !all_.empty(); }
    [[nodiscard]] bool is_inner() const noexcept { return all_.size() > 1; }
    [[nodiscard]] bool has(std::uint64_t number) const noexcept;
    [[nodiscard]] std::uint64_t number() const noexcept { return all_.empty() ? 0 : all_.back().number; }
    [[nodiscard]] std::uint64_t outermost() const noexcept { return all_.empty() ? 0 : all_.front().number; }
    [[nodiscard]] bool by_task() const noexcept { return !all_.empty() && all_.back().by_task; }
    /// A change in the innermost has failed.
    [[nodiscard]] bool is_spoiled() const noexcept { return all_.back().is_spoiled; }
    void spoil() noexcept { all_.back().is_spoiled = true; }
    /// Calls `each` with every block that the innermost has made.
    template <class Function>
    void for_each_made(Function&& each) const {
        if (is_inner()) {
            space_->for_each_made_in_part(each);
        } else {
            space_->made().for_each([&](const void* block, std::size_t) { each(block); });
        }
    }

private:
    struct level {
        std::uint64_t number = 0;
        bool by_task = false;
        bool is_spoiled = false;
        std::unique_ptr<transact_scope> all;
        std::unique_ptr<transaction> changes;
        bool is_dropped = false;
    };

    manager* heap_;
    workspace* space_;
    std::vector<level> all_;
};

}  // namespace holdfast::python
