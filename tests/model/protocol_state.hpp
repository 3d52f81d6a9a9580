// The state of the model of the one-fence protocol: up to three threads, two blocks, up to four destinations
// or words of data.
//
// The model uses nothing of src/. Equal states have equal bytes, because they have no padding. For each cache line the
// state holds the set of contents that evictions may have left on media; a crash chooses one of each. Times are ranks
// among the records that still matter, so the number of states is finite for runs of any length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

namespace holdfast::model {

using byte = std::uint8_t;

inline constexpr int max_threads = 3;
inline constexpr int max_slots = 3;
inline constexpr int max_words = 4;
/// Records of one call.
inline constexpr int max_elements = 3;
inline constexpr int block_count = 2;
/// Line 0 holds the bitmap, the others hold destinations.
inline constexpr int max_lines = 4;
inline constexpr int max_contents = 20;
/// A block gets no data while its line may have more contents than this, which bounds the number of states.
inline constexpr int max_contents_for_data = 4;
inline constexpr int max_stamps = 8;
inline constexpr byte nothing = 0xff;

/// Sets of up to eight words or blocks.
template <class Number>
constexpr byte bit_of(Number number) {
    return static_cast<byte>(1U << static_cast<unsigned>(number));
}
constexpr byte without(byte set, byte removed) { return static_cast<byte>(set & ~removed); }

// --- a destination: target (0: null, else block 1 .. block_count) and stamp, five bits ---

constexpr byte make_word(int target, int stamp) { return static_cast<byte>(target | stamp << 2); }
constexpr int target_of(int word) { return word & 3; }
constexpr int stamp_of(int word) { return word >> 2; }
constexpr byte block_bit(int block) { return static_cast<byte>(block == 0 ? 0 : 1 << (block - 1)); }

// --- a record ---

/// Time 0: void. Block 0: none. A record of data has the word's new content (`target` and `stamp`) and no block. The
/// last record of a group has the number of the group's records, all others 0.
struct record {
    byte time = 0;
    byte destination = 0;
    byte stamp = 0;
    byte allocated = 0;
    byte freed = 0;
    byte target = 0;
    byte data = 0;
    byte number = 0;

    [[nodiscard]] bool is_void() const { return time == 0; }
    bool operator==(const record&) const = default;
};
/// What a write to a slot of the log leaves that puts no record there.
inline constexpr record wiped{.number = nothing};

enum class slot_status : byte { reusable, in_flight, complete };

/// A slot of a ring. With `pending`, media may hold the old record, a torn one, or the new one.
struct slot {
    record media;
    record pending;
    slot_status status = slot_status::reusable;

    [[nodiscard]] const record& newest() const { return pending.is_void() ? media : pending; }
};

// --- a cache line ---

/// What threads see, and the sorted set of contents that media may hold.
struct line {
    std::uint16_t current = 0;
    std::uint16_t count = 1;
    std::array<std::uint16_t, max_contents> possible{};
};

// --- a thread ---

enum class activity : byte { idle, call, move, checkpoint };
enum class operation : byte { none, allocate, release, reallocate, group };

/// What a group does to one word. `initialise`: the word lies in a block that the group allocates.
enum class role : byte { none, allocate, release, write, move_to, move_from, initialise };
/// How the words in a block that a group allocates get their content; `unfilled`: they get none.
enum class content_kind : byte { unfilled, in_group, before_group };

struct thread {
    activity doing = activity::idle;
    operation kind = operation::none;
    /// Index into the steps of a call, a move or a checkpoint.
    byte step = 0;
    /// Two in a batch, up to three in a group, otherwise one.
    byte elements = 0;
    /// The elements' destinations; a move's source and target.
    std::array<byte, max_elements> word{};
    std::array<byte, max_elements> allocated{};
    std::array<byte, max_elements> freed{};
    std::array<byte, max_elements> stamp{};
    std::array<byte, max_elements> time{};
    /// Of a group alone: `durable` from its fence on.
    std::array<role, max_elements> roles{};
    std::array<byte, max_elements> target{};
    content_kind content = content_kind::unfilled;
    byte durable = 0;
    byte next_slot = 0;
    /// The highest time that a checkpoint may choose during this call; `nothing`: no call in flight. `buffered`: an
    /// announcement that other threads do not see yet.
    byte announced = nothing;
    byte buffered = nothing;
    /// A checkpoint's time, the lane that it reads next, and the lines that it must still write back.
    byte mark = 0;
    byte lane = 0;
    byte lines = 0;
    /// In worlds with a log: the records of its group that are in the log, and whether it writes for all threads.
    byte put = 0;
    byte leads = 0;
};

/// `pointers`: the words in the block are destinations, and words of transactions in worlds of groups.
enum class block_mode : byte { raw, data, pointers };

/// `pending`: threads see the space, and media may not have it.
enum class growth : byte { none, pending, durable };

struct state {
    std::array<line, max_lines> lines{};
    /// A bit for each T that media may hold, and T as threads see it.
    std::uint16_t possible_times = 1;
    byte checkpoint_time = 0;
    byte checkpointer_busy = 0;

    /// The thread's ring; in worlds with a log, a block of the log.
    std::array<std::array<slot, max_slots>, max_threads> rings{};
    std::array<thread, max_threads> threads{};

    // In worlds with a log:
    /// Where the next record goes, and the records from the oldest block in use to there.
    byte log_end = 0;
    byte log_used = 0;
    /// Where the heap grows: whether block 2 exists.
    growth grown = growth::none;

    /// The volatile caches.
    byte cached_blocks = 0;

    // Known to the observer alone:
    /// Blocks allocated by the calls that returned.
    byte settled_blocks = 0;
    byte dropped_blocks = 0;
    /// Destinations in use by a call or move, and those with stores that the program did not persist.
    byte busy_words = 0;
    byte unpersisted_words = 0;
    /// A bit for each target that the destination may have after a crash (bit 0: null).
    std::array<byte, max_words> allowed{};
    std::array<block_mode, block_count> modes{};
    /// In worlds of groups: what each word must hold after a crash, by the groups that are durable.
    std::array<byte, max_words> settled_words{};
};
static_assert(std::has_unique_object_representations_v<state>, "states are compared and hashed as bytes");

/// The latest time of a record, or of a call about to write one.
inline byte newest_time(const state& from) {
    byte newest = 0;
    for (const auto& ring : from.rings) {
        for (const slot& each : ring) {
            newest = std::max({newest, each.media.time, each.pending.time});
        }
    }
    for (const thread& each : from.threads) {
        newest = std::max({newest, each.time[0], each.time[1], each.time[2]});
    }
    return newest;
}

// --- what a crash leaves ---

struct image {
    std::array<byte, max_words> words{};
    byte blocks = 0;
    byte time = 0;
    byte grown = 0;
    std::array<std::array<record, max_slots>, max_threads> rings{};
};
static_assert(std::has_unique_object_representations_v<image>);

}  // namespace holdfast::model
