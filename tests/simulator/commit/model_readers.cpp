#include "simulator/commit/model_readers.hpp"

#include <algorithm>

#include "segment/format/superblock.hpp"

namespace holdfast::simulator {

using base::page_size;
using persist::access_mode;

void model_readers::note(const std::string& what) {
    if (wrong_.empty()) {
        wrong_ = "a reader: " + what;
    }
}

std::uint64_t model_readers::oldest(std::uint64_t newest) noexcept {
    for (const reader& one : readers_) {
        newest = std::min(newest, one.superblock.sequence);
    }
    return newest;
}

void model_readers::act(const std::string& what) {
    for (const char each : what) {
        base::result<void> done;
        if (each == 'o') {
            done = open();
        } else if (each == 'l') {
            readers_.erase(readers_.begin());
        } else if (each == 'r') {
            done =
                refresh(*std::ranges::min_element(readers_, {}, [](const reader& r) { return r.superblock.sequence; }));
        } else {
            for (reader& one : readers_) {
                done = done ? refresh(one) : std::move(done);
            }
        }
        if (!done) {
            note(done.error().message());
        }
        look();
    }
}

base::result<std::vector<std::byte>> model_readers::home_page(std::uint64_t place) {
    std::vector<std::byte> page(page_size);
    HF_TRY_ASSIGN(const auto file, storage_.open(paths_.file(segment::file_of(place)), access_mode::read_only));
    HF_TRY(file->read_at(segment::page_of_place(place) * page_size, page));
    return page;
}

base::result<void> model_readers::lay_over(reader& one, const segment::log_content& content) {
    for (const auto& run : content.pages_at_home()) {
        one.own.erase(one.own.lower_bound(run.place), one.own.lower_bound(run.place + run.count));
    }
    segment::patch_reader patches(storage_, paths_, content);
    for (const auto& patch : content.patches()) {
        if (!one.own.contains(patch.place)) {
            HF_TRY_ASSIGN(one.own[patch.place], home_page(patch.place));
        }
        HF_TRY(patches.read(patch, std::span(one.own[patch.place]).subspan(patch.offset, patch.length)));
        one.versions[patch.place] = content.superblock().sequence;
    }
    one.superblock = content.home_superblock();
    std::erase_if(one.own, [&](const auto& page) { return one.versions[page.first] <= home_; });
    return {};
}

base::result<void> model_readers::open() {
    HF_TRY_ASSIGN(const auto file, storage_.open(paths_.superblock(), access_mode::read_only));
    HF_TRY_ASSIGN(const auto copies, segment::read_superblocks(*file));
    HF_TRY_ASSIGN(const auto content,
                  segment::log_content::read(storage_, paths_, *copies.newest(), {.is_home = home_, .last = durable_}));
    readers_.emplace_back();
    return lay_over(readers_.back(), content);
}

base::result<void> model_readers::refresh(reader& one) {
    HF_TRY_ASSIGN(const auto content, segment::log_content::read(storage_, paths_, one.superblock, {.last = durable_}));
    return lay_over(one, content);
}

base::result<void> model_readers::compare(const reader& one) {
    for (const auto& [place, content] : known_.at(one.superblock.sequence)) {
        const std::uint64_t at = segment::place_of(place.first, place.second);
        const auto own = one.own.find(at);
        HF_TRY_ASSIGN(const std::vector<std::byte> seen,
                      own != one.own.end() ? base::result<std::vector<std::byte>>(own->second) : home_page(at));
        if (seen != *content) {
            note("page " + std::to_string(place.second) + " of file " + std::to_string(place.first) +
                 " is not that of commit " + std::to_string(one.superblock.sequence));
        }
    }
    return {};
}

void model_readers::look() noexcept {
    for (const reader& one : readers_) {
        if (auto done = compare(one); !done) {
            note(done.error().message());
        }
    }
}

}  // namespace holdfast::simulator
