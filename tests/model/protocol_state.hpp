// The state of the model of the one-fence protocol: two to three threads, two blocks, up to three destinations.
//
// It is an independent model: nothing here comes from src/. A state is plain bytes without padding, so that equal
// states have equal bytes. What the media may hold is kept per cache line as the set of contents that an eviction may
// have left there; a crash chooses one of each set. Times are ranks among the records that still matter, so that the
// number of states is finite although a run may be of any length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace holdfast::model {

using byte = std::uint8_t;

inline constexpr int max_threads = 3;
inline constexpr int max_slots = 2;
inline constexpr int max_words = 3;
inline constexpr int block_count = 2;
/// Line 0 holds the bitmap; the destinations lie in the others.
inline constexpr int max_lines = 4;
inline constexpr int max_contents = 14;
/// A block is not filled with data while its line may have more contents than this: a bound, to keep the states few.
inline constexpr int max_contents_for_data = 4;
inline constexpr int max_stamps = 8;
inline constexpr byte nothing = 0xff;

// --- a destination: target (0 is null, else a block 1 .. block_count) and stamp, five bits
// -------------------------------

constexpr byte make_word(int target, int stamp) { return static_cast<byte>(target | stamp << 2); }
constexpr int target_of(int word) { return word & 3; }
constexpr int stamp_of(int word) { return word >> 2; }
constexpr byte block_bit(int block) { return static_cast<byte>(block == 0 ? 0 : 1 << (block - 1)); }

// --- a record
// ------------------------------------------------------------------------------------------------------------

/// What one call writes: 0 as time means void, 0 as block means none.
struct record {
    byte time = 0;
    byte destination = 0;
    byte stamp = 0;
    byte allocated = 0;
    byte freed = 0;

    [[nodiscard]] bool is_void() const { return time == 0; }
    bool operator==(const record&) const = default;
};

enum class slot_status : byte { reusable, in_flight, complete };

/// A slot of a ring. While `pending` is there, the media may hold the old record, a torn one, or the new one.
struct slot {
    record media;
    record pending;
    slot_status status = slot_status::reusable;

    [[nodiscard]] const record& newest() const { return pending.is_void() ? media : pending; }
};

// --- a cache line
// --------------------------------------------------------------------------------------------------------

/// What every thread sees, and the sorted set of what the media may hold.
struct line {
    std::uint16_t current = 0;
    std::uint16_t count = 1;
    std::array<std::uint16_t, max_contents> possible{};
};

// --- a thread
// ------------------------------------------------------------------------------------------------------------

enum class activity : byte { idle, call, move, checkpoint };
enum class operation : byte { none, allocate, release, reallocate };

struct thread {
    activity doing = activity::idle;
    operation kind = operation::none;
    /// Index into the steps of a call, or number of the step of a move or of a checkpoint.
    byte step = 0;
    /// A batch has two elements, each other call one.
    byte elements = 0;
    /// Destinations of the elements; source and target of a move.
    std::array<byte, 2> word{};
    std::array<byte, 2> allocated{};
    std::array<byte, 2> freed{};
    std::array<byte, 2> stamp{};
    std::array<byte, 2> time{};
    /// The slot that the next record goes to.
    byte next_slot = 0;
    /// The highest time that a checkpoint may choose while this call is in flight; `nothing`: not in flight. `buffered`
    /// is an announcement that no other thread sees yet.
    byte announced = nothing;
    byte buffered = nothing;
    /// A checkpoint: the time it chose, the lane it reads next, the lines it has yet to write back.
    byte mark = 0;
    byte lane = 0;
    byte lines = 0;
};

enum class block_mode : byte { raw, data, pointers };

struct state {
    std::array<line, max_lines> lines{};
    std::array<std::array<slot, max_slots>, max_threads> rings{};
    std::array<thread, max_threads> threads{};

    /// T as threads see it, and the set of times that the media may hold, a bit each.
    byte checkpoint_time = 0;
    byte checkpointer_busy = 0;
    std::uint16_t possible_times = 1;

    /// Blocks that a thread may take: the volatile caches.
    byte cached_blocks = 0;

    // What only the observer knows.
    /// Blocks that are allocated, as of all calls that returned.
    byte settled_blocks = 0;
    /// Blocks that the program itself lost.
    byte dropped_blocks = 0;
    /// Destinations that a call or a move is using, and those that the program stored into without persisting them.
    byte busy_words = 0;
    byte unpersisted_words = 0;
    /// Targets that a destination may have after a crash, a bit each (bit 0: null).
    std::array<byte, max_words> allowed{};
    std::array<block_mode, block_count> modes{};
};
static_assert(std::has_unique_object_representations_v<state>, "states are compared and hashed as bytes");

/// The latest time that any record, or any call that is about to write one, has.
inline byte newest_time(const state& from) {
    byte newest = 0;
    for (const auto& ring : from.rings) {
        for (const slot& each : ring) {
            newest = std::max({newest, each.media.time, each.pending.time});
        }
    }
    for (const thread& each : from.threads) {
        newest = std::max({newest, each.time[0], each.time[1]});
    }
    return newest;
}

// --- what a crash leaves
// -------------------------------------------------------------------------------------------------

struct image {
    std::array<byte, max_words> words{};
    byte blocks = 0;
    byte time = 0;
    std::array<std::array<record, max_slots>, max_threads> rings{};
};
static_assert(std::has_unique_object_representations_v<image>);

}  // namespace holdfast::model
