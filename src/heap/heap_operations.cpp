#include "heap/heap_operations.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lane/replay.hpp"
#include "segment/files/private_memory.hpp"

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

heap_operations::heap_operations(std::unique_ptr<segment::heap_files> files)
    : heap_parts(std::move(files)), chosen_(*this) {}

base::result<void> heap_operations::deallocate(void* address) {
    base::result<void> freed;
    if (!try_deallocate(address)) {
        freed = last_failure();
    }
    if (!freed && freed.error().path.empty()) {
        freed.error().path = files().paths().directory();
    }
    return freed;
}

bool heap_operations::free_filtered(void* address) noexcept {
    // The filter sees sound frees alone.
    try {
        slab::held_block found;
        if (!blocks().find_allocated(address, found)) {
            return false;
        }
        if (keep_back_(address)) {
            return true;
        }
    } catch (...) {  // what it did with the block is unknown, so the block stays allocated
        base::failure what;
        what.code = base::failure_code::invalid_argument;
        slab::block_allocator::leave(std::move(what));
        return false;
    }
    return free_at_once(address);
}

void heap_operations::abandon() noexcept {
    if (durability() == durability_kind::collect) {
        fast_path_ = &slab::fast_path::of_no_heap();
    }
    chosen_.abandon();
}

void heap_operations::find_fast_path() noexcept {
    const bool refused = read_only() || durability() == durability_kind::atomic || keep_back_ || blocks().is_hardened();
    fast_path_ = refused ? &slab::fast_path::of_no_heap() : &blocks().fast_path();
}

/// In durability `commit`, memory that no file backs yet (MAP-2) takes none to be zero. Where changes() is null, it may
/// get a file meanwhile.
void zero(heap_operations& of, void* block, std::uint64_t bytes, zeros kind) noexcept {
    auto* const begin = static_cast<std::byte*>(block);
    if (of.files().shared()) {
        of.files().space().zeros().for_each_other(begin, bytes, [&](std::byte* at, std::uint64_t size) {
            std::memset(at, 0, size);
            if (kind == zeros::durable) {
                of.flush(at, size);
            }
        });
        if (kind == zeros::durable) {
            of.drain();
        }
        return;
    }
    std::uint64_t in_files = bytes;
    if (of.changes() != nullptr) {
        const std::uint64_t committed = base::to_bytes(of.files().mapping().committed());
        in_files = std::min(bytes, committed - std::min(committed, of.files().view().offset(block).value));
    }
    std::memset(begin, 0, in_files);
    segment::zero_private_memory(begin + in_files, bytes - in_files);
}

}  // namespace holdfast::heap
