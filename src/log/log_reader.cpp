#include "log/log_reader.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::log {

namespace {

constexpr std::uint64_t read_at_once = 64 * base::kibibyte;

}  // namespace

base::result<bool> log_reader::open(std::uint64_t number) {
    if (file_ != nullptr && number_ == number) {
        return true;
    }
    if (kept_ != nullptr && kept_->file != nullptr && kept_->number == number) {
        forget();
        file_ = kept_->file;
        size_ = kept_->size;
        number_ = number;
        return true;
    }
    HF_TRY_ASSIGN(const bool exists, files_.exists(number));
    if (!exists) {
        return false;
    }
    forget();
    HF_TRY_ASSIGN(file_, files_.open(number, persist::access_mode::read_only));
    HF_TRY_ASSIGN(size_, file_->size());
    size_ = std::min(size_, files_.file_size());
    number_ = number;
    if (kept_ != nullptr) {
        *kept_ = {file_, number_, size_};
    }
    return true;
}

/// Empty where the file is shorter.
base::result<std::span<const std::byte>> log_reader::bytes(std::uint64_t offset, std::uint64_t length) {
    if (offset > size_ || length > size_ - offset) {
        return std::span<const std::byte>();
    }
    if (offset < window_at_ || offset + length > window_at_ + window_.size()) {
        window_.resize(std::min(std::max(length, read_ahead_), size_ - offset));
        read_ahead_ = std::min(2 * read_ahead_, read_at_once);
        window_at_ = offset;
        if (auto done = file_->read_at(offset, window_); !done) {
            forget();
            return std::move(done).error();
        }
    }
    return std::span<const std::byte>(window_).subspan(offset - window_at_, length);
}

/// LOG-1. A file that is not there holds no record.
base::result<bool> log_reader::read(std::uint64_t number, std::uint64_t offset, record& found) {
    HF_TRY_ASSIGN(const bool exists, open(number));
    if (!exists) {
        return false;
    }
    HF_TRY_ASSIGN(const auto head, bytes(offset, header_size));
    const auto header = next_header(head, end_, key_);
    if (!header.has_value()) {
        return false;
    }
    HF_TRY_ASSIGN(const auto all, bytes(offset, space_of(header->size)));
    return read_record(*header, all, number * files_.file_size() + offset, key_, found);
}

base::result<bool> log_reader::next(record& found) {
    const std::uint64_t number = end_.position / files_.file_size();
    const std::uint64_t offset = end_.position % files_.file_size();
    for (;;) {
        const bool may_be_stale = !window_.empty();
        HF_TRY_ASSIGN(bool is_there, read(number, offset, found));
        if (!is_there && offset != 0) {
            HF_TRY_ASSIGN(is_there, read(number + 1, 0, found));
        }
        if (is_there) {
            end_ = found.end;
            return true;
        }
        forget();
        if (!may_be_stale) {  // what was read ahead may have been written meanwhile
            return false;
        }
    }
}

/// A record that was written whole has zeros behind it, but at the end of its file; a file that is used again begins
/// with a record that came before.
base::result<bool> log_reader::has_begun(std::uint64_t number, std::uint64_t offset) {
    HF_TRY_ASSIGN(const bool exists, open(number));
    if (!exists || offset >= size_) {
        return false;
    }
    record_header_on_media header{};
    HF_TRY_ASSIGN(const auto there, bytes(offset, std::min(header_size, size_ - offset)));
    std::memcpy(&header, there.data(), there.size());
    if (header.checksum == 0) {
        return false;
    }
    const bool was_before = header.sequence <= end_.sequence && header.checksum == checksum_of(header, key_);
    return offset != 0 || !was_before;
}

base::result<bool> log_reader::is_torn() {
    const std::uint64_t number = end_.position / files_.file_size();
    const std::uint64_t offset = end_.position % files_.file_size();
    HF_TRY_ASSIGN(const bool here, has_begun(number, offset));
    return here || offset == 0 ? base::result<bool>(here) : has_begun(number + 1, 0);
}

base::result<bool> log_reader::has_later(std::uint64_t number, std::uint64_t offset) {
    HF_TRY_ASSIGN(const bool exists, open(number));
    for (; exists && offset + header_size <= size_; offset += record_alignment) {
        HF_TRY_ASSIGN(const auto there, bytes(offset, header_size));
        record_header_on_media header{};
        std::memcpy(&header, there.data(), sizeof header);
        const std::uint64_t next = end_.sequence + 1;
        const std::uint64_t in_doubt = header.in_doubt;
        if (header.sequence > next && header.checksum == checksum_of(header, key_) && in_doubt != most_in_doubt &&
            header.sequence - in_doubt > next) {
            return true;
        }
    }
    return false;
}

base::result<bool> log_reader::is_followed() {
    const std::uint64_t first = end_.position / files_.file_size();
    HF_TRY_ASSIGN(const auto numbers, files_.numbers());
    for (const std::uint64_t number : numbers) {
        if (number < first) {
            continue;
        }
        const std::uint64_t offset = number == first ? end_.position % files_.file_size() : 0;
        HF_TRY_ASSIGN(const bool found, has_later(number, offset));
        if (found) {
            return true;
        }
    }
    return false;
}

base::result<void> log_reader::require(std::uint64_t sequence, record& found) {
    HF_TRY_ASSIGN(const bool is_there, next(found));
    if (is_there || end_.sequence >= sequence) {
        return {};
    }
    base::failure what;
    what.code = base::failure_code::corrupt;
    what.path = files_.path_of(end_.position / files_.file_size());
    what.field = "last record of the log";
    what.found = fmt::format("{}", end_.sequence);
    what.expected = fmt::format("at least {}", sequence);
    return what;
}

}  // namespace holdfast::log
