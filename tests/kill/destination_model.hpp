// What the kill tests with destinations know of a heap: which destinations there are, what each points to, and what the
// block holds. The process that is killed reports every call before it begins and after it returned; its
// observer applies the same calls to the same model.
//
// The destinations are divided into sets. A set is changed by one thread at a time, so of each one call at most is in
// flight; which thread it is changes all the time, so that blocks are freed by others than allocated them.
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
/// A node begins with so many destinations.
inline constexpr std::size_t words_of_node = 6;
inline constexpr std::uint64_t node_header = words_of_node * sizeof(std::uint64_t);
inline constexpr std::size_t largest_batch = 8;
/// Named objects are destinations too: the directory points to them. Their numbers begin here, far beyond any offset.
inline constexpr std::uint64_t objects_at = std::uint64_t{1} << 63U;
inline constexpr std::size_t objects_of_set = 4;
[[nodiscard]] constexpr bool is_object(std::uint64_t word) noexcept { return word >= objects_at; }
/// Some are long, so that records of the directory have several sizes.
[[nodiscard]] std::string object_name(std::uint64_t word);

/// An allocated block. Offsets are from the heap's base; 0: none.
struct block {
    std::uint64_t at = 0;
    std::uint64_t size = 0;   ///< asked for
    std::uint64_t seed = 0;   ///< of its content; 0: zeros
    std::uint64_t valid = 0;  ///< bytes from the start whose content is known
    bool node = false;        ///< the content begins behind the destinations
    std::uint32_t type = 0;
    bool operator==(const block&) const = default;
};

/// What a named object is.
struct object_content {
    std::uint64_t words[12];
    explicit object_content(std::uint64_t seed);
};

/// Writes the content that the block should have; the words of large ones lie far apart.
void fill(std::byte* memory, const block& of) noexcept;
[[nodiscard]] bool has_content(const std::byte* memory, const block& of) noexcept;

enum class call : std::uint32_t {
    allocate,    ///< allocate_to, allocate_batch: the content is zeros or unknown
    publish,     ///< publish, make_persistent, construct: with its content
    free,        ///< free_from, free_batch, destroy_persistent, destroy
    reallocate,  ///< realloc_to
    write,       ///< no call of the heap: new content
    move,        ///< no call of the heap: two words are stored, words[0] to words[1]
};

/// One call, as it is reported. What happens to words[i] is atomic, each alone.
struct call_record {
    call what = call::allocate;
    std::uint32_t count = 0;  ///< words
    std::uint64_t size = 0;
    std::uint64_t seed = 0;  ///< of the first block; the next has one more. 0: zeros
    bool zeroed = false;
    bool node = false;
    std::uint32_t type = 0;                              ///< reallocate: 0: that of the old block
    std::array<std::uint64_t, largest_batch> words{};    ///< offsets of the destinations
    std::array<std::uint64_t, largest_batch> targets{};  ///< of the blocks; known when the call has returned
};

struct destination {
    std::uint64_t at = 0;
    block target;
};

/// What a set holds.
class holdings {
public:
    explicit holdings(std::size_t set);

    [[nodiscard]] std::vector<destination>& all() noexcept { return destinations_; }
    [[nodiscard]] const std::vector<destination>& all() const noexcept { return destinations_; }
    /// Must exist.
    [[nodiscard]] block& target_of(std::uint64_t word);
    [[nodiscard]] bool is_empty_node(const block& candidate) const noexcept;
    /// One whose block may be freed: no node, or an empty one. Null where there is none.
    [[nodiscard]] const destination* find_free_to_go() const noexcept;
    [[nodiscard]] std::uint64_t bytes() const noexcept;

    /// The i-th word of the call has changed.
    void apply(const call_record& made, std::size_t i);
    void apply(const call_record& made);
    /// The call has begun: content that is being written is unknown.
    void begin(const call_record& made);

    /// A move that was cut off between its two stores; words[0] is still to be emptied.
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

/// What the process that is killed reports of a set: survives it, in memory that both share.
struct set_log {
    static constexpr std::size_t capacity = 32768;
    std::atomic<std::uint64_t> begun;  ///< records written
    std::atomic<std::uint64_t> done;   ///< of these, calls that returned
    call_record records[capacity];
};

enum class phase : std::uint32_t { starting, running, closing, closed };

struct shared_region {
    std::atomic<phase> now;
    char problem[1024];  ///< what went wrong in the process; empty where nothing did
    set_log logs[set_count];

    void reset() noexcept;
};

}  // namespace holdfast::test::destinations
