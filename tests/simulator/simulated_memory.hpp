// Byte-addressable media behind CPU caches, as a persistence domain that can be cut off at any moment.
//
// Fault model, line by line of 64 bytes, in atoms of 8:
//   - store(): ordinary stores to one line become durable in program order: any prefix of them may be on media at any
//   time,
//     for a line can be evicted whenever it likes. Between lines there is no order.
//   - copy_nontemporal() and copy() (memcpy, vector stores): any subset of their words.
//   - flush() followed by fence() of the same thread makes durable what the line held when it was flushed, whoever
//   stored it. A
//     fence of another thread does nothing for it. Non-temporal words need only the fence.
// Where an atom of one kind and an atom of another kind hit the same word, the later one in program order wins if both
// are durable, and any of the two may be durable without the other.
//
// Not thread-safe: "threads" are numbers that the test hands out; it interleaves them itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "persist/domain.hpp"
#include "simulator/choices.hpp"

namespace holdfast::simulator {

class simulated_memory {
public:
    static constexpr std::uint64_t line_words = 8;

    /// The words on media.
    struct image {
        std::vector<std::uint64_t> words;
        [[nodiscard]] std::uint64_t hash() const;
    };

    /// Zeroed media of so many bytes, a multiple of 64.
    explicit simulated_memory(std::size_t bytes);
    explicit simulated_memory(const image& start);
    [[nodiscard]] std::unique_ptr<simulated_memory> restarted(const image& start) const;

    /// The memory as programs see it. They change it through a simulated_domain only.
    [[nodiscard]] std::span<std::uint64_t> words() noexcept { return visible_; }

    void store(std::uint64_t& word, std::uint64_t value);
    void copy(void* target, const void* source, std::size_t bytes, bool nontemporal, unsigned thread);
    void flush(const void* begin, std::size_t bytes, unsigned thread);
    void fence(unsigned thread);

    /// Called before each fence, for that is when most is undecided, and at each cut().
    void set_observer(std::function<void()> at_cut) { at_cut_ = std::move(at_cut); }
    /// A moment that the program chooses: the return of a call.
    void cut(persist::site where);

    bool for_each_crash_image(const choice_limits& limits, std::uint64_t seed,
                              const std::function<bool(const image&)>& visit) const;
    [[nodiscard]] image current() const { return {visible_}; }
    /// No crash image will be asked for any more.
    void run_in_peace() noexcept { at_cut_ = {}; }
    [[nodiscard]] std::string position() const;
    void at(persist::site where) noexcept { last_site_ = where; }

private:
    struct entry {
        std::uint32_t word = 0;  ///< in the line
        std::uint64_t value = 0;
        bool ordered = false;  ///< an ordinary store
        bool nontemporal = false;
        bool durable = false;
        unsigned thread = 0;
    };
    struct line {
        std::vector<entry> pending;
        std::uint64_t settled = 0;  ///< entries that were pending once and are on media now
    };
    struct started_flush {
        std::uint64_t line;
        std::uint64_t up_to;  ///< entries of the line, counted from the beginning of time
    };

    [[nodiscard]] std::uint64_t index_of(const void* address) const noexcept;
    void settle(std::uint64_t line_index);
    [[nodiscard]] choice_space choices() const;
    [[nodiscard]] image build(std::span<const outcome> chosen) const;

    std::vector<std::uint64_t> media_;
    std::vector<std::uint64_t> visible_;
    std::map<std::uint64_t, line> lines_;  ///< those with something pending
    std::map<unsigned, std::vector<started_flush>> flushes_;
    std::function<void()> at_cut_;
    std::uint64_t cuts_ = 0;
    persist::site last_site_ = "start";
};

/// The domain as one thread sees it; models persist::persistence_domain. A mutant drops its flushes or fences by site.
class simulated_domain {
public:
    static constexpr persist::domain_kind kind = persist::domain_kind::dax;

    explicit simulated_domain(simulated_memory& memory, unsigned thread = 0) : memory_(&memory), thread_(thread) {}

    void store(std::uint64_t& word, std::uint64_t value, persist::site where) noexcept;
    std::uint64_t fetch_or(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept;
    std::uint64_t fetch_and(std::uint64_t& word, std::uint64_t bits, persist::site where) noexcept;
    bool replace_if(std::uint64_t& word, std::uint64_t expected, std::uint64_t value, persist::site where) noexcept;
    void copy_nontemporal(void* target, const void* source, std::size_t bytes, persist::site where) noexcept;
    void copy_line(void* target, const persist::line_words& line, persist::site where) noexcept {
        copy_nontemporal(target, line, sizeof line, where);
    }
    /// memcpy into the memory: what a program does to its own data.
    void copy(void* target, const void* source, std::size_t bytes, persist::site where) noexcept;
    void fill_zero(void* target, std::size_t bytes, persist::site where) noexcept;
    void flush(const void* begin, std::size_t bytes, persist::site where) noexcept;
    void fence(persist::site where) noexcept;

private:
    simulated_memory* memory_;
    unsigned thread_;
};

static_assert(persist::persistence_domain<simulated_domain>);

}  // namespace holdfast::simulator
