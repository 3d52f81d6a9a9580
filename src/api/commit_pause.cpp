#include "api/commit_pause.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto patience = 2s;
/// Of one attempt: a thread whose change waits for what this one holds goes on between two.
constexpr auto shortest_attempt = 1ms;
constexpr auto longest_attempt = 50ms;

}  // namespace

base::result<void> commit_pause::begin() {
    const auto deadline = clock::now() + patience;
    for (auto wait = shortest_attempt;; wait = std::min<std::chrono::milliseconds>(2 * wait, longest_attempt)) {
        const char* const busy = try_to_begin(std::min(deadline, clock::now() + wait));
        if (busy == nullptr) {
            return {};
        }
        end();
        if (clock::now() >= deadline) {
            return base::failure{base::failure_code::concurrent_modification,
                                 heap_.files().paths().directory(),
                                 busy_store_.empty() ? "commit" : fmt::format("store {}", busy_store_),
                                 busy,
                                 fmt::format("its end within {} s", patience.count()),
                                 "the commit was refused, the last one stands: commit again when no other thread is "
                                 "in a call or has a transaction open",
                                 0};
        }
        std::this_thread::sleep_for(wait / 10);
    }
}

const char* commit_pause::try_to_begin(clock::time_point until) {
    busy_store_.clear();
    objects_ = std::unique_lock(heap_.object_mutex());
    auto known = all_.try_all();
    if (!known) {
        return "a thread that opens or removes a store";
    }
    is_closed_ = !was_closed_ && heap_.changes()->try_close(until);
    if (!is_closed_ && !was_closed_) {
        return "a thread within a call that changes the heap, or with an open transaction of the heap that has made "
               "blocks, or of a store";
    }
    while (!known->empty()) {
        while (!known->begin()->second->try_hold_writers()) {  // a sync of the store
            if (clock::now() >= until) {
                busy_store_ = known->begin()->first;
                return "a thread that writes it";
            }
            std::this_thread::yield();
        }
        participants_.insert(known->extract(known->begin()));
    }
    return nullptr;
}

base::result<void> commit_pause::prepare() { return prepare_commit(participants_, heap_.files().paths().directory()); }

void commit_pause::end() noexcept {
    for (const auto& each : participants_) {
        each.second->release_writers();
    }
    participants_.clear();
    if (std::exchange(is_closed_, false)) {
        slab::changes_of(heap_.blocks()).open();
    }
    if (objects_.owns_lock()) {
        objects_.unlock();
    }
}

void commit_pause::tell_participants(std::uint64_t before, bool has_failed) noexcept {
    const bool moved = last_commit() != before;
    if (!moved && !has_failed) {
        return;
    }
    // The record of a transaction may be in the log, and a failed sync have left it there.
    const bool done = moved && heap_.files().commits().log().appended(last_commit()).is_durable();
    for (const auto& each : participants_) {
        if (done) {
            each.second->after_commit();
        } else {
            each.second->commit_failed();
        }
    }
}

}  // namespace holdfast::detail
