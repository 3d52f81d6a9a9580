// What a heap in durability `atomic` may hold after a crash, told by the calls that a program made: the oracle of the
// crash tests. It shares no code with the protocol: it reads page entries, bitmaps and pointers by itself.
//
// The program says when a call begins (and what it would change) and when it has returned. An image is right if every
// call in flight is there or not there as a whole, and everything else is exactly as the returned calls left it:
//   - the allocated blocks are those of the model, no more (leak), no less (dangling), with their sizes and types;
//   - every destination in a root or in an allocated block points where it may;
//   - words of data that were made durable are what they were.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::simulator {

class tracked_memory;

inline constexpr std::uint64_t no_offset = ~std::uint64_t{0};
/// Two threads, and one that died.
inline constexpr unsigned model_threads = 3;

struct block_extent {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t type = 0;
    auto operator<=>(const block_extent&) const = default;
};

struct data_word {
    std::uint64_t offset = 0;
    std::uint64_t value = 0;
};

/// What one element of a call changes.
struct pending_change {
    std::uint64_t destination = no_offset;
    std::uint64_t allocated_bytes = 0;  ///< 0: it allocates nothing
    std::uint64_t type = 0;             ///< of the block it allocates
    std::uint64_t target = no_offset;   ///< the block it allocates, if that is known before
    std::uint64_t freed = no_offset;    ///< the block it frees
    std::vector<data_word> content{};   ///< of the new block; offsets are relative to it
    bool done = false;                  ///< another call has shown that this one is complete
};

/// The allocated blocks that the metadata in memory names, in order of offset.
[[nodiscard]] std::vector<block_extent> blocks_in(const tracked_memory& memory, std::uint64_t frontier_pages);
/// Where the destination at that offset points: an offset, or 0 for null.
[[nodiscard]] std::uint64_t target_in(const tracked_memory& memory, std::uint64_t destination);

class heap_model {
public:
    /// A word becomes a destination; `target` is where it points.
    void add_destination(std::uint64_t offset, std::uint64_t target);
    [[nodiscard]] bool is_destination(std::uint64_t offset) const;
    /// Where the program sees it pointing.
    [[nodiscard]] std::uint64_t target_of(std::uint64_t destination) const;
    /// The destinations that point to the block.
    [[nodiscard]] std::vector<std::uint64_t> places_of(std::uint64_t block) const;
    [[nodiscard]] bool has_block(std::uint64_t offset) const;
    [[nodiscard]] std::uint64_t bytes_of(std::uint64_t block) const;
    [[nodiscard]] std::uint64_t type_of(std::uint64_t block) const;
    /// Data of the block that is durable, as offsets from its begin.
    [[nodiscard]] std::vector<data_word> content_of(std::uint64_t block) const;
    /// No destination and no data is kept track of in that range any more.
    void forget(std::uint64_t begin, std::uint64_t end);

    void begin(unsigned thread, std::vector<pending_change> changes);
    /// The call failed, and changed nothing.
    void failed(unsigned thread);
    /// Only so many elements of the call were done.
    void keep_first(unsigned thread, std::size_t count);
    /// The call returned; `allocated`: the new block of each change, or no_offset.
    void returned(unsigned thread, const std::vector<std::uint64_t>& allocated);
    /// The thread will never return: its call stays as undecided as it is. The thread may go on as another.
    void died(unsigned thread);
    /// The program stores to a destination itself: both values may be found until it is made durable.
    void stored(std::uint64_t destination, std::uint64_t target);
    void made_durable(std::uint64_t destination);

    /// What is wrong with the heap in memory, or nothing.
    [[nodiscard]] std::string fault_in(const tracked_memory& memory, std::uint64_t frontier_pages) const;
    /// Another model, in which all calls in flight are decided as the heap in memory, which is right, says.
    [[nodiscard]] heap_model decided_by(const tracked_memory& memory, std::uint64_t frontier_pages) const;
    /// Differs where the models do.
    [[nodiscard]] std::uint64_t hash() const;

private:
    struct known_destination {
        std::uint64_t offset = 0;
        std::vector<std::uint64_t> targets;  ///< that media may hold; the last is what the program sees
        [[nodiscard]] bool allows(std::uint64_t target) const;
    };
    friend class image_judge;

    void apply(const pending_change& change, std::uint64_t allocated);
    void finish_free_of(std::uint64_t block, unsigned by);
    [[nodiscard]] known_destination* find(std::uint64_t offset);
    [[nodiscard]] const known_destination* find(std::uint64_t offset) const;

    std::vector<block_extent> blocks_;  ///< in order
    std::vector<known_destination> destinations_;
    std::vector<data_word> data_;
    std::array<std::vector<pending_change>, model_threads> in_flight_;
};

}  // namespace holdfast::simulator
