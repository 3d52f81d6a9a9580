#include "c_api/heap_users.hpp"

#include <utility>

namespace holdfast::c_api {

constinit thread_local heap_users::last_record heap_users::last;

heap_users::~heap_users() {
    for (std::unique_ptr<record> each = std::move(first_); each != nullptr;) {  // one by one: there may be many
        each = std::move(each->next);
    }
}

heap_users::record& heap_users::find_or_make() {
    const base::scoped_lock lock(mutex_);
    record* mine = first_.get();
    while (mine != nullptr && mine->thread != &last) {
        mine = mine->next.get();
    }
    if (mine == nullptr) {
        auto made = std::make_unique<record>(&last);
        made->next = std::move(first_);
        first_ = std::move(made);
        mine = first_.get();
    }
    last = {number_, mine};
    return *mine;
}

std::uint64_t heap_users::count() noexcept {
    const base::scoped_lock lock(mutex_);
    std::uint64_t all = 0;
    for (const record* each = first_.get(); each != nullptr; each = each->next.get()) {
        all += each->begun.load(std::memory_order_relaxed) - each->ended_by_others.load(std::memory_order_relaxed);
    }
    return all;
}

}  // namespace holdfast::c_api
