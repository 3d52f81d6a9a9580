// The guests of an open heap, by name. Thread-safe, but for leave().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_guests.hpp>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"

namespace holdfast::segment {
class heap_files;
}  // namespace holdfast::segment

namespace holdfast::detail {

class heap_guests {
public:
    [[nodiscard]] std::shared_ptr<heap_guest> find_or_make(const std::string& name, manager_core& heap,
                                                           const guest_access::maker& make) HF_EXCLUDES(mutex_);
    [[nodiscard]] bool remove(const std::string& name, const std::function<void()>& removal) HF_EXCLUDES(mutex_);
    /// Runs what commits the heap and returns a result, and what guests do before and behind it. `of_memory`: it alone
    /// makes the heap's memory durable (durability `commit`). `number`: of the last commit that succeeded; `commit` may
    /// return without one, or fail behind one.
    template <class Number, class Commit>
    [[nodiscard]] auto around_commit(const std::string& path, bool of_memory, Number number, Commit commit)
        -> decltype(commit()) {
        if (auto ready = before_commit(path); !ready) {
            return std::move(ready).error();
        }
        const std::uint64_t before = of_memory ? number() : 0;
        const auto tell_guests = [&](bool has_failed) noexcept {
            if (of_memory && (has_failed || number() != before)) {
                behind_commit(number() != before);
            }
        };
        try {
            auto done = commit();
            tell_guests(!done.ok());
            return done;
        } catch (...) {
            tell_guests(true);
            throw;
        }
    }
    void leave() noexcept;

    // Files of guests. Only in makers and removals, and where no other thread uses the heap.
    /// The heap's durable state names them until its next commit.
    [[nodiscard]] std::vector<std::uint64_t>& going_files() noexcept { return going_files_; }
    /// Behind that commit, while the heap is open.
    void remove_going_files(segment::heap_files& of) noexcept;
    /// True the first time.
    [[nodiscard]] bool begins() noexcept { return !std::exchange(has_begun_, true); }

private:
    [[nodiscard]] base::result<void> before_commit(const std::string& path) HF_EXCLUDES(mutex_);
    void behind_commit(bool done) noexcept HF_EXCLUDES(mutex_);

    base::mutex mutex_;
    std::map<std::string, std::shared_ptr<heap_guest>> guests_ HF_GUARDED_BY(mutex_);
    std::vector<std::uint64_t> going_files_;
    bool has_begun_ = false;
};

}  // namespace holdfast::detail
