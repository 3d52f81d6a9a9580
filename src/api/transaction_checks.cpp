#include "api/transaction_checks.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/process_identity.hpp"
#include "base/units.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::detail {

namespace {

/// gettid(), which glibc has from 2.30 on.
pid_t number_of_thread() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

using base::failure;
using base::failure_code;

failure about(failure_code code, const std::string& path, std::string found, std::string expected) {
    return {code, path, "opened object", std::move(found), std::move(expected), {}, 0};
}

/// Loads whole words, because a sync() of another thread may store them meanwhile. The object lies at a multiple of 8.
std::vector<std::byte> bytes_of(const std::byte* object, std::size_t bytes) {
    std::vector<std::byte> all(base::align_up(bytes, sizeof(std::uint64_t)));
    for (std::size_t at = 0; at < all.size(); at += sizeof(std::uint64_t)) {
        auto& word = *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(object + at));
        const std::uint64_t value = std::atomic_ref(word).load(std::memory_order_relaxed);
        std::memcpy(&all[at], &value, sizeof value);
    }
    all.resize(bytes);
    return all;
}

std::string named(const std::string& type, std::uint64_t offset) {
    return fmt::format("{} at offset {:#x}", readable_type(type).value_or(type), offset);
}

}  // namespace

std::optional<open_ranges::range> open_ranges::enter(range wanted) {
    const std::lock_guard lock(mutex_);
    auto first = by_begin_.upper_bound(wanted.begin);
    if (first != by_begin_.begin() && std::prev(first)->second.end > wanted.begin) {
        --first;
    }
    auto last = first;
    for (; last != by_begin_.end() && last->second.begin < wanted.end; ++last) {
        if (last->second.owner != wanted.owner) {
            return last->second;
        }
    }
    for (auto each = first; each != last; ++each) {
        wanted.begin = std::min(wanted.begin, each->second.begin);
        wanted.end = std::max(wanted.end, each->second.end);
    }
    by_begin_.erase(first, last);
    by_begin_.emplace(wanted.begin, std::move(wanted));
    return std::nullopt;
}

void open_ranges::leave(const void* owner) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(by_begin_, [owner](const auto& each) { return each.second.owner == owner; });
}

void transaction_checks::watch(manager_core& heap) {
    path_ = heap.path();
    process_ = base::process_identity();
    looked_ = false;
    heap_ = &heap;
}

std::uint64_t transaction_checks::offset_of(const std::byte* address) const noexcept {
    return heap_->engine().files().view().offset(address).value;
}

bool transaction_checks::is_allocated(const std::byte* begin, std::size_t bytes) const {
    const auto& look = heap_->engine().blocks().inspect();
    const std::uint64_t offset = offset_of(begin);
    // First: a sync by another thread makes the block an allocated one.
    if (const auto waiting = heap_->pending().is_used() ? heap_->pending().find_own() : nullptr;
        waiting != nullptr && waiting->has_made(offset, bytes)) {
        return true;
    }
    return offset < base::granule_size  // roots
           || (look.is_within_allocated({offset}) && look.is_within_allocated({offset + bytes - 1}));
}

void transaction_checks::enter(const std::byte* begin, std::size_t bytes, const char* type) {
    const std::uint64_t offset = offset_of(begin);
    if (!is_allocated(begin, bytes)) {
        throw_failure(about(failure_code::bad_address, heap_->path(), named(type, offset) + ", in free memory",
                            "an object in an allocated block, or a root"));
    }
    const auto other = heap_->ranges()->enter({offset, offset + bytes, this, type, number_of_thread()});
    if (other) {
        throw_failure(
            about(failure_code::concurrent_modification, heap_->path(),
                  fmt::format("{}, in thread {}, of which another transaction that is open has {}, in thread {}",
                              named(type, offset), number_of_thread(), named(other->type, other->begin), other->thread),
                  "a lock that both hold until commit() has returned"));
    }
}

void transaction_checks::expect_free(const std::byte* object, std::size_t bytes, const char* type) {
    for (const watched_object& each : opened_) {
        if (object < each.is.object + each.is.bytes && each.is.object < object + bytes) {
            throw_failure(about(failure_code::invalid_argument, heap_->path(),
                                fmt::format("{}, which overlaps {}", named(type, offset_of(object)),
                                            named(each.is.type, each.is.offset)),
                                "objects that share no word: a change in one copy is not seen in another"));
        }
    }
    enter(object, bytes, type);
}

void transaction_checks::expect_free_to_store(const std::byte* place, std::size_t bytes) {
    enter(place, bytes, "a stored word");
}

void transaction_checks::opened(opened_object&& made) {
    made.offset = offset_of(made.object);
    std::vector<std::byte> before = bytes_of(made.object, made.bytes);
    std::vector<std::byte> waiting(made.copy, made.copy + made.bytes);
    opened_.push_back({std::move(made), std::move(before), std::move(waiting)});
}

std::optional<failure> transaction_checks::first_touched() const {
    for (const watched_object& each : opened_) {
        if (!is_allocated(each.is.object, each.is.bytes)) {
            return about(
                failure_code::concurrent_modification, heap_->path(),
                named(each.is.type, each.is.offset) + ", whose block was freed while a transaction had it open",
                "blocks that are freed in the transaction, or after it");
        }
        const std::vector<std::byte> now = bytes_of(each.is.object, each.is.bytes);
        for (std::size_t at = 0; at < now.size(); ++at) {
            // A sync() of another thread may have stored what this thread's commit_later() had left waiting.
            if (now[at] != each.before[at] && now[at] != each.waiting[at]) {
                return about(failure_code::concurrent_modification, heap_->path(),
                             fmt::format("{}, whose byte {} was stored to while a transaction had it open",
                                         named(each.is.type, each.is.offset), at),
                             "stores to the copy that open() returned, and a lock that keeps other threads away");
            }
        }
    }
    return std::nullopt;
}

void transaction_checks::expect_untouched() {
    looked_ = true;
    if (const auto touched = first_touched()) {
        throw_failure(*touched);
    }
}

void transaction_checks::expect_no_pointer_to_copies(const std::byte* begin, std::size_t bytes) const {
    for (const std::byte* word = begin; word + sizeof(std::uint64_t) <= begin + bytes; word += sizeof(std::uint64_t)) {
        std::uint64_t value = 0;
        std::memcpy(&value, word, sizeof value);
        if (segment::is_null_pointer(value)) {
            continue;
        }
        const std::uint64_t target = segment::decode_pointer(reinterpret_cast<std::uintptr_t>(word), value);
        for (const watched_object& each : opened_) {
            if (target - reinterpret_cast<std::uintptr_t>(each.is.copy) < each.is.bytes) {
                throw_failure(
                    {failure_code::invalid_argument,
                     heap_->path(),
                     "pointer",
                     fmt::format("the address of the copy of an opened object ({}), in the new block at "
                                 "offset {:#x}, byte {}",
                                 readable_type(each.is.type).value_or(each.is.type), offset_of(begin), word - begin),
                     fmt::format("the address of the object itself, {}", static_cast<const void*>(each.is.object)),
                     {},
                     0});
            }
        }
    }
}

void transaction_checks::drop(std::size_t first) noexcept {
    while (opened_.size() > first) {
        opened_object& last = opened_.back().is;
        std::memset(last.copy, gone, last.bytes);
        try {
            ended_.push_back({std::move(last), path_});
        } catch (const std::bad_alloc&) {
            // Then nobody looks at this copy.
        }
        opened_.pop_back();
    }
}

void transaction_checks::end(bool heap_is_open) noexcept {
    if (heap_is_open && process_ == base::process_identity()) {
        try {
            if (const auto touched = looked_ ? std::nullopt : first_touched()) {
                report_failure(*touched);
            }
        } catch (const std::bad_alloc&) {
            // Without memory there is no message.
        }
        heap_->ranges()->leave(this);
    }
    drop(0);
    heap_ = nullptr;
}

void transaction_checks::inspect_ended() noexcept {
    for (const ended_copy& each : ended_) {
        const auto* const begin = reinterpret_cast<const unsigned char*>(each.was.copy);
        if (std::all_of(begin, begin + each.was.bytes, [](unsigned char byte) { return byte == gone; })) {
            continue;
        }
        try {
            report_failure(about(
                failure_code::invalid_argument, each.path,
                named(each.was.type, each.was.offset) + ", whose copy was stored to after its transaction had ended",
                "no use of a copy after commit() or abort()"));
        } catch (const std::bad_alloc&) {
        }
    }
    ended_.clear();
}

}  // namespace holdfast::detail
