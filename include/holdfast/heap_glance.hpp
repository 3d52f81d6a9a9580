// What the files of a heap say to somebody who does not open it, as a monitor of many heaps.
#pragma once

#include <cstdint>
#include <string>

#include <holdfast/lane_information.hpp>
#include <holdfast/statistics.hpp>

namespace holdfast {

/// What the writer of a heap does at a moment.
enum class heap_use {
    closed,   ///< nobody has it open for writing, and the last writer has closed it
    open,     ///< a process has it open for writing, or processes do that change it by turns
    crashed,  ///< nobody has, and the last writer did not close it: the next open recovers it
};

/// What the files of a heap say. Of a heap that changes meanwhile, some numbers may
/// be those of a moment later than others.
struct heap_glance {
    std::string uuid;
    std::uint32_t format = 0;  ///< version
    heap_use use = heap_use::closed;
    std::uint64_t commits = 0;    ///< since the heap was made; creation is one
    std::int64_t created_ns = 0;  ///< since 1970, UTC
    /// Of the last commit, if it is in the superblock. The superblock does not follow each commit: 0.
    std::int64_t last_commit_ns = 0;
    std::uint64_t recoveries = 0;
    std::uint64_t user_bytes = 0;       ///< backed by files
    std::uint64_t maximum_size = 0;     ///< open_options::maximum_size; 0: none
    std::uint64_t apparent_bytes = 0;   ///< sum of file sizes
    std::uint64_t charged_bytes = 0;    ///< by the file system
    std::uint64_t log_bytes = 0;        ///< of them, by the log and the lanes
    std::uint64_t available_bytes = 0;  ///< for files where the heap lies; 2^64 - 1: unknown
    /// The writer, in durability `commit`, and the readers beside it.
    neighbours_report neighbours;
    // Of the writer in durability `commit` since it began to write; 0 where there is none.
    std::uint64_t log_writes = 0;  ///< each one is a sync, and covers all transactions that waited for it
    std::uint64_t log_written_bytes = 0;
    std::uint64_t log_writing_ns = 0;
    lane_information lanes;  ///< the durability; of a writer in `atomic`, its counters
};

/// Reads the superblock, the file `readers`, what the lanes say of their writer, and the sizes of files: in time
/// proportional to the number of files, whoever has the heap open. Takes no lock, so nobody waits for it or is refused
/// because of it, and writes nothing. Thread-safe. Throws error: `not_found`, `not_a_heap`, `missing`, `corrupt`,
/// `permission`, `version_unsupported`, as an open does.
[[nodiscard]] heap_glance glance_at(const std::string& path);

}  // namespace holdfast
