// Reads the records behind a mark, in sequence (LOG-1). The log may grow meanwhile. Who reads beside a writer knows
// from it how far records are durable (LOG-7), and holds back the release of what it has not read yet (LOG-5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "log/log_files.hpp"
#include "log/log_format.hpp"
#include "log/record_chain.hpp"

namespace holdfast::log {

/// The file that was read last, for who reads the log again and again. It counts while nobody may have released it: the
/// mark that is read from lies in it. Empty: none.
struct kept_file {
    std::shared_ptr<persist::file> file;
    std::uint64_t number = 0;
    std::uint64_t size = 0;
};

/// Not thread-safe.
class log_reader {
public:
    /// `kept`: is opened by no name, and the file that this one reads last takes its place. Null: none is kept.
    log_reader(const log_files& files, std::uint64_t key, const mark& begin, kept_file* kept = nullptr) noexcept
        : files_(files), key_(key), end_(begin), kept_(kept) {}

    /// False: no further record counts. It may be asked again later.
    [[nodiscard]] base::result<bool> next(record& found);
    /// `corrupt` where the log ends before the record `sequence`, which the caller knows to be durable.
    [[nodiscard]] base::result<void> require(std::uint64_t sequence, record& found);
    /// Where next() found none: whether something else than an earlier record, or nothing, lies where the next one may.
    /// It is what a loss of power left of a record, or damage.
    [[nodiscard]] base::result<bool> is_torn();
    /// Where next() found none: whether a sound record of a later sequence lies in the files that was made when the
    /// next one was durable, which was damaged since (LOG-15). Records that were written together a loss of power may
    /// tear in any order.
    [[nodiscard]] base::result<bool> is_followed();
    /// Of the last record read.
    [[nodiscard]] const mark& end() const noexcept { return end_; }

private:
    [[nodiscard]] base::result<bool> read(std::uint64_t number, std::uint64_t offset, record& found);
    [[nodiscard]] base::result<bool> has_begun(std::uint64_t number, std::uint64_t offset);
    [[nodiscard]] base::result<bool> has_later(std::uint64_t number, std::uint64_t offset);
    [[nodiscard]] base::result<std::span<const std::byte>> bytes(std::uint64_t offset, std::uint64_t length);
    [[nodiscard]] base::result<bool> open(std::uint64_t number);
    void forget() noexcept {
        file_.reset();
        window_.clear();
    }

    const log_files& files_;
    std::uint64_t key_;
    mark end_;
    kept_file* kept_;
    std::shared_ptr<persist::file> file_;
    std::uint64_t number_ = 0;
    std::uint64_t size_ = 0;
    std::vector<std::byte> window_;
    std::uint64_t window_at_ = 0;
    std::uint64_t read_ahead_ = base::page_size;  ///< grows: who asks often finds one small record
};

}  // namespace holdfast::log
