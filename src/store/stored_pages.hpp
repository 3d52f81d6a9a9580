// A store's pages and versions, below the engine that changes them (engine.hpp): how they are found, checked, and
// rebuilt after a crash.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/data_file.hpp"
#include "store/free_space.hpp"
#include "store/log.hpp"
#include "store/shared_state.hpp"

namespace holdfast::store_engine {

struct engine_options {
    std::string data_path;
    std::string lock_path;
    bool read_only = false;
    bool write_map = false;
    bool no_lock = false;
    bool no_sync = false;
    bool random = false;
    mode_t mode = 0664;
    std::size_t limit = 0;  ///< bytes of the file; 0: the store's own
    unsigned reader_limit = most_readers;
    persist::storage* storage = &persist::posix_storage();
    bool in_heap = false;                     ///< this process alone has the file, and the heap says what counts
    std::uint64_t accepted = 0;               ///< in a heap: the last commit that counts
    std::array<std::uint8_t, 16> identity{};  ///< in a heap: the uuid that the store has, or gets
};

/// Thread safety: get() and what returns a reference, by any number of threads; the rest by who has the write lock, or
/// while the store is opened.
class stored_pages {
public:
    stored_pages() = default;
    stored_pages(const stored_pages&) = delete;
    stored_pages& operator=(const stored_pages&) = delete;

    /// A page or run that a version of the store uses, checked at its first use in this process.
    [[nodiscard]] status get(std::uint64_t number, std::uint64_t next_page, const page_header*& page) const {
        if (number < meta_pages || number >= next_page) {
            return status::page_not_found;  // it has not even an address
        }
        page = file_.page(number);
        return is_verified(number) ? status::ok : verify(number, next_page);
    }
    [[nodiscard]] page_header* writable(std::uint64_t number) const noexcept { return file_.writable_page(number); }
    /// The last version that readers see.
    [[nodiscard]] root last_root() const noexcept;
    [[nodiscard]] const data_file& file() const noexcept { return file_; }
    /// Gives the pages below `pages` addresses; those that were handed out stay. no_memory: there are too few.
    [[nodiscard]] status extend_addresses(std::uint64_t pages) noexcept;
    [[nodiscard]] shared_state& shared() noexcept { return shared_; }
    [[nodiscard]] const engine_options& options() const noexcept { return options_; }
    void set_no_sync(bool no_sync) noexcept { options_.no_sync = no_sync || in_memory_; }
    /// Of the file, in bytes, for this process; the largest becomes the store's with a commit. 0: the store's own.
    void set_limit(std::size_t bytes) noexcept { limit_.store(bytes); }
    /// What the file may take; 0: there is no limit.
    [[nodiscard]] std::size_t limit() const noexcept {
        const std::size_t own = limit_.load();
        return own != 0 ? own : shared_.header().map_size.load();
    }
    /// For check, by who has begun to write.
    [[nodiscard]] const free_space& free_pages() const noexcept { return free_; }
    /// By a reader: for each page 0, or the transaction that freed it, 1 where any may take the page. As of the
    /// version, or of the last checkpoint if that is younger. EAGAIN: one checkpoint followed another meanwhile.
    [[nodiscard]] status free_pages_at(std::uint64_t version, std::vector<std::uint64_t>& died);
    [[nodiscard]] const std::array<std::uint8_t, 16>& uuid() const noexcept { return shared_.header().uuid; }

protected:
    using word_of_pages = std::atomic<std::uint64_t>;

    ~stored_pages() = default;

    [[nodiscard]] bool is_verified(std::uint64_t number) const noexcept {
        const word_of_pages* words = verified_.load(std::memory_order_relaxed);
        return (words[number / 64].load(std::memory_order_relaxed) >> (number % 64) & 1U) != 0;
    }
    void set_verified(std::uint64_t number) const noexcept {
        word_of_pages* words = verified_.load(std::memory_order_relaxed);
        words[number / 64].fetch_or(std::uint64_t{1} << (number % 64), std::memory_order_relaxed);
    }
    /// For pages that get other bytes than a page's: a store that leads to them is damaged.
    void set_unverified(std::uint64_t start, std::uint64_t count) const noexcept;
    [[nodiscard]] status verify(std::uint64_t number, std::uint64_t next_page) const;
    [[nodiscard]] status open_data(bool read_only, bool overlay);
    /// Gives the file blocks for at least `pages` pages, and addresses.
    [[nodiscard]] status grow_file(std::uint64_t pages, std::uint64_t most = max_pages) noexcept;

    /// The valid meta with the greater sequence, of those without a commit beyond the accepted one. An invalid one was
    /// being written when power failed.
    [[nodiscard]] status read_meta(meta_on_media& best) const;
    /// Whether a program that knows no long keys refuses the store, whichever meta it finds.
    [[nodiscard]] bool may_have_long_keys() const noexcept;
    /// Makes a checkpoint the store's last version.
    void adopt(const meta_on_media& meta) noexcept;
    void raise_durable(std::uint64_t transaction) noexcept;
    /// Of the records of the present checkpoint.
    struct log_area {
        std::uint64_t page;
        std::uint64_t pages;
    };
    [[nodiscard]] log_area own_log() const noexcept;
    [[nodiscard]] std::span<const std::byte> log_bytes() const noexcept;
    [[nodiscard]] std::uint64_t own_log_key() const noexcept {
        return log_key(uuid(), shared_.header().checkpoint_sequence.load(std::memory_order_relaxed));
    }
    /// Whether the log begins with a record behind this checkpoint.
    [[nodiscard]] bool has_record_of(std::uint64_t sequence) const noexcept;
    [[nodiscard]] status replay(const meta_on_media& meta);

    /// Begins free_ anew, with the list of the last checkpoint.
    [[nodiscard]] status load_free_list();
    /// What a commit does to free_.
    [[nodiscard]] status apply(const log_record& record);

    engine_options options_;
    std::atomic<std::size_t> limit_{0};  ///< bytes of the file, of this process; 0: the store's own
    bool in_memory_ = false;             ///< no sync makes anything more durable
    data_file file_;
    shared_state shared_;
    std::atomic<bool> overlay_{false};  ///< what recovery rebuilt lies in memory of this process alone
    /// In a heap: the last commit that counts; for readers and a recovery, none lies behind it.
    std::atomic<std::uint64_t> accepted_{no_transaction};

    // Valid while this process has the write lock.
    free_space free_;
    log::mark free_end_{.sequence = no_transaction};  ///< of the last record in free_; no_transaction: free_ is void
    std::uint64_t free_sequence_ = 0;                 ///< the checkpoint that it began with
    std::uint64_t free_list_page_ = 0;                ///< of the last checkpoint
    std::uint64_t free_list_pages_ = 0;

private:
    using page_content = std::array<std::byte, page_size>;
    using page_table = std::unordered_map<std::uint64_t, std::unique_ptr<page_content>>;

    [[nodiscard]] status map_verified(std::uint64_t pages) noexcept;
    [[nodiscard]] bool read_free_pages(const meta_on_media& meta, std::uint64_t version,
                                       std::vector<std::uint64_t>& died);
    [[nodiscard]] bool reach(std::uint64_t pages) noexcept;
    [[nodiscard]] status rebuild(const page_change& change, std::uint64_t next_page, page_table& pages) const;
    [[nodiscard]] status write_rebuilt(const page_table& pages, std::uint64_t next_page);

    /// A bit a page that was checked. A longer one begins with none; older ones may be in use by other threads.
    struct checked_pages {
        mapping memory;
        std::uint64_t pages = 0;
        std::unique_ptr<checked_pages> older;
    };
    std::unique_ptr<checked_pages> checked_;
    std::atomic<const checked_pages*> all_checked_{nullptr};  ///< checked_
    std::atomic<word_of_pages*> verified_{nullptr};           ///< of the longest
    std::mutex addresses_mutex_;
};

}  // namespace holdfast::store_engine
