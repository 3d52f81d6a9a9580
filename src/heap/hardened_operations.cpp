#include "heap/hardened_operations.hpp"

#include <utility>

#include "heap/heap.hpp"

namespace holdfast::heap {

namespace {

class hardened_operations final : public collect_operations {
public:
    hardened_operations(std::unique_ptr<collect_operations> inner, slab::block_allocator& blocks) noexcept
        : inner_(std::move(inner)), blocks_(blocks) {}

    void* allocate(std::uint64_t bytes, std::uint64_t alignment, std::uint32_t type) noexcept override {
        if (inner_ != nullptr) {
            return inner_->allocate(bytes, alignment, type);
        }
        return type == 0 ? blocks_.allocate(bytes, alignment) : blocks_.allocate_typed(bytes, alignment, type);
    }
    bool deallocate(void* block) noexcept override {
        slab::held_block found;
        if (inner_ != nullptr && blocks_.find_allocated(block, found) && found.block.kind == lane::block_kind::pages) {
            return inner_->deallocate(block);  // exact by the page entry
        }
        return blocks_.free_exactly(block);
    }
    void keep(const slab::held_block& held) noexcept override {
        if (inner_ != nullptr) {
            inner_->keep(held);
        } else {
            blocks_.keep(held);
        }
    }
    void flush(const void* begin, std::uint64_t bytes) noexcept override {
        if (inner_ != nullptr) {
            inner_->flush(begin, bytes);
        }
    }
    void drain() noexcept override {
        if (inner_ != nullptr) {
            inner_->drain();
        }
    }

    void write_back() noexcept override {
        if (inner_ != nullptr) {
            inner_->write_back();
        } else {
            blocks_.slabs().write_bitmaps();
        }
    }

private:
    std::unique_ptr<collect_operations> inner_;
    slab::block_allocator& blocks_;
};

}  // namespace

std::unique_ptr<collect_operations> make_hardened_operations(std::unique_ptr<collect_operations> inner,
                                                             slab::block_allocator& blocks) {
    return std::make_unique<hardened_operations>(std::move(inner), blocks);
}

/// Before any thread allocates; again in a child of fork.
void engine::harden() {
    blocks_.harden();
    if (atomic_ == nullptr) {  // durability `atomic` checks its frees exactly already
        header_operations_ = make_hardened_operations(std::move(header_operations_), blocks_);
        headers_ = header_operations_.get();
    }
}

/// After the blocks are opened, before one is handed out.
base::result<void> engine::start_guards() {
    // In durability `atomic` a checkpoint flushes lines of destinations whose blocks may be guard ranges by now, and a
    // flush needs the right to load. On the page cache nothing is flushed.
    const bool flushed_late = atomic_ != nullptr && files_->domain() != persist::domain_kind::page_cache;
    using rights = segment::page_access::rights;
    return blocks_.slabs().source().start_guards(files_->mapping(), flushed_late ? rights::read : rights::none);
}

}  // namespace holdfast::heap
