// The guests of an open heap, by name. Thread-safe, but for leave().
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include <holdfast/detail/heap_guests.hpp>

#include "base/result.hpp"
#include "base/thread_annotations.hpp"

namespace holdfast::detail {

class heap_guests {
public:
    [[nodiscard]] std::shared_ptr<heap_guest> find_or_make(const std::string& name, manager_core& heap,
                                                           const guest_access::maker& make) HF_EXCLUDES(mutex_);
    /// Runs a commit of the heap, which returns a result, and what guests do before and behind it. `of_memory`: the
    /// heap's memory becomes durable by it alone (durability `commit`).
    template <class Commit>
    [[nodiscard]] auto around_commit(const std::string& path, bool of_memory, Commit commit) -> decltype(commit()) {
        if (auto ready = before_commit(path); !ready) {
            return std::move(ready).error();
        }
        auto done = commit();
        if (of_memory) {
            behind_commit(done.ok());
        }
        return done;
    }
    void leave() noexcept;

private:
    [[nodiscard]] base::result<void> before_commit(const std::string& path) HF_EXCLUDES(mutex_);
    void behind_commit(bool done) noexcept HF_EXCLUDES(mutex_);

    base::mutex mutex_;
    std::map<std::string, std::shared_ptr<heap_guest>> guests_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::detail
