#include "segment/commit/uncommitted_bound.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/interruption.hpp"
#include "segment/commit/pagemap.hpp"
#include "segment/files/kernel_limits.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;

/// Copies of pages, stacks of threads, files of the log: more or less the same, however much has changed.
constexpr std::uint64_t memory_of_a_commit = 32 * base::mebibyte;
/// A program that stays below is never looked at.
constexpr std::uint64_t too_little_to_check = 4 * base::mebibyte;
constexpr std::uint64_t least_between_checks = 256 * base::kibibyte;
// Between two counts of faults; small blocks may stand for many pages.
constexpr std::uint64_t least_between_counts = 64 * base::kibibyte;
constexpr std::uint64_t most_between_counts = base::mebibyte;

/// A request that is larger says no more, and the sum of all must not overflow.
constexpr std::uint64_t most_at_once = base::gibibyte;

// Stores are scattered where the pages that have them lie in short runs, and no longer where the runs are long.
constexpr std::uint64_t short_run = 4;
constexpr std::uint64_t long_run = 64;
/// Of the heap's pages, one in so many must be private, or they tell nothing.
constexpr std::uint64_t least_share_to_tell = 64;

}  // namespace

uncommitted_bound& uncommitted_bound::start(std::uint64_t maximum) noexcept {
    const base::scoped_lock lock(mutex_);
    maximum_ = maximum;
    if (maximum != unbounded_uncommitted) {
        wait_for(maximum == 0 ? too_little_to_check : std::min(too_little_to_check, maximum / 4), faults_of_process());
    }
    return *this;
}

void uncommitted_bound::wait_for(std::uint64_t room, std::uint64_t faults) noexcept {
    looked_at_handed_out_ = handed_out_.load(std::memory_order_relaxed);
    looked_at_faults_ = faults;
    room_ = room;
    next_count_.store(looked_at_handed_out_ + std::clamp(room / 64, least_between_counts, most_between_counts),
                      std::memory_order_relaxed);
}

base::result<void> uncommitted_bound::admit(base::pages more) {
    const std::uint64_t bytes = std::min(base::to_bytes(more), most_at_once);
    const std::uint64_t out = handed_out_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (out < next_count_.load(std::memory_order_relaxed)) {
        return {};
    }
    const base::cancellation_off until_known;
    const base::scoped_lock lock(mutex_);
    const std::uint64_t faults = faults_of_process();
    const std::uint64_t grown =
        (faults - looked_at_faults_) * base::page_size + std::max(out, looked_at_handed_out_) - looked_at_handed_out_;
    if (grown < room_) {
        next_count_.store(out + std::clamp((room_ - grown) / 64, least_between_counts, most_between_counts),
                          std::memory_order_relaxed);
        return {};
    }
    return measure(bytes);
}

/// With half of the room that is left the next look comes early enough, should others take memory meanwhile.
base::result<void> uncommitted_bound::measure(std::uint64_t more) {
    const std::uint64_t faults = faults_of_process();
    HF_TRY_ASSIGN(const private_memory found, commits_.find_private());
    const std::uint64_t now = found.bytes;
    const std::uint64_t available = available_memory();
    const std::uint64_t all = available > unbounded_uncommitted - now ? unbounded_uncommitted : now + available;
    choose_reading(found, all);
    const std::uint64_t most = bound(all);
    if (now > most || (more > most - now && now > most / 8)) {
        handed_out_.fetch_sub(more, std::memory_order_relaxed);
        // Nothing is known of such a program, and the next it does may be to move what it has.
        const std::uint64_t heap = base::to_bytes(mapping_.frontier());
        if (heap >= all / 2 && base::to_bytes(mapping_.committed()) < heap / 2) {
            mapping_.set_reading(heap_mapping::reading::page_by_page);
        }
        return base::failure_to_read(failure_code::out_of_memory, [&] { return refusal(now, more, most); });
    }
    wait_for(std::max({(most - now) / 2, most / 64, least_between_checks}), faults);
    return {};
}

/// Beside what is private a commit needs memory for itself, and the page cache some to write through. In a file system
/// in memory it needs the pages once more.
std::uint64_t uncommitted_bound::bound(std::uint64_t all) const noexcept {
    if (maximum_ != 0) {
        return maximum_;
    }
    const std::uint64_t usable = all - std::min(all / 8, memory_of_a_commit);
    return location_.is_in_memory() ? usable / 8 * 3 : usable / 4 * 3;
}

/// Where the pages of the heap and what is private of them do not fit into memory, each store to a page that is not in
/// memory reads it from the disk. The kernel reads thirty around it, for which it drops as many, which are wanted as
/// soon.
void uncommitted_bound::choose_reading(const private_memory& found, std::uint64_t all) noexcept {
    const std::uint64_t heap = base::to_bytes(mapping_.committed());
    if (heap < all / 2) {
        mapping_.set_reading(heap_mapping::reading::ahead);
    } else if (found.stored_pages >= heap / base::page_size / least_share_to_tell) {
        const std::uint64_t length = found.stored_pages / std::max<std::uint64_t>(found.stored_runs, 1);
        if (length < short_run) {
            mapping_.set_reading(heap_mapping::reading::page_by_page);
        } else if (length >= long_run && found.stored_pages < heap / base::page_size / 2) {
            mapping_.set_reading(heap_mapping::reading::ahead);
        }
    }
}

failure uncommitted_bound::refusal(std::uint64_t now, std::uint64_t more, std::uint64_t most) const {
    return failure{failure_code::out_of_memory,
                   location_.paths().directory(),
                   "memory that was stored to since the last commit",
                   fmt::format("{} bytes, {} more asked for", now, more),
                   maximum_ != 0 ? fmt::format("at most {}", most)
                                 : fmt::format("at most {}, by the memory that the process may still take", most),
                   "the heap is as it was: commit (or end the transaction) and go on; or open the heap with a larger "
                   "maximum_uncommitted",
                   0};
}

}  // namespace holdfast::segment
