#include "store/write_back.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "store/log.hpp"

namespace holdfast::store_engine {
namespace {

struct page_run {
    std::uint64_t start;
    std::uint64_t count;
};

// The pages that commits since the checkpoint before wrote, by any process, and those of one that becomes a checkpoint.
std::vector<page_run> pages_since_checkpoint(const stored_pages& of, const write_set& changes) {
    std::vector<page_run> runs;
    log_record record;
    for (log::mark at{.sequence = of.shared().header().checkpoint_transaction.load()};
         read_record(of.log_bytes(), at, of.own_log_key(), record); at = record.end) {
        page_change change;
        std::span<const std::byte> rest = record.pages;
        for (std::uint32_t left = record.head.page_count; left > 0 && next_page_change(rest, change); --left) {
            runs.push_back({.start = change.head.page, .count = change.head.pages});
        }
    }
    for (const dirty_page& dirty : changes.dirty) {
        if (dirty.live) {
            runs.push_back({.start = dirty.page, .count = dirty.pages});
        }
    }
    std::ranges::sort(runs, {}, &page_run::start);
    return runs;
}

}  // namespace

// Where something else may not be durable, a sync of all of it is one of the kernel: what was found, what was written
// without syncs, what a process left that died in a sync.
status make_pages_durable(stored_pages& of, const write_set& changes) {
    const shared_header& header = of.shared().header();
    const persistent_memory& memory = of.file().memory();
    if (!memory.is_there() || of.reads_metas() || header.unsynced.load() != 0 || header.unpromised.load() != 0 ||
        header.doubtful.load() != 0) {
        return of.file().sync_all("store.checkpoint.sync");
    }
    // A page lies in many records.
    page_run next{.start = 0, .count = 0};
    const auto write_back = [&] {
        if (next.count != 0) {
            memory.write_back(next.start * page_size, next.count * page_size, "store.checkpoint.lines");
        }
    };
    for (const page_run& each : pages_since_checkpoint(of, changes)) {
        if (each.start > next.start + next.count || next.count == 0) {
            write_back();
            next = each;
        } else {
            next.count = std::max(next.count, each.start + each.count - next.start);
        }
    }
    write_back();
    memory.fence("store.checkpoint.fence");
    return status::ok;
}

}  // namespace holdfast::store_engine
