#include "segment/commit/home_files.hpp"

#include <algorithm>

namespace holdfast::segment {

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
    HF_TRY_ASSIGN(auto opened, storage.open(paths.file(id), persist::access_mode::read_write));
    open_.emplace_back(id, std::move(opened));
    return open_.back().second;
}

}  // namespace holdfast::segment
