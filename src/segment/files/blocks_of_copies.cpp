#include "segment/files/blocks_of_copies.hpp"

#include <cerrno>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "persist/backing.hpp"

namespace holdfast::segment {

using base::pages;
using base::result;
using persist::access_mode;
using persist::domain_kind;

/// With persistent memory mapped, a store would have to find a block without a page cache that could wait for it, and a
/// fence would not make that durable.
result<bool> blocks_of_copies::may_share() const {
    if (!location_.shared()) {
        return true;  // stores go to private pages; a commit takes the space by system calls, which fail
    }
    if (location_.domain() == domain_kind::dax || location_.domain() == domain_kind::eadr) {
        return false;
    }
    HF_TRY_ASSIGN(const file_statistics sizes, location_.sizes());
    return location_.has_room(base::pages_for(sizes.charged_bytes));
}

void blocks_of_copies::begin_copy() {
    const base::scoped_lock lock(mutex_);
    shared_.reset();
}

result<void> blocks_of_copies::admit(pages more, pages frontier) {
    if (!location_.shared() || location_.is_scratch()) {
        return {};
    }
    const base::scoped_lock lock(mutex_);
    HF_TRY_ASSIGN(const bool reflinks, has_reflinks());
    // Tables have less than half of what they describe: no counting where there is plenty.
    if (!reflinks || location_.has_room(more + frontier + pages{frontier.value / 2})) {
        return {};
    }
    const auto leaves_room = [&](std::uint64_t shared) {
        return shared == 0 || location_.has_room(more + base::pages_for(shared));
    };
    if (shared_ && leaves_room(*shared_)) {
        return {};
    }
    HF_TRY_ASSIGN(const std::uint64_t shared, count());  // the heap's stores have made it less since
    shared_ = shared;
    if (leaves_room(shared)) {
        return {};
    }
    return base::failure_to_read(base::failure_code::no_space, [&] {
        base::failure what = base::os_failure(ENOSPC, "reserve", location_.paths().directory());
        what.expected = fmt::format("{} bytes, and {} for blocks that copies of the heap share with it",
                                    base::to_bytes(more), shared);
        what.hint = "make room, or remove snapshots";
        return what;
    });
}

result<bool> blocks_of_copies::has_reflinks() {
    if (!has_reflinks_) {
        HF_TRY_ASSIGN(auto file, location_.storage().open(location_.paths().objects(), access_mode::read_only));
        HF_TRY_ASSIGN(has_reflinks_, persist::may_share_blocks(*file));
    }
    return *has_reflinks_;
}

result<std::uint64_t> blocks_of_copies::count() const {
    std::uint64_t shared = 0;
    const auto add = [&](const std::string& path) -> result<void> {
        auto opened = location_.storage().open(path, access_mode::read_only);
        if (!opened && opened.error().code == base::failure_code::missing) {
            return {};  // another thread has shortened the heap since
        }
        HF_TRY_ASSIGN(const auto file, std::move(opened));
        HF_TRY_ASSIGN(const persist::file_backing backing, persist::backing_of(*file));
        shared += backing.shared;
        return {};
    };
    HF_TRY(add(location_.paths().objects()));
    for (const std::string& directory : location_.paths().segment_directories()) {
        HF_TRY_ASSIGN(const auto names, location_.storage().list(directory));
        for (const std::string& name : names) {
            if (name.starts_with("segment.")) {
                HF_TRY(add(fmt::format("{}/{}", directory, name)));
            }
        }
    }
    return shared;
}

}  // namespace holdfast::segment
