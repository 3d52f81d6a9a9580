// Byte-addressable media behind caches, with a power cut at any moment. An image lists the words that differ from the
// media, and a restart costs only what was written, so very many small crashes are cheap.
//
// What may be on media after a power loss, for each line of 64 bytes, in words of 8:
// - Ordinary stores to a line become durable in program order: any prefix may be there at any time, because a line can
//   be evicted at any time. Different lines have no order.
// - Of copies (memcpy, vector and non-temporal stores), any subset of the words.
// - A flush and then a fence of the same thread make durable what the line held at the flush, whichever thread stored
//   it. Non-temporal words need only the fence. Another thread's fence has no effect.
// - A sync makes durable what was stored to its range, and nothing else. Before it returns, any subset of the words may
//   be there. So pages of a disk are covered, which are torn at sectors at worst.
//
// Hints in page entries are stored past the domain (extent layer). So a watched range is compared at every step; words
// that differ count as stored, each durable or not.
//
// Fault models: power_loss, as above; process_crash: exactly the stores made so far are there.
//
// One thread runs at a time: thread().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/sparse_table.hpp"
#include "persist/domain.hpp"
#include "simulator/choices.hpp"

namespace holdfast::simulator {

enum class crash_kind : std::uint8_t { power_loss, process_crash };

struct word_value {
    std::uint32_t word = 0;
    std::uint64_t value = 0;
};
/// Words that differ from some media, each listed once.
using memory_image = std::vector<word_value>;

class tracked_memory {
public:
    static constexpr std::uint64_t line_words = 8;
    /// Parts of the memory, in this order, for hash_of().
    enum class part : std::uint8_t { user, metadata, lanes };
    static constexpr std::size_t parts = 3;

    struct layout {
        std::array<std::uint64_t, parts> bytes{};  ///< multiples of 64
        std::uint64_t watched_at = 0;
        std::uint64_t watched_bytes = 0;
    };

    explicit tracked_memory(const layout& of);
    tracked_memory(const tracked_memory&) = delete;
    tracked_memory& operator=(const tracked_memory&) = delete;
    ~tracked_memory() = default;

    [[nodiscard]] std::byte* address() noexcept { return reinterpret_cast<std::byte*>(visible_); }
    [[nodiscard]] std::uint64_t at(std::uint64_t byte_offset) const noexcept { return visible_[byte_offset / 8]; }
    [[nodiscard]] std::uint64_t media_word(std::uint32_t word) const noexcept { return media_[word]; }

    // --- the domain ---
    void store(std::uint64_t& word, std::uint64_t value);
    void copy(void* target, const void* source, std::size_t bytes, bool nontemporal);
    void flush(const void* begin, std::size_t bytes);
    void fence(persist::site where, bool effective);
    /// A system call that makes what was stored to the lines of the range durable, and nothing else.
    void sync(const void* begin, std::size_t bytes, persist::site where, bool effective);
    /// The domain calls it before each operation.
    void step(persist::site where) {
        notice();
        if (on_step_) {
            on_step_(where);
        }
    }

    [[nodiscard]] unsigned thread() const noexcept { return thread_; }
    void set_thread(unsigned thread) noexcept { thread_ = thread; }
    /// The scheduler's hook, before each step.
    void set_on_step(std::function<void(persist::site)> call) { on_step_ = std::move(call); }
    /// Called before each fence, when most is undecided.
    void set_on_cut(std::function<void(persist::site)> call) { on_cut_ = std::move(call); }
    void set_crash_kind(crash_kind kind) noexcept { kind_ = kind; }
    /// A moment that the program chooses, such as the return of a call.
    void cut(persist::site where) {
        notice();
        if (on_cut_ && !dead_) {
            on_cut_(where);
        }
    }
    /// While dead, the program runs on without effect on the memory, and is not cut.
    void set_dead(bool dead) noexcept { dead_ = dead; }
    [[nodiscard]] bool dead() const noexcept { return dead_; }
    /// Finds stores that passed by the domain. Returns the number of words.
    std::size_t notice();
    void settle_all();

    // --- space that goes back ---
    /// Makes the range a hole. It reads as zero; on media each word of a line may or may not be zero yet. Until fill(),
    /// stores and write-backs there are faults.
    void punch(std::uint64_t at, std::uint64_t bytes);
    /// The range is free, a hole, and durably holds arbitrary content.
    void scribble(std::uint64_t at, std::uint64_t bytes);
    /// The range has space again; the zeros are durable.
    void fill(std::uint64_t at, std::uint64_t bytes);
    /// What was done to a hole, or nothing.
    [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

    // --- starting over ---
    /// rewind() returns to the present state, visible and on media.
    void mark();
    void rewind();
    /// Makes the image visible and durable, with nothing undecided. rewind() undoes it.
    void install(const memory_image& image);
    /// The power goes: of what was undecided only the image, from build(), survives. rewind() undoes it.
    void crash(const memory_image& image);
    /// The process of `killed` is killed, and this memory goes on: what was stored is visible, and what was undecided
    /// on media still is. rewind() undoes it.
    void take_over(const tracked_memory& killed);
    /// As install(), but rewind() does not undo it.
    void rebase(std::uint32_t word, std::uint64_t value);
    /// Visits every word of media that changed since the last call.
    template <class Each>
    void take_changes(Each each) {
        for (const std::uint32_t word : changes_) {
            is_changed_[word] = false;
            each(word, media_[word]);
        }
        changes_.clear();
    }
    /// Words of media that differ from mark().
    [[nodiscard]] memory_image deviations() const;

    // --- images ---
    [[nodiscard]] choice_space choices() const;
    /// The words that differ from media in the image of that choice. Returns its hash, media included.
    std::uint64_t build(std::span<const outcome> chosen, memory_image& image) const;
    /// Of the visible words.
    [[nodiscard]] std::uint64_t hash_of(part which) const noexcept {
        return visible_hash_[static_cast<std::size_t>(which)];
    }
    [[nodiscard]] std::uint64_t media_hash() const noexcept { return media_hash_; }

private:
    struct entry {
        std::uint64_t value = 0;
        std::uint8_t word = 0;  ///< in the line
        std::uint8_t thread = 0;
        bool ordered = false;  ///< an ordinary store
        bool nontemporal = false;
        bool durable = false;
    };
    struct line {
        std::vector<entry> pending;
        std::uint64_t settled = 0;      ///< entries that were pending and are on media
        std::uint64_t nontemporal = 0;  ///< of those pending
    };
    struct started_flush {
        std::uint32_t line = 0;
        unsigned thread = 0;
        std::uint64_t up_to = 0;  ///< entries of the line, counted from the start
    };

    [[nodiscard]] std::uint32_t index_of(const void* address) const noexcept;
    [[nodiscard]] std::size_t part_of(std::uint32_t word) const noexcept {
        return word < bounds_[0] ? 0 : word < bounds_[1] ? 1 : 2;
    }
    void add(std::uint32_t word, entry one);
    void set_visible(std::uint32_t word, std::uint64_t value);
    void set_media(std::uint32_t word, std::uint64_t value);
    void put_visible(std::uint32_t word, std::uint64_t value) noexcept;
    void put_media(std::uint32_t word, std::uint64_t value);
    void settle();
    void forget_pending();

    layout layout_;
    std::array<std::uint32_t, 2> bounds_{};
    std::uint32_t watched_first_ = 0;
    std::uint32_t watched_end_ = 0;
    base::sparse_memory visible_memory_;
    std::uint64_t* visible_ = nullptr;
    std::vector<std::uint64_t> media_;
    std::vector<std::uint64_t> noticed_;  ///< the watched range at the last look
    std::array<std::uint64_t, parts> visible_hash_{};
    std::uint64_t media_hash_ = 0;
    std::vector<line> lines_;
    std::vector<std::uint32_t> dirty_;  ///< lines with pending entries
    std::vector<started_flush> flushes_;
    void touch(std::uint32_t word, const char* how);
    static constexpr std::uint64_t page_words = 512;
    std::vector<bool> holes_;  ///< by page
    std::string fault_;
    std::vector<word_value> undo_visible_;
    std::vector<word_value> undo_media_;
    std::vector<std::uint32_t> changes_;
    std::vector<bool> is_changed_;
    std::function<void(persist::site)> on_step_;
    std::function<void(persist::site)> on_cut_;
    crash_kind kind_ = crash_kind::power_loss;
    unsigned thread_ = 0;
    bool dead_ = false;
};

/// The running thread's domain; a model of persist::persistence_domain. A mutant omits its steps by site.
class tracked_domain {
public:
    static constexpr persist::domain_kind kind = persist::domain_kind::dax;
    static constexpr bool models_disks = true;  ///< with records in a log (lane::may_log)

    explicit tracked_domain(tracked_memory& memory) : memory_(&memory) {}

    void store(std::uint64_t& word, std::uint64_t value, persist::site where) noexcept;
    std::uint64_t fetch_or(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept;
    std::uint64_t fetch_and(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept;
    bool replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value, persist::site where) noexcept;
    void copy_nontemporal(void* target, const void* source, std::size_t bytes, persist::site where) noexcept;
    void copy_line(void* target, const persist::line_words& line, persist::site where) noexcept {
        copy_nontemporal(target, line, sizeof line, where);
    }
    void copy(void* target, const void* source, std::size_t bytes, persist::site where) noexcept;
    void fill_zero(void* target, std::size_t bytes, persist::site where) noexcept;
    void flush(const void* begin, std::size_t bytes, persist::site where) noexcept;
    void fence(persist::site where) noexcept;
    void sync(const void* begin, std::size_t bytes, persist::site where) noexcept;

private:
    tracked_memory* memory_;
};

static_assert(persist::persistence_domain<tracked_domain>);

}  // namespace holdfast::simulator
