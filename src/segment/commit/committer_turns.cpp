#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "segment/commit/committer.hpp"
#include "segment/files/address_range.hpp"
#include "segment/files/reader_table.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

using base::page_size;
using persist::access_mode;

bool committer::is_as_committed() const noexcept {
    return !is_poisoned() && mapping_.frontier() == mapping_.committed() &&
           mapping_.adopted() == mapping_.committed() && mapping_.memory_below().empty() &&
           objects_.size() == objects_.committed_size() && !segments_.names_changed();
}

/// Lays what the log has over memory.
class committer::catching_up {
public:
    explicit catching_up(committer& of) noexcept : of_(of) {}

    /// The file in which `from` ends stays in the log while this process rests at that version. Should it be another
    /// one all the same, its records do not count (LOG-1), and the file is looked for by its name.
    [[nodiscard]] base::result<log_content> read_behind(const superblock_on_media& from, std::uint64_t last) const {
        const auto read = [&] {
            return log_content::read(of_.location_.storage(), of_.location_.paths(), from, {.last = last},
                                     &of_.last_read_);
        };
        const bool was_kept = of_.last_read_.file != nullptr;
        auto content = read();
        if (was_kept && (!content || content->superblock().sequence != last)) {
            of_.last_read_ = {};
            content = read();
        }
        return content;
    }

    /// Comes first. Pages that were written home were free before, so there are other tables, too.
    [[nodiscard]] caught_up what_changes(const log_content& content) const noexcept {
        const superblock_on_media& to = content.superblock();
        const geometry& shape = of_.mapping_.view().shape();
        const bool has_tables = std::ranges::any_of(
            content.patches(), [&shape](const log_content::patch& patch) { return is_of_tables(shape, patch.place); });
        const bool are_changed = has_tables || !content.pages_at_home().empty() ||
                                 base::pages_for(to.frontier) != of_.mapping_.frontier() ||
                                 to.objects_size != of_.objects_.size();
        return are_changed ? caught_up::tables : caught_up::content;
    }
    /// The frontier and the objects file only grow while somebody reads, as this process does.
    base::result<void> follow_growth(const superblock_on_media& to) const {
        const base::pages frontier = base::pages_for(to.frontier);
        if (frontier != of_.mapping_.frontier()) {
            HF_TRY(of_.mapping_.map_grown(frontier));
            of_.mapping_.set_frontier(frontier);
            of_.mapping_.adopt_growth();
        }
        return of_.objects_.follow_growth(to.objects_size);
    }
    /// What lies over them belongs to an earlier use (LOG-10).
    void show_pages_at_home(const log_content& content) const {
        for (const log_content::home_pages& run : content.pages_at_home()) {
            of_.log_.lag().forget_pages(run.place, run.count);
            of_.last_.go_back({of_.mapping_.address_of(run.place), run.count}, [](const std::byte*) { return true; });
        }
    }
    /// Each page is made of its last version and what the log has, so that nothing that was stored to it stays
    /// (LOG-11).
    base::result<void> show_pages_of_log(const log_content& content) const {
        patch_reader log(of_.location_.storage(), of_.location_.paths(), content);
        lagging_home& lag = of_.log_.lag();
        std::array<std::byte, page_size> page{};
        std::optional<std::uint64_t> last;
        for (const log_content::patch& patch : content.patches()) {
            if (last == patch.place) {
                continue;
            }
            last = patch.place;
            if (const std::byte* const before = lag.find(patch.place); before != nullptr) {
                std::memcpy(page.data(), before, page_size);
            } else {
                HF_TRY(read_page_at_home(patch.place, page));
            }
            HF_TRY(log.lay_over(patch.place, page));
            std::memcpy(of_.mapping_.address_of(patch.place), page.data(), page_size);
            lag.put(patch.place, page, content.superblock().sequence);
        }
        return {};
    }
    /// Behind the others. The allocator that goes has changed tables, too, for transactions that were aborted: beside
    /// the pages that another process has changed they would be half of a state that never was.
    base::result<void> take_back_tables() const {
        const space_view& view = of_.mapping_.view();
        const std::uint64_t bytes = of_.mapping_.segment_count(of_.mapping_.frontier()) * view.shape().metadata_size();
        std::vector<memory_run> stored;
        HF_TRY(of_.scanner_->scan(view.metadata_of(0), bytes, stored, {}, dirty_scanner::memory_of::tables));
        std::array<std::byte, page_size> page{};
        for (const memory_run& run : stored) {
            for (std::byte* at = run.address; at < end_of(run); at += page_size) {
                const std::uint64_t place = of_.mapping_.place_at(at);
                const std::byte* last = of_.log_.lag().find(place);
                if (last == nullptr) {
                    HF_TRY(read_page_at_home(place, page));
                    last = page.data();
                }
                if (std::memcmp(at, last, page_size) != 0) {
                    std::memcpy(at, last, page_size);
                }
            }
        }
        return {};
    }

private:
    base::result<void> read_page_at_home(std::uint64_t place, std::span<std::byte> page) const {
        HF_TRY_ASSIGN(const auto file,
                      of_.log_.home().get(of_.location_.storage(), of_.location_.paths(), file_of(place)));
        return file->read_at(page_of_place(place) * page_size, page);
    }

    committer& of_;
};

base::result<caught_up> committer::catch_up() {
    const reader_table* const table = location_.directories()->readers.get();
    const std::optional<log::mark> end = log_.last_end();
    // Another process that opened the heap after a crash has removed what this one has behind its last commit.
    if (table == nullptr || !end || !is_as_committed() || !pinned_.empty()) {
        return caught_up::not_at_all;
    }
    HF_TRY_ASSIGN(const superblock_on_media* const media, media_.newest(location_.storage(), location_.paths()));
    const auto from = std::make_unique<superblock_on_media>(superblock_.now());
    from->log_begin = *end;
    const bool goes_on = media != nullptr && media->state == heap_state::running && (media->flags & flag_log) != 0 &&
                         media->sequence <= from->sequence && media->log_begin.position <= end->position &&
                         media->log_file_size == from->log_file_size;
    if (!goes_on) {  // a session has ended since, and another one begun
        return caught_up::not_at_all;
    }
    const std::uint64_t durable = table->durable();
    const catching_up memory(*this);
    HF_TRY_ASSIGN(const log_content content, memory.read_behind(*from, durable));
    const superblock_on_media& newest = content.superblock();
    if (newest.sequence != durable || newest.frontier > mapping_.view().reservation() ||
        base::pages_for(newest.frontier) < mapping_.frontier() || newest.objects_size < objects_.size()) {
        return caught_up::not_at_all;
    }
    if (!log_.lag().is_on()) {
        log_.lag().begin(*from);
    } else if (media->sequence > log_.lag().home().sequence) {
        log_.lag().go_on(*media);
        drop_what_is_home(media->sequence);
    }
    log_.go_on_at(media->log_begin, content.home_superblock().log_begin);
    const caught_up done = memory.what_changes(content);
    HF_TRY(memory.follow_growth(newest));
    memory.show_pages_at_home(content);
    HF_TRY(memory.show_pages_of_log(content));
    if (done == caught_up::tables) {
        HF_TRY(memory.take_back_tables());
    }
    auto now = std::make_unique<superblock_on_media>(newest);
    keep_log(*now, *media);
    superblock_.set_recovered(*now, false);
    committed_free_.clear();
    commit_failed_ = false;
    return poison_.code == base::failure_code::none ? done : caught_up::not_at_all;
}

}  // namespace holdfast::segment
