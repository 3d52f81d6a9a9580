#include "simulator/commit/model_heap.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"
#include "simulator/storage/sparse_content.hpp"

namespace holdfast::simulator {

using base::page_size;
using base::result;
using persist::access_mode;
using segment::commit_log;
using segment::commit_plan;
using segment::geometry;
using segment::objects_file_id;
using segment::page_run;

namespace {

page_content make_content(page_place place, std::uint64_t version) {
    auto bytes = std::make_shared<std::vector<std::byte>>(page_size);
    // Of most words the versions have the same, so that a commit logs differences. Some pages differ little from a
    // hole, each version elsewhere: a difference against a hole is wrong where a loss of power brings back what was
    // there.
    const bool is_sparse = place.second % 4 == 1;
    const std::uint64_t step = is_sparse ? 8 : 1;
    for (std::uint64_t i = is_sparse ? version % step : 0; i < page_size / sizeof(std::uint64_t); i += step) {
        const std::uint64_t seed = i % 8 == 0 ? mix(version, i) : i;
        const std::uint64_t word = mix(mix(place.first, place.second), seed) | 1U;
        std::memcpy(bytes->data() + i * sizeof word, &word, sizeof word);
    }
    return bytes;
}

template <class T, class Change>
void edit(std::map<page_place, page_content>& pages, page_place place, Change change) {
    std::vector<T> entries(page_size / sizeof(T));
    if (const auto found = pages.find(place); found != pages.end()) {
        std::memcpy(entries.data(), found->second->data(), page_size);
    }
    change(entries);
    auto bytes = std::make_shared<std::vector<std::byte>>(page_size);
    std::memcpy(bytes->data(), entries.data(), page_size);
    pages[place] = std::move(bytes);
}

page_place sums_page_of(page_place place, const geometry& shape) {
    if (place.first == objects_file_id) {
        return {objects_file_id, place.second / segment::objects_group_pages * segment::objects_group_pages};
    }
    return {place.first,
            shape.pages() + shape.checksums_at() / page_size + segment::place_of_checksum(place.second).checksum_page};
}

/// Stores the checksums of dirty pages, as commit_builder does. Returns all pages that the commit writes.
std::set<page_place> store_sums(std::map<page_place, page_content>& pages, const std::vector<page_place>& dirty,
                                const geometry& shape) {
    std::set<page_place> written;
    std::set<page_place> sums;
    for (const page_place& place : dirty) {
        const std::uint64_t sum = base::checksum64(*pages.at(place));
        const page_place home = sums_page_of(place, shape);
        if (place.first == objects_file_id) {
            edit<std::uint64_t>(pages, home, [&](auto& entries) {
                entries[place.second % segment::objects_group_pages] = segment::nonzero_checksum(sum);
            });
        } else {
            edit<std::uint32_t>(pages, home, [&](auto& entries) {
                entries[segment::place_of_checksum(place.second).entry] = segment::narrow_checksum(sum);
            });
        }
        written.insert(place);
        sums.insert(home);
    }
    for (const page_place& place : sums) {
        if (place.first == objects_file_id) {
            edit<std::uint64_t>(pages, place, [](auto& entries) { entries[0] = segment::own_group_checksum(entries); });
        } else {
            edit<std::uint32_t>(pages, place, [](auto& entries) { entries.back() = segment::own_checksum(entries); });
        }
    }
    written.merge(sums);
    return written;
}

/// Free pages, and pages beyond the end, have no checksum: as commit_builder::forget_checksums().
void forget_sum(std::map<page_place, page_content>& pages, page_place place, const geometry& shape) {
    const page_place home = sums_page_of(place, shape);
    if (pages.contains(home)) {
        edit<std::uint32_t>(pages, home, [&](auto& entries) {
            entries[segment::place_of_checksum(place.second).entry] = 0;
            entries.back() = segment::own_checksum(entries);
        });
    }
}

bool has_checksum(const model_state& state, page_place place) {
    const geometry shape{state.superblock.segment_size};
    const page_place home = sums_page_of(place, shape);
    if (home == place ||
        (place.first != objects_file_id && place.second >= shape.pages() + shape.checksums_at() / page_size)) {
        return true;
    }
    const auto found = state.pages.find(home);
    if (found == state.pages.end()) {
        return false;
    }
    if (place.first == objects_file_id) {
        std::uint64_t sum = 0;
        std::memcpy(&sum, found->second->data() + place.second % segment::objects_group_pages * sizeof sum, sizeof sum);
        return sum != 0;
    }
    std::uint32_t sum = 0;
    std::memcpy(&sum, found->second->data() + segment::place_of_checksum(place.second).entry * sizeof sum, sizeof sum);
    return sum != 0;
}

bool moves_space(const model_step& step) {
    return step.grow_regions != 0 || step.lower_regions != 0 || step.grow_objects != 0 || !step.holes.empty();
}

/// Whether the page lies within the state's sizes.
bool is_inside(page_place place, const segment::superblock_on_media& superblock) {
    const geometry shape{superblock.segment_size};
    if (place.first == objects_file_id) {
        return place.second < superblock.objects_size / page_size;
    }
    const std::uint64_t pages = superblock.frontier / page_size;
    return place.second < shape.pages() ? place.first * shape.pages() + place.second < pages
                                        : place.first < base::divide_up(pages, shape.pages());
}

segment::superblock_on_media first_superblock(std::uint64_t segment_size) {
    auto block = segment::blank_superblock();
    for (std::size_t i = 0; i < sizeof block.uuid; ++i) {
        block.uuid[i] = static_cast<std::uint8_t>(i + 1);
    }
    block.heap_key = 0x1234;
    block.segment_size = segment_size;
    block.log_file_size = model_heap::limits().file_size;
    block.state = segment::heap_state::running;
    return block;
}

}  // namespace

model_state model_state::none(std::uint64_t segment_size) {
    model_state state;
    state.superblock = first_superblock(segment_size);
    return state;
}

model_state model_state::after(const model_step& step) const {
    model_state next = *this;
    ++next.superblock.sequence;
    next.superblock.frontier += step.grow_regions * segment::region_size;
    next.superblock.frontier -= step.lower_regions * segment::region_size;
    next.superblock.objects_size += step.grow_objects;
    next.superblock.committed_ns = static_cast<std::int64_t>(next.superblock.sequence);
    segment::seal(next.superblock);
    for (const page_place& place : step.dirty) {
        next.pages[place] = make_content(place, next.superblock.sequence);
        next.anything.erase(place);
    }
    const geometry shape{next.superblock.segment_size};
    store_sums(next.pages, step.dirty, shape);
    for (const page_place& place : step.holes) {
        next.pages.erase(place);
        next.anything.insert(place);
        forget_sum(next.pages, place, shape);
    }
    const auto is_beyond = [&next](page_place place) { return !is_inside(place, next.superblock); };
    for (const auto& [place, content] : pages) {
        if (is_beyond(place) && place.second < shape.pages()) {
            forget_sum(next.pages, place, shape);
        }
    }
    std::erase_if(next.pages, [&](const auto& one) { return is_beyond(one.first); });
    std::erase_if(next.anything, is_beyond);
    return next;
}

model_heap::model_heap(persist::storage& storage, const model_state& state, const segment::superblock_on_media* found,
                       std::uint64_t epoch, model_log log)
    : storage_(storage),
      state_(&state),
      paths_(directory),
      on_media_(found != nullptr ? *found : state.superblock),
      written_(on_media_),
      log_(limits(epoch, log)),
      readers_(storage, directory) {}

segment::commit_log_limits model_heap::limits(std::uint64_t epoch, model_log log) noexcept {
    segment::commit_log_limits chosen{2 * page_size, (log == model_log::of_many_commits ? 30 : 3) * page_size, 1000};
    chosen.most_files = epoch % 8 == 0 ? 2 : 1000;
    chosen.longest_file = 4 * page_size;
    chosen.logged_fresh_pages = 2;
    chosen.pages_behind = 3;
    chosen.epoch = epoch;
    return chosen;
}

void model_heap::adopt(const model_state& next) {
    state_ = &next;
    const segment::superblock_on_media before = on_media_;
    on_media_ = next.superblock;
    keep_log(on_media_, before);
    names_changed_ = false;
}

commit_plan model_heap::plan_for(const model_step& step, const model_state& next) const {
    const auto& before = state_->superblock;
    std::set<page_place> written(step.dirty.begin(), step.dirty.end());
    for (const auto& [place, content] : next.pages) {  // checksum pages
        const auto old = state_->pages.find(place);
        if (old == state_->pages.end() || *old->second != *content) {
            written.insert(place);
        }
    }
    commit_plan plan;
    plan.superblock = next.superblock;
    plan.names_changed = names_changed_;
    plan.may_stay_behind = step.stays && !moves_space(step) && !names_changed_ && log_.leaves_behind();
    for (const page_place& place : written) {
        const page_content& content = next.pages.at(place);
        const bool fresh = !is_inside(place, before) || state_->anything.contains(place);  // LOG-9
        (fresh ? plan.fresh : plan.changed).push_back({place.first, place.second, 1, content->data()});
        (fresh ? plan.fresh_checksums : plan.changed_checksums).push_back(base::checksum64(*content));
        if (!fresh) {
            plan.changed_since.push_back(has_checksum(*state_, place));
        }
    }
    // A file that grew is synced even if none of its pages is written: the commit contains its size.
    for (auto index = base::divide_up(before.frontier, before.segment_size);
         index < base::divide_up(next.superblock.frontier, before.segment_size); ++index) {
        plan.fresh.push_back({index, 0, 0, nullptr});
    }
    if (next.superblock.objects_size != before.objects_size) {
        plan.fresh.push_back({objects_file_id, 0, 0, nullptr});
    }
    std::stable_sort(plan.fresh.begin(), plan.fresh.end(),
                     [](const page_run& a, const page_run& b) { return a.file < b.file; });
    return plan;
}

result<void> model_heap::make_segment(std::uint64_t index) {
    const geometry shape{state_->superblock.segment_size};
    HF_TRY(storage_.remove(paths_.segment(index), "model.grow.remove_remains"));
    HF_TRY_ASSIGN(auto file, storage_.create(paths_.segment(index), "model.grow.create"));
    names_changed_ = true;
    return file->resize(shape.file_size(), "model.grow.resize");
}

result<void> model_heap::grow(const model_state& next) {
    const auto& before = state_->superblock;
    for (auto index = base::divide_up(before.frontier, before.segment_size);
         index < base::divide_up(next.superblock.frontier, before.segment_size); ++index) {
        HF_TRY(make_segment(index));
    }
    if (const std::uint64_t more = next.superblock.objects_size - before.objects_size; more != 0) {
        HF_TRY_ASSIGN(auto file, storage_.open(paths_.objects(), access_mode::read_write));
        HF_TRY(file->allocate(before.objects_size, more, "model.grow.allocate_objects"));
    }
    return {};
}

/// Reserves pages that were given back, before they are written.
result<void> model_heap::reserve_again(const model_step& step) {
    for (const page_place& place : step.dirty) {
        if (state_->anything.contains(place)) {
            HF_TRY_ASSIGN(auto file, storage_.open(paths_.file(place.first), access_mode::read_write));
            HF_TRY(file->allocate(place.second * page_size, page_size, "model.space.take_back"));
        }
    }
    return {};
}

/// After the commit, as heap_files::remove_beyond() and punch().
result<void> model_heap::give_back(const model_step& step, std::uint64_t frontier_before) {
    const auto& superblock = state_->superblock;
    const geometry shape{superblock.segment_size};
    for (auto index = base::divide_up(superblock.frontier, shape.segment_size);
         index < base::divide_up(frontier_before, shape.segment_size); ++index) {
        HF_TRY(storage_.remove(paths_.segment(index), "model.space.remove_segment"));
    }
    const std::uint64_t last = superblock.frontier % shape.segment_size;
    if (superblock.frontier < frontier_before && last != 0) {
        HF_TRY_ASSIGN(auto file,
                      storage_.open(paths_.segment(superblock.frontier / shape.segment_size), access_mode::read_write));
        HF_TRY(file->punch_hole(last, shape.segment_size - last, "model.space.clear_beyond"));
        HF_TRY(file->sync("model.space.clear_beyond.sync"));
    }
    for (const page_place& place : step.holes) {
        HF_TRY_ASSIGN(auto file, storage_.open(paths_.file(place.first), access_mode::read_write));
        HF_TRY(file->punch_hole(place.second * page_size, page_size, "model.space.give_back"));
    }
    return {};
}

result<void> model_heap::create(const model_step& step, const model_state& next) {
    segment::transaction_report report;
    HF_TRY_ASSIGN(const bool remains, storage_.exists(directory));
    if (!remains) {
        HF_TRY(storage_.make_directory(directory, "model.create.directory"));
    }
    HF_TRY_ASSIGN(const auto names, storage_.list(directory));
    for (const auto& name : names) {
        HF_TRY(storage_.remove(std::string(directory) + "/" + name, "model.create.remove_remains"));
    }
    HF_TRY_ASSIGN(auto objects, storage_.create(paths_.objects(), "model.create.objects"));
    HF_TRY(grow(next));
    const commit_plan plan = plan_for(step, next);
    HF_ASSERT(plan.changed.empty());
    HF_TRY(segment::write_home(storage_, paths_, {plan.fresh, plan.fresh_checksums, {}}, "model.create.write",
                               "model.create.sync", report));
    HF_TRY_ASSIGN(auto file, storage_.create(paths_.unfinished_superblock(), "model.create.superblock"));
    HF_TRY(segment::write_superblocks(*file, plan.superblock));
    HF_TRY(storage_.sync_directory(directory, "model.create.directory.sync"));
    HF_TRY(storage_.rename(paths_.unfinished_superblock(), paths_.superblock(), "model.create.rename"));
    HF_TRY(storage_.sync_directory(directory, "model.create.directory.sync_name"));
    HF_TRY(storage_.sync_directory("/", "model.create.parent.sync"));
    adopt(next);
    written_ = on_media_;
    return {};
}

result<void> model_heap::commit(const model_step& step, const model_state& next, segment::transaction_report& report) {
    if (on_media_.state != segment::heap_state::running) {
        log_.begin_session(on_media_);
        HF_TRY(log_.reserve(storage_, paths_, on_media_, {0}));
        on_media_.flags |= segment::flag_log;
        HF_TRY(segment::write_state(storage_, paths_, on_media_, segment::heap_state::running));
        written_ = on_media_;
    }
    if (!step.readers.empty()) {
        if (log_.lag().users() == nullptr) {
            log_.lag().set_users(&readers_);
            const std::uint64_t version = state_->superblock.sequence;
            readers_.begin(version, log_.lag().is_on() ? log_.lag().home().sequence : version);
        }
        readers_.know(state_->superblock.sequence, state_->pages);
        readers_.act(step.readers);
    }
    // The committer knows only later how many pages there are.
    HF_TRY(follow_readers(moves_space(step) || names_changed_ ? commit_log::go_home::always
                                                              : commit_log::go_home::where_worth_it));
    HF_TRY(grow(next));
    HF_TRY(reserve_again(step));
    const std::uint64_t frontier_before = state_->superblock.frontier;
    if ((on_media_.flags & segment::flag_log) == 0) {
        HF_TRY(log_.get(storage_, paths_, on_media_));
        written_ = on_media_;
    }
    commit_plan plan = plan_for(step, next);
    plan.may_stay_behind = plan.may_stay_behind && plan.fresh_checksums.size() <= log_.limits().logged_fresh_pages;
    plan.is_waited_for = plan.may_stay_behind && step.waits;
    if (!plan.may_stay_behind) {
        HF_TRY(follow_readers(commit_log::go_home::always));
    }
    const std::uint64_t file_size = on_media_.log_file_size;
    HF_TRY(segment::run_commit(storage_, paths_, log_, plan, on_media_, report));
    if (on_media_.log_file_size != file_size) {  // a long record has begun another log
        written_ = on_media_;
    }
    adopt(next);
    readers_.know(next.superblock.sequence, next.pages);
    readers_.look();
    if (plan.is_waited_for && step.goes_home) {
        HF_TRY(follow_readers(commit_log::go_home::always));
    } else if (plan.is_waited_for && !step.is_left) {
        HF_TRY(log_.appended(next.superblock.sequence).wait());
        log_.publish(next.superblock.sequence);
    }
    if (next.superblock.frontier < frontier_before) {
        log_.forget_beyond(base::divide_up(next.superblock.frontier, next.superblock.segment_size));
    }
    HF_TRY(give_back(step, frontier_before));
    const log::mark before = on_media_.log_begin;
    HF_TRY(log_.maintain(storage_, paths_, on_media_));
    if (on_media_.log_begin != before) {
        written_ = on_media_;
        if (log_.lag().is_on()) {
            written_ = log_.lag().home();
            written_.state = on_media_.state;
            seal(written_);
        }
    }
    readers_.look();
    return step.close ? close() : result<void>{};
}

/// As segment::committer.
result<void> model_heap::follow_readers(commit_log::go_home when) {
    HF_TRY_ASSIGN(const bool is_home, log_.follow_readers(storage_, paths_, on_media_, when));
    if (log_.lag().is_on()) {
        log_.lag().forget(log_.lag().home().sequence, [](std::uint64_t, const std::byte*) {});
        if (is_home) {
            log_.lag().end();
        }
    }
    return {};
}

result<void> model_heap::checkpoint() {
    return log_.is_empty() ? result<void>{} : log_.checkpoint(storage_, paths_, on_media_);
}

result<void> model_heap::close() {
    if (on_media_.state != segment::heap_state::clean) {
        HF_TRY(follow_readers(commit_log::go_home::always));
        HF_TRY(segment::close_cleanly(storage_, paths_, log_, on_media_));
        written_ = on_media_;
    }
    return {};
}

result<void> model_heap::remove_leftovers(bool crashed) {
    const auto& superblock = state_->superblock;
    const geometry shape{superblock.segment_size};
    const std::uint64_t segments = base::divide_up(superblock.frontier, shape.segment_size);
    HF_TRY_ASSIGN(const auto names, storage_.list(directory));
    for (const auto& name : names) {
        if (name.starts_with("segment.") && std::stoull(name.substr(sizeof "segment." - 1)) >= segments) {
            HF_TRY(storage_.remove(std::string(directory) + "/" + name, "model.open.remove_leftover"));
        }
    }
    if (!crashed) {
        return {};
    }
    if (const std::uint64_t last = superblock.frontier % shape.segment_size; last != 0) {
        HF_TRY_ASSIGN(auto file, storage_.open(paths_.segment(segments - 1), access_mode::read_write));
        HF_TRY(file->punch_hole(last, shape.segment_size - last, "model.open.punch_leftover"));
        HF_TRY(file->sync("model.open.sync_leftover"));
    }
    HF_TRY_ASSIGN(auto objects, storage_.open(paths_.objects(), access_mode::read_write));
    HF_TRY(objects->resize(superblock.objects_size, "model.open.resize_objects"));
    return objects->sync("model.open.sync_objects");
}

std::string model_heap::differing_copy() const {
    const auto file = storage_.open(paths_.superblock(), access_mode::read_only);
    if (!file) {
        return file.error().message();
    }
    const auto copies = segment::read_superblocks(**file);
    if (!copies) {
        return copies.error().message();
    }
    for (std::size_t copy = 0; copy < segment::superblock_copies; ++copy) {
        const auto& there = copies->good.at(copy);
        if (!there || std::memcmp(&*there, &written_, sizeof written_) != 0) {
            return "copy " + std::to_string(copy) + " of the superblock is not that of commit " +
                   std::to_string(written_.sequence);
        }
    }
    return {};
}

std::string model_heap::difference(persist::storage& storage, const model_state& state,
                                   const std::set<page_place>& places) {
    static const std::vector<std::byte> zeros(page_size);
    const segment::heap_paths paths{directory};
    std::unique_ptr<persist::file> file;
    std::uint64_t open_id = ~std::uint64_t{0};
    std::vector<std::byte> page(page_size);
    const auto compare = [&](page_place place, const std::vector<std::byte>& expected) -> std::string {
        if (place.first != open_id) {
            auto opened = storage.open(paths.file(place.first), access_mode::read_only);
            if (!opened) {
                return opened.error().message();
            }
            file = std::move(opened).value();
            open_id = place.first;
        }
        if (auto read = file->read_at(place.second * page_size, page); !read) {
            return read.error().message();
        }
        if (std::memcmp(page.data(), expected.data(), page_size) != 0) {
            return paths.file(place.first) + ": page " + std::to_string(place.second) + " is not that of commit " +
                   std::to_string(state.superblock.sequence) + (&expected == &zeros ? ", which never wrote it" : "");
        }
        return {};
    };
    std::string different;
    for (auto at = state.pages.begin(); at != state.pages.end() && different.empty(); ++at) {
        different = compare(at->first, *at->second);
    }
    for (auto at = places.begin(); at != places.end() && different.empty(); ++at) {
        if (is_inside(*at, state.superblock) && !state.pages.contains(*at) && !state.anything.contains(*at)) {
            different = compare(*at, zeros);
        }
    }
    return different;
}

}  // namespace holdfast::simulator
