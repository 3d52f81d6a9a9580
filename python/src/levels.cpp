// levels: begin, commit, abort.
#include "levels.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::python {

/// From the innermost on.
levels::~levels() {
    while (!all_.empty()) {
        all_.pop_back();
    }
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
    if (covers_all) {
        made.all = std::make_unique<transact_scope>(*heap_);
    }
    made.changes = std::make_unique<transaction>(*all_.back().changes, detail::contents_by_caller());
    space_->begin_part(*made.changes);
    all_.push_back(std::move(made));
}

void levels::begin_in(std::unique_ptr<transact_scope> all, std::uint64_t number, bool by_task) {
    all_.reserve(1);
    level made;
    made.number = number;
    made.by_task = by_task;
    made.all = std::move(all);
    made.changes = made.all != nullptr ? std::make_unique<transaction>(*heap_, detail::within_transact())
                                       : std::make_unique<transaction>(*heap_);
    space_->begin(*made.changes);
    all_.push_back(std::move(made));
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
    if (is_inner() && !last.is_dropped) {
        space_->drop_part(*(&last - 1)->changes);
        last.is_dropped = true;
    }
    last.changes->abort();
    if (last.all != nullptr) {
        last.all->abort();
    }
}

void levels::leave() noexcept {
    if (!is_inner()) {
        space_->end();
    } else if (!all_.back().is_dropped) {
        space_->keep_part(*(&all_.back() - 1)->changes);
    }
    all_.pop_back();
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
