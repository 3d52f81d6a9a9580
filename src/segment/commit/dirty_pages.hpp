// Pages that a private mapping has stored to are private in the kernel's page tables, so no fault handler and no write
// barrier is needed. To find them among all others takes long where many are mapped one by one. Memory where that was
// so is watched (write_watch.hpp), and then the kernel's answer names the pages that were stored to. Watched memory
// pays for each page that is read for the first time, so memory is not watched from the begin on. Reasons:
// docs/decisions/0037-watched-memory.md.
//
//   - Every page that was stored to since the last commit that ended is found, and perhaps others. Where only those
//     since the last savepoint are wanted, all of these are.
//   - A savepoint protects again what it finds. The next commit has it in since_commit_.
//   - What the kernel notes in a zone counts only while it has noted all since the last commit or savepoint that ended
//     (zone::exact): after one that failed, a mapping that was replaced, a device, guarded memory, or an error, the
//     zone's private pages are looked for, which are all of these pages.
//   - At each page that is noted, at least one fault of this process has happened since faults_: where a search of some
//     blocks finds as many pages, there are no others. It finds more where another process has stored to one; from then
//     on faults tell nothing (docs/decisions/0040-warm-pages.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "segment/commit/pagemap.hpp"
#include "segment/commit/warm_pages.hpp"
#include "segment/commit/write_watch.hpp"
#include "segment/files/heap_options.hpp"

namespace holdfast::segment {

enum class stores_since {
    commit,     ///< the last one that ended
    savepoint,  ///< or commit, whichever ended last
};

/// None: not known.
using noted_pages = std::optional<std::vector<memory_run>>;

/// Not thread-safe: all other threads stand still.
class dirty_scanner {
public:
    enum class method { pagemap_scan, pagemap_bits };

    /// `unsupported` where /proc/self/pagemap cannot be read. Tries PAGEMAP_SCAN first. `watch` must outlive the
    /// scanner and be for it alone; null: nothing is watched.
    static base::result<dirty_scanner> open(write_watch* watch = nullptr, store_watch when = store_watch::never);
    static base::result<dirty_scanner> open(method how);
    /// How a writer's commits find pages here: for people.
    static std::string describe();

    enum class memory_of {
        user,
        tables,  ///< small: watched as soon as other memory is
    };
    /// Appends dirty runs in order of address, neighbours merged. The range is page-aligned. `noted`: the answer of
    /// find_noted() just before.
    base::result<void> scan(std::byte* begin, std::uint64_t bytes, std::vector<memory_run>& runs,
                            const noted_pages& noted = {}, memory_of what = memory_of::user,
                            stores_since since = stores_since::commit);
    /// All watched pages that this process has stored to since the last commit or savepoint, without a look at all
    /// memory, where the count of faults shows that these are all. A page that another process has stored to
    /// (process_vm_writev, a debugger) may be left for a later scan. If another process stores between two calls, pages
    /// that this one stores to between them may be left, too.
    [[nodiscard]] noted_pages find_noted();
    /// Nobody has stored to any memory that commits scan since the last commit or savepoint ended. False: not known. Of
    /// stores by other processes it knows nothing.
    [[nodiscard]] bool is_untouched() const noexcept;
    /// The scans up to the next end_commit() are one commit's, which scans each range once. Other scans change nothing.
    void begin_commit() noexcept {
        begin(taking::commit);
        searches_ = false;
    }
    /// All that the commit's scans found is committed.
    void end_commit() noexcept;
    /// The scans up to the next end_savepoint() are one savepoint's, which scans each range once and finds what was
    /// stored to since the one before.
    void begin_savepoint() noexcept {
        begin(taking::savepoint);
        searches_ = true;
    }
    /// May throw std::bad_alloc: then it must be given up.
    void end_savepoint();
    /// The commit or savepoint has failed: what its search or its scans have protected is found again, and with it what
    /// savepoints have found since the last commit.
    void give_up() noexcept;
    /// A commit of this page, which may not leave it in memory because it is not watched, has taken so much longer.
    void note_loss(const std::byte* page, std::chrono::nanoseconds lost) noexcept;
    /// From the next commit on, that one included, all memory is watched that commits scan.
    void watch_soon() noexcept { wants_watch_ = true; }
    // Before end_commit():
    /// The commit itself stored to these pages behind its scan.
    void note_own_stores(std::byte* begin, std::uint64_t pages) noexcept;
    /// The page, which is committed, may stay private. False: it must be dropped.
    [[nodiscard]] bool keep_warm(std::byte* page) noexcept;
    [[nodiscard]] bool watches(const std::byte* begin, std::uint64_t pages) const noexcept;
    [[nodiscard]] warm_pages& warm() noexcept { return warm_; }
    /// Sorted: memory that devices store to, of which every private page is found. May throw std::bad_alloc.
    void keep(std::vector<memory_run> memory);

    [[nodiscard]] method used() const noexcept { return method_; }
    [[nodiscard]] std::uint64_t watched_bytes() const noexcept;
    /// In a child of fork: no scan succeeds any more.
    void close_in_child() noexcept { pages_.close(); }
    [[nodiscard]] const pagemap& tables() const noexcept { return pages_; }

private:
    /// The part [begin, begin + watched) is watched.
    struct zone {
        std::uint64_t bytes = 0;
        std::uint64_t watched = 0;
        std::uint64_t marked = 0;  ///< [begin, begin + marked) may have protected pages
        bool exact = false;
        bool scanned = false;  ///< by the commit that runs
        bool refused = false;
        std::chrono::nanoseconds lost{};  ///< in looking at pages that nobody stored to
        /// By note_loss(), without what scans of watched memory would have taken longer meanwhile.
        std::chrono::nanoseconds noted_loss{};
    };
    enum class way {
        notes,      ///< of the kernel
        look,       ///< for private pages
        and_watch,  ///< and watch them from now on
    };
    struct piece {
        piece(std::byte* from, std::uint64_t length, zone* its, way of_scan) noexcept
            : begin(from), bytes(length), of(its), how(of_scan) {}
        std::byte* begin;
        std::uint64_t bytes;
        zone* of;
        way how;
        std::uint64_t at = 0;      ///< in its zone
        bool is_marked = false;    ///< may have protected pages
        bool mapped_anew = false;  ///< a part of it, so that its notes say nothing
        bool is_watched = false;   ///< from now on
        bool is_known = false;     ///< what is noted
        std::vector<memory_run> runs;
        std::chrono::nanoseconds took{};
        std::chrono::nanoseconds lost{};
        base::result<void> done;
        bool out_of_memory = false;
    };

    enum class taking { nothing, savepoint, commit };

    dirty_scanner(pagemap pages, method how, write_watch* watch, store_watch when) noexcept
        : pages_(std::move(pages)), method_(how), watch_(watch), when_(when) {}
    void begin(taking what) noexcept;
    void plan_zone(std::byte* begin, std::uint64_t bytes, memory_of what, std::vector<piece>& pieces);
    bool can_watch() noexcept;
    [[nodiscard]] bool pays(const zone& of, std::uint64_t bytes, memory_of what) const noexcept;
    [[nodiscard]] bool is_kept(const std::byte* begin, std::uint64_t bytes) const noexcept;
    /// Where the zone begins that watches the page, or null.
    [[nodiscard]] std::byte* watching_zone(const std::byte* page) const noexcept;
    [[nodiscard]] std::vector<memory_run> warm_memory() const;
    [[nodiscard]] noted_pages find_among_warm(pagemap::written afterwards) const;
    void run(std::vector<piece>& pieces);
    void run_piece(piece& part) const noexcept;
    void scan_piece(piece& part) const;
    void note(const piece& part) const noexcept;

    pagemap pages_;
    method method_;
    write_watch* watch_;
    store_watch when_;
    taking takes_ = taking::nothing;
    bool wants_watch_ = false;
    bool searches_ = false;  ///< the taking that runs: in watched memory it mostly needs no scan
    std::map<std::byte*, zone> zones_;
    std::vector<memory_run> kept_;
    warm_pages warm_;
    std::vector<memory_run> found_in_vain_;  ///< by a search of the taking that runs, which protected them
    std::vector<memory_run> taken_;          ///< by the savepoint that runs, which protected them
    std::vector<memory_run> since_commit_;   ///< by savepoints since the last commit
    // Counts of faults. None: no commit has ended since memory is watched.
    std::optional<std::uint64_t> faults_;  ///< of the process, behind which every first store is counted
    std::uint64_t others_faults_ = 0;      ///< at the begin of a commit, of all threads but the one that commits
    // A program that stores to ever new places has its pages searched for in vain.
    unsigned searches_to_skip_ = 0;
    unsigned vain_searches_ = 0;  ///< one after the other
    bool others_store_ = false;   ///< processes
};

}  // namespace holdfast::segment
