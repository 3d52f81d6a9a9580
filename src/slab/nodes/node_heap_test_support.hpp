// For tests: a heap on anonymous memory whose segments belong to made-up nodes.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/under_qemu.hpp"
#include "extent/extent.hpp"
#include "extent/fake_space.hpp"
#include "segment/test_support.hpp"
#include "slab/slab.hpp"

namespace holdfast::slab {

/// On a new thread that stays on this node.
template <class Function>
void on_node(unsigned node, Function f) {
    std::thread([&] {
        persist::made_up_topology::move_this_thread_to(node);
        f();
    }).join();
}

/// Threads on these nodes free each block at once. How many frees succeeded.
template <class Free>
std::size_t free_at_once(const std::vector<void*>& blocks, const std::vector<unsigned>& nodes, Free free) {
    std::atomic<std::size_t> arrived{0};
    std::atomic<std::size_t> succeeded{0};
    std::vector<std::thread> running;
    for (const unsigned node : nodes) {
        running.emplace_back([&, node] {
            persist::made_up_topology::move_this_thread_to(node);
            std::size_t meeting = 0;
            for (void* const block : blocks) {
                meeting += nodes.size();
                ++arrived;
                while (arrived < meeting) {
                    std::this_thread::yield();
                }
                succeeded += free(block) ? 1U : 0U;
            }
        });
    }
    for (std::thread& one : running) {
        one.join();
    }
    return succeeded;
}

class node_heap {
public:
    static constexpr std::uint64_t reservation = (base::under_qemu ? 1 : 8) * base::gibibyte;

    explicit node_heap(unsigned nodes, std::uint64_t segment_bytes = 16 * base::mebibyte,
                       std::uint64_t capacity = reservation)
        : machine_(nodes, 2), space_(reservation, capacity, segment::region_size, segment_bytes), nodes_(nodes) {
        segment::must(space_.grow({1}));
        make();
        segment::must(blocks_->format());
    }
    void reopen() {
        blocks_->slabs().write_bitmaps();
        make();
        segment::must(blocks_->open(space_.frontier()));
        extents_->write_opened();
    }

    [[nodiscard]] block_allocator& blocks() noexcept { return *blocks_; }
    [[nodiscard]] extent::extent_allocator& extents() noexcept { return *extents_; }
    [[nodiscard]] extent::fake_space& space() noexcept { return space_; }
    [[nodiscard]] unsigned nodes() const noexcept { return nodes_; }
    [[nodiscard]] unsigned node_of(const void* block) const noexcept {
        return extents_->node_of(base::page_of(space_.view().offset(block)));
    }
    [[nodiscard]] std::vector<std::string> problems() {
        std::vector<std::string> found;
        blocks_->inspect().check(found);
        return found;
    }

private:
    void make() {
        blocks_.reset();
        extents_ = std::make_unique<extent::extent_allocator>(space_.view(), space_);
        extents_->set_nodes(nodes_);
        blocks_ = std::make_unique<block_allocator>(space_.view(), *extents_, nullptr, machine_);
    }

    persist::made_up_topology machine_;
    extent::fake_space space_;
    unsigned nodes_;
    std::unique_ptr<extent::extent_allocator> extents_;
    std::unique_ptr<block_allocator> blocks_;
};

}  // namespace holdfast::slab
