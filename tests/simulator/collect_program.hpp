// Programs on a heap in durability `collect`, and what each of them ought to find after a crash.
//
// A program has lists of blocks: behind root words, and behind named objects, whose block is the first of the list. The
// first word of a block leads to the next, the second says which block it is, the others are zero. It keeps the rule
// of durability `collect`: content is durable before a pointer to it is stored, and a pointer that is changed is
// durable before what it led to is freed. (A block that is lent has no content: zeros that were never written.)
//
// Oracle: after a crash each list is what it was before the step in flight, or after it, every block with its content;
// and exactly these blocks are allocated. After a close, what nothing leads to is allocated as well.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/collect_heap.hpp"

namespace holdfast::simulator {

struct listed_block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t seed = 0;  ///< 0: of a block that was lent
    friend bool operator==(const listed_block&, const listed_block&) = default;
};

/// What the program has.
struct collect_world {
    static constexpr unsigned roots = 3;
    static constexpr unsigned objects = 2;
    std::array<std::vector<listed_block>, roots + objects> lists;
    std::vector<listed_block> lost;  ///< allocated, and nothing leads there

    [[nodiscard]] static bool is_object(unsigned list) noexcept { return list >= roots; }
    [[nodiscard]] static std::string name_of(unsigned list) { return std::string("object ") + std::to_string(list); }
    [[nodiscard]] std::uint64_t hash() const noexcept;
    /// How the heap differs from it; nothing where it does not.
    [[nodiscard]] std::string difference(collect_session& session, collect_space& space) const;
};

/// What may be found: `next` is there while a step is in flight.
struct collect_model {
    collect_world now;
    std::optional<collect_world> next;
    [[nodiscard]] std::uint64_t hash() const noexcept { return mix(now.hash(), next ? next->hash() : 0); }
};

enum class collect_verb : std::uint8_t {
    push,  ///< a block of `bytes` to the front of a list (behind the object); an object where there is none
    lend,  ///< a block without content becomes an empty list; nothing is durable before the pointer to it
    pop,   ///< the block at that place goes; the object, where it is alone
    // The calls with a destination: the word of a list behind a root.
    allocate_to,  ///< a block of zeros becomes a list that was empty
    publish,      ///< a block that was reserved and filled does
    free_from,    ///< of a list with one block
    realloc_to,   ///< the same: the block gets so many `bytes`
    lose,         ///< allocates a block and forgets it
    free_lost,    ///< frees the newest of these
    write_back,   ///< as engine::commit()
    shrink,
    morph,   ///< the slab of the first block of a list becomes one of blocks of `bytes`
    reopen,  ///< closes, and opens
    die,     ///< the process is gone between two of its stores of the next push or pop, and another opens the heap
};

struct collect_step {
    collect_verb verb;
    unsigned list = 0;
    std::uint64_t bytes = 0;
};
[[nodiscard]] std::string to_string(const collect_step& step);

/// Executes steps other than reopen and die.
class collect_runner {
public:
    collect_runner(collect_space& space, collect_session& session, collect_model& model)
        : space_(space), session_(session), model_(model), domain_(space.memory()) {}

    /// False where the step makes no sense where it stands. `stores`: the process ends before the step's store of that
    /// number; none beyond it is made.
    bool run(const collect_step& step, unsigned stores = ~0U);
    [[nodiscard]] bool ended() const noexcept { return left_ == 0; }

private:
    bool push(const collect_step& step);
    bool lend(const collect_step& step);
    bool pop(const collect_step& step);
    bool allocate_to(const collect_step& step);
    bool publish(const collect_step& step);
    bool free_from(const collect_step& step);
    bool realloc_to(const collect_step& step);
    [[nodiscard]] bool may_store() noexcept { return left_ != 0 && (left_ == ~0U || --left_ != 0); }
    [[nodiscard]] void* make(std::uint64_t bytes, std::uint64_t next, std::uint64_t seed);
    void fill(void* block, std::uint64_t size, std::uint64_t next, std::uint64_t seed);
    /// From now on the list may be found to be one block: there, with that content.
    void expect_alone(const collect_step& step, std::uint64_t offset, std::uint64_t seed);
    bool finish(bool succeeded, std::uint64_t& destination);
    [[nodiscard]] std::uint64_t& destination_of(unsigned list);
    void point(std::uint64_t& word, std::uint64_t to);
    void done() {
        model_.now = std::move(*model_.next);
        model_.next.reset();
        space_.memory().cut("done");
    }

    collect_space& space_;
    collect_session& session_;
    collect_model& model_;
    tracked_domain domain_;
    unsigned left_ = ~0U;
    std::uint64_t seeds_ = 0;
};

/// A word that is no pointer into the heap.
[[nodiscard]] constexpr std::uint64_t content_of(std::uint64_t seed) noexcept { return 0x0000'2222'0000'0000 + seed; }

}  // namespace holdfast::simulator
