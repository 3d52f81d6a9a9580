// A store's pages and versions: how they are found and checked.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/checked_pages.hpp"
#include "store/data_file.hpp"
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
    bool emulated = false;                    ///< the file counts as persistent memory
    bool in_heap = false;                     ///< this process alone has the file, and the heap says what counts
    std::uint64_t accepted = 0;               ///< in a heap: the last commit that counts
    std::array<std::uint8_t, 16> identity{};  ///< in a heap: the uuid that the store has, or gets
};

/// Thread safety: get() and what returns a reference, by any number of threads; the rest by who has the write lock, or
/// while the store is opened.
class stored_pages {
public:
    void configure(const engine_options& options);
    [[nodiscard]] const engine_options& options() const noexcept { return options_; }
    void set_no_sync(bool no_sync) noexcept { options_.no_sync = no_sync || in_memory_; }
    [[nodiscard]] shared_state& shared() noexcept { return shared_; }
    [[nodiscard]] const shared_state& shared() const noexcept { return shared_; }

    // --- pages ---

    /// A page or run that a version of the store uses, checked at its first use in this process.
    [[nodiscard]] status get(std::uint64_t number, std::uint64_t next_page, const page_header*& page) const {
        if (number < meta_pages || number >= next_page) {
            return status::page_not_found;  // it has not even an address
        }
        page = file_.page(number);
        return checked_.has(number) ? status::ok : verify(number, next_page);
    }
    [[nodiscard]] page_header* writable(std::uint64_t number) const noexcept { return file_.writable_page(number); }
    [[nodiscard]] const checked_pages& checked() const noexcept { return checked_; }

    // --- the file ---

    [[nodiscard]] status open_data(bool read_only, bool overlay);
    /// Before open_data(): what those do who have the store open; else the first call finds out.
    void set_medium(persist::domain_kind medium) noexcept { medium_ = medium; }
    [[nodiscard]] data_file& file() noexcept { return file_; }
    [[nodiscard]] const data_file& file() const noexcept { return file_; }
    /// What recovery rebuilt lies in memory of this process alone.
    [[nodiscard]] bool is_overlay() const noexcept { return overlay_; }
    void set_overlay(bool overlay) noexcept { overlay_ = overlay; }
    /// Gives the pages below `pages` addresses; those that were handed out stay. no_memory: there are too few.
    [[nodiscard]] status extend_addresses(std::uint64_t pages) noexcept;
    /// extend_addresses() for a number that was read. False: no store has so many pages, or there are too few
    /// addresses.
    [[nodiscard]] bool reach(std::uint64_t pages) noexcept;
    [[nodiscard]] status reach_last_commit() noexcept;
    /// Gives the file blocks for at least `pages` pages, and addresses. Where writers make pages durable by
    /// instructions, which say nothing of the file, its size is durable on return.
    [[nodiscard]] status grow_file(std::uint64_t pages, std::uint64_t most = max_pages) noexcept;
    /// Of the file, in bytes, for this process; the largest becomes the store's with a commit. 0: the store's own.
    void set_limit(std::size_t bytes) noexcept { limit_.store(bytes); }
    [[nodiscard]] std::size_t own_limit() const noexcept { return limit_.load(); }
    /// What the file may take; 0: there is no limit.
    [[nodiscard]] std::size_t limit() const noexcept {
        const std::size_t own = limit_.load();
        return own != 0 ? own : shared_.header().map_size.load();
    }
    /// max_pages: there is no limit.
    [[nodiscard]] std::uint64_t limit_pages() const noexcept;

    // --- versions ---

    [[nodiscard]] const std::array<std::uint8_t, 16>& uuid() const noexcept { return shared_.header().uuid; }
    /// The last version that readers see.
    [[nodiscard]] root last_root() const noexcept;
    /// The valid meta with the greater sequence, of those without a commit beyond the accepted one. An invalid one was
    /// being written when power failed.
    [[nodiscard]] status read_meta(meta_on_media& best) const;
    /// Other processes learn of commits from the metas alone.
    [[nodiscard]] bool reads_metas() const noexcept { return shared_.is_private() && !options_.in_heap; }
    /// Whether a program that knows no long keys refuses the store, whichever meta it finds.
    [[nodiscard]] bool may_have_long_keys() const noexcept;
    /// Makes a checkpoint the store's last version.
    void adopt(const meta_on_media& meta) noexcept;
    void raise_durable(std::uint64_t transaction) noexcept;
    /// In a heap: the last commit that counts; for readers and a recovery, none lies behind it.
    [[nodiscard]] std::uint64_t accepted() const noexcept { return accepted_.load(); }
    void commit_prepared(std::uint64_t transaction) noexcept { accepted_.store(transaction); }
    /// Whether a checkpoint must be durable before what it replaces is gone.
    [[nodiscard]] bool must_be_durable() const noexcept;
    /// By any process, until all have closed the store. Returns `what`.
    status stop_writing(status what) noexcept;

    // --- the log ---

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
    [[nodiscard]] std::uint64_t log_parts() const noexcept { return options_.in_heap ? 2 : 1; }
    /// Whether the log begins with a record behind this checkpoint.
    [[nodiscard]] bool has_record_of(std::uint64_t sequence) const noexcept;

private:
    [[nodiscard]] status verify(std::uint64_t number, std::uint64_t next_page) const;

    engine_options options_;
    std::atomic<std::size_t> limit_{0};
    std::optional<persist::domain_kind> medium_;
    bool in_memory_ = false;  ///< no sync makes anything more durable
    data_file file_;
    shared_state shared_;
    std::atomic<bool> overlay_{false};
    std::atomic<std::uint64_t> accepted_{no_transaction};
    checked_pages checked_;
    std::mutex addresses_mutex_;
};

/// By a reader: for each page 0, or the transaction that freed it, 1 where any may take the page. As of the version, or
/// of the last checkpoint if that is younger. EAGAIN: one checkpoint followed another meanwhile.
[[nodiscard]] status free_pages_at(stored_pages& of, std::uint64_t version, std::vector<std::uint64_t>& died);

}  // namespace holdfast::store_engine
