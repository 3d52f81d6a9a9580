// The mark phase, by several threads, without recursion. What does not fit a thread's bounded stack goes to a common
// list, and so does half of the stack when another thread has no work. Blocks are read 512 words at a time, the rest
// pushed first, so that threads share a huge array. A short queue behind the stack gives prefetches time (prefetch on
// grey: C.-Y. Cher, A. Hosking, T. N. Vijaykumar, ASPLOS 2004).
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heap/objects/type_registry.hpp"
#include "heap/trace/trace.hpp"
#include "heap/trace/trace_map.hpp"
#include "segment/format/space.hpp"

namespace holdfast::heap {

/// A block to be read, or the rest of one.
struct trace_work {
    std::uint64_t offset = 0;
    std::uint64_t words = 0;
    std::uint32_t type = 0;
    bool conservative = true;
};

struct trace_counters {
    std::uint64_t words_scanned = 0;
    std::uint64_t refused = 0;
    std::uint64_t free_blocks = 0;
    std::uint64_t wild = 0;
    std::uint64_t nulled = 0;
    std::uint64_t unknown_types = 0;
};

/// Later lines are not even formatted.
class trace_lines {
public:
    explicit trace_lines(std::size_t most) noexcept : most_(most) {}
    template <class Make>
    void add(Make make) {
        if (started_.load(std::memory_order_relaxed) >= most_ ||
            started_.fetch_add(1, std::memory_order_relaxed) >= most_) {
            return;
        }
        std::string line = make();
        const std::scoped_lock lock(mutex_);
        lines_.push_back(std::move(line));
    }
    [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

private:
    std::size_t most_;
    std::atomic<std::size_t> started_{0};
    std::mutex mutex_;
    std::vector<std::string> lines_;
};

/// run() is called once.
class trace_marker {
public:
    trace_marker(const segment::space_view& space, const block_map& blocks, const type_registry& types,
                 const trace_options& options, trace_lines& lines);
    trace_marker(const trace_marker&) = delete;
    trace_marker& operator=(const trace_marker&) = delete;
    ~trace_marker() = default;

    /// Marks from the root words and these objects. May throw std::bad_alloc.
    [[nodiscard]] base::result<void> run(std::span<const std::uint64_t> objects);

    [[nodiscard]] const trace_counters& counters() const noexcept { return sum_; }
    [[nodiscard]] std::uint64_t roots() const noexcept { return roots_; }
    [[nodiscard]] unsigned threads() const noexcept { return threads_; }

private:
    friend class trace_worker;

    /// False when all is done or a thread has failed.
    [[nodiscard]] bool fetch(trace_work* stack, std::size_t& count);
    void share(const trace_work* work, std::size_t count);
    void fail(base::failure what) noexcept;
    [[nodiscard]] bool somebody_waits() const noexcept { return idle_.load(std::memory_order_relaxed) != 0; }
    void report(std::uint64_t words);

    const segment::space_view& space_;
    const block_map& blocks_;
    const trace_options& options_;
    trace_lines& lines_;
    std::vector<const type_registry::entry*> types_;  ///< by type number
    unsigned threads_;
    std::uint64_t roots_ = 0;
    trace_counters sum_;

    std::atomic<unsigned> idle_{0};
    std::atomic<bool> failed_{false};
    std::atomic<std::uint64_t> words_done_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<trace_work> common_;  ///< mutex_ guards this and the next three
    unsigned working_ = 0;
    bool finished_ = false;
    std::optional<base::failure> failure_;
};

[[nodiscard]] unsigned trace_threads(const trace_options& options) noexcept;

}  // namespace holdfast::heap
