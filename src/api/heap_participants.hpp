// The participants of an open heap, by name. Thread-safe, but for leave().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/detail/heap_participants.hpp>

#include "base/mutex.hpp"
#include "base/result.hpp"

namespace holdfast::segment {
class heap_files;
}  // namespace holdfast::segment

namespace holdfast::detail {

class heap_participants {
public:
    [[nodiscard]] std::shared_ptr<heap_participant> find_or_make(const std::string& name, manager_core& heap,
                                                                 const participant_access::maker& make)
        HF_EXCLUDES(mutex_);
    [[nodiscard]] bool remove(const std::string& name, const std::function<void()>& removal) HF_EXCLUDES(mutex_);
    /// Where a commit does not stop other threads: what participants do before it.
    [[nodiscard]] base::result<void> before_commit(const std::string& path) HF_EXCLUDES(mutex_);
    using named_participants = std::map<std::string, std::shared_ptr<heap_participant>>;
    /// For a thread that has locks: nothing while another thread finds, makes or removes one. May throw std::bad_alloc.
    [[nodiscard]] std::optional<named_participants> try_all() HF_NO_THREAD_SAFETY_ANALYSIS;
    void leave() noexcept;
    /// False, and nothing changed, where somebody has one open.
    [[nodiscard]] bool forget_unused() HF_EXCLUDES(mutex_);

    // Files of participants. Only in makers and removals, and where no other thread uses the heap.
    /// The heap's durable state names them until its next commit.
    [[nodiscard]] std::vector<std::uint64_t>& going_files() noexcept { return going_files_; }
    /// Behind that commit, while the heap is open.
    void remove_going_files(segment::heap_files& of) noexcept;
    /// True the first time.
    [[nodiscard]] bool begins() noexcept { return !std::exchange(has_begun_, true); }

private:
    base::mutex mutex_;
    named_participants participants_ HF_GUARDED_BY(mutex_);
    std::vector<std::uint64_t> going_files_;
    bool has_begun_ = false;
};

/// heap_participant::before_commit() of all. Fails with poisoned.
[[nodiscard]] base::result<void> prepare_commit(const heap_participants::named_participants& participants,
                                                const std::string& path);

}  // namespace holdfast::detail
