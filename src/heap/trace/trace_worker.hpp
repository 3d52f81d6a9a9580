#pragma once

#include <cstdint>

#include "heap/trace/trace_marker.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::heap {

/// Words examined together.
inline constexpr std::uint64_t scan_group = 8;
/// At most, in one call.
inline constexpr std::uint64_t scan_limit = 64 * scan_group;

struct scan_limits {
    std::uint64_t end = 0;      ///< bytes of the heap; 0 < end < 2^63
    std::uint64_t address = 0;  ///< of the heap, for raw pointers
    bool raw = false;           ///< addresses count as pointers
};

/// Bit k of the result: one of words 8 k to 8 k + 7 may be a pointer. The first of 8 `groups` words lies `offset` bytes
/// from the heap's base.
using scan_function = std::uint64_t (*)(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                        const scan_limits& limits) noexcept;

[[nodiscard]] scan_function fastest_scan() noexcept;
/// The reference for the others.
[[nodiscard]] std::uint64_t scan_anywhere(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                          const scan_limits& limits) noexcept;

class trace_worker final : private pointer_sink {
public:
    /// May throw std::bad_alloc.
    trace_worker(trace_marker& of, unsigned number);
    trace_worker(const trace_worker&) = delete;
    trace_worker& operator=(const trace_worker&) = delete;
    ~trace_worker() override = default;

    void add_roots(std::span<const std::uint64_t> objects);
    /// Failures go to the marker.
    void run() noexcept;
    void share_all();
    [[nodiscard]] const trace_counters& counters() const noexcept { return counters_; }

private:
    static constexpr std::size_t stack_size = 8192;
    static constexpr std::size_t queue_size = 16;
    static constexpr std::uint64_t chunk_words = scan_limit;

    void work();
    void prefetch(const trace_work& item) const noexcept;
    void process(const trace_work& item);
    void read_words(const trace_work& item);
    void scan(std::uint64_t offset, std::uint64_t words);
    void read_precisely(const trace_work& item, const type_registry::entry& type);
    void visit_elements(const trace_work& item, const type_description& type);
    void visit_block(const trace_work& item, const pointer_visitor& visitor);
    void pointer(void* word) override;
    void raw(void* word) override;
    [[nodiscard]] bool is_own_word(const void* word) noexcept;
    void follow_pointer(std::uint64_t at);
    void follow_address(std::uint64_t at);
    void lead_out(std::uint64_t at, std::uint64_t word, std::uint64_t null);
    void reach(std::uint64_t target, std::uint64_t from);
    void push(const found_block& block);
    void put(const trace_work& item);
    void refuse(std::uint64_t target, std::uint64_t from);
    void give_half();
    [[nodiscard]] std::uint64_t& word_at(std::uint64_t offset) const noexcept {
        return *reinterpret_cast<std::uint64_t*>(base_ + offset);
    }

    trace_marker& all_;
    const block_map& blocks_;
    std::byte* base_;
    std::uint64_t end_;
    bool alone_;
    bool reports_;  ///< only the calling thread reports progress
    bool raw_;
    scan_limits limits_;
    scan_function scan_groups_;
    std::uint64_t reported_ = 0;
    trace_work block_;  ///< that a visitor reads
    trace_counters counters_;
    std::unique_ptr<trace_work[]> stack_;
    std::size_t count_ = 0;
};

}  // namespace holdfast::heap
