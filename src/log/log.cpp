#include "log/log.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "persist/sync.hpp"

namespace holdfast::log {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

constexpr std::uint64_t copied_at_once = 256 * base::kibibyte;

failure out_of_memory() {
    failure what;
    what.code = failure_code::out_of_memory;
    return what;
}

}  // namespace

log::log(log_files files, const log_options& options, std::uint64_t epoch, const mark& end)
    : files_(std::move(files)),
      key_(options.key),
      epoch_(epoch),
      end_(end),
      leaves_older_(options.leaves_older),
      bypasses_cache_(!options.is_read_at_once),
      written_out_(end.sequence),
      group_(end.sequence) {}

base::result<std::unique_ptr<log>> log::open(persist::storage& storage, const log_options& options, const mark& begin,
                                             visitor visit) {
    HF_TRY_ASSIGN(auto opened, read(storage, options, begin, visit));
    const base::scoped_lock lock(opened->mutex_);
    HF_TRY(opened->begin_writing());
    if (std::exchange(opened->are_names_new_, false)) {
        HF_TRY(opened->files_.sync_names());
    }
    return opened;
}

base::result<mark> log::decide_end(persist::storage& storage, const log_options& options, const mark& begin,
                                   visitor visit) {
    HF_TRY_ASSIGN(const auto opened, read(storage, options, begin, visit));
    return opened->end();
}

base::result<std::unique_ptr<log>> log::read(persist::storage& storage, const log_options& options, const mark& begin,
                                             visitor visit) {
    HF_ASSERT(options.place.file_size >= least_file_size && options.place.file_size <= largest_file_size &&
              options.place.file_size % page_size == 0);
    log_files files(storage, options.place);
    const std::uint64_t first = options.oldest.value_or(begin.position) / files.file_size();
    if (begin.position % files.file_size() != 0) {  // `missing` where it is
        HF_TRY_ASSIGN(const auto file, files.open(begin.position / files.file_size(), access_mode::read_only));
    }
    log_reader reader(files, options.key, begin);
    record each;
    for (;;) {
        HF_TRY_ASSIGN(const bool is_there, reader.next(each));
        if (!is_there) {
            break;
        }
        HF_TRY(visit(each));
    }
    std::uint64_t epoch = 0;
    if (options.epoch.has_value()) {
        epoch = *options.epoch;
    } else {
        HF_TRY_ASSIGN(epoch, random_number());
    }
    std::unique_ptr<log> opened(new log(std::move(files), options, epoch, reader.end()));
    const base::scoped_lock lock(opened->mutex_);
    opened->first_file_ = first;
    HF_TRY(opened->find_spares());
    HF_TRY(opened->write_again(begin));
    HF_TRY(opened->void_tail());
    return opened;
}

/// Another writer may have used them, or made some, since they were found.
base::result<void> log::find_spares() {
    if (knows_spares_) {
        return {};
    }
    HF_TRY_ASSIGN(const auto numbers, files_.numbers());
    const std::uint64_t last = end_.position / files_.file_size();
    const bool has_begun_last = end_.position % files_.file_size() != 0;
    files_.forget_spares();
    for (const std::uint64_t number : numbers) {
        if ((number < first_file_ && !leaves_older_) || number > last || (number == last && !has_begun_last)) {
            files_.add_spare(number);
        }
    }
    knows_spares_ = true;
    return {};
}

/// The kernel may take for written what a failed sync has lost.
base::result<void> log::write_again(const mark& begin) {
    const std::uint64_t size = files_.file_size();
    std::vector<std::byte> copy(copied_at_once);
    for (std::uint64_t at = begin.position; at < end_.position;) {
        const std::uint64_t end_of_file = std::min(end_.position, (at / size + 1) * size);
        HF_TRY_ASSIGN(const auto file, files_.open(at / size, access_mode::read_write));
        // A file may end where its last record does not.
        HF_TRY_ASSIGN(const std::uint64_t length, file->size());
        const std::uint64_t base = at / size * size;
        const std::uint64_t end = std::min(end_of_file, base + length);
        for (; at < end; at += copy.size()) {
            copy.resize(std::min<std::uint64_t>(copied_at_once, end - at));
            HF_TRY(file->read_at(at - base, copy));
            HF_TRY(file->write_at(at - base, copy, "log.again.write"));
        }
        HF_TRY(file->sync("log.again.sync"));
        at = end_of_file;
    }
    return {};
}

/// Where the next record may lie, an earlier writer's may be torn. The next one, where it repeats that one's payload,
/// would write what it lacks, and with it the records behind it would count (LOG-2).
base::result<void> log::void_tail() {
    const std::uint64_t number = end_.position / files_.file_size();
    const std::uint64_t offset = end_.position % files_.file_size();
    HF_TRY(void_header(number, offset));
    return offset == 0 ? base::result<void>() : void_header(number + 1, 0);
}

base::result<void> log::void_header(std::uint64_t number, std::uint64_t offset) {
    HF_TRY_ASSIGN(const bool exists, files_.exists(number));
    if (!exists) {
        return {};
    }
    HF_TRY_ASSIGN(const auto file, files_.open(number, access_mode::read_write));
    HF_TRY_ASSIGN(const std::uint64_t size, file->size());
    std::array<std::byte, header_size> header{};
    const auto there = std::span(header).first(std::min(header_size, size - std::min(size, offset)));
    HF_TRY(file->read_at(offset, there));
    if (std::ranges::all_of(there, [](std::byte each) { return each == std::byte{0}; })) {
        return {};
    }
    std::ranges::fill(there, std::byte{0});
    HF_TRY(file->write_at(offset, there, "log.void.write"));
    return file->sync("log.void.sync");
}

/// Behind the last record, in its file, or in one of its own.
base::result<void> log::begin_writing() {
    const std::uint64_t number = end_.position / files_.file_size();
    const std::uint64_t offset = end_.position % files_.file_size();
    if (offset == 0) {
        return begin_file(file_content::written);
    }
    HF_TRY_ASSIGN(auto file, files_.open(number, access_mode::read_write));
    portion next;
    next.file = std::move(file);
    next.number = number;
    next.first = base::align_down(offset, page_size);
    next.begin = next.end = offset;
    next.pages.resize(1);
    HF_TRY(next.file->read_at(next.first, {next.pages.front().bytes, offset - next.first}));
    if (bypasses_cache_) {
        next.file->bypass_page_cache();
    }
    pending_.push_back(std::move(next));
    return {};
}

/// The file behind the one that is being filled.
base::result<void> log::begin_file(file_content content) {
    const std::uint64_t size = files_.file_size();
    const std::uint64_t number = (end_.position + size - 1) / size;
    HF_TRY(find_spares());
    pending_.reserve(pending_.size() + 1);
    auto file = files_.make(number, content);
    if (!file) {
        if (persist::is_failed_sync(file.error())) {
            note(file.error());
            group_.fail();
        }
        return std::move(file).error();
    }
    are_names_new_ = true;
    portion next;
    next.file = std::move(file).value();
    next.number = number;
    if (bypasses_cache_) {
        next.file->bypass_page_cache();
    }
    pending_.push_back(std::move(next));
    end_.position = number * size;
    return {};
}

/// Zeros follow the last record, if only in a page of their own: so a reader sees that nothing was begun behind it.
void log::make_room(std::uint64_t bytes) {
    portion& last = pending_.back();
    const std::uint64_t end = std::min(last.end + bytes + record_alignment, files_.file_size());
    last.pages.resize((end - last.first + page_size - 1) / page_size);
}

base::result<mark> log::append(std::uint16_t kind, std::span<const std::span<const std::byte>> parts, bool is_part) {
    std::uint64_t size = 0;
    for (const auto part : parts) {
        size += part.size();
    }
    const base::scoped_lock lock(mutex_);
    if (failure_.has_value()) {
        return poisoned();
    }
    if (size > largest_payload()) {
        failure what;
        what.code = failure_code::limit;
        what.path = files_.path_of(end_.position / files_.file_size());
        what.field = "bytes of a record";
        what.found = fmt::format("{}", size);
        what.expected = fmt::format("at most {}", largest_payload());
        return what;
    }
    const std::uint64_t space = space_of(size);
    try {
        if (pending_.back().end + space > files_.file_size()) {
            // What fills most of the file takes longer to write than zeros would save.
            const bool is_long = is_part || space >= files_.file_size() / 2;
            HF_TRY(begin_file(is_long ? file_content::allocated : file_content::written));
        }
        make_room(space);
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
    portion& last = pending_.back();
    std::byte* const to = last.at(last.end);
    std::byte* rest = to + header_size;
    for (const auto part : parts) {
        if (!part.empty()) {
            std::memcpy(rest, part.data(), part.size());
        }
        rest += part.size();
    }
    end_ = seal({to, space}, size, end_, {kind, epoch_, key_, end_.sequence - group_.durable()});
    last.end += space;
    return end_;
}

base::result<void> log::wait(std::uint64_t sequence) {
    if (group_.wait(sequence, [this] { return write(then::sync); })) {
        return {};
    }
    const base::scoped_lock lock(mutex_);
    return poisoned();
}

base::result<void> log::write_out(std::uint64_t sequence) {
    if (group_.wait_until([&] { return written_out_.load(std::memory_order_acquire) >= sequence; },
                          [this] { return write(then::leave).has_value(); })) {
        return {};
    }
    const base::scoped_lock lock(mutex_);
    return poisoned();
}

/// Takes all that was appended. The page that is not full stays, to be written again with what follows; what is durable
/// in it stays as it is, byte for byte, so a torn write takes nothing away. Nothing: no memory.
std::optional<std::uint64_t> log::take() noexcept {
    const base::scoped_lock lock(mutex_);
    try {
        portion next;
        const portion& last = pending_.back();
        next.file = last.file;
        next.number = last.number;
        next.first = base::align_down(last.end, page_size);
        next.begin = next.end = last.end;
        next.pages = std::move(spare_pages_);
        if (next.first != next.end) {
            next.pages.push_back(last.pages.back());
        }
        taken_.reserve(1);
        pending_.swap(taken_);
        pending_.push_back(std::move(next));
        syncs_names_ = std::exchange(are_names_new_, false) || syncs_names_;
    } catch (const std::bad_alloc&) {
        note(out_of_memory());
        return {};
    }
    return end_.sequence;
}

/// Before the record that says that all of it counts: names of files, and what was written without a sync.
base::result<void> log::sync_earlier() {
    if (syncs_names_) {
        HF_TRY(files_.sync_names());
        syncs_names_ = false;
    }
    constexpr std::size_t most_open = 16;
    for (std::span<const std::uint64_t> left = unsynced_; !left.empty();) {
        std::vector<std::shared_ptr<persist::file>> files;
        for (; !left.empty() && files.size() < most_open; left = left.subspan(1)) {
            auto opened = files_.open(left.front(), access_mode::read_write);
            if (!opened && persist::is_out_of_descriptors(opened.error()) && !files.empty()) {
                break;  // the files that are open give theirs back
            }
            HF_TRY_ASSIGN(auto file, std::move(opened));
            files.push_back(std::move(file));
        }
        HF_TRY(persist::sync_together(files, "log.sync"));
    }
    unsynced_.clear();
    return {};
}

base::result<void> log::write_taken(then what, std::uint64_t& bytes) {
    if (what == then::sync) {
        HF_TRY(sync_earlier());
    }
    for (portion& each : taken_) {
        if (each.end == each.begin) {
            continue;  // all of it was written
        }
        const std::span<const std::byte> all(each.pages.data()->bytes, each.pages.size() * page_size);
        if (what == then::sync) {
            HF_TRY(each.file->write_through(each.first, all, "log.write"));
        } else {
            if (unsynced_.empty() || unsynced_.back() != each.number) {
                unsynced_.push_back(each.number);
            }
            HF_TRY(each.file->write_at(each.first, all, "log.write.part"));
        }
        bytes += all.size();
    }
    return {};
}

std::optional<std::uint64_t> log::write(then what) noexcept {
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<std::uint64_t> last = take();
    std::uint64_t bytes = 0;
    base::result<void> done;
    try {
        done = write_taken(what, bytes);
    } catch (const std::bad_alloc&) {
        done = out_of_memory();
    }
    if (!done) {
        const base::scoped_lock lock(mutex_);
        note(std::move(done).error());
        return {};
    }
    count(what, bytes, std::chrono::steady_clock::now() - begin);
    if (last.has_value()) {
        written_out_.store(*last, std::memory_order_release);
        const base::scoped_lock lock(mutex_);
        spare_pages_ = std::move(taken_.front().pages);
        spare_pages_.clear();
        taken_.clear();
    }
    return last;
}

void log::count(then what, std::uint64_t bytes, std::chrono::nanoseconds time) noexcept {
    const auto add = [](std::atomic<std::uint64_t>& to, std::uint64_t more) {
        to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    };
    if (what == then::sync) {
        last_write_.store(time.count(), std::memory_order_relaxed);
        add(writes_, 1);
    }
    add(written_, bytes);
    add(writing_ns_, static_cast<std::uint64_t>(time.count()));
}

base::result<void> log::reserve(std::uint64_t files, std::uint64_t bytes, file_content content) {
    const base::scoped_lock lock(mutex_);
    try {
        const std::uint64_t pages = bytes / page_size + 2;  // it begins and ends within pages
        pending_.back().pages.reserve(pages);
        spare_pages_.reserve(pages);
        taken_.reserve(1);
        HF_TRY(find_spares());
        files_.keep_spares(files);
        const std::uint64_t next = last_file() + 1;
        const std::uint64_t in_use = next - first_file_;
        return in_use >= files ? base::result<void>() : files_.reserve(files - in_use, next, content);
    } catch (const std::bad_alloc&) {
        return out_of_memory();
    }
}

/// The page that is not full is read as a whole: the file may bypass the page cache.
bool log::go_on_behind(const mark& end, std::uint64_t oldest, bool leaves_older) {
    const base::scoped_lock lock(mutex_);
    const std::uint64_t size = files_.file_size();
    const std::uint64_t offset = end.position % size;
    const std::uint64_t number = last_file();
    if (failure_.has_value() || pending_.size() != 1 || !is_durable(end_.sequence) || end.sequence < end_.sequence ||
        end.position < end_.position || offset == 0 || end.position / size != number) {
        return false;
    }
    portion& last = pending_.back();
    portion next;
    next.number = number;
    next.first = base::align_down(offset, page_size);
    next.begin = next.end = offset;
    try {
        next.pages = std::move(spare_pages_);
        next.pages.resize(1);
        std::byte* const page = next.pages.front().bytes;
        if (next.first != next.end && !last.file->read_at(next.first, {page, page_size})) {
            return false;
        }
        std::memset(page + (next.end - next.first), 0, page_size - (next.end - next.first));
    } catch (const std::bad_alloc&) {
        return false;
    }
    next.file = last.file;
    std::swap(last, next);
    spare_pages_ = std::move(next.pages);
    spare_pages_.clear();
    end_ = end;
    written_out_.store(end.sequence, std::memory_order_release);
    group_.raise(end.sequence);
    first_file_ = oldest / size;
    leaves_older_ = leaves_older;
    knows_spares_ = false;
    return true;
}

void log::release(const mark& begin) noexcept {
    HF_ASSERT(is_durable(begin.sequence));
    const base::scoped_lock lock(mutex_);
    HF_ASSERT(begin.position <= end_.position);
    const std::uint64_t number = begin.position / files_.file_size();
    try {
        if (!find_spares()) {
            return;
        }
        for (; first_file_ < number; ++first_file_) {
            files_.add_spare(first_file_);
        }
        files_.remove_spares();
    } catch (const std::bad_alloc&) {
        return;  // the next one does the rest
    }
}

mark log::end() const noexcept {
    const base::scoped_lock lock(mutex_);
    return end_;
}

/// The first one (LOG-8).
void log::note(failure why) noexcept {
    if (!failure_.has_value()) {
        failure_ = std::move(why);
    }
}

failure log::poisoned() const {
    failure what = failure_.value_or(failure{});
    what.code = failure_code::poisoned;
    if (what.path.empty()) {
        what.path = files_.path_of(end_.position / files_.file_size());
        what.field = "write";
        what.found = "no memory";
        what.expected = "free memory";
    }
    what.hint = "nothing was acknowledged since; close and open again";
    return what;
}

}  // namespace holdfast::log
