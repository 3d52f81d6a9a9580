// The files of a heap's pages, open for writing. A few stay open, so that a small commit opens none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {

[[nodiscard]] bool is_out_of_descriptors(const base::result<std::unique_ptr<persist::file>>& opened) noexcept;

/// Not thread-safe.
class home_files {
public:
    /// The last ones asked for stay open, fewer where the process has no descriptor left: behind a commit point a file
    /// that does not open would poison the heap.
    base::result<std::shared_ptr<persist::file>> get(persist::storage& storage, const heap_paths& paths,
                                                     std::uint64_t id);
    /// Other files may get the names.
    void forget() noexcept { open_.clear(); }

private:
    static constexpr std::size_t most = 8;
    std::vector<std::pair<std::uint64_t, std::shared_ptr<persist::file>>> open_;  ///< the last one used comes last
};

}  // namespace holdfast::segment
