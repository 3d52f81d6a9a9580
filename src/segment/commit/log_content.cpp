#include "segment/commit/log_content.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "base/units.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;

/// Longer ones are read from the log when they are needed.
constexpr std::uint64_t longest_kept = 512;

failure damaged(std::string field, std::string found, std::string expected) {
    return failure{failure_code::corrupt, {}, std::move(field), std::move(found), std::move(expected), {}, 0};
}

/// Whether the page is one of the heap's files, by their sizes.
bool is_in_files(std::uint64_t place, const superblock_on_media& of) noexcept {
    const geometry shape = geometry_of(of);
    const std::uint64_t file = file_of(place);
    return file == objects_file_id ? page_of_place(place) < of.objects_size / page_size
                                   : file < base::divide_up(of.frontier, shape.segment_size) &&
                                         page_of_place(place) < shape.file_size() / page_size;
}

}  // namespace

log::log_options log_options_of(const heap_paths& paths, const superblock_on_media& superblock) {
    return {{paths.directory(), log_prefix, superblock.log_file_size},
            base::checksum64(std::as_bytes(std::span{superblock.uuid}), superblock.heap_key),
            {}};
}

base::result<log_content> log_content::read(persist::storage& storage, const heap_paths& paths,
                                            const superblock_on_media& superblock, const log_limits& limits,
                                            log::kept_file* kept) {
    log_content content;
    content.superblock_ = content.home_ = superblock;
    content.limits_ = limits;
    const log::log_options options = log_options_of(paths, superblock);
    const log::log_files files(storage, options.place);
    log::log_reader reader(files, options.key, superblock.log_begin, kept);
    content.end_ = superblock.log_begin;
    if ((superblock.flags & flag_log) == 0) {
        return content;
    }
    const std::uint64_t first = superblock.log_begin.position / options.place.file_size;
    if (kept == nullptr || kept->file == nullptr || kept->number != first) {
        HF_TRY_ASSIGN(const bool exists, files.exists(first));
        if (!exists) {
            return failure{failure_code::missing, files.path_of(first), "file", "nothing",
                           "the heap's log",      "restore it",         0};
        }
    }
    log::record record;
    bool ends = false;
    // What follows the last one may be being written.
    while (content.superblock_.sequence < limits.last) {
        HF_TRY_ASSIGN(const bool is_there, reader.next(record));
        if (!is_there) {
            ends = true;
            break;
        }
        const std::uint64_t begin = record.end.position - log::space_of(record.payload.size());
        if (auto added = content.add(record, begin + log::header_size); !added) {
            added.error().path = files.path_of(begin / options.place.file_size);
            return std::move(added).error();
        }
        content.bytes_ += log::space_of(record.payload.size());
    }
    content.end_ = reader.end();
    if (ends) {
        HF_TRY_ASSIGN(content.torn_, reader.is_torn());
    }
    if (content.torn_) {
        HF_TRY_ASSIGN(const bool is_followed, reader.is_followed());
        if (is_followed) {
            return failure{failure_code::corrupt,
                           files.path_of(content.end_.position / options.place.file_size),
                           fmt::format("record {}", content.end_.sequence + 1),
                           "damaged",
                           "whole: later ones are",
                           "the file was damaged; nothing was changed",
                           0};
        }
    }
    content.drop_what_does_not_count();
    return content;
}

base::result<void> log_content::add(const log::record& record, std::uint64_t position) {
    if (record.kind == record_part) {
        parts_.push_back({patches_.size(), homes_.size()});
        return add_entries(record.payload, position);
    }
    if (record.kind != record_commit) {
        return damaged("kind of a record", fmt::format("{}", record.kind), "1 or 2");
    }
    return add_commit(record, position);
}

base::result<void> log_content::add_commit(const log::record& record, std::uint64_t position) {
    const std::span<const std::byte> payload = record.payload;
    std::span<const std::byte> rest = payload;
    HF_TRY_ASSIGN(const commit_head head, take_head(rest));
    HF_TRY(validate(head.superblock, {}, 0));
    if (head.superblock.sequence != superblock_.sequence + 1) {
        return damaged("sequence", fmt::format("{}", head.superblock.sequence),
                       fmt::format("{}", superblock_.sequence + 1));
    }
    if (std::memcmp(head.superblock.uuid, superblock_.uuid, sizeof superblock_.uuid) != 0 ||
        head.superblock.nodes != superblock_.nodes || head.superblock.segment_size != superblock_.segment_size) {
        return damaged(
            "uuid, nodes and segment size",
            fmt::format("{}, {}, {}", uuid_text(head.superblock.uuid), head.superblock.nodes,
                        head.superblock.segment_size),
            fmt::format("{}, {}, {}", uuid_text(superblock_.uuid), superblock_.nodes, superblock_.segment_size));
    }
    if (head.superblock.heap_key != superblock_.heap_key) {
        return damaged("key of the heap", fmt::format("{:#x}", head.superblock.heap_key),
                       fmt::format("{:#x}", superblock_.heap_key));
    }
    if (head.parts > parts_.size()) {
        return damaged("parts of a commit", fmt::format("{}", parts_.size()), fmt::format("{}", head.parts));
    }
    // What a commit appended that was given up belongs to none.
    if (const std::size_t given_up = parts_.size() - head.parts; given_up != 0) {
        forget(parts_.front(), head.parts == 0 ? sizes_of_lists{patches_.size(), homes_.size()} : parts_[given_up]);
    }
    superblock_on_media said = head.superblock;
    keep_log(said, superblock_);
    superblock_ = said;
    HF_TRY(add_entries(rest, position + (payload.size() - rest.size())));
    HF_TRY(check_places());
    parts_.clear();
    sizes_.push_back({superblock_.frontier, superblock_.objects_size});
    ++commits_;
    if (superblock_.sequence <= limits_.home) {
        home_ = superblock_;
        home_.log_begin = record.end;
        commits_home_ = commits_;
    }
    return {};
}

void log_content::forget(const sizes_of_lists& from, const sizes_of_lists& to) {
    const auto erase = [](auto& list, std::size_t first, std::size_t end) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(first), list.begin() + static_cast<std::ptrdiff_t>(end));
    };
    erase(patches_, from.patches, to.patches);
    erase(homes_, from.homes, to.homes);
}

base::result<void> log_content::add_entries(std::span<const std::byte> payload, std::uint64_t position) {
    const std::byte* const begin = payload.data();
    while (!payload.empty()) {
        HF_TRY_ASSIGN(const commit_entry entry, take_entry(payload));
        const std::byte* const at = entry.bytes.data();
        add_entry(entry, at == nullptr ? 0 : position + static_cast<std::uint64_t>(at - begin));
    }
    return {};
}

void log_content::add_entry(const commit_entry& entry, std::uint64_t position) {
    const auto commit = static_cast<std::uint32_t>(commits_);
    if (entry.kind == entry_kind::home) {
        homes_.push_back({entry.place, entry.count, commit});
        return;
    }
    if (entry.kind == entry_kind::pages) {
        for (std::uint64_t i = 0; i < entry.count; ++i) {
            patches_.push_back(
                {entry.place + i, position + i * page_size, commit, 0, static_cast<std::uint16_t>(page_size), true});
        }
        return;
    }
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < entry.ranges.size(); i += sizeof(changed_range_on_media)) {
        changed_range_on_media range{};
        std::memcpy(&range, entry.ranges.data() + i, sizeof range);
        const bool in_log = range.length > longest_kept;
        patches_.push_back(
            {entry.place, in_log ? position + done : small_.size(), commit, range.offset, range.length, in_log});
        if (!in_log) {
            const auto bytes = entry.bytes.subspan(done, range.length);
            small_.insert(small_.end(), bytes.begin(), bytes.end());
        }
        done += range.length;
    }
}

/// Of the last commit.
base::result<void> log_content::check_places() const {
    const auto check = [this](std::uint64_t place) -> base::result<void> {
        if (is_in_files(place, superblock_)) {
            return {};
        }
        return damaged("entry", fmt::format("page {} of file {}", page_of_place(place), file_of(place)),
                       "a page of the heap");
    };
    for (std::size_t i = patches_.size(); i > 0 && patches_[i - 1].commit == commits_; --i) {
        HF_TRY(check(patches_[i - 1].place));
    }
    for (std::size_t i = homes_.size(); i > 0 && homes_[i - 1].commit == commits_; --i) {
        HF_TRY(check(homes_[i - 1].place + homes_[i - 1].count - 1));
    }
    return {};
}

/// Of a page that a later commit has not, or that none has. sizes_ has the least of all later ones.
bool log_content::is_beyond(const patch& one) const noexcept {
    if (one.commit >= sizes_.size()) {
        return false;
    }
    const sizes& least = sizes_[one.commit];
    const std::uint64_t user_pages = geometry_of(superblock_).pages();
    const std::uint64_t file = file_of(one.place);
    const std::uint64_t page = page_of_place(one.place);
    if (file == objects_file_id) {
        return page >= least.objects / page_size;
    }
    return file * user_pages + (page < user_pages ? page : 0) >= least.frontier / page_size;
}

/// patches_ is sorted by place.
void log_content::leave_out_what_is_home() {
    std::ranges::sort(homes_, {}, &home_pages::place);
    const auto is_older = [](const home_pages& a, const home_pages& b) { return a.commit < b.commit; };
    std::vector<home_pages> here;  // a heap, the latest commit first
    std::size_t next = 0;
    const auto is_home = [&](const patch& one) {
        for (; next < homes_.size() && homes_[next].place <= one.place; ++next) {
            here.push_back(homes_[next]);
            std::ranges::push_heap(here, is_older);
        }
        while (!here.empty() && here.front().place + here.front().count <= one.place) {
            std::ranges::pop_heap(here, is_older);
            here.pop_back();
        }
        return !here.empty() && one.commit < here.front().commit;
    };
    std::erase_if(patches_, is_home);
}

/// Leaves out what does not count: parts without a commit; what was said of a page before it was written whole, or
/// home, or beyond the end of the heap.
void log_content::drop_what_does_not_count() {
    if (!parts_.empty()) {
        forget(parts_.front(), {patches_.size(), homes_.size()});
    }
    for (std::size_t i = sizes_.size(); i > 1; --i) {
        sizes_[i - 2].frontier = std::min(sizes_[i - 2].frontier, sizes_[i - 1].frontier);
        sizes_[i - 2].objects = std::min(sizes_[i - 2].objects, sizes_[i - 1].objects);
    }
    std::ranges::stable_sort(patches_, {}, &patch::place);
    leave_out_what_is_home();
    if (const std::uint64_t first = superblock_.sequence - commits_; limits_.is_home > first) {
        std::erase_if(patches_, [this, first](const patch& one) { return one.commit < limits_.is_home - first; });
    }
    if (commits_home_ < commits_) {
        std::erase_if(patches_, [this](const patch& one) { return one.commit >= commits_home_; });
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < patches_.size();) {
        std::size_t first = i;
        std::size_t end = i;
        for (; end < patches_.size() && patches_[end].place == patches_[i].place; ++end) {
            if (is_beyond(patches_[end])) {
                first = end + 1;
            } else if (patches_[end].length == page_size) {
                first = end;
            }
        }
        for (; first < end; ++first) {
            patches_[kept++] = patches_[first];
        }
        i = end;
    }
    patches_.resize(kept);
}

std::span<const log_content::patch> log_content::patches(std::uint64_t first_place,
                                                         std::uint64_t last_place) const noexcept {
    const auto first = std::ranges::lower_bound(patches_, first_place, {}, &patch::place);
    const auto end = std::ranges::upper_bound(first, patches_.end(), last_place, {}, &patch::place);
    return {first, end};
}

base::result<void> patch_reader::read(const log_content::patch& patch, std::span<std::byte> to) {
    if (!patch.in_log) {
        std::ranges::copy(std::span(content_.small_).subspan(patch.at, to.size()), to.begin());
        return {};
    }
    const std::uint64_t number = patch.at / files_.file_size();
    if (file_ == nullptr || number_ != number) {
        HF_TRY_ASSIGN(file_, files_.open(number, persist::access_mode::read_only));
        number_ = number;
    }
    return file_->read_at(patch.at % files_.file_size(), to);
}

base::result<void> patch_reader::lay_over(std::uint64_t place, std::span<std::byte> pages) {
    for (const log_content::patch& patch : content_.patches(place, place + pages.size() / page_size - 1)) {
        HF_TRY(read(patch, pages.subspan((patch.place - place) * page_size + patch.offset, patch.length)));
    }
    return {};
}

}  // namespace holdfast::segment
