#include "simulator/memory/atomic_memory.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/assert.hpp"
#include "persist/mutant.hpp"

namespace holdfast::simulator {

using persist::site;
using persist::site_kind;

namespace {

/// Of one choice point.
constexpr std::uint32_t most_outcomes = 65535;

constexpr std::uint64_t line_bytes = base::cache_line_size;

/// The hash of a memory is the sum over its words; zero adds nothing.
std::uint64_t hash_of_word(std::uint32_t word, std::uint64_t value) noexcept {
    if (value == 0) {
        return 0;
    }
    std::uint64_t mixed = (value ^ 0x9e3779b97f4a7c15) * (2 * std::uint64_t{word} + 0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 31U) ^ word) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 29U);
}

}  // namespace

tracked_memory::tracked_memory(const layout& of) : layout_(of) {
    const std::uint64_t bytes = std::accumulate(of.bytes.begin(), of.bytes.end(), std::uint64_t{0});
    HF_ASSERT(bytes % line_bytes == 0);
    bounds_ = {static_cast<std::uint32_t>(of.bytes[0] / 8),
               static_cast<std::uint32_t>((of.bytes[0] + of.bytes[1]) / 8)};
    watched_first_ = static_cast<std::uint32_t>(of.watched_at / 8);
    watched_end_ = static_cast<std::uint32_t>((of.watched_at + of.watched_bytes) / 8);
    auto mapped = base::sparse_memory::map(bytes, "memory of a crash test");
    HF_ASSERT(mapped.ok());
    visible_memory_ = std::move(mapped).value();
    visible_ = static_cast<std::uint64_t*>(visible_memory_.address());
    media_.resize(bytes / 8);
    lines_.resize(bytes / line_bytes);
    is_changed_.resize(media_.size());
    noticed_.resize(watched_end_ - watched_first_);
    holes_.resize(media_.size() / page_words + 1);
}

std::uint32_t tracked_memory::index_of(const void* address) const noexcept {
    const auto distance = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(visible_);
    HF_ASSERT(distance % 8 == 0 && distance / 8 < media_.size());
    return static_cast<std::uint32_t>(distance / 8);
}

void tracked_memory::put_visible(std::uint32_t word, std::uint64_t value) noexcept {
    visible_hash_[part_of(word)] += hash_of_word(word, value) - hash_of_word(word, visible_[word]);
    visible_[word] = value;
    if (word - watched_first_ < noticed_.size()) {
        noticed_[word - watched_first_] = value;
    }
}

void tracked_memory::put_media(std::uint32_t word, std::uint64_t value) {
    media_hash_ += hash_of_word(word, value) - hash_of_word(word, media_[word]);
    media_[word] = value;
    if (!is_changed_[word]) {
        is_changed_[word] = true;
        changes_.push_back(word);
    }
}

void tracked_memory::set_visible(std::uint32_t word, std::uint64_t value) {
    undo_visible_.push_back({word, visible_[word]});
    put_visible(word, value);
}

void tracked_memory::set_media(std::uint32_t word, std::uint64_t value) {
    if (media_[word] != value) {
        undo_media_.push_back({word, media_[word]});
        put_media(word, value);
    }
}

void tracked_memory::add(std::uint32_t word, entry one) {
    line& of = lines_[word / line_words];
    if (of.pending.empty()) {
        dirty_.push_back(static_cast<std::uint32_t>(word / line_words));
    }
    one.word = static_cast<std::uint8_t>(word % line_words);
    one.thread = static_cast<std::uint8_t>(thread_);
    of.nontemporal += one.nontemporal ? 1U : 0U;
    of.pending.push_back(one);
}

std::size_t tracked_memory::notice() {
    if (std::memcmp(visible_ + watched_first_, noticed_.data(), noticed_.size() * 8) == 0) {
        return 0;
    }
    std::size_t found = 0;
    for (std::uint32_t word = watched_first_; word < watched_end_; ++word) {
        const std::uint64_t value = visible_[word];
        const std::uint64_t before = noticed_[word - watched_first_];
        if (value != before) {
            visible_[word] = before;  // for the hash and the undo list
            set_visible(word, value);
            add(word, {.value = value});
            ++found;
        }
    }
    return found;
}

void tracked_memory::store(std::uint64_t& word, std::uint64_t value) {
    if (dead_) {
        return;
    }
    const std::uint32_t index = index_of(&word);
    touch(index, "a store to");
    set_visible(index, value);
    add(index, {.value = value, .ordered = true});
}

void tracked_memory::copy(void* target, const void* source, std::size_t bytes, bool nontemporal) {
    if (dead_) {
        return;
    }
    const std::uint32_t first = index_of(target);
    HF_ASSERT(bytes % 8 == 0 && first + bytes / 8 <= media_.size());
    touch(first, "a copy to");
    for (std::size_t i = 0; i < bytes / 8; ++i) {
        std::uint64_t value = 0;
        std::memcpy(&value, static_cast<const std::byte*>(source) + i * 8, 8);
        const auto index = static_cast<std::uint32_t>(first + i);
        set_visible(index, value);
        add(index, {.value = value, .nontemporal = nontemporal});
    }
}

void tracked_memory::flush(const void* begin, std::size_t bytes) {
    if (bytes == 0) {
        return;
    }
    const auto from = (reinterpret_cast<std::uintptr_t>(begin) - reinterpret_cast<std::uintptr_t>(visible_));
    for (std::uint64_t index = from / line_bytes; index <= (from + bytes - 1) / line_bytes; ++index) {
        const line& of = lines_[index];
        touch(static_cast<std::uint32_t>(index * line_words), "a flush of");
        if (!of.pending.empty()) {
            flushes_.push_back({static_cast<std::uint32_t>(index), thread_, of.settled + of.pending.size()});
        }
    }
}

void tracked_memory::fence(site where, bool effective) {
    cut(where);
    if (!effective || dead_) {
        return;
    }
    std::erase_if(flushes_, [this](const started_flush& one) {
        if (one.thread != thread_) {
            return false;
        }
        line& of = lines_[one.line];
        for (std::uint64_t i = 0; of.settled + i < one.up_to && i < of.pending.size(); ++i) {
            // Another thread's non-temporal words are not in the line before its own fence.
            of.pending[i].durable = of.pending[i].durable || !of.pending[i].nontemporal;
        }
        return true;
    });
    for (const std::uint32_t index : dirty_) {
        if (lines_[index].nontemporal == 0) {
            continue;
        }
        for (entry& one : lines_[index].pending) {
            one.durable = one.durable || (one.nontemporal && one.thread == thread_);
        }
    }
    settle();
}

void tracked_memory::sync(const void* begin, std::size_t bytes, site where, bool effective) {
    cut(where);
    if (!effective || dead_) {
        return;
    }
    const std::uint32_t first = index_of(begin);
    for (std::uint64_t index = first / line_words; index <= (first + bytes / 8 - 1) / line_words; ++index) {
        for (entry& one : lines_[index].pending) {
            one.durable = true;
        }
    }
    settle();
}

/// Up to the first undecided entry of each line.
void tracked_memory::settle() {
    std::erase_if(dirty_, [this](std::uint32_t index) {
        line& of = lines_[index];
        std::size_t count = 0;
        for (; count < of.pending.size() && of.pending[count].durable; ++count) {
            set_media(static_cast<std::uint32_t>(index * line_words + of.pending[count].word), of.pending[count].value);
            of.nontemporal -= of.pending[count].nontemporal ? 1U : 0U;
        }
        of.pending.erase(of.pending.begin(), of.pending.begin() + static_cast<std::ptrdiff_t>(count));
        of.settled += count;
        return of.pending.empty();
    });
}

void tracked_memory::settle_all() {
    notice();
    for (const std::uint32_t index : dirty_) {
        for (entry& one : lines_[index].pending) {
            one.durable = true;
        }
    }
    settle();
    flushes_.clear();
}

void tracked_memory::touch(std::uint32_t word, const char* how) {
    if (holes_[word / page_words] && !dead_ && fault_.empty()) {
        fault_ = std::string(how) + " a hole, page " + std::to_string(word / page_words);
    }
}

void tracked_memory::punch(std::uint64_t at, std::uint64_t bytes) {
    if (dead_) {
        return;
    }
    for (std::uint64_t word = at / 8; word < (at + bytes) / 8; ++word) {
        holes_[word / page_words] = true;
        const auto index = static_cast<std::uint32_t>(word);
        if (visible_[index] != 0) {
            set_visible(index, 0);
            add(index, {.value = 0, .ordered = true});
        }
    }
}

void tracked_memory::scribble(std::uint64_t at, std::uint64_t bytes) {
    if (dead_) {
        return;
    }
    fill(at, bytes);
    for (std::uint64_t word = at / 8; word < (at + bytes) / 8; ++word) {
        holes_[word / page_words] = true;
        // Looks like a destination with one of the most frequent stamps.
        const std::uint64_t stamp = word % page_words;
        if (stamp < 2 * line_words) {
            const auto index = static_cast<std::uint32_t>(word);
            set_visible(index, stamp % 5 << 48U);
            set_media(index, stamp % 5 << 48U);
        }
    }
}

void tracked_memory::fill(std::uint64_t at, std::uint64_t bytes) {
    if (dead_) {
        return;
    }
    for (std::uint64_t page = at / 8 / page_words; page < (at + bytes) / 8 / page_words; ++page) {
        holes_[page] = false;
    }
    for (const std::uint32_t index : dirty_) {
        if (index * line_words >= at / 8 && index * line_words < (at + bytes) / 8) {
            for (entry& one : lines_[index].pending) {
                one.durable = true;
            }
        }
    }
    settle();
}

void tracked_memory::forget_pending() {
    for (const std::uint32_t index : dirty_) {
        lines_[index].settled += lines_[index].pending.size();
        lines_[index].pending.clear();
        lines_[index].nontemporal = 0;
    }
    dirty_.clear();
    flushes_.clear();
}

void tracked_memory::mark() {
    settle_all();
    undo_visible_.clear();
    undo_media_.clear();
}

void tracked_memory::rewind() {
    notice();
    std::fill(holes_.begin(), holes_.end(), false);
    fault_.clear();
    forget_pending();
    for (; !undo_visible_.empty(); undo_visible_.pop_back()) {
        put_visible(undo_visible_.back().word, undo_visible_.back().value);
    }
    for (; !undo_media_.empty(); undo_media_.pop_back()) {
        put_media(undo_media_.back().word, undo_media_.back().value);
    }
}

void tracked_memory::install(const memory_image& image) {
    for (const word_value& one : image) {
        set_visible(one.word, one.value);
        set_media(one.word, one.value);
    }
}

void tracked_memory::crash(const memory_image& image) {
    notice();
    const std::vector<std::uint32_t> lines = dirty_;
    forget_pending();
    for (const std::uint32_t index : lines) {
        for (std::uint32_t i = 0; i < line_words; ++i) {
            const auto word = static_cast<std::uint32_t>(index * line_words + i);
            if (visible_[word] != media_[word]) {
                set_visible(word, media_[word]);
            }
        }
    }
    install(image);
}

void tracked_memory::take_over(const tracked_memory& killed) {
    for (const std::uint32_t index : killed.dirty_) {
        for (entry one : killed.lines_[index].pending) {
            const auto word = static_cast<std::uint32_t>(index * line_words + one.word);
            one.nontemporal = false;  // a processor without such stores has them in its cache
            set_visible(word, one.value);
            add(word, one);
        }
    }
    settle();
}

void tracked_memory::rebase(std::uint32_t word, std::uint64_t value) {
    put_visible(word, value);
    put_media(word, value);
}

memory_image tracked_memory::deviations() const {
    memory_image out;
    for (const word_value& one : undo_media_) {
        const bool known =
            std::any_of(out.begin(), out.end(), [&one](const word_value& other) { return other.word == one.word; });
        if (!known) {
            out.push_back({one.word, media_[one.word]});
        }
    }
    return out;
}

/// For each line with something undecided: a choice point for each unordered word, and one for the prefix of its
/// ordinary stores.
choice_space tracked_memory::choices() const {
    choice_space space;
    if (kind_ == crash_kind::process_crash) {
        return space;
    }
    for (const std::uint32_t index : dirty_) {
        std::uint32_t ordered = 0;
        const std::size_t first = space.outcomes.size();
        for (const entry& one : lines_[index].pending) {
            if (!one.durable && one.ordered) {
                ++ordered;
            } else if (!one.durable) {
                space.outcomes.push_back(2);
            }
        }
        if (ordered > 0) {
            space.outcomes.push_back(static_cast<outcome>(std::min(ordered + 1, most_outcomes)));
        }
        if (space.outcomes.size() > first) {
            space.operations.push_back(static_cast<std::uint32_t>(first));
        }
    }
    return space;
}

std::uint64_t tracked_memory::build(std::span<const outcome> chosen, memory_image& image) const {
    image.clear();
    std::uint64_t hash = media_hash_;
    std::size_t next = 0;
    const bool all = kind_ == crash_kind::process_crash;
    const auto prefix_for = [](std::uint32_t ordered, outcome of) {  // the last outcome means all, if there are too
                                                                     // many
        return of + 1U == most_outcomes ? std::size_t{ordered} : std::size_t{of};
    };
    for (const std::uint32_t index : dirty_) {
        const std::vector<entry>& pending = lines_[index].pending;
        std::uint32_t ordered = 0;
        std::size_t unordered = 0;
        for (const entry& one : pending) {
            ordered += !one.durable && one.ordered ? 1U : 0U;
            unordered += !one.durable && !one.ordered ? 1U : 0U;
        }
        std::size_t prefix = all ? ordered : ordered > 0 ? prefix_for(ordered, chosen[next + unordered]) : 0;
        std::size_t word_choice = next;
        std::array<std::uint64_t, line_words> values{};
        unsigned there = 0;
        for (const entry& one : pending) {
            bool kept = one.durable || all;
            if (!kept && one.ordered) {
                kept = prefix > 0;
                prefix -= kept ? 1 : 0;
            } else if (!kept) {
                kept = chosen[word_choice++] != 0;
            }
            if (kept) {
                values[one.word] = one.value;
                there |= 1U << one.word;
            }
        }
        next += unordered + (ordered > 0 ? 1 : 0);
        for (std::uint32_t i = 0; i < line_words; ++i) {
            const auto word = static_cast<std::uint32_t>(index * line_words + i);
            if ((there >> i & 1U) != 0 && values[i] != media_[word]) {
                image.push_back({word, values[i]});
                hash += hash_of_word(word, values[i]) - hash_of_word(word, media_[word]);
            }
        }
    }
    return hash;
}

// --- the domain -----------------------------------------------------------------------------------------------------

void tracked_domain::store(std::uint64_t& word, std::uint64_t value, site where) noexcept {
    memory_->step(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->store(word, value);
    }
}

std::uint64_t tracked_domain::fetch_or(std::uint64_t& word, std::uint64_t bits, site where) noexcept {
    memory_->step(where);
    const std::uint64_t before = word;
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->store(word, before | bits);
    }
    return before;
}

std::uint64_t tracked_domain::fetch_and(std::uint64_t& word, std::uint64_t bits, site where) noexcept {
    memory_->step(where);
    const std::uint64_t before = word;
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->store(word, before & bits);
    }
    return before;
}

bool tracked_domain::replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value, site where) noexcept {
    memory_->step(where);
    if (word != expected) {
        return false;
    }
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->store(word, value);
    }
    return true;
}

void tracked_domain::copy_nontemporal(void* target, const void* source, std::size_t bytes, site where) noexcept {
    memory_->step(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->copy(target, source, bytes, true);
    }
}

void tracked_domain::copy(void* target, const void* source, std::size_t bytes, site where) noexcept {
    memory_->step(where);
    if (!persist::mutant_active(where, site_kind::write)) {
        memory_->copy(target, source, bytes, false);
    }
}

void tracked_domain::fill_zero(void* target, std::size_t bytes, site where) noexcept {
    const std::vector<std::byte> zeros(bytes);
    copy(target, zeros.data(), bytes, where);
}

void tracked_domain::flush(const void* begin, std::size_t bytes, site where) noexcept {
    memory_->step(where);
    if (!persist::mutant_active(where, site_kind::flush)) {
        memory_->flush(begin, bytes);
    }
}

void tracked_domain::fence(site where) noexcept {
    memory_->step(where);
    memory_->fence(where, !persist::mutant_active(where, site_kind::fence));
}

void tracked_domain::sync(const void* begin, std::size_t bytes, site where) noexcept {
    memory_->step(where);
    memory_->sync(begin, bytes, where, !persist::mutant_active(where, site_kind::fence));
}

}  // namespace holdfast::simulator
