// Programs on a heap in durability `collect`, and what each must find after a crash.
//
// A program has lists of blocks: behind root words, and behind named objects, whose block is the first of the list. The
// first word of a block points to the next block, the second identifies the block, the others are zero. As durability
// `collect` demands, content is durable before a pointer to it is stored, and a changed pointer is durable before its
// old target is freed. (A lent block is never written and reads as zeros.)
//
// Oracle: after a crash each list is as before or as after the step in flight, with all content, and exactly the blocks
// of the lists are allocated. After a close, lost blocks are allocated too.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/collect/collect_heap.hpp"

namespace holdfast::simulator {

struct listed_block {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t seed = 0;  ///< 0: a lent block
    friend bool operator==(const listed_block&, const listed_block&) = default;
};

/// The program's blocks.
struct collect_world {
    static constexpr unsigned roots = 3;
    static constexpr unsigned objects = 2;
    std::array<std::vector<listed_block>, roots + objects> lists;
    std::vector<listed_block> lost;  ///< allocated, with nothing pointing there

    [[nodiscard]] static bool is_object(unsigned list) noexcept { return list >= roots; }
    [[nodiscard]] static std::string name_of(unsigned list) { return std::string("object ") + std::to_string(list); }
    [[nodiscard]] std::uint64_t hash() const noexcept;
    /// How the heap differs from this, or nothing.
    [[nodiscard]] std::string difference(collect_session& session, collect_space& space) const;
};

/// What may be found; `next` exists while a step is in flight.
struct collect_model {
    collect_world now;
    std::optional<collect_world> next;
    [[nodiscard]] std::uint64_t hash() const noexcept { return mix(now.hash(), next ? next->hash() : 0); }
};

enum class collect_verb : std::uint8_t {
    push,  ///< a block of `bytes` to the front of the list (behind the object), or as a new object
    lend,  ///< an empty list becomes a block without content; nothing is durable before the pointer to it
    pop,   ///< frees the first block (of an object's list the second, or the object if it is alone)
    // Calls with a destination: the root word of a list.
    allocate_to,  ///< an empty list becomes a block of zeros
    publish,      ///< an empty list becomes a block that was reserved and filled
    free_from,    ///< of a list of one block
    realloc_to,   ///< of a list of one block, to `bytes`
    lose,         ///< allocates a block and forgets it
    free_lost,    ///< frees the newest lost block
    write_back,   ///< as engine::commit()
    shrink,
    morph,   ///< the slab of a list's first block gets blocks of `bytes`
    reopen,  ///< closes and opens
    die,     ///< the process ends between two stores of the next push or pop; another opens the heap
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

    /// False if the step is impossible in this state. `stores`: the process ends before the step's store of this
    /// number.
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
    /// From now on the list may be this one block with that content.
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

/// No pointer into the heap.
[[nodiscard]] constexpr std::uint64_t content_of(std::uint64_t seed) noexcept { return 0x0000'2222'0000'0000 + seed; }

}  // namespace holdfast::simulator
