// Between a workload and a backend stands nothing, a check of the allocator, or a clock around each call. The workloads
// are templates over these, so that what is not asked for costs nothing.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

#include "allocators/ticks.hpp"
#include "support/random.hpp"

namespace bench {

/// One thread's way into a backend. Throws where memory is short.
template <class Worker>
concept allocation_worker = requires(Worker worker, typename Worker::destination& one, std::size_t size,
                                     std::span<typename Worker::destination* const> many) {
    /// Allocates `size` bytes and makes the destination, which is null, refer to them.
    worker.allocate(one, size);
    /// Frees what the destination refers to and makes it null.
    worker.release(one);
    /// For all of `many`: in one call where the allocator has one, else one by one.
    worker.allocate_batch(many, size);
    worker.release_batch(many);
    { worker.is_null(one) } -> std::same_as<bool>;
    /// Null where the backend has no blocks (the measures: raw, none).
    { worker.block(one) } -> std::same_as<void*>;
};

/// As a program that uses a big block would: a word at each end.
template <allocation_worker Worker>
void store_at_ends(Worker& worker, const typename Worker::destination& one, std::size_t size) {
    if (auto* const block = static_cast<std::byte*>(worker.block(one)); block != nullptr) {
        std::memcpy(block, &size, sizeof size);
        std::memcpy(block + size - sizeof size, &size, sizeof size);
    }
}

/// For throughput.
template <allocation_worker Worker>
class plain_caller {
public:
    using destination = typename Worker::destination;
    using destinations = std::span<destination* const>;

    explicit plain_caller(Worker& worker) : worker_(worker) {}
    void allocate(destination& one, std::size_t size) { worker_.allocate(one, size); }
    void release(destination& one) { worker_.release(one); }
    void allocate_batch(destinations many, std::size_t size) { worker_.allocate_batch(many, size); }
    void release_batch(destinations many) { worker_.release_batch(many); }
    void touch_ends(const destination& one, std::size_t size) { store_at_ends(worker_, one, size); }
    [[nodiscard]] void* block(const destination& one) { return worker_.block(one); }

private:
    Worker& worker_;
};

/// For latency: each call into the histogram; a batch is one call.
template <allocation_worker Worker>
class timing_caller {
public:
    using destination = typename Worker::destination;
    using destinations = std::span<destination* const>;

    timing_caller(Worker& worker, tick_histogram& histogram) : worker_(worker), histogram_(histogram) {}
    void allocate(destination& one, std::size_t size) {
        timed([&] { worker_.allocate(one, size); });
    }
    void release(destination& one) {
        timed([&] { worker_.release(one); });
    }
    void allocate_batch(destinations many, std::size_t size) {
        timed([&] { worker_.allocate_batch(many, size); });
    }
    void release_batch(destinations many) {
        timed([&] { worker_.release_batch(many); });
    }
    /// Not in the time of a call.
    void touch_ends(const destination& one, std::size_t size) { store_at_ends(worker_, one, size); }
    [[nodiscard]] void* block(const destination& one) { return worker_.block(one); }

private:
    template <class Call>
    void timed(Call call) {
        const std::uint64_t start = read_ticks();
        call();
        const std::uint64_t end = read_ticks_after_stores();
        histogram_.add(end > start ? end - start : 0);
    }

    Worker& worker_;
    tick_histogram& histogram_;
};

/// Marks each block as no other, and checks at the free: two owners of one byte are noticed. The checksum depends on
/// the workload alone.
template <allocation_worker Worker>
class checking_caller {
public:
    using destination = typename Worker::destination;
    using destinations = std::span<destination* const>;

    /// `first`: the first destination of all threads, from which they are numbered.
    checking_caller(Worker& worker, const destination* first) : worker_(worker), first_(first) {}
    void allocate(destination& one, std::size_t size) {
        worker_.allocate(one, size);
        mark(one, size);
    }
    void release(destination& one) {
        examine(one);
        worker_.release(one);
        require(worker_.is_null(one), "a destination is not null after its block was freed");
    }
    void allocate_batch(destinations many, std::size_t size) {
        worker_.allocate_batch(many, size);
        for (destination* const one : many) {
            mark(*one, size);
        }
    }
    void release_batch(destinations many) {
        for (destination* const one : many) {
            examine(*one);
        }
        worker_.release_batch(many);
        for (destination* const one : many) {
            require(worker_.is_null(*one), "a destination is not null after its block was freed");
        }
    }
    /// Its marks stand there already.
    static void touch_ends(const destination& /*one*/, std::size_t /*size*/) noexcept {}
    [[nodiscard]] void* block(const destination& one) { return worker_.block(one); }
    [[nodiscard]] std::uint64_t checksum() const noexcept { return checksum_; }

private:
    static constexpr std::size_t word = sizeof(std::uint64_t);
    /// By the block's size; in the last two bits of its first byte.
    enum mark_extent : std::uint8_t { first_byte, first_word, both_ends };
    static constexpr std::uint64_t extent_bits = 3;

    [[nodiscard]] static mark_extent extent_of(std::size_t size) noexcept {
        return size >= 3 * word ? both_ends : size >= word ? first_word : first_byte;
    }
    static void require(bool holds, const char* message) {
        if (!holds) {
            throw std::logic_error(message);
        }
    }
    [[nodiscard]] std::uint64_t token_of(const destination& one) const noexcept {
        return mix(static_cast<std::uint64_t>(&one - first_) + 1);
    }
    /// First word: the token and the extent of the mark; second: the size; last: the token. Smaller blocks: the first
    /// word or byte alone.
    void mark(const destination& one, std::size_t size) {
        require(!worker_.is_null(one), "a destination is null after an allocation");
        const std::uint64_t token = token_of(one);
        checksum_ += mix(token ^ size);
        auto* const block = static_cast<std::byte*>(worker_.block(one));
        if (block == nullptr) {
            return;
        }
        const mark_extent extent = extent_of(size);
        const std::uint64_t first = (token & ~extent_bits) | extent;
        std::memcpy(block, &first, extent == first_byte ? 1 : word);
        if (extent == both_ends) {
            const std::uint64_t bytes = size;
            std::memcpy(block + word, &bytes, word);
            std::memcpy(block + size - word, &token, word);
        }
    }
    void examine(const destination& one) {
        const std::uint64_t token = token_of(one);
        checksum_ += mix(~token);
        const auto* const block = static_cast<const std::byte*>(worker_.block(one));
        if (block == nullptr) {
            return;
        }
        std::uint64_t found = 0;
        std::memcpy(&found, block, 1);  // its low byte: this machine and the media are little-endian
        const std::uint64_t extent = found & extent_bits;
        if (extent != first_byte) {
            std::memcpy(&found, block, word);
        }
        const std::uint64_t compared = (extent == first_byte ? 0xffU : ~std::uint64_t{0}) & ~extent_bits;
        require(extent <= both_ends && ((found ^ token) & compared) == 0, "the first word of a block was overwritten");
        if (extent == both_ends) {
            std::uint64_t size = 0;
            std::memcpy(&size, block + word, word);
            require(size >= 3 * word && size <= (std::uint64_t{1} << 40U), "the size in a block was overwritten");
            std::memcpy(&found, block + size - word, word);
            require(found == token, "the last word of a block was overwritten");
        }
    }

    Worker& worker_;
    const destination* first_;
    std::uint64_t checksum_ = 0;
};

}  // namespace bench
