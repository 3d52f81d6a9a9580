// For tests: a heap on anonymous memory that can be closed and opened again.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "extent/extent.hpp"
#include "extent/fake_space.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

class test_heap {
public:
    template <class... Arguments>
    explicit test_heap(Arguments... of_space) : space_(of_space...) {
        if (!space_.grow({512})) {
            throw std::runtime_error("no first region");
        }
        make();
        if (const auto formatted = blocks_->format(); !formatted) {
            throw std::runtime_error(formatted.error().message());
        }
    }

    /// Empty slabs are kept only with a clock.
    void keep_extents(extent::extent_allocator::clock_function clock = nullptr) {
        keeps_extents_ = true;
        clock_ = clock;
        if (const auto kept = start_keeping(); !kept) {
            throw std::runtime_error(kept.error().message());
        }
    }

    /// After a commit, a crash and a reopen.
    [[nodiscard]] base::result<void> reopen() {
        blocks_->slabs().write_bitmaps();
        return open_again();
    }
    /// After a crash and a reopen.
    [[nodiscard]] base::result<void> open_again() {
        make();
        HF_TRY(blocks_->open(space_.frontier()));
        extents_->write_opened();
        return keeps_extents_ ? start_keeping() : base::result<void>();
    }

    /// From the next open on. It must outlive the heap.
    void verify_with(segment::bitmap_verifier& verifier) noexcept { verifier_ = &verifier; }

    [[nodiscard]] block_allocator& blocks() noexcept { return *blocks_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return *extents_; }
    [[nodiscard]] extent::fake_space& space() noexcept { return space_; }
    [[nodiscard]] std::vector<std::string> problems() const {
        std::vector<std::string> found;
        blocks_->inspect().check(found);
        return found;
    }
    /// In order of address. No other slab of the class may have a free block.
    [[nodiscard]] std::vector<std::byte*> whole_slab(std::size_t bytes) {
        std::vector<std::byte*> all(size_classes[class_for(bytes, 1)].block_count);
        std::ranges::generate(all, [&] { return static_cast<std::byte*>(blocks_->allocate(bytes, 1)); });
        std::ranges::sort(all);
        if (all.front() == nullptr || granule_of(all.front()) != granule_of(all.back())) {
            throw std::runtime_error("no whole slab");
        }
        return all;
    }
    /// Frees the block that was in the place, which threads share.
    [[nodiscard]] bool swap_in(std::atomic<std::byte*>& place, std::byte* block, std::size_t bytes) {
        block[0] = block[bytes - 1] = static_cast<std::byte>(bytes);
        block[1] = static_cast<std::byte>(bytes / 256);
        std::byte* const out = place.exchange(block);
        if (out == nullptr) {
            return true;
        }
        const std::size_t out_bytes = static_cast<std::size_t>(out[0]) + 256 * static_cast<std::size_t>(out[1]);
        return out[out_bytes - 1] == out[0] && blocks_->try_free(out);
    }
    [[nodiscard]] base::granule granule_of(const void* block) const noexcept {
        return base::granule_of(space_.view().offset(block));
    }

private:
    base::result<void> start_keeping() {
        if (clock_ != nullptr) {
            extents_->space().set_decay(20 * extent::decay_curve::step_ns, clock_);
        }
        return blocks_->keep_extents();
    }
    void make() {
        blocks_.reset();
        extents_ = std::make_unique<extent::extent_allocator>(space_.view(), space_);
        blocks_ = std::make_unique<block_allocator>(space_.view(), *extents_, verifier_);
    }

    extent::fake_space space_;
    std::unique_ptr<extent::extent_allocator> extents_;
    std::unique_ptr<block_allocator> blocks_;
    segment::bitmap_verifier* verifier_ = nullptr;
    bool keeps_extents_ = false;
    extent::extent_allocator::clock_function clock_ = nullptr;
};

}  // namespace holdfast::slab
