// For tests: counts the pages of other nodes' memory that a call writes to, and why. Before a turn, all of it is made
// read-only; the first store to a page is a fault. Nodes must not share pages, so segments have 256 MiB, whose states
// fill one page.
#pragma once

#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "slab/slab.hpp"

namespace holdfast::slab {

struct allocator_memory {
    static const slab_pool& pool_of(const block_allocator& blocks) noexcept { return blocks.core_.pool; }
    static const extent::remote_extents& remote_of(const block_allocator& blocks) noexcept {
        return extent::remote_of(std::as_const(blocks.core_.extents));
    }
};

inline constexpr std::uint64_t touches_segment = 256 * base::mebibyte;

enum class touch_cause : unsigned { other, allocation, free, merge };

/// One at a time in a process.
class remote_touches {
public:
    /// The segments of `space`, of touches_segment bytes, belong to so many nodes by turns.
    remote_touches(const block_allocator& blocks, segment::space_view space, unsigned nodes)
        : blocks_(blocks), space_(space), nodes_(nodes) {
        if (space_.shape().segment_size != touches_segment || active_ != nullptr) {
            throw std::logic_error("segments whose tables share no pages, and one instrument");
        }
        struct sigaction act {};
        act.sa_sigaction = on_fault;
        act.sa_flags = SA_SIGINFO | SA_NODEFER;
        ::sigaction(SIGSEGV, &act, &before_);
        active_ = this;
    }
    remote_touches(const remote_touches&) = delete;
    remote_touches& operator=(const remote_touches&) = delete;
    ~remote_touches() {
        active_ = nullptr;
        ::sigaction(SIGSEGV, &before_, nullptr);
    }

    /// Runs f on another thread.
    void turn(unsigned node, const std::function<void(const std::function<void()>&)>& run_there,
              const std::function<void()>& f) {
        collect(node);
        protect(PROT_READ);
        run_there(f);
        protect(PROT_READ | PROT_WRITE);
        regions_.clear();
    }
    static void because(touch_cause cause) noexcept { cause_ = cause; }

    /// Pages that were written to in each turn, by what they hold.
    [[nodiscard]] std::map<std::string, std::uint64_t> touched(touch_cause cause) const {
        std::map<std::string, std::uint64_t> found;
        for (std::size_t i = 0; i < kinds.size(); ++i) {
            if (counts_[static_cast<unsigned>(cause)][i] != 0) {
                found[kinds[i]] = counts_[static_cast<unsigned>(cause)][i];
            }
        }
        return found;
    }

    void forget() noexcept { counts_ = {}; }

private:
    static constexpr std::array<const char*, 10> kinds{"blocks",  "headers",       "page entries", "bitmaps",
                                                       "states",  "types",         "descriptors",  "block states",
                                                       "shadows", "extent shadows"};
    struct region {
        std::uintptr_t begin;
        std::uintptr_t end;
        std::size_t kind;
    };

    void add(const char* kind, const void* begin, const void* end) {
        const auto first = base::align_down(reinterpret_cast<std::uintptr_t>(begin), base::page_size);
        const auto last = base::align_up(reinterpret_cast<std::uintptr_t>(end), base::page_size);
        std::size_t index = 0;
        while (std::strcmp(kinds.at(index), kind) != 0) {
            ++index;
        }
        if (last > first) {
            regions_.push_back({first, last, index});
        }
    }

    void collect(unsigned node) {
        const slab_pool& pool = allocator_memory::pool_of(blocks_);
        const segment::geometry& shape = space_.shape();
        const std::uint64_t end = blocks_.end_offset();
        for (std::uint64_t i = 0; i * touches_segment < end; ++i) {
            if (i % nodes_ == node) {
                continue;
            }
            const std::uint64_t begin = i * touches_segment;
            add("blocks", space_.address({begin}), space_.address({std::min(begin + touches_segment, end)}));
            const std::byte* const metadata = space_.metadata_of(i);
            add("headers", metadata, metadata + shape.page_entries_at());
            add("page entries", metadata + shape.page_entries_at(), metadata + shape.bitmaps_at());
            add("bitmaps", metadata + shape.bitmaps_at(), metadata + shape.checksums_at());
            const auto each = [this](const char* kind, const void* from, const void* to) { add(kind, from, to); };
            pool.table().for_each_range({i * shape.granules()}, {(i + 1) * shape.granules()}, each);
        }
        for (unsigned other = 0; other < nodes_; ++other) {
            if (other != node) {
                pool.remote().for_each_range(other,
                                             [this](const void* from, const void* to) { add("shadows", from, to); });
                allocator_memory::remote_of(blocks_).for_each_range(
                    other, [this](const void* from, const void* to) { add("extent shadows", from, to); });
            }
        }
    }

    void protect(int how) const {
        for (const region& one : regions_) {
            if (::mprotect(reinterpret_cast<void*>(one.begin), one.end - one.begin, how) != 0) {
                throw std::runtime_error(std::string("mprotect of ") + kinds.at(one.kind));
            }
        }
    }

    static void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
        const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
        for (const region& one : active_->regions_) {
            if (at >= one.begin && at < one.end) {
                const touch_cause cause = remote_frees::is_merging() || extent::remote_extents::merging::is_on()
                                              ? touch_cause::merge
                                              : cause_;
                ++active_->counts_[static_cast<unsigned>(cause)][one.kind];
                ::mprotect(reinterpret_cast<void*>(base::align_down(at, base::page_size)), base::page_size,
                           PROT_READ | PROT_WRITE);
                return;
            }
        }
        ::signal(SIGSEGV, SIG_DFL);  // the store is tried again
    }

    static inline remote_touches* active_ = nullptr;                     // NOLINT(readability-identifier-naming)
    static inline thread_local touch_cause cause_ = touch_cause::other;  // NOLINT(readability-identifier-naming)

    const block_allocator& blocks_;
    segment::space_view space_;
    unsigned nodes_;
    struct sigaction before_ {};
    std::vector<region> regions_;
    std::array<std::array<std::uint64_t, kinds.size()>, 4> counts_{};
};

/// Runs tasks on a made-up node until it is destroyed.
class node_thread {
public:
    explicit node_thread(unsigned node)
        : thread_([this, node] {
              persist::made_up_topology::move_this_thread_to(node);
              work();
          }) {}
    node_thread(const node_thread&) = delete;
    node_thread& operator=(const node_thread&) = delete;
    ~node_thread() {
        hand_over([this] { over_ = true; });
        thread_.join();
    }

    void run(const std::function<void()>& task) { hand_over(task); }

private:
    void hand_over(const std::function<void()>& task) {
        std::unique_lock lock(mutex_);
        task_ = &task;
        changed_.notify_all();
        changed_.wait(lock, [this] { return task_ == nullptr; });
    }
    void work() {
        std::unique_lock lock(mutex_);
        while (!over_) {
            changed_.wait(lock, [this] { return task_ != nullptr; });
            (*task_)();
            task_ = nullptr;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* task_ = nullptr;
    bool over_ = false;
    std::thread thread_;
};

}  // namespace holdfast::slab
