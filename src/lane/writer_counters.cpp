#include "lane/writer_counters.hpp"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include <xxhash.h>

#include "lane/record.hpp"

namespace holdfast::lane {

namespace {

std::uint64_t seal_of(const writer_counters_on_media& block, std::uint64_t heap_key) noexcept {
    // No record has this seed.
    const std::uint64_t seed = seed_of(heap_key, block.incarnation, nowhere);
    const std::uint64_t checksum = XXH3_64bits_withSeed(&block, offsetof(writer_counters_on_media, seal), seed);
    return checksum == 0 ? 1 : checksum;
}

void store(std::uint64_t& word, std::uint64_t value) noexcept {
    std::atomic_ref<std::uint64_t>(word).store(value, std::memory_order_release);
}

}  // namespace

void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept {
    const std::uint64_t before = std::atomic_ref<std::uint64_t>(to.generation).load(std::memory_order_relaxed);
    writer_counters_on_media made{
        (before | 1U) + 1,
        incarnation,
        static_cast<std::uint64_t>(::getpid()),
        {counters.records, counters.fences, counters.flushed_lines, counters.reflushes, counters.media_bytes,
         counters.checkpoints, counters.checkpoint_ns, counters.longest_checkpoint_ns, counters.waits, counters.lanes},
        0};
    made.seal = seal_of(made, heap_key);
    store(to.generation, before | 1U);
    store(to.incarnation, made.incarnation);
    store(to.process, made.process);
    for (std::size_t i = 0; i < std::size(made.counters); ++i) {
        store(to.counters[i], made.counters[i]);
    }
    store(to.seal, made.seal);
    store(to.generation, made.generation);
}

std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page, std::uint64_t heap_key,
                                                    std::uint64_t incarnation) {
    writer_counters_on_media block;
    if (page.size() < writer_counters_at + sizeof block) {
        return std::nullopt;
    }
    std::memcpy(&block, page.data() + writer_counters_at, sizeof block);
    if (block.generation % 2 != 0 || block.incarnation != incarnation || block.process == 0 ||
        block.seal != seal_of(block, heap_key)) {
        return std::nullopt;
    }
    const std::uint64_t* const in = block.counters;
    return writer_counters{block.process, {in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[9]}};
}

}  // namespace holdfast::lane
