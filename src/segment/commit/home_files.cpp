#include "segment/commit/home_files.hpp"

#include <algorithm>

#include "persist/sync.hpp"

namespace holdfast::segment {

bool is_out_of_descriptors(const base::result<std::unique_ptr<persist::file>>& opened) noexcept {
    return !opened && persist::is_out_of_descriptors(opened.error());
}

base::result<std::shared_ptr<persist::file>> home_files::get(persist::storage& storage, const heap_paths& paths,
                                                             std::uint64_t id) {
    const auto found = std::ranges::find(open_, id, [](const auto& each) { return each.first; });
    if (found != open_.end()) {
        std::rotate(found, found + 1, open_.end());
        return open_.back().second;
    }
    open_.reserve(most);
    if (open_.size() == most) {
        open_.erase(open_.begin());
    }
    const auto open = [&] { return storage.open(paths.file(id), persist::access_mode::read_write); };
    auto opened = open();
    while (is_out_of_descriptors(opened) && !open_.empty()) {
        open_.erase(open_.begin());
        opened = open();
    }
    HF_TRY_ASSIGN(auto file, std::move(opened));
    open_.emplace_back(id, std::move(file));
    return open_.back().second;
}

}  // namespace holdfast::segment
