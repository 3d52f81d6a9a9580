// What every crash image must satisfy in worlds of groups.
#include <algorithm>

#include "model/protocol_replay.hpp"

namespace holdfast::model {

namespace {

bool is_undecided(const thread& each) { return each.doing == activity::call && each.durable == 0; }

/// A heap as it must be: bits, words, and how the words in each block are used.
struct wanted_heap {
    byte blocks = 0;
    std::array<byte, max_words> words{};
    std::array<block_mode, block_count> modes{};
    /// Words that hold whatever their block's owner left or will store.
    byte unknown_words = 0;
};

byte words_inside(const rules& chosen, int block) {
    byte words = 0;
    for (std::size_t word = 0; word < chosen.about.holders.size(); ++word) {
        words |= block != 0 && chosen.about.holders[word] == block ? bit_of(word) : byte{0};
    }
    return words;
}

/// What threads see in each word.
std::array<byte, max_words> words_seen(const rules& chosen, const state& before) {
    std::array<byte, max_words> words{};
    std::array<int, max_lines> used{};
    for (std::size_t word = 0; word < chosen.about.holders.size(); ++word) {
        const auto line_index = static_cast<std::size_t>(chosen.about.lines[word]);
        words[word] = static_cast<byte>(before.lines[line_index].current >> 5 * used[line_index]++ & 31);
    }
    return words;
}

/// The group takes effect. Content that it stored before its records is what threads see.
void apply(const rules& chosen, const thread& group, const std::array<byte, max_words>& seen, wanted_heap& heap) {
    for (std::size_t element = 0; element < group.elements; ++element) {
        heap.words[group.word[element]] =
            make_word(group.allocated[element] | group.target[element], group.stamp[element]);
    }
    for (std::size_t element = 0; element < group.elements; ++element) {
        const int allocated = group.allocated[element];
        heap.blocks |= block_bit(allocated);
        heap.blocks &= static_cast<byte>(~block_bit(group.freed[element]));
        if (allocated == 0) {
            continue;
        }
        const bool filled = group.content != content_kind::unfilled;
        heap.modes[static_cast<std::size_t>(allocated - 1)] = filled ? block_mode::pointers : block_mode::raw;
        const byte inside = words_inside(chosen, allocated);
        for (std::size_t word = 0; word < max_words; ++word) {
            if ((inside & bit_of(word)) != 0 && group.content != content_kind::in_group) {
                heap.words[word] = seen[word];
                heap.unknown_words |= filled ? byte{0} : bit_of(word);
            }
        }
    }
}

/// The heap if the groups in flight of the given threads have taken effect, and the others have not.
wanted_heap heap_after(const rules& chosen, const state& before, unsigned threads) {
    wanted_heap heap{before.settled_blocks, before.settled_words, before.modes, 0};
    for (std::size_t who = 0; who < before.threads.size(); ++who) {
        if ((threads >> who & 1U) != 0) {
            apply(chosen, before.threads[who], words_seen(chosen, before), heap);
        }
    }
    return heap;
}

bool is_right(const rules& chosen, const wanted_heap& heap, const image& crashed, const image& recovered,
              std::size_t word) {
    const int holder = chosen.about.holders[word];
    const auto content = recovered.words[word];
    if (holder != 0 && (heap.blocks & block_bit(holder)) == 0) {
        return true;
    }
    if (holder != 0 && heap.modes[static_cast<std::size_t>(holder - 1)] != block_mode::pointers) {
        return (heap.unknown_words & bit_of(word)) != 0 || content == crashed.words[word];
    }
    const bool is_data = (chosen.about.data_words >> word & 1) != 0;
    return is_data ? content == heap.words[word] : target_of(content) == target_of(heap.words[word]);
}

/// The words and (behind them) the blocks that are right.
unsigned right_parts(const rules& chosen, const wanted_heap& heap, const image& crashed, const image& recovered) {
    unsigned right = 0;
    for (std::size_t word = 0; word < max_words; ++word) {
        const bool exists = word < chosen.about.holders.size();
        right |= !exists || is_right(chosen, heap, crashed, recovered, word) ? 1U << word : 0U;
    }
    const unsigned blocks = ~unsigned{heap.blocks} ^ recovered.blocks;
    return right | (blocks & ((1U << block_count) - 1)) << max_words;
}

unsigned groups_in_flight(const state& before) {
    unsigned threads = 0;
    for (std::size_t who = 0; who < before.threads.size(); ++who) {
        threads |= is_undecided(before.threads[who]) ? 1U << who : 0U;
    }
    return threads;
}

bool names_block(const image& crashed, int block) {
    return std::any_of(crashed.rings.begin(), crashed.rings.end(), [&](const auto& ring) {
        return std::any_of(ring.begin(), ring.end(), [&](const record& each) {
            return each.time > crashed.time && (each.allocated == block || each.freed == block);
        });
    });
}

constexpr unsigned all_parts = (1U << (max_words + block_count)) - 1;

}  // namespace

std::string examine_groups(const rules& chosen, const state& before, const image& crashed, const image& recovered) {
    if (crashed.grown == 0 && names_block(crashed, block_count)) {
        return "a record that counts names space that the heap does not have";
    }
    const unsigned in_flight = groups_in_flight(before);
    unsigned somehow_right = 0;
    for (unsigned threads = in_flight;; threads = (threads - 1) & in_flight) {
        const unsigned right = right_parts(chosen, heap_after(chosen, before, threads), crashed, recovered);
        if (right == all_parts) {
            return {};
        }
        somehow_right |= right;
        if (threads == 0) {
            break;
        }
    }
    return somehow_right == all_parts ? "a group has taken effect in part"
                                      : "a word or a bit is not as after the groups that are durable";
}

state reopen_groups(const rules& chosen, const state& before, const image& recovered) {
    state after;
    const unsigned in_flight = groups_in_flight(before);
    wanted_heap heap;
    for (unsigned threads = in_flight;; threads = (threads - 1) & in_flight) {
        heap = heap_after(chosen, before, threads);
        if (threads == 0 || right_parts(chosen, heap, recovered, recovered) == all_parts) {
            break;
        }
    }
    after.lines[0].current = recovered.blocks;
    after.settled_blocks = recovered.blocks;
    after.cached_blocks = static_cast<byte>(~recovered.blocks & ((1 << block_count) - 1));
    after.grown = recovered.grown != 0 ? growth::durable : growth::none;
    if (recovered.grown == 0) {
        after.cached_blocks = without(after.cached_blocks, block_bit(block_count));
    }
    for (std::size_t block = 0; block < block_count; ++block) {
        const bool owned = (recovered.blocks & bit_of(block)) != 0;
        after.modes[block] = owned ? heap.modes[block] : block_mode::raw;
    }
    std::array<int, max_lines> used{};
    for (std::size_t word = 0; word < chosen.about.holders.size(); ++word) {
        const auto line_index = static_cast<std::size_t>(chosen.about.lines[word]);
        after.settled_words[word] = recovered.words[word];
        after.lines[line_index].current |= static_cast<std::uint16_t>(recovered.words[word] << 5 * used[line_index]++);
    }
    for (line& each : after.lines) {
        each.possible[0] = each.current;
    }
    return after;
}

}  // namespace holdfast::model
