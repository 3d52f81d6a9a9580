#include "api/process_turns.hpp"

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "heap/heap_turns.hpp"
#include "segment/commit/pagemap.hpp"

namespace holdfast::detail {

namespace {

std::uint64_t faults_of_others() noexcept { return segment::faults_of_process() - segment::faults_of_thread(); }

}  // namespace

using base::failure;
using base::failure_code;
using segment::heap_turns;

base::result<std::unique_ptr<process_turns>> process_turns::begin(heap::engine& opened,
                                                                  const heap::engine_options& options) {
    HF_TRY_ASSIGN(auto turns, heap_turns::begin(opened.files().directories(), opened.files().paths().directory()));
    heap::engine_options anew = options;
    anew.files.mapping.verify = false;
    anew.files.mapping.capacity = 0;
    return std::unique_ptr<process_turns>(new process_turns(std::move(turns), anew));
}

base::result<void> process_turns::check_process() const {
    if (base::process_identity() == owner_) {
        return {};
    }
    return failure{failure_code::wrong_process,
                   turns_->directory(),
                   "process",
                   "a child of fork",
                   "the one that opened the heap",
                   "a child of fork opens the heap for itself",
                   0};
}

/// A heap that could not be opened anew has given the turn back with all that it held.
base::result<void> process_turns::wake(std::unique_ptr<heap::engine>& heap, heap_turns::found found) {
    if (found == heap_turns::found::as_left) {
        auto woken = heap::turns_of_heap::wake(*heap);
        if (!woken) {
            give(*heap);
        }
        return woken;
    }
    try {
        auto anew = heap::turns_of_heap::follow(std::move(heap), options_);
        if (!anew) {
            leave(false);
            return std::move(anew).error();
        }
        heap = std::move(anew).value();
        return {};
    } catch (const std::bad_alloc&) {
        leave(false);
        throw;
    }
}

base::result<bool> process_turns::take(std::unique_ptr<heap::engine>& heap) {
    HF_TRY_ASSIGN(const heap_turns::found found, turns_->take());
    // Before what others have left is stored.
    turns_->directories()->faults_of_others = faults_of_others();
    turns_->directories()->may_have_stray_stores = !heap->files().commits().last().is_untouched();
    HF_TRY(wake(heap, found));
    return found == heap_turns::found::changed;
}

// A thread that stores while another one takes the turn has a fault since.
base::result<void> process_turns::take_back_stray_stores(heap::engine& heap) {
    const segment::heap_directories& directories = *heap.files().directories();
    if (!directories.may_have_stray_stores && directories.faults_of_others == faults_of_others()) {
        return {};
    }
    segment::last_version& last = heap.files().commits().last();
    std::vector<segment::memory_run> stored;
    HF_TRY(last.take_stores(stored));
    for (const segment::memory_run& run : stored) {
        for (std::uint64_t i = 0; i < run.pages; ++i) {
            if (std::byte* const page = run.address + i * base::page_size; !last.has(page)) {
                last.go_back({page, 1}, [](const std::byte*) { return true; });
            }
        }
    }
    return {};
}

void process_turns::give(heap::engine& heap) noexcept {
    // An abort may have left the record of an earlier part that nobody has waited for.
    segment::commit_log& log = heap.files().commits().log();
    const std::uint64_t version = heap.files().superblock().sequence;
    const bool is_durable = log.appended(version).wait().ok();
    if (is_durable) {
        log.publish(version);
    }
    heap::turns_of_heap::rest(heap);
    turns_->give(version, is_durable && heap.files().commits().is_as_committed());
}

void process_turns::leave(bool in_order) noexcept {
    turns_->leave(in_order);
    is_over_.store(true, std::memory_order_release);
}

base::result<void> process_turns::close_as_last(std::unique_ptr<heap::engine>& heap, bool commit_changes) {
    turns_->forget_version();  // else home would stay behind it
    auto closed = heap->close(commit_changes);
    if (!closed) {
        HF_TRY(turns_->directories()->readers->take());
        give(*heap);
    }
    return closed;
}

base::result<void> process_turns::close(std::unique_ptr<heap::engine>& heap, bool commit_changes) {
    HF_TRY_ASSIGN(const heap_turns::found found, turns_->take());
    turns_->directories()->may_have_stray_stores = true;
    if (turns_->is_last()) {
        HF_TRY(wake(heap, found));
        if (auto taken_back = take_back_stray_stores(*heap); !taken_back) {
            give(*heap);
            return taken_back;
        }
        HF_TRY(close_as_last(heap, commit_changes));
        leave(false);
        return {};
    }
    leave(true);
    return {};
}

}  // namespace holdfast::detail
