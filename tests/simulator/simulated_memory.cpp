#include "simulator/simulated_memory.hpp"

#include <cstring>

#include "base/assert.hpp"
#include "base/checksum.hpp"
#include "persist/mutant.hpp"

namespace holdfast::simulator {

using persist::site;
using persist::site_kind;

std::uint64_t simulated_memory::image::hash() const { return base::checksum64(std::as_bytes(std::span{words})); }

simulated_memory::simulated_memory(std::size_t bytes)
    : media_(bytes / sizeof(std::uint64_t)), visible_(bytes / sizeof(std::uint64_t)) {
    HF_ASSERT(bytes % (line_words * sizeof(std::uint64_t)) == 0);
}

simulated_memory::simulated_memory(const image& start) : media_(start.words), visible_(start.words) {}

std::unique_ptr<simulated_memory> simulated_memory::restarted(const image& start) const {
    return std::make_unique<simulated_memory>(start);
}

std::uint64_t simulated_memory::index_of(const void* address) const noexcept {
    const auto distance = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(visible_.data());
    HF_ASSERT(distance % sizeof(std::uint64_t) == 0 && distance / sizeof(std::uint64_t) < visible_.size());
    return distance / sizeof(std::uint64_t);
}

void simulated_memory::store(std::uint64_t& word, std::uint64_t value) {
    const std::uint64_t index = index_of(&word);
    word = value;
    entry one;
    one.word = static_cast<std::uint32_t>(index % line_words);
    one.value = value;
    one.ordered = true;
    lines_[index / line_words].pending.push_back(one);
}

void simulated_memory::copy(void* target, const void* source, std::size_t bytes, bool nontemporal, unsigned thread) {
    const std::uint64_t first = index_of(target);
    HF_ASSERT(bytes % sizeof(std::uint64_t) == 0 && first + bytes / sizeof(std::uint64_t) <= visible_.size());
    std::memmove(target, source, bytes);
    for (std::uint64_t index = first; index < first + bytes / sizeof(std::uint64_t); ++index) {
        entry one;
        one.word = static_cast<std::uint32_t>(index % line_words);
        one.value = visible_[index];
        one.nontemporal = nontemporal;
        one.thread = thread;
        lines_[index / line_words].pending.push_back(one);
    }
}

void simulated_memory::flush(const void* begin, std::size_t bytes, unsigned thread) {
    if (bytes == 0) {
        return;
    }
    const auto base = reinterpret_cast<std::uintptr_t>(visible_.data());
    constexpr std::uint64_t line_bytes = line_words * sizeof(std::uint64_t);
    const std::uint64_t from = (reinterpret_cast<std::uintptr_t>(begin) - base) / line_bytes;
    const std::uint64_t to = (reinterpret_cast<std::uintptr_t>(begin) + bytes - 1 - base) / line_bytes;
    for (auto at = lines_.lower_bound(from); at != lines_.end() && at->first <= to; ++at) {
        flushes_[thread].push_back({at->first, at->second.settled + at->second.pending.size()});
    }
}

void simulated_memory::fence(unsigned thread) {
    if (at_cut_) {
        ++cuts_;
        at_cut_();
    }
    for (const started_flush& one : flushes_[thread]) {
        auto& of = lines_[one.line];
        for (std::uint64_t i = 0; of.settled + i < one.up_to && i < of.pending.size(); ++i) {
            // What another thread has in its write-combining buffers is not in the line yet.
            of.pending[i].durable = of.pending[i].durable || !of.pending[i].nontemporal;
        }
    }
    flushes_[thread].clear();
    std::vector<std::uint64_t> touched;
    for (auto& [index, of] : lines_) {
        for (entry& one : of.pending) {
            one.durable = one.durable || (one.nontemporal && one.thread == thread);
        }
        touched.push_back(index);
    }
    for (const std::uint64_t index : touched) {
        settle(index);
    }
}

/// Moves to media what is durable and has nothing undecided before it.
void simulated_memory::settle(std::uint64_t line_index) {
    auto& of = lines_[line_index];
    std::size_t count = 0;
    while (count < of.pending.size() && of.pending[count].durable) {
        media_[line_index * line_words + of.pending[count].word] = of.pending[count].value;
        ++count;
    }
    of.pending.erase(of.pending.begin(), of.pending.begin() + static_cast<std::ptrdiff_t>(count));
    of.settled += count;
    // The line itself stays: the flushes of other threads count its entries from the beginning of time.
}

void simulated_memory::cut(site where) {
    last_site_ = where;
    if (at_cut_) {
        ++cuts_;
        at_cut_();
    }
}

/// For each line with something undecided: one point for the prefix of its ordinary stores, one for each other word.
choice_space simulated_memory::choices() const {
    choice_space space;
    for (const auto& [index, of] : lines_) {
        std::uint32_t ordered = 0;
        const std::size_t first = space.outcomes.size();
        for (const entry& one : of.pending) {
            if (one.durable) {
                continue;
            }
            if (one.ordered) {
                ++ordered;
            } else {
                space.outcomes.push_back(2);
            }
        }
        if (ordered > 0) {
            space.outcomes.push_back(static_cast<outcome>(ordered + 1));
        }
        if (space.outcomes.size() > first) {
            space.operations.push_back(static_cast<std::uint32_t>(first));
        }
    }
    return space;
}

simulated_memory::image simulated_memory::build(std::span<const outcome> chosen) const {
    image out{media_};
    std::size_t next = 0;
    for (const auto& [index, of] : lines_) {
        std::size_t unordered = 0;
        std::uint32_t ordered = 0;
        for (const entry& one : of.pending) {
            unordered += !one.durable && !one.ordered ? 1U : 0U;
            ordered += !one.durable && one.ordered ? 1U : 0U;
        }
        std::size_t prefix = ordered > 0 ? chosen[next + unordered] : 0;
        std::size_t word_choice = next;
        for (const entry& one : of.pending) {
            bool there = one.durable;
            if (!there && one.ordered) {
                there = prefix > 0;
                prefix -= there ? 1 : 0;
            } else if (!there) {
                there = chosen[word_choice++] != 0;
            }
            if (there) {
                out.words[index * line_words + one.word] = one.value;
            }
        }
        next += unordered + (ordered > 0 ? 1 : 0);
    }
    return out;
}

bool simulated_memory::for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                                            const std::function<bool(const image&)>& visit) const {
    return for_each_choice(choices(), limits, seed,
                           [&](std::span<const outcome> chosen) { return visit(build(chosen)); });
}

std::string simulated_memory::position() const {
    return "cut " + std::to_string(cuts_) + " (" + last_site_ + "), " + std::to_string(choices().outcomes.size()) +
           " choices open";
}

void simulated_domain::store(std::uint64_t& word, std::uint64_t value, site where) noexcept {
    memory_->at(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->store(word, value);
    }
}

std::uint64_t simulated_domain::fetch_or(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept {
    const std::uint64_t before = word;
    store(word, before | bits, where);
    return before;
}

std::uint64_t simulated_domain::fetch_and(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept {
    const std::uint64_t before = word;
    store(word, before & bits, where);
    return before;
}

bool simulated_domain::replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value,
                                  persist::site where) noexcept {
    if (word != expected) {
        return false;
    }
    store(word, value, where);
    return true;
}

void simulated_domain::copy_nontemporal(void* target, const void* source, std::size_t bytes, site where) noexcept {
    memory_->at(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->copy(target, source, bytes, true, thread_);
    }
}

void simulated_domain::copy(void* target, const void* source, std::size_t bytes, site where) noexcept {
    memory_->at(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->copy(target, source, bytes, false, thread_);
    }
}

void simulated_domain::fill_zero(void* target, std::size_t bytes, site where) noexcept {
    const std::vector<std::byte> zeros(bytes);
    copy(target, zeros.data(), bytes, where);
}

void simulated_domain::flush(const void* begin, std::size_t bytes, site where) noexcept {
    memory_->at(where);
    if (!persist::mutant_active(where, site_kind::flush)) {
        memory_->flush(begin, bytes, thread_);
    }
}

void simulated_domain::fence(site where) noexcept {
    memory_->at(where);
    if (!persist::mutant_active(where, site_kind::fence)) {
        memory_->fence(thread_);
    } else {
        memory_->cut(where);
    }
}

}  // namespace holdfast::simulator
