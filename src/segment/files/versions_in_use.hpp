// Which versions of the heap other processes read. What a commit asks and tells, without the file that they share
// (reader_table.hpp), so that the crash simulator can answer.
#pragma once

#include <cstdint>

#include "log/log.hpp"

namespace holdfast::segment {

enum class dead_readers {
    do_not_count,
    may_count,  ///< for some milliseconds: for who asks at each commit
};

class versions_in_use {
public:
    versions_in_use() = default;
    versions_in_use(const versions_in_use&) = delete;
    versions_in_use& operator=(const versions_in_use&) = delete;
    virtual ~versions_in_use() = default;

    /// The oldest version that somebody reads, or is about to; `newest` where nobody reads an older one. What is told
    /// by publish() before is seen by every reader that it does not count.
    [[nodiscard]] virtual std::uint64_t oldest(std::uint64_t newest) noexcept = 0;
    /// Somebody reads, be it the newest version.
    [[nodiscard]] virtual bool any(dead_readers dead) noexcept = 0;
    /// From now on until admit() nobody begins to read. False, and nothing is changed, where somebody reads or is about
    /// to.
    [[nodiscard]] virtual bool try_exclude() noexcept = 0;
    virtual void admit() noexcept = 0;
    /// This version is durable: readers may go to it.
    virtual void publish(std::uint64_t version) noexcept = 0;
    /// For people: what the writer's log has cost.
    virtual void tell(const log::log_counts& /*costs*/) noexcept {}
    /// Home has all of this version.
    virtual void publish_home(std::uint64_t version) noexcept = 0;
};

}  // namespace holdfast::segment
