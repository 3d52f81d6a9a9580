#include "recovery/uniform_heap.hpp"

#include <cstddef>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/child.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

using word = holdfast::ptr<std::byte>;
constexpr const char* words_name = "destinations";
constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30U;
constexpr std::uint64_t least_size = 64;
constexpr std::uint64_t greatest_size = 128U << 10U;

std::uint64_t random_size(random_source& random) { return random.between(least_size, greatest_size); }

}  // namespace

std::uint64_t uniform_heap::demand(std::uint64_t bytes) noexcept {
    // Blocks of whole pages, slabs, and 2 % of metadata.
    return bytes + bytes / 12 + gibibyte;
}

uniform_heap::uniform_heap(std::filesystem::path path, std::uint64_t bytes, std::uint64_t seed,
                           std::uint64_t replacements)
    : crashed_heap(std::move(path)), replacements_(replacements) {
    blocks_ = bytes / ((least_size + greatest_size) / 2) + 1;
    run_child(ending::dies, [&](const child_process& self) {
        {
            holdfast::manager heap(holdfast::create_only, this->path().string());
            heap.construct<word>(words_name)[blocks_]();  // durable by the commit of the close
        }
        holdfast::manager heap(holdfast::open_only, this->path().string(), options_in("page-cache"));
        word* const words = heap.find<word>(words_name).first;
        random_source random(seed);
        for (std::uint64_t i = 0; i < blocks_; ++i) {
            heap.allocate_to(words[i], random_size(random));
        }
        self.die();
    });
}

/// How many blocks there are stays.
void uniform_heap::change(holdfast::manager& heap, std::uint64_t seed) const {
    const auto [words, count] = heap.find<word>(words_name);
    random_source random(seed);
    for (std::uint64_t i = 0; i < replacements_; ++i) {
        word& one = words[random.below(count)];
        heap.free_from(one);
        heap.allocate_to(one, random_size(random));
    }
}

/// All destinations refer to a block, and there is no other: none was lost, none has leaked.
void uniform_heap::require_whole(const holdfast::manager& heap) const {
    const auto [words, count] = heap.find<word>(words_name);
    std::uint64_t referred = 0;
    for (std::size_t i = 0; i < count; ++i) {
        referred += words[i] != nullptr ? 1U : 0U;
    }
    const std::uint64_t found = heap.statistics().allocated_blocks;
    if (referred != blocks_ || found != blocks_ + 1) {  // and the array of the destinations
        throw std::logic_error(
            fmt::format("{} destinations refer to a block, and {} blocks are there; expected {} and {}", referred,
                        found, blocks_, blocks_ + 1));
    }
}

}  // namespace bench
