#include "store/write_back.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "store/log.hpp"

namespace holdfast::store_engine {
namespace {

constexpr unsigned word_bits = 64;

/// Pages by number.
class page_set {
public:
    /// Of [0, pages).
    explicit page_set(std::uint64_t pages) : pages_(pages) {}
    /// False: no page has such a number.
    [[nodiscard]] bool set(std::uint64_t start, std::uint64_t count, bool is_in) {
        if (start >= pages_ || count > pages_ - start) {
            return false;
        }
        const std::uint64_t known = words_.size() * word_bits;
        if (is_in && known < start + count) {
            words_.resize(std::max<std::uint64_t>((start + count) / word_bits + 1, 2 * words_.size()));
        }
        const std::uint64_t end = is_in ? start + count : std::min(start + count, known);
        for (std::uint64_t page = start; page < end; ++page) {
            const std::uint64_t mask = std::uint64_t{1} << (page % word_bits);
            std::uint64_t& word = words_[page / word_bits];
            word = is_in ? word | mask : word & ~mask;
        }
        return true;
    }
    [[nodiscard]] std::vector<page_run> runs() const {
        std::vector<page_run> found;
        for (std::size_t at = 0; at < words_.size(); ++at) {
            for (std::uint64_t rest = words_[at]; rest != 0;) {
                const unsigned first = static_cast<unsigned>(std::countr_zero(rest));
                const unsigned count = static_cast<unsigned>(std::countr_one(rest >> first));
                const std::uint64_t start = at * word_bits + first;
                if (!found.empty() && found.back().start + found.back().count == start) {
                    found.back().count += count;
                } else {
                    found.push_back({.start = start, .count = count});
                }
                rest = first + count == word_bits ? 0 : rest >> (first + count) << (first + count);
            }
        }
        return found;
    }

private:
    std::uint64_t pages_;
    std::vector<std::uint64_t> words_;
};

// What commits since the checkpoint before did, of any process. False: the log does not say it any more, as something
// has damaged it.
bool apply_log(const stored_pages& of, page_set& written) {
    const shared_header& header = of.shared().header();
    const std::uint64_t end = header.log_end.load();
    log::mark at{.sequence = header.checkpoint_transaction.load()};
    log_record record;
    bool is_valid = true;
    while (at.position < end && read_record(of.log_bytes(), at, of.own_log_key(), record)) {
        for_each_item<freed_extent_on_media>(record.freed, [&](const freed_extent_on_media& freed) {
            is_valid = written.set(freed.start, freed.count, false) && is_valid;
        });
        page_change change;
        std::span<const std::byte> rest = record.pages;
        for (std::uint32_t left = record.head.page_count; left > 0; --left) {
            if (!next_page_change(rest, change) || !written.set(change.head.page, change.head.pages, true)) {
                return false;
            }
        }
        at = record.end;
    }
    return is_valid && at.position == end && at.checksum == header.log_checksum.load();
}

}  // namespace

// Where something else may not be durable, a sync of all of it is one of the kernel: what was found, what was written
// without syncs, what a process left that died in a sync. Pages that a commit wrote and a later one freed are of no
// version that a recovery begins with, or leads to: records have them.
write_back_plan plan_write_back(const stored_pages& of, const write_set& changes) {
    const shared_header& header = of.shared().header();
    write_back_plan plan;
    if (!of.file().memory().is_there() || header.unsynced.load() != 0 || header.unpromised.load() != 0 ||
        header.doubtful.load() != 0) {
        return plan;
    }
    page_set written(of.file().reserved_pages());
    if (!apply_log(of, written)) {
        return plan;
    }
    for (const freed_extent_on_media& freed : changes.freed) {
        if (!written.set(freed.start, freed.count, false)) {
            return plan;
        }
    }
    for (const dirty_page& dirty : changes.dirty) {
        if (dirty.live && !written.set(dirty.page, dirty.pages, true)) {
            return plan;
        }
    }
    plan.runs = written.runs();
    plan.by_call = false;
    return plan;
}

status write_back(const data_file& file, const write_back_plan& plan) noexcept {
    if (plan.by_call || file.memory().has_called()) {
        return file.sync_all("store.checkpoint.sync");
    }
    for (const page_run& each : plan.runs) {
        file.memory().write_back(each.start * page_size, each.count * page_size, "store.checkpoint.lines");
    }
    file.memory().fence("store.checkpoint.fence");
    return status::ok;
}

}  // namespace holdfast::store_engine
