#include "heap/heap_parts.hpp"

#include <utility>

#include "lane/replay.hpp"

namespace holdfast::heap {

heap_parts::heap_parts(std::unique_ptr<segment::heap_files> files)
    : files_(std::move(files)),
      extents_(files_->view(), files_->space()),
      blocks_(files_->view(), extents_, &files_->bitmaps(), files_->location().topology()),
      objects_(*files_) {
    extents_.set_nodes(files_->location().nodes_of_threads());
    if (separates_cache_lines()) {
        blocks_.separate_cache_lines();
    }
}

base::result<void> heap_parts::refuse_scratch() const {
    if (!files_->location().is_scratch()) {
        return {};
    }
    return base::failure{base::failure_code::unsupported,
                         files_->paths().directory(),
                         "heap",
                         "one without files",
                         "one with files",
                         {},
                         0};
}

std::uint64_t block_size_at(heap_parts& of, std::uint64_t offset) {
    if (offset >= base::to_bytes(of.files().frontier())) {
        return 0;
    }
    const auto size = of.blocks().inspect().usable_size(of.files().view().address({offset}));
    return size ? size.value() : 0;
}

}  // namespace holdfast::heap
