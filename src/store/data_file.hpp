// The file of a store, mapped once: the pages' addresses never change while it is open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "store/page_format.hpp"
#include "store/status.hpp"

namespace holdfast::store_engine {

class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int number) noexcept : number_(number) {}
    descriptor(descriptor&& other) noexcept : number_(other.release()) {}
    descriptor& operator=(descriptor&& other) noexcept;
    ~descriptor();
    [[nodiscard]] int get() const noexcept { return number_; }
    [[nodiscard]] bool valid() const noexcept { return number_ >= 0; }
    int release() noexcept;

private:
    int number_ = -1;
};

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
    mode_t mode = 0664;
    std::size_t reserve = 0;  ///< least bytes of addresses
};

/// Thread safety: reading by any number of threads; grow, trim and punch under the store's write lock.
class data_file {
public:
    [[nodiscard]] status open(const std::string& path, const file_options& options);

    /// What was this process's own is the file's now.
    [[nodiscard]] status end_overlay() noexcept;
    /// For readers; read-only memory unless options.write_map.
    [[nodiscard]] const std::byte* read_address() const noexcept { return read_.start(); }
    /// For writers and the log; another mapping of the same memory unless options.write_map.
    [[nodiscard]] std::byte* write_address() const noexcept { return write_address_; }
    [[nodiscard]] const page_header* page(std::uint64_t number) const noexcept {
        return reinterpret_cast<const page_header*>(read_.start() + number * page_size);
    }
    [[nodiscard]] page_header* writable_page(std::uint64_t number) const noexcept {
        return reinterpret_cast<page_header*>(write_address_ + number * page_size);
    }
    [[nodiscard]] std::uint64_t reserved_pages() const noexcept { return read_.size() / page_size; }
    /// Pages that have blocks, or are free and marked where they have none; the file may be longer.
    [[nodiscard]] std::uint64_t pages() const noexcept { return pages_.load(std::memory_order_relaxed); }
    [[nodiscard]] status refresh_size() noexcept;
    /// All bytes are zero. False for a file of more than `most` pages.
    [[nodiscard]] status is_blank(std::uint64_t most, bool& blank) const;
    /// The first pages in [from, end) that have no blocks, or may have none. False: there are none.
    [[nodiscard]] bool find_hole(std::uint64_t from, std::uint64_t end, std::uint64_t& start,
                                 std::uint64_t& count) const noexcept;
    /// Tells a file from another one of its name.
    [[nodiscard]] status inode(std::uint64_t& number) const noexcept;
    void set_pages(std::uint64_t pages) noexcept { pages_.store(pages, std::memory_order_relaxed); }

    /// In steps, to at least `pages` pages with blocks of the file system.
    [[nodiscard]] status grow(std::uint64_t pages) noexcept;
    [[nodiscard]] status reserve(std::uint64_t start, std::uint64_t count) noexcept;
    /// Gives blocks back; the pages then read as zeros. Failure does no harm.
    void punch(std::uint64_t start, std::uint64_t count) noexcept;
    /// Failure does no harm.
    void trim(std::uint64_t pages) noexcept;

    [[nodiscard]] status sync_all() const noexcept;
    /// Of bytes written through write_address().
    [[nodiscard]] status sync_range(std::uint64_t offset, std::uint64_t size) const noexcept;
    [[nodiscard]] status write(std::uint64_t offset, const void* bytes, std::size_t size) const noexcept;
    /// Writes what is there over itself. The kernel takes pages that it failed to write for written, and shows them to
    /// who opens the file then: no sync would bring them to the medium.
    [[nodiscard]] status write_again(std::uint64_t offset, std::uint64_t size) const noexcept;

    [[nodiscard]] int number() const noexcept { return file_.get(); }
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
    [[nodiscard]] bool created() const noexcept { return created_; }
    /// Its file system is memory, where a sync changes nothing.
    [[nodiscard]] bool in_memory() const noexcept;

private:
    [[nodiscard]] status map(const file_options& options);

    descriptor file_;
    mapping read_;
    mapping write_;
    std::byte* write_address_ = nullptr;
    std::atomic<std::uint64_t> pages_{0};
    bool read_only_ = false;
    bool created_ = false;
};

}  // namespace holdfast::store_engine
