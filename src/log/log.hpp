// A log of records of variable length, in files of one size that are used again (docs/decisions/0036-one-log.md, where
// its invariants are numbered; docs/format.md, "Log files"). One write and one sync make records durable, for all
// threads that wait. What a record means, and where the log begins, is its caller's:
//
//     open(..., begin, visit)    visits the records behind the mark `begin`
//     append(kind, parts)        a record in memory, behind all others
//     write_out(sequence)        it is in its file, and durable with the next that is: for parts of something long
//     wait(sequence)             it is durable
//     release(mark)              the caller has made the mark durable as the new beginning
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/function_ref.hpp"
#include "base/mutex.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "log/group_commit.hpp"
#include "log/log_files.hpp"
#include "log/log_format.hpp"
#include "log/log_reader.hpp"
#include "log/record_chain.hpp"

namespace holdfast::log {

struct log_options {
    log_place place;
    std::uint64_t key = 0;  ///< seeds all checksums: records of another log never count
    /// One that no writer of this log ever had (LOG-2); nothing: a random number.
    std::optional<std::uint64_t> epoch;
    /// The files from this position on are in use, though open() is to visit later records alone: all before the mark
    /// that it is given are durable. Nothing: from that mark on.
    std::optional<std::uint64_t> oldest{};
    /// Somebody may still read files before that. They stay as they are, until a later open().
    bool leaves_older = false;
    /// Other processes read each record at once: they had better find it in the page cache.
    bool is_read_at_once = false;
};

/// Since the log was opened, for people.
struct log_counts {
    std::uint64_t writes = 0;  ///< that made all records durable which threads waited for
    std::uint64_t bytes = 0;
    std::uint64_t nanoseconds = 0;
};

/// Thread-safe, except release(), which one thread calls at a time.
class log {
public:
    /// An error of `visit` is returned.
    using visitor = base::function_ref<base::result<void>(const record&)>;

    /// Visits all records that count, then makes them durable (LOG-7, LOG-8). Makes the first file of an empty log.
    /// `missing` or `corrupt` where the file of `begin` is not there or its size is another. The storage stays.
    [[nodiscard]] static base::result<std::unique_ptr<log>> open(persist::storage& storage, const log_options& options,
                                                                 const mark& begin, visitor visit);
    /// As open(), of a log that nobody is going to write: for a caller that empties it. Needs no space.
    [[nodiscard]] static base::result<mark> decide_end(persist::storage& storage, const log_options& options,
                                                       const mark& begin, visitor visit);
    log(const log&) = delete;
    log& operator=(const log&) = delete;
    ~log() = default;

    /// Returns where the record ends. `no_space`: it is not in the log, and the log is as before. `poisoned`: LOG-8.
    [[nodiscard]] base::result<mark> append(std::uint16_t kind, std::span<const std::span<const std::byte>> parts) {
        return append(kind, parts, false);
    }
    [[nodiscard]] base::result<mark> append(std::uint16_t kind, std::span<const std::byte> payload) {
        return append(kind, {&payload, 1});
    }
    /// Of a record that others follow at once: a new file is not filled before they are written.
    [[nodiscard]] base::result<mark> append_part(std::uint16_t kind, std::span<const std::byte> payload) {
        return append(kind, {&payload, 1}, true);
    }
    /// The record with this sequence, and all before it, are durable on return. `poisoned`: they may be or not, and
    /// nothing is durable from now on.
    [[nodiscard]] base::result<void> wait(std::uint64_t sequence);
    /// The record with this sequence, and all before it, need no memory of this process on return, and no sync has made
    /// them durable. `poisoned`: as wait().
    [[nodiscard]] base::result<void> write_out(std::uint64_t sequence);
    [[nodiscard]] bool is_durable(std::uint64_t sequence) const noexcept { return group_.durable() >= sequence; }
    /// What the last write took, until it was durable.
    [[nodiscard]] std::chrono::nanoseconds last_write() const noexcept {
        return std::chrono::nanoseconds(last_write_.load(std::memory_order_relaxed));
    }

    /// The numbers of one moment may be those of two writes.
    [[nodiscard]] log_counts counts() const noexcept {
        return {writes_.load(std::memory_order_relaxed), written_.load(std::memory_order_relaxed),
                writing_ns_.load(std::memory_order_relaxed)};
    }

    /// So many files are there and stay, those in use included: until they are full, append() needs no space. Nor does
    /// it need memory within a file, for so many bytes until the next write. `content`: of files that may never be
    /// written; `later` costs the first record of such a file what it saves here. `no_space`: some files may be there.
    [[nodiscard]] base::result<void> reserve(std::uint64_t files, std::uint64_t bytes,
                                             file_content content = file_content::written);

    /// Another writer had the log, and each record up to `end` is durable; so are all that this one has appended, which
    /// nobody waits for. This one goes on there, in its own epoch: it left no torn record to be taken for a whole one
    /// (LOG-2). `oldest` and `leaves_older` as in log_options. False where it cannot tell, or has no memory: nothing
    /// has changed, and open() finds where the log goes on. No other call runs meanwhile.
    [[nodiscard]] bool go_on_behind(const mark& end, std::uint64_t oldest, bool leaves_older);

    /// Nothing before `begin`, which is durable as the beginning, is read any more (LOG-5).
    void release(const mark& begin) noexcept;

    /// Of the last record appended, or of another writer's.
    [[nodiscard]] mark end() const noexcept;
    [[nodiscard]] std::uint64_t file_size() const noexcept { return files_.file_size(); }
    [[nodiscard]] std::uint64_t largest_payload() const noexcept { return files_.file_size() - header_size; }

private:
    struct alignas(base::page_size) page {
        std::byte bytes[base::page_size];
    };
    /// What is to be written to one file, from the page of the first byte that is not durable.
    struct portion {
        std::shared_ptr<persist::file> file;
        std::uint64_t number = 0;
        std::uint64_t first = 0;  ///< offset in the file
        std::uint64_t begin = 0;  ///< of what was not written yet
        std::uint64_t end = 0;
        std::vector<page> pages;

        [[nodiscard]] std::byte* at(std::uint64_t offset) noexcept { return pages.data()->bytes + (offset - first); }
    };

    log(log_files files, const log_options& options, std::uint64_t epoch, const mark& end);

    base::result<mark> append(std::uint16_t kind, std::span<const std::span<const std::byte>> parts, bool is_part);
    [[nodiscard]] static base::result<std::unique_ptr<log>> read(persist::storage& storage, const log_options& options,
                                                                 const mark& begin, visitor visit);
    [[nodiscard]] base::result<void> write_again(const mark& begin) HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> void_tail() HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> void_header(std::uint64_t number, std::uint64_t offset);
    [[nodiscard]] base::result<void> begin_writing() HF_REQUIRES(mutex_);
    [[nodiscard]] base::result<void> begin_file(file_content content) HF_REQUIRES(mutex_);
    void make_room(std::uint64_t bytes) HF_REQUIRES(mutex_);
    enum class then {
        sync,
        leave,  ///< the sync to a later write
    };
    [[nodiscard]] std::optional<std::uint64_t> write(then what) noexcept;
    [[nodiscard]] base::result<void> write_taken(then what, std::uint64_t& bytes);
    [[nodiscard]] base::result<void> sync_earlier();
    [[nodiscard]] base::result<void> find_spares() HF_REQUIRES(mutex_);
    /// That pending_ is written to.
    [[nodiscard]] std::uint64_t last_file() const noexcept HF_REQUIRES(mutex_) {
        return (end_.position - pending_.back().end) / files_.file_size();
    }
    [[nodiscard]] std::optional<std::uint64_t> take() noexcept;
    void count(then what, std::uint64_t bytes, std::chrono::nanoseconds time) noexcept;
    void note(base::failure why) noexcept HF_REQUIRES(mutex_);
    [[nodiscard]] base::failure poisoned() const HF_REQUIRES(mutex_);

    log_files files_;
    std::uint64_t key_;
    std::uint64_t epoch_;
    mutable base::mutex mutex_;
    mark end_ HF_GUARDED_BY(mutex_);
    std::vector<portion> pending_ HF_GUARDED_BY(mutex_);  ///< the last one grows
    std::vector<page> spare_pages_ HF_GUARDED_BY(mutex_);
    bool are_names_new_ HF_GUARDED_BY(mutex_) = false;  ///< and perhaps not durable
    // The leader's:
    std::vector<portion> taken_;           ///< what it writes
    std::vector<std::uint64_t> unsynced_;  ///< numbers of files: as many are not held open
    bool syncs_names_ = false;

    std::uint64_t first_file_ HF_GUARDED_BY(mutex_) = 0;
    bool leaves_older_ HF_GUARDED_BY(mutex_);
    const bool bypasses_cache_;
    bool knows_spares_ HF_GUARDED_BY(mutex_) = false;  ///< no other writer has used them since
    std::optional<base::failure> failure_ HF_GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> written_out_;   ///< sequence
    std::atomic<std::int64_t> last_write_{0};  ///< nanoseconds
    // Stored by the leader alone.
    std::atomic<std::uint64_t> writes_{0};
    std::atomic<std::uint64_t> written_{0};  ///< bytes
    std::atomic<std::uint64_t> writing_ns_{0};
    group_commit<> group_;
};

}  // namespace holdfast::log
