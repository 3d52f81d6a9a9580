// The file of a store, mapped. When it outgrows its addresses, it is mapped anew, in a longer range; what was mapped
// before stays until the file is closed, so that addresses which a transaction handed out never end.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "persist/descriptor.hpp"
#include "persist/storage.hpp"
#include "store/page_format.hpp"
#include "store/persistent_memory.hpp"
#include "store/status.hpp"

namespace holdfast::store_engine {

using persist::descriptor;

inline constexpr int populate_for_stores = 23;  ///< MADV_POPULATE_WRITE, which older headers lack

class mapping {
public:
    mapping() = default;
    /// No core dump has a part for it: the file has what is in use of so many addresses.
    mapping(std::byte* start, std::size_t size) noexcept;
    mapping(mapping&& other) noexcept;
    mapping& operator=(mapping&& other) noexcept;
    ~mapping();
    [[nodiscard]] std::byte* start() const noexcept { return start_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    std::byte* start_ = nullptr;
    std::size_t size_ = 0;
};

struct file_options {
    bool read_only = false;
    bool write_map = false;  ///< what users see is writable
    bool random = false;     ///< no read-ahead
    bool overlay = false;    ///< changes are this process's own: replays a log that it may not write
    bool emulated = false;   ///< its mapping is treated as persistent memory, where `medium` does not say otherwise
    std::optional<persist::domain_kind> medium{};  ///< of those who have it open; nothing: this process is the first
    mode_t mode = 0664;
    std::size_t reserve = 0;  ///< bytes of addresses that the store is going to need
    persist::storage* storage = &persist::posix_storage();
};

/// Thread safety: reading by any number of threads; grow, trim and punch under the store's write lock; map_more by one
/// at a time.
class data_file {
public:
    [[nodiscard]] status open(const std::string& path, const file_options& options);

    /// What was this process's own is the file's now.
    [[nodiscard]] status end_overlay() noexcept;
    /// For readers; read-only memory unless options.write_map.
    [[nodiscard]] const page_header* page(std::uint64_t number) const noexcept {
        return reinterpret_cast<const page_header*>(read_address_.load(std::memory_order_relaxed) + number * page_size);
    }
    /// For writers and the log; another mapping of the same memory unless options.write_map.
    [[nodiscard]] page_header* writable_page(std::uint64_t number) const noexcept {
        return reinterpret_cast<page_header*>(write_address_.load(std::memory_order_relaxed) + number * page_size);
    }
    /// Whether it is an address of a page, also one that was handed out before the file was mapped anew.
    [[nodiscard]] bool has_address(const void* at) const noexcept;
    /// Pages below have addresses.
    [[nodiscard]] std::uint64_t reserved_pages() const noexcept {
        return reserved_pages_.load(std::memory_order_acquire);
    }
    /// Gives the pages below `pages` new addresses. The old ones stay.
    [[nodiscard]] status map_more(std::uint64_t pages) noexcept;
    /// Calls each(start, bytes) for every range of addresses at which values may have been handed out.
    template <class Each>
    void for_each_address_range(Each each) const {
        for (const range* one = ranges_.load(); one != nullptr; one = one->older.get()) {
            for (const mapping* const part : {&one->read, &one->write}) {
                each(part->start(), std::min<std::size_t>(part->size(), pages() * page_size));
            }
        }
    }
    /// Pages that have blocks, or are free and marked where they have none; the file may be longer.
    [[nodiscard]] std::uint64_t pages() const noexcept { return pages_.load(std::memory_order_relaxed); }
    [[nodiscard]] status refresh_size() noexcept;
    /// All bytes are zero, but for those of a first meta that begins with the magic of one that is being made. False
    /// for a file of more than `most` pages.
    [[nodiscard]] status is_blank(std::uint64_t most, bool& blank) const;
    /// The first pages in [from, end) that have no blocks, or may have none, to the next that has some. False: there
    /// are none.
    [[nodiscard]] bool find_hole(std::uint64_t from, std::uint64_t end, std::uint64_t& start,
                                 std::uint64_t& count) const noexcept;
    /// Tells a file from another one of its name.
    [[nodiscard]] status inode(std::uint64_t& number) const noexcept;
    void set_pages(std::uint64_t pages) noexcept { pages_.store(pages, std::memory_order_relaxed); }

    /// In steps, to at least `pages` pages with blocks of the file system, at most `most`. The pages have addresses.
    [[nodiscard]] status grow(std::uint64_t pages, std::uint64_t most) noexcept;
    /// A step of a file of so many pages.
    [[nodiscard]] static std::uint64_t growth_of(std::uint64_t pages) noexcept;
    [[nodiscard]] status reserve(std::uint64_t start, std::uint64_t count) noexcept;
    /// Of pages whose content means nothing.
    [[nodiscard]] status reserve_free(std::uint64_t start, std::uint64_t count) noexcept;
    /// Whether find_hole() finds all of them: other file systems may say that there are none.
    [[nodiscard]] bool tells_holes() const noexcept { return tells_holes_; }
    /// Whether a store to a page may ask for blocks of others, near it.
    [[nodiscard]] bool stores_fill_folios() const noexcept { return stores_fill_folios_; }
    /// With those behind pages(), of which the store knows nothing.
    [[nodiscard]] std::uint64_t pages_with_rest() const noexcept;
    /// Whether the file has pages behind pages(), with blocks or without.
    [[nodiscard]] bool is_longer() noexcept;
    /// Stores to the pages, which have blocks, bring no signal until a page near them loses its own. ENOSPC: one would.
    [[nodiscard]] status make_storable(std::uint64_t start, std::uint64_t count) noexcept;
    /// Gives blocks back; the pages then read as zeros. Failure does no harm.
    void punch(std::uint64_t start, std::uint64_t count) noexcept;
    /// Failure does no harm.
    void trim(std::uint64_t pages) noexcept;

    [[nodiscard]] status sync_all(persist::site where) const noexcept;
    /// Of bytes stored through write_address(), and what this thread has written.
    [[nodiscard]] status sync_range(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept;
    /// The file's name: a loss of power may take a new file with all that was synced.
    [[nodiscard]] status sync_name(persist::site where) const noexcept;
    /// `may_store`: to persistent memory, where a store is no signal.
    [[nodiscard]] status write(std::uint64_t offset, const void* bytes, std::size_t size, persist::site where,
                               bool may_store = true) const noexcept;
    /// Writes what is there over itself. The kernel takes pages that it failed to write for written, and shows them to
    /// who opens the file then: no sync would bring them to the medium.
    [[nodiscard]] status write_again(std::uint64_t offset, std::uint64_t size, persist::site where) const noexcept;

    /// In a child of fork, which does not use the file. What was read of it stays.
    void close_in_child() const noexcept {
        if (file_ != nullptr) {
            ::close(number());
        }
    }
    [[nodiscard]] int number() const noexcept { return file_ ? file_->native_handle() : -1; }
    [[nodiscard]] bool read_only() const noexcept { return options_.read_only; }
    /// Where it is there, what write() and write_again() wrote is durable with the next fence of the thread, and
    /// sync_range() makes no system call; where it has_called(), with the next sync_range() or sync_all().
    [[nodiscard]] const persistent_memory& memory() const noexcept { return memory_; }
    /// Its file system is memory, where a sync changes nothing, and that is not emulated to be persistent.
    [[nodiscard]] bool in_memory() const noexcept {
        return memory_.medium() != persist::domain_kind::emulated && file_->is_in_memory();
    }

private:
    /// The newest has all pages, the older ones the addresses that they had.
    struct range {
        mapping read;
        mapping write;
        std::unique_ptr<range> older;
    };
    [[nodiscard]] status map(std::size_t size) noexcept;
    [[nodiscard]] status give(std::uint64_t start, std::uint64_t count) noexcept;
    void map_page_by_page(const range& one) const noexcept;
    void expect_full_disk() noexcept;

    [[nodiscard]] status open_file(const std::string& path);

    std::unique_ptr<persist::file> file_;
    file_options options_;
    persistent_memory memory_{write_address_};
    std::unique_ptr<range> newest_;
    std::atomic<const range*> ranges_{nullptr};  ///< newest_
    std::atomic<std::byte*> read_address_{nullptr};
    std::atomic<std::byte*> write_address_{nullptr};
    std::atomic<std::uint64_t> reserved_pages_{0};
    std::atomic<std::uint64_t> pages_{0};
    bool was_full_ = false;  ///< the file system refused blocks
    bool stores_fill_folios_ = true;
    bool tells_holes_ = false;
    std::uint64_t pages_of_file_ = ~std::uint64_t{0};  ///< pages() that the whole file had
};

}  // namespace holdfast::store_engine
