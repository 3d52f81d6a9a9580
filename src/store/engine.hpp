// The store below its trees: pages of a file, versions of them, commits. Everything that is durable, and everything
// that processes share, goes through here.
//
// A commit writes pages that no version uses (in memory that is the file's), then one record to the log; when the
// record is durable, so is the commit, for one sync that all who wait share. A checkpoint, which comes when the log is
// full or a commit is larger than it, makes the pages themselves durable, then a meta that names their root; then the
// log begins anew. Recovery is the last checkpoint and the valid records behind it.
//
// Thread safety: functions of readers by any number of threads; those of a writer by who has begun to write.
#pragma once

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
#include "store/write_set.hpp"

namespace holdfast::store {

struct engine_options {
    std::string data_path;
    std::string lock_path;
    bool read_only = false;
    bool write_map = false;
    bool no_lock = false;
    bool no_sync = false;
    bool random = false;
    mode_t mode = 0664;
    std::size_t limit = 0;  ///< bytes of pages, 0: none
    unsigned reader_limit = most_readers;
};

class engine {
public:
    engine() = default;
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;
    ~engine() { close(); }

    [[nodiscard]] status open(const engine_options& options);
    /// The last process to close a store leaves it with an empty log.
    void close() noexcept;

    // --- pages ---

    /// A page or run that a version of the store uses; its first use in this process checks it.
    [[nodiscard]] status get(std::uint64_t number, std::uint64_t next_page, const page_header*& page) const {
        page = file_.page(number);
        if (number >= meta_pages && number < next_page && is_verified(number)) {
            return status::ok;
        }
        return verify(number, next_page);
    }
    [[nodiscard]] page_header* writable(std::uint64_t number) const noexcept { return file_.writable_page(number); }
    /// The address at which users see what writable() returned.
    [[nodiscard]] const std::byte* as_read(const std::byte* written) const noexcept {
        return file_.read_address() + (written - file_.write_address());
    }

    // --- readers ---

    [[nodiscard]] status take_slot(reader_slot*& slot) noexcept { return shared_.take_slot(slot); }
    [[nodiscard]] root enter(reader_slot& slot);

    // --- the writer ---

    [[nodiscard]] status begin_write(shared_lock& lock, write_set& changes);
    /// Pages in a row that no version uses, in memory that may be written.
    [[nodiscard]] status allocate(write_set& changes, std::uint32_t count, std::uint64_t base, std::uint64_t& page);
    /// Ends the transaction. When it returns ok, readers see it, and it is durable unless no_sync.
    [[nodiscard]] status commit(write_set& changes, shared_lock& lock);
    void roll_back(write_set& changes, shared_lock& lock) noexcept;

    // --- all ---

    /// Makes commits durable that are not; with `force`, the pages, too: the log is empty then.
    [[nodiscard]] status sync(bool force);
    /// Lets no page be born that no reader of the log could find: writes a checkpoint, and gives space back.
    [[nodiscard]] status checkpoint_now();
    void set_no_sync(bool no_sync) noexcept { options_.no_sync = no_sync; }
    void set_limit(std::size_t bytes) noexcept { options_.limit = bytes; }
    /// The last version that readers see.
    [[nodiscard]] root last_root() const noexcept;
    [[nodiscard]] const data_file& file() const noexcept { return file_; }
    [[nodiscard]] shared_state& shared() noexcept { return shared_; }
    [[nodiscard]] const engine_options& options() const noexcept { return options_; }
    /// Which pages are free; for check. By who has begun to write.
    [[nodiscard]] const free_space& free_pages() const noexcept { return free_; }
    [[nodiscard]] const std::array<std::uint8_t, 16>& uuid() const noexcept { return shared_.header().uuid; }

private:
    using page_content = std::array<std::byte, page_size>;
    using page_table = std::unordered_map<std::uint64_t, std::unique_ptr<page_content>>;

    // engine_open.cpp
    [[nodiscard]] status join();
    [[nodiscard]] status create();
    [[nodiscard]] status start();
    [[nodiscard]] status read_meta(meta_on_media& meta) const;
    [[nodiscard]] status replay(const meta_on_media& meta);
    [[nodiscard]] status recover(const meta_on_media& meta);
    [[nodiscard]] status open_data(bool read_only, bool overlay);
    [[nodiscard]] status rebuild(const page_change& change, std::uint64_t next_page, page_table& pages) const;
    void adopt(const meta_on_media& meta) noexcept;
    [[nodiscard]] status take_in_metas();
    void end_overlay() noexcept;
    [[nodiscard]] status map_verified();

    // engine.cpp
    [[nodiscard]] bool is_verified(std::uint64_t number) const noexcept {
        return (verified_[number / 64].load(std::memory_order_relaxed) >> (number % 64) & 1U) != 0;
    }
    void set_verified(std::uint64_t number) const noexcept {
        verified_[number / 64].fetch_or(std::uint64_t{1} << (number % 64), std::memory_order_relaxed);
    }
    [[nodiscard]] status verify(std::uint64_t number, std::uint64_t next_page) const;
    [[nodiscard]] std::span<const std::byte> log_bytes() const noexcept;
    [[nodiscard]] std::uint64_t log_seed() const noexcept;
    [[nodiscard]] status take_in(bool died);
    [[nodiscard]] status load_free_list();
    [[nodiscard]] status apply(const log_record& record);
    [[nodiscard]] status after_a_death();
    void release_pages();
    [[nodiscard]] std::uint64_t quota_pages() const noexcept;

    // engine_commit.cpp
    void finish_pages(write_set& changes) const noexcept;
    void apply_own(const write_set& changes);
    [[nodiscard]] bool append(write_set& changes);
    [[nodiscard]] status sync_log(std::uint64_t transaction);
    [[nodiscard]] status checkpoint(write_set& changes);
    [[nodiscard]] status write_free_list(root& version, meta_on_media& meta);
    [[nodiscard]] status renew_log(root& version, meta_on_media& meta);
    [[nodiscard]] status write_meta(meta_on_media& meta);
    void give_space_back(std::uint64_t next_page) noexcept;
    [[nodiscard]] status take_pages(root& version, std::uint64_t count, std::uint64_t& start);
    [[nodiscard]] status grow(std::uint64_t next_page);
    void raise_durable(std::uint64_t transaction) noexcept;
    status fail(status what) noexcept;

    engine_options options_;
    data_file file_;
    shared_state shared_;
    mapping verified_memory_;
    std::atomic<std::uint64_t>* verified_ = nullptr;
    bool open_ = false;
    std::atomic<bool> overlay_{false};
    std::mutex overlay_mutex_;

    // Of the writer: valid while this process has the write lock.
    free_space free_;
    std::uint64_t free_transaction_ = no_transaction;  ///< the version that free_ belongs to; no_transaction: none
    std::uint64_t free_sequence_ = 0;                  ///< the checkpoint that it began with
    std::uint64_t free_offset_ = 0;                    ///< of the log, behind the last record that it has
    std::uint64_t free_list_page_ = 0;                 ///< where the last checkpoint's list lies
    std::uint64_t free_list_pages_ = 0;
    std::vector<std::byte> record_;
    std::vector<std::uint64_t> snapshots_;
};

}  // namespace holdfast::store
