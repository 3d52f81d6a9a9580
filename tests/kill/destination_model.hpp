// What the kill tests with destinations know of a heap: its destinations, their targets, and the content of the blocks.
// The victim reports every call before it begins and after it returned; its observer applies the calls to the same
// model.
//
// Destinations are divided into sets, which one thread at a time changes, so each set has at most one call in flight.
// Threads change sets all the time, so blocks are freed by other threads than those that allocated them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::test::destinations {

inline constexpr std::size_t set_count = 8;
inline constexpr std::size_t roots_of_set = 16;
/// Destinations at the start of a node.
inline constexpr std::size_t words_of_node = 6;
inline constexpr std::uint64_t node_header = words_of_node * sizeof(std::uint64_t);
inline constexpr std::size_t largest_batch = 8;
/// Named objects count as destinations, to which the directory points. Their numbers begin here, beyond any offset.
inline constexpr std::uint64_t objects_at = std::uint64_t{1} << 63U;
inline constexpr std::size_t objects_of_set = 4;
[[nodiscard]] constexpr bool is_object(std::uint64_t word) noexcept { return word >= objects_at; }
/// Some are long, so that directory records vary in size.
[[nodiscard]] std::string object_name(std::uint64_t word);

/// An allocated block. Offsets are from the heap's base; 0: none.
struct block {
    std::uint64_t at = 0;
    std::uint64_t size = 0;   ///< as requested
    std::uint64_t seed = 0;   ///< 0: zeros
    std::uint64_t valid = 0;  ///< leading bytes with known content
    bool node = false;        ///< the content begins behind the destinations
    std::uint32_t type = 0;
    bool operator==(const block&) const = default;
};

/// The value of a named object.
struct object_content {
    std::uint64_t words[12];
    explicit object_content(std::uint64_t seed);
};

/// Writes the block's content; in large blocks only words far apart.
void fill(std::byte* memory, const block& of) noexcept;
[[nodiscard]] bool has_content(const std::byte* memory, const block& of) noexcept;

enum class call : std::uint32_t {
    allocate,    ///< allocate_to, allocate_batch: zeros or unknown content
    publish,     ///< publish, make_persistent, construct: with content
    free,        ///< free_from, free_batch, destroy_persistent, destroy
    reallocate,  ///< realloc_to
    write,       ///< no call of the heap: new content
    move,        ///< no call of the heap: two stores, words[0] to words[1]
};

/// A reported call. What happens to each of `words` is atomic by itself.
struct call_record {
    call what = call::allocate;
    std::uint32_t count = 0;  ///< of `words`
    std::uint64_t size = 0;
    std::uint64_t seed = 0;  ///< of the first block, one more for each next; 0: zeros
    bool zeroed = false;
    bool node = false;
    std::uint32_t type = 0;                              ///< reallocate: 0 keeps the type
    std::array<std::uint64_t, largest_batch> words{};    ///< offsets of the destinations
    std::array<std::uint64_t, largest_batch> targets{};  ///< of the blocks, known after the call
};

struct destination {
    std::uint64_t at = 0;
    block target;
};

class holdings {
public:
    explicit holdings(std::size_t set);

    [[nodiscard]] std::vector<destination>& all() noexcept { return destinations_; }
    [[nodiscard]] const std::vector<destination>& all() const noexcept { return destinations_; }
    /// It must exist.
    [[nodiscard]] block& target_of(std::uint64_t word);
    [[nodiscard]] bool is_empty_node(const block& candidate) const noexcept;
    /// A destination whose block may be freed: no node, or an empty node. Null if there is none.
    [[nodiscard]] const destination* find_free_to_go() const noexcept;
    [[nodiscard]] std::uint64_t bytes() const noexcept;

    /// The call has changed its i-th word.
    void apply(const call_record& made, std::size_t i);
    void apply(const call_record& made);
    /// The call has begun: content in writing is unknown.
    void begin(const call_record& made);

    /// A move cut between its two stores: `from` must still be emptied.
    struct half_move {
        std::uint64_t from = 0;
        std::uint64_t to = 0;
    };
    half_move unfinished;

private:
    void put(std::uint64_t word, const block& target);
    void clear(std::uint64_t word);
    std::vector<destination> destinations_;
};

/// The victim's report about a set, in memory that outlives the victim.
struct set_log {
    static constexpr std::size_t capacity = 32768;
    std::atomic<std::uint64_t> begun;  ///< records written
    std::atomic<std::uint64_t> done;   ///< calls that returned
    call_record records[capacity];
};

enum class phase : std::uint32_t { starting, running, closing, closed };

struct shared_region {
    std::atomic<phase> now;
    char problem[1024];  ///< what went wrong in the process, or empty
    set_log logs[set_count];

    void reset() noexcept;
};

}  // namespace holdfast::test::destinations
