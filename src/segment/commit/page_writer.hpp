// Writes pages where they belong, of several files at once where they are many: a file has one writer at a time in the
// kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/page_copies.hpp"

namespace holdfast::segment {

/// Adds its lifetime in nanoseconds.
class stopwatch {
public:
    explicit stopwatch(std::uint64_t& total) noexcept : total_(total), start_(std::chrono::steady_clock::now()) {}
    stopwatch(const stopwatch&) = delete;
    stopwatch& operator=(const stopwatch&) = delete;
    ~stopwatch() {
        total_ += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count());
    }

private:
    std::uint64_t& total_;
    std::chrono::steady_clock::time_point start_;
};

struct runs_of_file {
    std::shared_ptr<persist::file> file;
    std::span<const page_run> runs;
};

/// Not thread-safe.
class page_writer {
public:
    page_writer(const pages_to_write& pages, persist::site where, transaction_report& report)
        : pages_(pages), where_(where), report_(report) {}

    /// Calls follow the order of the pages.
    base::result<void> write(std::span<const runs_of_file> files);

private:
    struct piece {
        persist::file* file = nullptr;
        page_run run;
        std::uint64_t first = 0;  ///< its number among all pages
        std::uint64_t turn = 0;
    };

    void add_pieces(const runs_of_file& of, std::vector<piece>& to);
    [[nodiscard]] static std::uint64_t page_count_of(std::span<const piece> pieces) noexcept;
    void write_pieces(std::span<const piece> pieces, std::atomic<std::size_t>& next) noexcept;
    base::result<void> write_piece(const piece& one, std::optional<page_copies>& copies);

    const pages_to_write& pages_;
    persist::site where_;
    transaction_report& report_;
    std::uint64_t next_ = 0;
    base::mutex mutex_;
    std::optional<base::failure> failure_ HF_GUARDED_BY(mutex_);
};

}  // namespace holdfast::segment
