#include "heap/trace/trace_marker.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include "heap/trace/trace_worker.hpp"

namespace holdfast::heap {

unsigned trace_threads(const trace_options& options) noexcept {
    constexpr unsigned most = 16;
    constexpr unsigned most_asked = 256;
    return options.threads != 0 ? std::min(options.threads, most_asked)
                                : std::clamp(std::thread::hardware_concurrency(), 1U, most);
}

trace_marker::trace_marker(const segment::space_view& space, const block_map& blocks, const type_registry& types,
                           const trace_options& options, trace_lines& lines)
    : space_(space), blocks_(blocks), options_(options), lines_(lines), threads_(trace_threads(options)) {
    if (options.mode == trace_mode::precise) {
        for (const auto& [type, entry] : types.entries()) {
            types_.resize(type + std::size_t{1});
            types_[type] = &entry;
        }
    }
}

base::result<void> trace_marker::run(std::span<const std::uint64_t> objects) {
    std::vector<std::unique_ptr<trace_worker>> workers;
    for (unsigned i = 0; i < threads_; ++i) {
        workers.push_back(std::make_unique<trace_worker>(*this, i));
    }
    workers.front()->add_roots(objects);
    workers.front()->share_all();
    working_ = threads_;
    {
        std::vector<std::jthread> helpers;
        helpers.reserve(threads_);
        for (unsigned i = 1; i < threads_; ++i) {
            try {
                helpers.emplace_back([worker = workers[i].get()] { worker->run(); });
            } catch (const std::exception&) {  // no more threads, or no memory for one: go on with fewer
                const std::scoped_lock lock(mutex_);
                working_ -= threads_ - i;
                threads_ = i;
            }
        }
        workers.front()->run();
    }
    for (const auto& worker : workers) {
        const trace_counters& one = worker->counters();
        sum_.words_scanned += one.words_scanned;
        sum_.refused += one.refused;
        sum_.free_blocks += one.free_blocks;
        sum_.wild += one.wild;
        sum_.nulled += one.nulled;
        sum_.unknown_types += one.unknown_types;
    }
    if (failure_) {
        return std::move(*failure_);
    }
    return {};
}

bool trace_marker::fetch(trace_work* stack, std::size_t& count) {
    std::unique_lock lock(mutex_);
    --working_;
    idle_.fetch_add(1, std::memory_order_relaxed);
    changed_.wait(lock, [this] { return finished_ || !common_.empty() || working_ == 0; });
    idle_.fetch_sub(1, std::memory_order_relaxed);
    if (finished_ || common_.empty()) {
        finished_ = true;  // no thread works, and no work is left
        changed_.notify_all();
        return false;
    }
    ++working_;
    constexpr std::size_t most = 1024;
    count = std::clamp<std::size_t>(common_.size() / (std::size_t{threads_} * 4), 1, most);
    std::copy(common_.end() - static_cast<std::ptrdiff_t>(count), common_.end(), stack);
    common_.resize(common_.size() - count);
    return true;
}

void trace_marker::share(const trace_work* work, std::size_t count) {
    {
        const std::scoped_lock lock(mutex_);
        common_.insert(common_.end(), work, work + count);
    }
    changed_.notify_all();
}

void trace_marker::fail(base::failure what) noexcept {
    const std::scoped_lock lock(mutex_);
    if (!failure_) {
        failure_ = std::move(what);
    }
    finished_ = true;
    failed_.store(true, std::memory_order_relaxed);
    changed_.notify_all();
}

void trace_marker::report(std::uint64_t words) {
    if (options_.progress) {
        options_.progress(
            {trace_phase::mark, std::min(words * sizeof(std::uint64_t), blocks_.block_bytes()), blocks_.block_bytes()});
    }
}

}  // namespace holdfast::heap
