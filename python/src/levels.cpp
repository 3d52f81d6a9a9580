// levels: begin, commit, abort.
#include "levels.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::python {

/// all_ has room.
void levels::add(level made) noexcept {
    space_->begin(*made.changes);
    all_.push_back(std::move(made));
}

void levels::begin(std::uint64_t number, bool by_task, bool covers_all) {
    if (all_.empty()) {
        begin_in(covers_all ? std::make_unique<transact_scope>(*heap_) : nullptr, number, by_task);
        return;
    }
    all_.reserve(all_.size() + 1);
    level made;
    made.number = number;
    made.by_task = by_task;
    made.before = space_->remember();
    if (covers_all) {
        made.all = std::make_unique<transact_scope>(*heap_);
    }
    made.changes = std::make_unique<transaction>(*all_.back().changes);
    add(std::move(made));
}

void levels::begin_in(std::unique_ptr<transact_scope> all, std::uint64_t number, bool by_task) {
    all_.reserve(1);
    level made;
    made.number = number;
    made.by_task = by_task;
    made.all = std::move(all);
    made.changes = made.all != nullptr ? std::make_unique<transaction>(*heap_, detail::within_transact())
                                       : std::make_unique<transaction>(*heap_);
    add(std::move(made));
}

ticket levels::commit(bool durable) {
    level& last = all_.back();
    last.changes->commit();
    if (last.all == nullptr) {
        return {};
    }
    if (durable || is_inner()) {
        last.all->commit();
        return {};
    }
    return last.all->commit_later();
}

void levels::abort() {
    level& last = all_.back();
    last.changes->abort();
    if (last.all != nullptr) {
        last.all->abort();
    }
    if (is_inner()) {
        space_->go_back(std::move(last.before));
        last.before = {};
    }
}

void levels::leave() noexcept {
    if (all_.size() == 1) {
        space_->end();
        all_.pop_back();
        return;
    }
    all_.pop_back();
    space_->begin(*all_.back().changes);
}

/// From the innermost on.
void levels::clear() noexcept {
    while (!all_.empty()) {
        leave();
    }
}

/// Only the thread that has begun a scope may end it, and does so where it ends itself.
void levels::leave_to_owner() noexcept {
    for (level& each : all_) {
        static_cast<void>(each.all.release());
    }
}

bool levels::has(std::uint64_t number) const noexcept {
    return std::ranges::find(all_, number, &level::number) != all_.end();
}

}  // namespace holdfast::python
