// Which pages of a store were checked in this process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "store/data_file.hpp"
#include "store/status.hpp"

namespace holdfast::store_engine {

/// A bit a page. Thread safety: all but extend(), for which who calls it has a lock, by any number of threads.
class checked_pages {
public:
    /// For at least twice `pages` pages; none is checked then.
    [[nodiscard]] status extend(std::uint64_t pages) noexcept;
    /// The file is another mapping now, in which nobody reads yet.
    [[nodiscard]] status begin_anew(std::uint64_t pages) noexcept;
    [[nodiscard]] std::uint64_t pages() const noexcept { return longest_->pages; }
    [[nodiscard]] bool has(std::uint64_t number) const noexcept {
        const word* words = words_.load(std::memory_order_relaxed);
        return (words[number / 64].load(std::memory_order_relaxed) >> (number % 64) & 1U) != 0;
    }
    void add(std::uint64_t number) const noexcept {
        word* words = words_.load(std::memory_order_relaxed);
        words[number / 64].fetch_or(std::uint64_t{1} << (number % 64), std::memory_order_relaxed);
    }
    /// For pages that get other bytes than a page's: a store that leads to them is damaged.
    void remove(std::uint64_t start, std::uint64_t count) const noexcept;

private:
    using word = std::atomic<std::uint64_t>;

    /// A longer one begins with none; older ones may be in use by other threads.
    struct bits {
        mapping memory;
        std::uint64_t pages = 0;
        std::unique_ptr<bits> older;
    };
    std::unique_ptr<bits> longest_;
    std::atomic<const bits*> all_{nullptr};  ///< longest_
    std::atomic<word*> words_{nullptr};      ///< of the longest
};

}  // namespace holdfast::store_engine
