// Numbers about an open heap, and the reports of its functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <holdfast/detail/needs_cxx20.hpp>

namespace holdfast {

/// What this open did with the records of durability `atomic`.
struct recovery_report {
    std::uint64_t lanes = 0;
    std::uint64_t pending = 0;      ///< that no checkpoint (page-cache: no completed call) had made obsolete
    std::uint64_t replayed = 0;     ///< words rewritten on media
    std::uint64_t rolled_back = 0;  ///< records that the crash cut off: their calls had not returned
    std::uint64_t time_ns = 0;
};

/// All sizes in bytes.
struct heap_statistics {
    std::uint64_t reserved_address_space = 0;
    std::uint64_t user_bytes = 0;       ///< backed by files
    std::uint64_t allocated_bytes = 0;  ///< blocks, rounded to their class
    std::uint64_t allocated_blocks = 0;
    std::uint64_t free_bytes = 0;          ///< user_bytes - allocated_bytes
    std::uint64_t largest_free_block = 0;  ///< without growing the heap
    std::uint64_t apparent_bytes = 0;      ///< sum of file sizes
    std::uint64_t charged_bytes = 0;       ///< by the file system
    std::uint64_t segments = 0;
    std::uint64_t segment_size = 0;  ///< user bytes of one
    std::uint64_t slabs = 0;
    std::uint64_t extents = 0;       ///< allocated, no slabs
    std::uint64_t guard_ranges = 0;  ///< of a hardened heap: 64 KiB each, neither allocated nor free
    std::uint64_t named_objects = 0;
    std::uint64_t unique_objects = 0;
    std::uint64_t anonymous_objects = 0;
    std::uint64_t commit_sequence = 0;
    std::int64_t last_commit_ns = 0;  ///< nanoseconds since 1970, UTC; 0 where there was none
    std::int64_t created_ns = 0;
    std::uint64_t recoveries = 0;    ///< how often a writer recovered the heap from a crash
    bool recovered = false;          ///< this open found a heap that was not closed
    bool rolled_forward = false;     ///< and had commits from the log
    std::uint64_t log_commits = 0;   ///< so many
    std::uint64_t log_bytes = 0;     ///< of the log
    std::uint64_t maximum_size = 0;  ///< open_options::maximum_size; 0: the reservation alone
    /// Durability `commit`: memory whose stores the kernel notes, so that a commit finds them faster (docs/limits.md).
    std::uint64_t watched_bytes = 0;
    /// Durability `commit`: memory of this process that is not the page cache's: pages that were stored to since the
    /// last commit, pinned ones, and up to 4 MiB that the next commits probably find again. To count it takes 0.2 to 7
    /// ms for each GiB of the heap.
    std::uint64_t private_bytes = 0;
};

/// A process that reads a heap beside its writer.
struct reader_report {
    std::uint64_t process = 0;      ///< in its own namespace
    bool is_opening = false;        ///< it has no version yet
    std::uint64_t version = 0;      ///< manager::version() there
    std::int64_t since_ns = 0;      ///< of its open; nanoseconds since 1970, UTC
    std::int64_t refreshed_ns = 0;  ///< when it came to its version
};

/// Other processes, and this one, that have a heap open.
struct neighbours_report {
    std::uint64_t writer = 0;          ///< process, in durability `commit`; 0: none
    std::uint64_t newest_version = 0;  ///< that is durable
    std::uint64_t home_version = 0;    ///< up to which the log may forget
    std::vector<reader_report> readers;
};

/// What manager::refresh() did.
struct refresh_report {
    std::uint64_t version = 0;  ///< manager::version() from now on
    std::uint64_t commits = 0;  ///< that came since the version before
    std::uint64_t pages = 0;    ///< of 4 KiB that were read from the log for them
};

/// What manager::shrink() did, in bytes.
struct shrink_report {
    std::uint64_t charged_before = 0;  ///< by the file system, for all files
    std::uint64_t charged_after = 0;
    std::uint64_t apparent_before = 0;  ///< sum of file sizes
    std::uint64_t apparent_after = 0;
    std::uint64_t given_back = 0;  ///< free space that became holes
    std::uint64_t shortened = 0;   ///< user space removed at the end
};

struct shrink_options {
    std::uint64_t target = 0;  ///< bytes: stop when the file system charges no more
    /// In the thread of shrink(), before the first step and after each.
    std::function<void(const shrink_report&)> progress;
};

/// The last commit() of this process. Durability `atomic` and `collect`: sync_ns and total_ns alone.
struct commit_report {
    std::uint64_t dirty_pages = 0;   ///< found by the scan
    std::uint64_t fresh_pages = 0;   ///< written once
    std::uint64_t logged_pages = 0;  ///< what changed of them was written to the log first
    std::uint64_t written_bytes = 0;
    std::uint64_t scan_ns = 0;
    std::uint64_t write_ns = 0;
    std::uint64_t sync_ns = 0;
    std::uint64_t total_ns = 0;
};

}  // namespace holdfast
