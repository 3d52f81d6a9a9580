// Pages whose last version is in the log and not home, because a reader uses an older one (LOG-4), or because they go
// home together later. Their copies are what a difference is taken against, and what an abort goes back to (LOG-11).
//
//   - Home has all of one version, home(), and nothing of a later one, but for pages that were free in all versions
//     since. The log has the records behind it.
//   - find() has the last version of each page that a later record changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "base/units.hpp"
#include "segment/files/versions_in_use.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Not thread-safe.
class lagging_home {
public:
    struct page {
        std::unique_ptr<std::byte[]> content;
        std::uint64_t version = 0;  ///< whose record changed the page last
    };
    /// `by_turns`: some of them change the heap by turns.
    void set_users(versions_in_use* users, bool by_turns = false) noexcept {
        users_ = users;
        is_by_turns_ = by_turns;
    }
    [[nodiscard]] bool is_by_turns() const noexcept { return is_by_turns_; }
    [[nodiscard]] versions_in_use* users() const noexcept { return users_; }
    [[nodiscard]] std::uint64_t oldest_in_use(std::uint64_t newest) const noexcept {
        return users_ == nullptr ? newest : users_->oldest(newest);
    }

    /// Home is at an older version than the log.
    [[nodiscard]] bool is_on() const noexcept { return home_ != nullptr; }
    /// What a superblock says of home's version, with its end in the log.
    [[nodiscard]] const superblock_on_media& home() const noexcept { return *home_; }
    /// May throw std::bad_alloc, and then changes nothing. `home`: its `log_begin` is its end in the log.
    void begin(const superblock_on_media& home);
    /// There is a log since, of which home's superblock may not say so yet: it was begun before the first record.
    void note_log() noexcept {
        if (is_on()) {
            home_->flags |= flag_log;
        }
    }
    /// Home has gone on to that version.
    void go_on(const superblock_on_media& home) noexcept;
    void end() noexcept;

    /// Null where home has the last version.
    [[nodiscard]] const std::byte* find(std::uint64_t place) const noexcept {
        const auto found = pages_.find(place);
        return found == pages_.end() ? nullptr : found->second.content.get();
    }
    /// The page is in memory as the last version has it, though it is private.
    [[nodiscard]] bool is_as_committed(std::uint64_t place, const std::byte* memory) const noexcept;
    [[nodiscard]] std::uint64_t size() const noexcept { return pages_.size(); }
    /// May throw std::bad_alloc.
    void put(std::uint64_t place, std::span<const std::byte> content, std::uint64_t version);
    /// Home has the last version of so many pages from `place` on.
    void forget_pages(std::uint64_t place, std::uint64_t count) noexcept {
        pages_.erase(pages_.lower_bound(place), pages_.lower_bound(place + count));
    }
    /// Of pages that begin at `place`: what is known to be newer than home.
    void lay_over(std::uint64_t place, std::span<std::byte> content) const noexcept;
    /// Calls `each(place, content)`, in order of place, while it succeeds.
    template <class Each>
    base::result<void> for_each(Each&& each) const {
        for (const auto& [place, last] : pages_) {
            HF_TRY(each(place, static_cast<const std::byte*>(last.content.get())));
        }
        return {};
    }
    /// Pages that home has: calls `each(place, content)`.
    template <class Each>
    void forget(std::uint64_t version, Each&& each) {
        for (auto at = pages_.begin(); at != pages_.end();) {
            if (at->second.version <= version) {
                each(at->first, at->second.content.get());
                at = pages_.erase(at);
            } else {
                ++at;
            }
        }
    }

private:
    versions_in_use* users_ = nullptr;
    bool is_by_turns_ = false;
    std::unique_ptr<superblock_on_media> home_;
    std::map<std::uint64_t, page> pages_;  ///< by place
};

}  // namespace holdfast::segment
