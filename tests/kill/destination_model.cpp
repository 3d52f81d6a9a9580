#include "kill/destination_model.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace holdfast::test::destinations {

namespace {

std::uint64_t mix(std::uint64_t seed, std::uint64_t at) noexcept {
    std::uint64_t value = (seed + at * 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    value ^= value >> 29U;
    return value * 0x94d049bb133111ebU;
}

/// Visits the words of the content; the last may be shorter. Which words these are does not depend on the size: a
/// block may become another one's beginning.
template <class Visit>
void for_each_word(const block& of, Visit&& visit) {
    constexpr std::uint64_t dense = 4096;
    constexpr std::uint64_t middle = 65536;
    for (std::uint64_t at = of.node ? node_header : 0; at < of.valid; at += at < dense    ? sizeof(std::uint64_t)
                                                                            : at < middle ? 520
                                                                                          : 4104) {
        const std::uint64_t word = of.seed == 0 ? 0 : mix(of.seed, at);
        visit(at, word, std::min<std::uint64_t>(of.valid - at, sizeof word));
    }
}

}  // namespace

void fill(std::byte* memory, const block& of) noexcept {
    for_each_word(of, [memory](std::uint64_t at, std::uint64_t word, std::uint64_t bytes) {
        std::memcpy(memory + at, &word, bytes);
    });
}

bool has_content(const std::byte* memory, const block& of) noexcept {
    bool right = true;
    for_each_word(of, [&](std::uint64_t at, std::uint64_t word, std::uint64_t bytes) {
        right = right && std::memcmp(memory + at, &word, bytes) == 0;
    });
    return right;
}

std::string object_name(std::uint64_t word) {
    const std::uint64_t number = word - objects_at;
    return "object " + std::to_string(number) + std::string(number % 3 * 60, 'n');
}

object_content::object_content(std::uint64_t seed) {
    fill(reinterpret_cast<std::byte*>(this), {0, sizeof *this, seed, sizeof *this, false});
}

holdings::holdings(std::size_t set) {
    for (std::size_t i = 0; i < roots_of_set; ++i) {
        destinations_.push_back({(set * roots_of_set + i) * sizeof(std::uint64_t), {}});
    }
    for (std::size_t i = 0; i < objects_of_set; ++i) {
        destinations_.push_back({objects_at + set * objects_of_set + i, {}});
    }
}

block& holdings::target_of(std::uint64_t word) {
    const auto found = std::ranges::find(destinations_, word, &destination::at);
    if (found == destinations_.end()) {
        throw std::logic_error("a destination that the model does not know");
    }
    return found->target;
}

bool holdings::is_empty_node(const block& candidate) const noexcept {
    return std::ranges::none_of(destinations_, [&candidate](const destination& each) {
        return each.at >= candidate.at && each.at < candidate.at + node_header && each.target.at != 0;
    });
}

const destination* holdings::find_free_to_go() const noexcept {
    const auto found = std::ranges::find_if(destinations_, [this](const destination& each) {
        return each.target.at != 0 && (!each.target.node || is_empty_node(each.target));
    });
    return found == destinations_.end() ? nullptr : &*found;
}

std::uint64_t holdings::bytes() const noexcept {
    std::uint64_t sum = 0;
    for (const destination& each : destinations_) {
        sum += each.target.size;
    }
    return sum;
}

void holdings::put(std::uint64_t word, const block& target) {
    target_of(word) = target;
    for (std::size_t i = 0; target.node && i < words_of_node; ++i) {
        destinations_.push_back({target.at + i * sizeof(std::uint64_t), {}});
    }
}

void holdings::clear(std::uint64_t word) {
    const block old = target_of(word);
    target_of(word) = {};
    if (old.node) {
        std::erase_if(destinations_,
                      [&old](const destination& each) { return each.at >= old.at && each.at < old.at + node_header; });
    }
}

void holdings::begin(const call_record& made) {
    if (made.what == call::write) {
        target_of(made.words[0]).valid = 0;
    }
}

void holdings::apply(const call_record& made, std::size_t i) {
    const std::uint64_t word = made.words.at(i);
    const block fresh{made.targets.at(i), made.size, made.seed == 0 ? 0 : made.seed + i,
                      made.size,          made.node, made.type};
    switch (made.what) {
        case call::publish: put(word, fresh); break;
        case call::free: clear(word); break;
        case call::allocate: {
            block unknown = fresh;
            unknown.valid = made.zeroed ? made.size : 0;
            put(word, unknown);
            break;
        }
        case call::reallocate: {
            block& target = target_of(word);
            target = {fresh.at,    fresh.size,
                      target.seed, std::min(target.valid, fresh.size),
                      false,       fresh.type != 0 ? fresh.type : target.type};
            break;
        }
        case call::write: {
            block& target = target_of(word);
            target.seed = made.seed;
            target.valid = target.size;
            break;
        }
        case call::move:
            if (i == 0) {  // the words of a node stay where they are
                const block moved = target_of(word);
                target_of(word) = {};
                target_of(made.words[1]) = moved;
                unfinished = {};
            }
            break;
    }
}

void holdings::apply(const call_record& made) {
    for (std::size_t i = 0; i < made.count; ++i) {
        apply(made, i);
    }
}

void shared_region::reset() noexcept {
    now.store(phase::starting);
    problem[0] = '\0';
    for (set_log& log : logs) {
        log.begun.store(0);
        log.done.store(0);
    }
}

}  // namespace holdfast::test::destinations
