// The lock file, which the processes that have a store open share: which commit is the last, who writes, who reads
// what. The first that opens a store writes it anew.
//
// Each process that opens the store gets a number, and keeps a byte of the lock file locked by its open file
// description: the kernel lets go of it when the process dies, so one that is killed holds nothing up
// (shared_lock.hpp). Numbers of processes and threads of the system lie here for people to read alone: they repeat in
// other namespaces.
//
// A child of fork() would keep the description, and so its parent's locks, and change the parent's slots when it closes
// the store. So it gets a copy of the shared memory, closes the file, and may only close the store.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "store/data_file.hpp"
#include "store/shared_lock.hpp"
#include "store/store_format.hpp"

namespace holdfast::store_engine {

/// A version of a store.
struct root {
    std::uint64_t transaction;
    tree_record main;
    std::uint64_t next_page;
};
static_assert(sizeof(root) == 64);

inline constexpr std::uint64_t no_transaction = ~std::uint64_t{0};
inline constexpr unsigned root_slots = 256;
inline constexpr unsigned most_readers = 16384;

/// A snapshot keeps pages from use. `process` 0: the slot is free.
struct alignas(64) reader_slot {
    base::atomic<std::uint64_t> transaction;  ///< no_transaction: none is read now
    base::atomic<std::uint32_t> process;
    base::atomic<std::int32_t> pid;      ///< for mdb_reader_list() alone
    base::atomic<std::uint64_t> thread;  ///< the same
};
static_assert(sizeof(reader_slot) == 64);

struct shared_header {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t header_bytes;
    std::array<std::uint8_t, 16> uuid;      ///< of the store
    std::uint64_t data_inode;               ///< of the data file
    base::atomic<std::uint32_t> ready;      ///< lock_ready, unless the file is being written
    base::atomic<std::uint32_t> panic;      ///< a sync failed: nothing can be promised any more
    base::atomic<std::uint32_t> died;       ///< a writer died; nobody looked at what it left yet
    lock_word writer;                       ///< of the one write transaction
    lock_word syncer;                       ///< its holder makes the log durable, for all
    lock_word table;                        ///< of readers
    base::atomic<std::uint32_t> committer;  ///< the process of the last commit, which makes it durable
    base::atomic<std::uint64_t> written;    ///< the last commit
    base::atomic<std::uint64_t> durable;    ///< the last that readers may see
    base::atomic<std::uint64_t> synced;     ///< the last that survives a loss of power
    base::atomic<std::uint64_t> checkpoint_sequence;
    base::atomic<std::uint64_t> checkpoint_transaction;
    base::atomic<std::uint64_t> log_page;
    base::atomic<std::uint64_t> log_pages;
    base::atomic<std::uint64_t> log_end;       ///< bytes of records since the checkpoint
    base::atomic<std::uint64_t> log_checksum;  ///< of the last of these records; 0: there is none
    base::atomic<std::uint64_t> log_epoch;     ///< of the records that follow; 0: the next writer begins one
    base::atomic<std::uint64_t> file_pages;    ///< pages below have blocks or are known as free
    base::atomic<std::uint64_t> log_synced;    ///< of log_end, durable
    base::atomic<std::uint64_t> map_size;      ///< of the last checkpoint
    base::atomic<std::uint32_t> unsynced;      ///< the checkpoint, or pages of it, may not be synced
    base::atomic<std::uint32_t> unpromised;    ///< made without syncs in this session: a loss of power may take all
    base::atomic<std::uint32_t> unreplayed;    ///< the first opener could not write what recovery rebuilt
    base::atomic<std::uint32_t> syncing;       ///< by who has the turn; it died in it where nobody has
    base::atomic<std::uint32_t> doubtful;      ///< what a process that died in a sync may have lost
    base::atomic<std::uint64_t> closed;      ///< checksum of the meta with which all was durable; 0: the store is open
    base::atomic<std::uint32_t> was_closed;  ///< when the first came: all that it shows is durable
    base::atomic<std::uint32_t> next_process;
    base::atomic<std::uint32_t> reader_limit;
    base::atomic<std::uint32_t> reader_count;  ///< slots ever used
    base::atomic<std::uint32_t> sync_turns;    ///< twice those that ended; odd: somebody sleeps until the next ends
    base::atomic<std::uint32_t> medium;        ///< of all writers, a persist::domain_kind; the first opener finds it
    std::array<std::array<base::atomic<std::uint64_t>, 8>, root_slots> roots;
};

inline constexpr std::uint32_t lock_ready = 0x52454144;
inline constexpr std::uint32_t doubtful_records = 1;  ///< of the log, that are not durable
inline constexpr std::uint32_t doubtful_pages = 2;    ///< since the last checkpoint
inline constexpr std::size_t readers_offset = (sizeof(shared_header) + 4095) / 4096 * 4096;
inline constexpr std::size_t shared_bytes = readers_offset + most_readers * sizeof(reader_slot);

/// Thread safety: any number of threads.
class shared_state final : public lock_party {
public:
    shared_state();
    ~shared_state();
    /// A child of the process that opened the store cannot use it.
    [[nodiscard]] bool is_of_parent() const noexcept { return is_of_parent_.load(std::memory_order_relaxed); }
    /// `first`: this process is alone with the store, and must call publish() or fail.
    [[nodiscard]] status open(const std::string& path, mode_t mode, bool& first);
    /// Whether a process has the store open, by a lock file that may not be written. Without one, none has.
    [[nodiscard]] static status ask_for_users(const std::string& path, bool& any) noexcept;
    /// Memory of this process instead of a lock file; the caller does what locks are for. `of_one_process`: no other
    /// may have the store open, nor a child of fork() touch it.
    [[nodiscard]] status open_private(bool of_one_process);
    /// Lets others in.
    void publish() noexcept;
    /// Whether no other process has the store open; then none comes in.
    [[nodiscard]] bool become_last() noexcept;
    /// To a first opener: `closed` of those before; 0: they were killed, or none is known.
    [[nodiscard]] std::uint64_t closed_before() const noexcept { return closed_before_; }

    [[nodiscard]] shared_header& header() const noexcept { return *header_; }
    [[nodiscard]] shared_mutex& writer() noexcept { return locks_[0]; }
    [[nodiscard]] sync_turn turn_to_sync() noexcept { return {locks_[1], header_->sync_turns}; }
    [[nodiscard]] bool is_alive(std::uint32_t process) const noexcept override;
    [[nodiscard]] bool is_held_here(const lock_word& word, std::uint32_t process) const noexcept override;
    [[nodiscard]] bool is_private() const noexcept { return !file_.valid(); }
    /// With the turn: a process that died in its sync may have been told that it failed.
    void doubt_sync_of_a_dead() noexcept {
        if (header_->syncing.load() != 0) {
            header_->doubtful.store(doubtful_records | doubtful_pages);
            header_->syncing.store(0);
        }
    }
    /// A sync, with the turn: who has the turn next learns whether this process died in it. A failure is everybody's.
    template <class Sync>
    [[nodiscard]] status announce(Sync sync) noexcept {
        doubt_sync_of_a_dead();
        header_->syncing.store(1);
        const status outcome = sync();
        if (outcome == status::ok) {
            header_->syncing.store(0);
        } else {
            header_->panic.store(1);
        }
        return outcome;
    }
    /// What a first opener sets.
    void initialise(const std::array<std::uint8_t, 16>& uuid, std::uint64_t inode, unsigned reader_limit) noexcept;

    void set_log(std::uint64_t page, std::uint64_t pages) noexcept;
    /// Whether pages are part of the log; false also while it moves.
    [[nodiscard]] bool is_in_log(std::uint64_t start, std::uint64_t count) const noexcept;
    void set_root(const root& version) noexcept;
    /// False: the version is gone.
    [[nodiscard]] bool get_root(std::uint64_t transaction, root& version) const noexcept;

    /// For a thread or a transaction. readers_full, or an error of the system.
    [[nodiscard]] status take_slot(reader_slot*& slot) noexcept;
    static void give_slot(reader_slot& slot) noexcept;
    /// Announces the last durable version, so that its pages stay, and returns it.
    [[nodiscard]] root enter(reader_slot& slot) const noexcept;
    /// Of processes that died; returns how many slots.
    unsigned clear_dead() noexcept;
    void give_own_slots() noexcept;
    /// Adds the versions that readers see, unsorted.
    void collect_snapshots(std::vector<std::uint64_t>& snapshots) const;
    [[nodiscard]] bool is_read() const;
    [[nodiscard]] reader_slot& slot(unsigned index) const noexcept { return readers_[index]; }

private:
    friend class forks;
    void leave_to_parent() noexcept;
    [[nodiscard]] status map(std::size_t backed);
    [[nodiscard]] status extend_table(unsigned slots) noexcept;
    [[nodiscard]] unsigned clear_dead_locked() noexcept;
    [[nodiscard]] status take_number() noexcept;
    void find_locks() noexcept;
    void abandon_locks(bool any) noexcept;
    [[nodiscard]] shared_mutex& table() noexcept { return locks_[2]; }

    descriptor file_;
    mapping memory_;
    shared_header* header_ = nullptr;
    reader_slot* readers_ = nullptr;
    std::array<shared_mutex, 3> locks_;
    std::atomic<bool> is_of_parent_{false};
    bool of_one_process_ = false;
    std::uint64_t closed_before_ = 0;
};

}  // namespace holdfast::store_engine
