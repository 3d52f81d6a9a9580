#include "heap/trace/trace_worker.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "segment/format/heap_format.hpp"
#include "slab/slab.hpp"

namespace holdfast::heap {

namespace {

/// Split into the registers that the processor has.
using lanes [[gnu::vector_size(64)]] = std::uint64_t;
static_assert(sizeof(lanes) == scan_group * sizeof(std::uint64_t));

/// `end` is below 2^63, so a distance x is below `end` iff neither x nor end - 1 - x has its highest bit set: one bit
/// of the conjunction of eight words says whether none is.
[[gnu::always_inline]] inline std::uint64_t scan(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                                 const scan_limits& limits) noexcept {
    constexpr std::uint64_t step = sizeof(std::uint64_t);
    const std::uint64_t last = limits.end - 1;
    std::uint64_t from = offset - segment::pointer_distance_bias;
    const lanes each{0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step};
    std::uint64_t found = 0;
    for (std::uint64_t group = 0; group < groups; ++group, from += sizeof(lanes)) {
        lanes some;
        std::memcpy(&some, words + group * scan_group, sizeof some);
        const lanes target = (some & segment::pointer_distance_mask) + (each + from);
        lanes outside = target | (last - target);
        if (limits.raw) {
            const lanes distance = some - limits.address;
            outside &= distance | (last - distance);
        }
        // Folding halves takes three conjunctions instead of seven.
        outside &= __builtin_shufflevector(outside, outside, 4, 5, 6, 7, 0, 1, 2, 3);
        outside &= __builtin_shufflevector(outside, outside, 2, 3, 0, 1, 6, 7, 4, 5);
        const std::uint64_t none = outside[0] & outside[1];
        found |= (~none >> 63U) << group;
    }
    return found;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t scan_avx2(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                                                const scan_limits& limits) noexcept {
    return scan(words, groups, offset, limits);
}
#endif

}  // namespace

std::uint64_t scan_anywhere(const std::uint64_t* words, std::uint64_t groups, std::uint64_t offset,
                            const scan_limits& limits) noexcept {
    return scan(words, groups, offset, limits);
}

scan_function fastest_scan() noexcept {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) {
        return scan_avx2;
    }
#endif
    return scan_anywhere;
}

using base::failure;
using base::failure_code;

trace_worker::trace_worker(trace_marker& of, unsigned number)
    : all_(of),
      blocks_(of.blocks_),
      base_(of.space_.base()),
      end_(of.blocks_.end()),
      alone_(of.threads_ == 1),
      reports_(number == 0),
      raw_(of.options_.raw_pointers),
      limits_{end_, reinterpret_cast<std::uintptr_t>(base_), raw_},
      scan_groups_(fastest_scan()),
      stack_(std::make_unique_for_overwrite<trace_work[]>(stack_size)) {}

void trace_worker::add_roots(std::span<const std::uint64_t> objects) {
    for (std::uint64_t at = 0; at < root_count * sizeof(std::uint64_t); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = word_at(at);
        if (word != 0) {
            ++all_.roots_;
        }
        const std::uint64_t target = segment::decode_pointer(at, word);
        const std::uint64_t address = word - reinterpret_cast<std::uintptr_t>(base_);
        if (raw_ && address < end_) {
            reach(address, at);
        } else if (!segment::is_null_pointer(word)) {
            if (target < end_) {
                reach(target, at);
            } else {
                lead_out(at, word, segment::null_pointer(segment::stamp_of(word)));
            }
        }
    }
    for (const std::uint64_t object : objects) {
        ++all_.roots_;
        if (object < end_) {
            reach(object, object);
        } else {
            refuse(object, object);
        }
    }
}

void trace_worker::run() noexcept {
    try {
        work();
        return;
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::out_of_memory;
        all_.fail(std::move(what));
    } catch (...) {
        failure what;
        what.code = failure_code::invalid_argument;
        what.field = "progress of a trace";
        what.found = "an exception";
        what.expected = "none";
        all_.fail(std::move(what));
    }
}

void trace_worker::work() {
    std::array<trace_work, queue_size> queue;
    std::size_t first = 0;
    std::size_t waiting = 0;
    while (true) {
        while (waiting < queue_size && count_ != 0) {
            const trace_work& next = stack_[--count_];
            prefetch(next);
            queue[(first + waiting++) % queue_size] = next;
        }
        if (waiting == 0) {
            if (!all_.fetch(stack_.get(), count_)) {
                return;
            }
            continue;
        }
        const trace_work item = queue[first];
        first = (first + 1) % queue_size;
        --waiting;
        process(item);
        if (all_.somebody_waits() && count_ > 1) [[unlikely]] {
            give_half();
        }
    }
}

/// Fetches the lines that process() reads first.
void trace_worker::prefetch(const trace_work& item) const noexcept {
    constexpr std::uint64_t most = 2048;
    const std::byte* const begin = base_ + item.offset;
    const std::uint64_t bytes =
        std::min(item.words * sizeof(std::uint64_t), item.conservative ? most : base::cache_line_size);
    for (std::uint64_t at = 0; at < bytes; at += base::cache_line_size) {
        __builtin_prefetch(begin + at);
    }
}

void trace_worker::process(const trace_work& item) {
    if (!item.conservative) {
        read_precisely(item, *all_.types_[item.type]);
    } else {
        read_words(item);
    }
    constexpr std::uint64_t often = (1U << 20U);
    if (counters_.words_scanned - reported_ >= often) [[unlikely]] {
        if (all_.failed_.load(std::memory_order_relaxed)) {
            count_ = 0;
        }
        all_.words_done_.fetch_add(counters_.words_scanned - reported_, std::memory_order_relaxed);
        reported_ = counters_.words_scanned;
        if (reports_) {
            all_.report(all_.words_done_.load(std::memory_order_relaxed));
        }
    }
}

void trace_worker::read_words(const trace_work& item) {
    std::uint64_t words = item.words;
    if (words > chunk_words) {
        put({item.offset + chunk_words * sizeof(std::uint64_t), words - chunk_words, item.type, true});
        words = chunk_words;
    }
    counters_.words_scanned += words;
    scan(item.offset, words);
}

void trace_worker::scan(std::uint64_t offset, std::uint64_t words) {
    const std::uint64_t* const at = &word_at(offset);
    const auto examine = [&](std::uint64_t i) {
        const std::uint64_t here = offset + i * sizeof(std::uint64_t);
        if (const std::uint64_t to = segment::decode_pointer(here, at[i]);
            to < end_ && !segment::is_null_pointer(at[i])) {
            reach(to, here);
        }
        if (limits_.raw && at[i] - limits_.address < end_) {
            reach(at[i] - limits_.address, here);
        }
    };
    constexpr std::uint64_t worth_a_call = 4 * scan_group;
    const std::uint64_t groups = words < worth_a_call ? 0 : words / scan_group;
    for (std::uint64_t found = scan_groups_(at, groups, offset, limits_); found != 0; found &= found - 1) {
        const std::uint64_t first = static_cast<std::uint64_t>(std::countr_zero(found)) * scan_group;
        for (std::uint64_t i = first; i < first + scan_group; ++i) {
            examine(i);
        }
    }
    for (std::uint64_t i = groups * scan_group; i < words; ++i) {
        examine(i);
    }
}

void trace_worker::read_precisely(const trace_work& item, const type_registry::entry& type) {
    if (type.visitor) {
        counters_.words_scanned += item.words;
        visit_block(item, type.visitor);
    } else {
        visit_elements(item, type.description);
    }
}

void trace_worker::visit_elements(const trace_work& item, const type_description& type) {
    const std::uint64_t bytes = item.words * sizeof(std::uint64_t);
    if (bytes < type.size) {
        return;  // the end of a block, too short for an element
    }
    std::uint64_t elements = 1;
    if (type.stride != 0) {
        elements += (bytes - type.size) / type.stride;
        const std::uint64_t most =
            std::max<std::uint64_t>(1, chunk_words / std::max<std::size_t>(1, type.pointers.size()));
        if (elements > most) {
            const std::uint64_t done = most * type.stride;
            put({item.offset + done, (bytes - done) / sizeof(std::uint64_t), item.type, false});
            elements = most;
        }
    }
    counters_.words_scanned += elements * type.pointers.size();
    for (std::uint64_t element = 0; element < elements; ++element) {
        const std::uint64_t start = item.offset + element * type.stride;
        for (const std::uint32_t where : type.pointers) {
            const std::uint64_t at = start + (where & ~raw_pointer_bit);
            (where & raw_pointer_bit) != 0 ? follow_address(at) : follow_pointer(at);
        }
    }
}

void trace_worker::visit_block(const trace_work& item, const pointer_visitor& visitor) {
    block_ = item;
    try {
        visitor(base_ + item.offset, item.words * sizeof(std::uint64_t), *this);
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {
        failure what;
        what.code = failure_code::invalid_argument;
        what.field = fmt::format("visitor of type {}", item.type);
        what.found = fmt::format("an exception, for the block at {:#x}", item.offset);
        what.expected = "that it tells the sink the pointers of the block";
        all_.fail(std::move(what));
    }
}

bool trace_worker::is_own_word(const void* word) noexcept {
    const std::uint64_t within =
        reinterpret_cast<std::uintptr_t>(word) - reinterpret_cast<std::uintptr_t>(base_ + block_.offset);
    return within < block_.words * sizeof(std::uint64_t) && within % sizeof(std::uint64_t) == 0;
}

void trace_worker::pointer(void* word) {
    if (is_own_word(word)) {
        follow_pointer(static_cast<std::uint64_t>(static_cast<std::byte*>(word) - base_));
    } else {
        ++counters_.refused;
    }
}

void trace_worker::raw(void* word) {
    if (is_own_word(word)) {
        follow_address(static_cast<std::uint64_t>(static_cast<std::byte*>(word) - base_));
    } else {
        ++counters_.refused;
    }
}

void trace_worker::follow_pointer(std::uint64_t at) {
    const std::uint64_t word = word_at(at);
    if (segment::is_null_pointer(word)) {
        return;
    }
    if (const std::uint64_t target = segment::decode_pointer(at, word); target < end_) {
        reach(target, at);
    } else {
        lead_out(at, word, segment::null_pointer(segment::stamp_of(word)));
    }
}

void trace_worker::follow_address(std::uint64_t at) {
    const std::uint64_t word = word_at(at);
    if (word == 0) {
        return;
    }
    if (const std::uint64_t target = word - reinterpret_cast<std::uintptr_t>(base_); raw_ && target < end_) {
        reach(target, at);
    } else {
        lead_out(at, word, 0);
    }
}

/// For words known to be pointers.
void trace_worker::lead_out(std::uint64_t at, std::uint64_t word, std::uint64_t null) {
    ++counters_.wild;
    all_.lines_.add([&] { return fmt::format("offset {:#x}: word {:#x} leads out of the heap", at, word); });
    const trace_options& options = all_.options_;
    if (options.null_transient && options.mode == trace_mode::precise && !options.dry_run) {
        word_at(at) = null;
        ++counters_.nulled;
    }
}

void trace_worker::reach(std::uint64_t target, std::uint64_t from) {
    found_block block;
    if (!blocks_.find(target, block)) {
        refuse(target, from);
    } else if (block_map::mark(block, alone_)) {
        push(block);
    } else if (blocks_.is_free(block)) [[unlikely]] {
        ++counters_.free_blocks;
        all_.lines_.add([&] {
            return fmt::format("offset {:#x}: leads to {:#x}, in a block of {} bytes that is free", from, target,
                               block.bytes);
        });
    }
}

void trace_worker::push(const found_block& block) {
    trace_work item{block.offset, block.bytes / sizeof(std::uint64_t), block.type, true};
    if (all_.options_.mode == trace_mode::precise && !block.opaque) {
        const type_registry::entry* const type = block.type < all_.types_.size() ? all_.types_[block.type] : nullptr;
        if (type != nullptr) {
            item.conservative = false;
            if (!type->visitor && type->description.pointers.empty()) {
                return;
            }
        } else {
            ++counters_.unknown_types;
            if (all_.options_.unknown == unknown_types::fail) {
                failure what;
                what.code = failure_code::type_mismatch;
                what.field = fmt::format("type number of the block at offset {:#x}", block.offset);
                what.found = fmt::format("{}", block.type);
                what.expected = "a registered type";
                all_.fail(std::move(what));
                return;
            }
        }
    }
    put(item);
}

void trace_worker::put(const trace_work& item) {
    if (count_ == stack_size) [[unlikely]] {
        give_half();
    }
    stack_[count_++] = item;
}

/// The oldest ones lead to the most work.
void trace_worker::give_half() {
    const std::size_t half = count_ / 2;
    all_.share(stack_.get(), half);
    std::move(stack_.get() + half, stack_.get() + count_, stack_.get());
    count_ -= half;
}

void trace_worker::share_all() {
    all_.share(stack_.get(), count_);
    count_ = 0;
}

void trace_worker::refuse(std::uint64_t target, std::uint64_t from) {
    ++counters_.refused;
    all_.lines_.add([&] { return fmt::format("offset {:#x}: leads to {:#x}, where no block is", from, target); });
}

}  // namespace holdfast::heap
