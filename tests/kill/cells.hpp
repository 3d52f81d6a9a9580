// What heaps hold in the tests that kill processes beside each other: cells, changed by steps. Step `n` is made of the
// seed and `n` alone, so each process can say what the heap holds after any number of steps.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <holdfast/manager.hpp>

namespace holdfast::test {

constexpr std::size_t slot_count = 64;
using word = std::uint64_t;

struct cells {
    word steps = 0;
    std::array<ptr<word>, slot_count> block;
    std::array<word, slot_count> words;  ///< of each block; 0: none
};

inline word mixed(word seed, word number) noexcept {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15U + number);
    return random();
}

/// What a step does.
struct step {
    enum class kind { replace, free, store } what = kind::store;
    std::size_t slot = 0;
    word words = 0;  ///< of the new block
    word place = 0;  ///< of the word stored

    step(word seed, word number) noexcept {
        constexpr word kinds = 8;
        constexpr word few_words = 400;
        constexpr word many_words = 60'000;
        const word chance = mixed(seed, number);
        slot = chance % slot_count;
        const word choice = (chance >> 8U) % kinds;
        what = choice < 3 ? kind::replace : choice == 3 ? kind::free : kind::store;
        words = 1 + (chance >> 16U) % ((chance >> 60U) == 0 ? many_words : few_words);
        place = chance >> 20U;
    }
};

/// What the heap holds, without a heap.
class expected_cells {
public:
    explicit expected_cells(word seed) : seed_(seed) {}

    void go_to(word steps) {
        for (; steps_ < steps; ++steps_) {
            const step next(seed_, steps_ + 1);
            std::vector<word>& block = blocks_[next.slot];
            if (next.what == step::kind::replace) {
                block.assign(next.words, steps_ + 1);
            } else if (next.what == step::kind::free) {
                block.clear();
            } else if (!block.empty()) {
                block[next.place % block.size()] = steps_ + 1;
            }
        }
    }
    /// What is wrong, or nothing.
    [[nodiscard]] std::string compare(const cells& there) const {
        if (there.steps != steps_) {
            return fmt::format("{} steps, not {}", there.steps, steps_);
        }
        for (std::size_t i = 0; i < slot_count; ++i) {
            if (there.words[i] != blocks_[i].size()) {
                return fmt::format("after {} steps block {} has {} words, not {}", steps_, i, there.words[i],
                                   blocks_[i].size());
            }
            const word* const found = there.block[i].get();
            const auto differs = std::mismatch(blocks_[i].begin(), blocks_[i].end(), found);
            if (differs.first != blocks_[i].end()) {
                return fmt::format("after {} steps word {} of block {}, of {}, is {}, not {}", steps_,
                                   differs.first - blocks_[i].begin(), i, blocks_[i].size(), *differs.second,
                                   *differs.first);
            }
        }
        return {};
    }
    [[nodiscard]] word steps() const noexcept { return steps_; }
    [[nodiscard]] std::size_t blocks() const {
        return static_cast<std::size_t>(std::ranges::count_if(blocks_, [](const auto& each) { return !each.empty(); }));
    }

private:
    word seed_;
    word steps_ = 0;
    std::array<std::vector<word>, slot_count> blocks_;
};

inline open_options cell_options() {
    open_options options;
    options.segment_size = std::uint64_t{2} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    options.decay = std::chrono::milliseconds(1);
    return options;
}

/// Carries out a step on the heap, in a transaction.
inline void work_on(manager& heap, cells& all, word seed, word number) {
    const step next(seed, number);
    ptr<word>& block = all.block[next.slot];
    word& words = all.words[next.slot];
    if (next.what == step::kind::store) {
        if (words != 0) {
            block.get()[next.place % words] = number;
        }
    } else if (words != 0) {
        heap.deallocate(block.get());
        block = nullptr;
        words = 0;
    }
    if (next.what == step::kind::replace) {
        block = static_cast<word*>(heap.allocate(next.words * sizeof(word)));
        words = next.words;
        std::fill_n(block.get(), words, number);
    }
    all.steps = number;
}

}  // namespace holdfast::test
