// The oracle for durability `atomic`: what a heap may hold after a crash, given the program's calls. It shares no code
// with the protocol.
//
// The program reports when a call begins, what it would change, and when it has returned. In a right image every call
// in flight is there or absent as a whole, and all else is as the returned calls left it:
// - the allocated blocks are those of the model, with their sizes and types: none leaked, none lost;
// - every destination in a root or an allocated block points where it may;
// - data that was made durable is unchanged.
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

/// One element of a call.
struct pending_change {
    std::uint64_t destination = no_offset;
    std::uint64_t allocated_bytes = 0;  ///< 0: allocates nothing
    std::uint64_t type = 0;             ///< of the allocated block
    std::uint64_t target = no_offset;   ///< the allocated block, if known before
    std::uint64_t freed = no_offset;
    std::vector<data_word> content{};  ///< of the new block, with offsets in it
    /// Of a group: words that it stores, with offsets in the heap. The first one never has that value before. The
    /// allocated block is `target`.
    std::vector<data_word> words{};
    bool done = false;  ///< another call has shown that this element is complete
};

/// In order of offset.
[[nodiscard]] std::vector<block_extent> blocks_in(const tracked_memory& memory, std::uint64_t frontier_pages);
/// The offset that the destination points to; 0: null.
[[nodiscard]] std::uint64_t target_in(const tracked_memory& memory, std::uint64_t destination);

class heap_model {
public:
    void add_destination(std::uint64_t offset, std::uint64_t target);
    [[nodiscard]] bool is_destination(std::uint64_t offset) const;
    /// For the program.
    [[nodiscard]] std::uint64_t target_of(std::uint64_t destination) const;
    [[nodiscard]] std::vector<std::uint64_t> places_of(std::uint64_t block) const;
    [[nodiscard]] bool has_block(std::uint64_t offset) const;
    [[nodiscard]] std::uint64_t bytes_of(std::uint64_t block) const;
    [[nodiscard]] std::uint64_t type_of(std::uint64_t block) const;
    /// Durable data, with offsets in the block.
    [[nodiscard]] std::vector<data_word> content_of(std::uint64_t block) const;
    void forget(std::uint64_t begin, std::uint64_t end);
    /// Durable data at this place.
    void set_data(const data_word& word);

    void begin(unsigned thread, std::vector<pending_change> changes);
    /// The call failed and changed nothing.
    void failed(unsigned thread);
    /// Only the first `count` elements of the call were done.
    void keep_first(unsigned thread, std::size_t count);
    /// The call returned; `allocated`: the new block of each change, or no_offset.
    void returned(unsigned thread, const std::vector<std::uint64_t>& allocated);
    /// The thread never returns: its call stays undecided. Its number may be used again.
    void died(unsigned thread);
    /// The program stored to a destination itself: until made_durable() media may hold either value.
    void stored(std::uint64_t destination, std::uint64_t target);
    void made_durable(std::uint64_t destination);

    /// What is wrong with the heap in memory, or nothing.
    [[nodiscard]] std::string fault_in(const tracked_memory& memory, std::uint64_t frontier_pages) const;
    /// The model with the calls in flight decided as the heap in memory shows, which must be right.
    [[nodiscard]] heap_model decided_by(const tracked_memory& memory, std::uint64_t frontier_pages) const;
    /// As decided_by(), where memory shows stores that are not durable: a destination may still have its other values.
    [[nodiscard]] heap_model decided_by_visible(const tracked_memory& memory, std::uint64_t frontier_pages) const;
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

    std::vector<block_extent> blocks_;  ///< by offset
    std::vector<known_destination> destinations_;
    std::vector<data_word> data_;
    std::array<std::vector<pending_change>, model_threads> in_flight_;
};

}  // namespace holdfast::simulator
