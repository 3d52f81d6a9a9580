// The file `readers` of a heap (docs/format.md, "Readers"): which versions processes read beside the writer, and what
// the writer has told them. All of them map it.
//
//   - A slot is in use while the process that took it holds a lock on its byte: an open file description's, which ends
//     with its owner, and which numbers of processes that repeat in namespaces do not confuse.
//   - A reader takes a slot before it looks at the superblock, the log or a file's size, and says which version it has
//     when it has it (LOG-13). Until then it counts as reading the oldest.
//   - What is in the file is no more than an answer: nothing of the heap's content depends on it, and each value is
//     judged when it is read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "log/log.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/files/turn_locks.hpp"
#include "segment/files/versions_in_use.hpp"

namespace holdfast::segment {

/// Who has the heap open for writing.
enum class writer_kind : std::uint32_t {
    none = 0,
    opening = 1,    ///< readers wait until it says more
    beside = 2,     ///< durability `commit`: readers go beside it
    excluding = 3,  ///< the same, in a commit that gives space back: readers that come wait for its end
    alone = 4,      ///< no reader may come
};

struct reader_slot_on_file {
    std::atomic<std::uint64_t> holds;  ///< 0: free; 1: about to read; else 2 more than the version
    std::atomic<std::uint64_t> pid;    ///< in the reader's own namespace, for people
    std::atomic<std::int64_t> since_ns;
    std::atomic<std::int64_t> refreshed_ns;
    std::uint64_t reserved[4];
};
static_assert(sizeof(reader_slot_on_file) == 64);

struct reader_table_on_file {
    char magic[8];
    std::uint32_t version;
    std::uint32_t slots;
    std::atomic<std::uint32_t> writer;   ///< writer_kind
    std::atomic<std::uint32_t> changes;  ///< counts what publish() tells; readers wait for it (futex)
    std::atomic<std::uint32_t> waiting;  ///< threads that do
    std::atomic<std::uint32_t> used;     ///< slots that were ever in use lie below it
    std::atomic<std::uint64_t> session;  ///< of the writer: a random number
    std::atomic<std::uint64_t> durable;  ///< version
    std::atomic<std::uint64_t> home;     ///< version
    std::atomic<std::uint64_t> writer_pid;
    /// Of processes that take turns: who had the last one, and left the heap as its last record says. 0: nobody says
    /// so.
    std::atomic<std::uint64_t> left_by;
    std::atomic<std::uint64_t> left_mark;  ///< of boot, `durable` and `left_by`, which count while they agree with it
    // Of the writer's log since it was opened (log::log_counts).
    std::atomic<std::uint64_t> log_writes;
    std::atomic<std::uint64_t> log_bytes;
    std::atomic<std::uint64_t> log_ns;
    std::atomic<std::uint64_t> home_mark;  ///< of boot and `home`, which counts while they agree
    std::uint64_t reserved[498];
};
static_assert(sizeof(reader_table_on_file) == 4096);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

inline constexpr std::uint32_t reader_slots = 1024;
inline constexpr std::uint64_t reader_table_size =
    sizeof(reader_table_on_file) + reader_slots * sizeof(reader_slot_on_file);

/// One reader, for people.
struct reader_information {
    std::uint64_t pid = 0;
    std::optional<std::uint64_t> version;  ///< none: it is opening the heap
    std::int64_t since_ns = 0;             ///< since 1970, UTC
    std::int64_t refreshed_ns = 0;
};

/// What the file says of one moment, of those that live.
struct readers_glance {
    writer_kind writer = writer_kind::none;
    std::uint64_t writer_pid = 0;
    bool is_shared = false;     ///< by processes that change the heap by turns, perhaps none of them now
    std::uint64_t durable = 0;  ///< 0: no writer lets readers come
    std::uint64_t home = 0;     ///< the same
    log::log_counts costs;      ///< the same
    std::vector<reader_information> readers;
};

/// The file, mapped. Thread-safe, but for take() and the functions of the writer.
class reader_table final : public versions_in_use {
public:
    enum class missing_file { make, do_without };
    /// Null where there is none that readers could use. `make`: for the writer, who holds the heap's lock; it also
    /// makes a damaged one anew. Writes nothing to a file that is not a table of readers, unless it makes one.
    static base::result<std::unique_ptr<reader_table>> open(persist::storage& storage, const heap_paths& paths,
                                                            missing_file missing);
    /// Its name, where a mapping does not show what another machine has stored, so that there is no table. Empty: the
    /// heap lies in another one.
    [[nodiscard]] static std::string file_system_that_machines_share(persist::storage& storage,
                                                                     const heap_paths& paths);
    /// Reads the file and changes nothing of it: no slot, no lock. All zero where there is none.
    [[nodiscard]] static base::result<readers_glance> glance(persist::storage& storage, const heap_paths& paths);
    reader_table(const reader_table&) = delete;
    reader_table& operator=(const reader_table&) = delete;
    ~reader_table() override;

    // --- the writer ---
    void set_writer(writer_kind kind) noexcept;
    /// Readers may come from now on. `version`: of the last commit; `home`: of the files.
    void begin_session(std::uint64_t session, std::uint64_t version, std::uint64_t home) noexcept;
    [[nodiscard]] std::uint64_t oldest(std::uint64_t newest) noexcept override;
    [[nodiscard]] bool any(dead_readers dead) noexcept override;
    [[nodiscard]] bool try_exclude() noexcept override;
    void admit() noexcept override;
    void publish(std::uint64_t version) noexcept override;
    void tell(const log::log_counts& costs) noexcept override;
    void publish_home(std::uint64_t version) noexcept override;

    // --- processes that take turns ---
    [[nodiscard]] turn_locks turns() const noexcept { return {*file_, *table_}; }

    // --- a reader ---
    /// Takes a slot, as about to read. `limit` where all are taken.
    base::result<void> take();
    [[nodiscard]] bool has_slot() const noexcept { return own_.has_value(); }
    /// The slot's reader reads this version from now on.
    void set_version(std::uint64_t version) noexcept;
    void leave() noexcept;
    /// The slot stays this one's, and says of no version, until set_version(): its process is the writer meanwhile.
    void hide_version() noexcept;
    /// While it lives, neither home nor the beginning of the log goes on. Null: does nothing.
    class standstill {
    public:
        standstill(reader_table* readers, std::uint64_t version) noexcept;
        standstill(const standstill&) = delete;
        standstill& operator=(const standstill&) = delete;
        ~standstill();

    private:
        reader_table* readers_;
        std::uint64_t version_;
    };
    [[nodiscard]] writer_kind writer() const noexcept;
    [[nodiscard]] std::uint64_t session() const noexcept;
    [[nodiscard]] std::uint64_t durable() const noexcept;
    /// 0 where nobody says so in this boot of the machine.
    [[nodiscard]] std::uint64_t home() const noexcept;
    /// Waits until publish() tells a later version than `known`, or the time is over: false. What was told in the
    /// session `but`, if not 0, does not count.
    [[nodiscard]] bool wait_for(std::uint64_t known, std::chrono::nanoseconds longest,
                                std::uint64_t but = 0) const noexcept;

    /// Those that live, this process's own included.
    [[nodiscard]] std::vector<reader_information> readers();
    /// 0: none lives.
    [[nodiscard]] std::uint64_t writer_pid() const noexcept;

private:
    explicit reader_table(std::unique_ptr<persist::file> file) noexcept;
    base::result<void> map();
    [[nodiscard]] bool has_space() const;
    void format() noexcept;
    void pin_version(std::uint64_t version) noexcept;
    [[nodiscard]] bool is_sound() const noexcept;
    [[nodiscard]] std::uint32_t used() const noexcept;
    [[nodiscard]] bool try_to_lock(std::uint32_t slot) const noexcept;
    void unlock(std::uint32_t slot) const noexcept;
    void pin_everything(std::uint64_t version) noexcept;
    [[nodiscard]] bool is_locked(std::uint32_t slot) const noexcept;
    void bury_dead() noexcept;

    std::unique_ptr<persist::file> file_;
    reader_table_on_file* table_ = nullptr;
    reader_slot_on_file* slots_ = nullptr;
    std::uint64_t owner_;  ///< base::process_identity()
    std::optional<std::uint32_t> own_;
    bool is_writer_ = false;
    /// Some milliseconds have passed since it was said last.
    struct pace {
        std::chrono::steady_clock::time_point last{};
        [[nodiscard]] bool is_time() noexcept;
    };
    pace finds_dead_;
};

}  // namespace holdfast::segment
