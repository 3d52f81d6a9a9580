// A persistence domain that notes what goes to the media, in its order: the lines that are flushed, and those that are
// written around the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/units.hpp"
#include "persist/domain.hpp"

namespace holdfast::flush_trace {

enum class write_kind : std::uint8_t {
    record,      ///< a whole line around the caches: the record of a call
    write_back,  ///< a flush
    other,       ///< around the caches, of another size: the time of a checkpoint
};

struct media_write {
    std::uint64_t line = 0;  ///< address / 64
    write_kind kind = write_kind::record;
};

/// The first `limit` of them. Thread safety: none; the heap is used by one thread.
class media_trace {
public:
    explicit media_trace(std::size_t limit) : limit_(limit) { writes_.reserve(limit); }
    void add(const void* begin, std::size_t bytes, write_kind kind) noexcept {
        const auto first = reinterpret_cast<std::uintptr_t>(begin) / base::cache_line_size;
        const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1) / base::cache_line_size;
        for (auto line = first; line <= last && !full(); ++line) {
            writes_.push_back({line, kind});  // there is room: nothing is allocated
        }
    }
    void clear() noexcept { writes_.clear(); }
    [[nodiscard]] bool full() const noexcept { return writes_.size() == limit_; }
    [[nodiscard]] const std::vector<media_write>& writes() const noexcept { return writes_; }

private:
    std::size_t limit_;
    std::vector<media_write> writes_;
};

class recording_domain : public persist::storing_domain {
public:
    static constexpr persist::domain_kind kind = persist::domain_kind::dax;

    explicit recording_domain(media_trace& trace) noexcept : trace_(&trace) {}
    void copy_nontemporal(void* target, const void* source, std::size_t bytes, persist::site /*where*/) noexcept {
        std::memcpy(target, source, bytes);
        trace_->add(target, bytes, write_kind::other);
    }
    void copy_line(void* target, const persist::line_words& line, persist::site where) noexcept {
        copy_words(target, line, where);
        trace_->add(target, sizeof line, write_kind::record);
    }
    void flush(const void* begin, std::size_t bytes, persist::site /*where*/) noexcept {
        trace_->add(begin, bytes, write_kind::write_back);
    }
    static void fence(persist::site /*where*/) noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

private:
    media_trace* trace_;
};
static_assert(persist::persistence_domain<recording_domain>);

}  // namespace holdfast::flush_trace
