#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <type_traits>
#include <vector>

#include "model/commit_log/world.hpp"

namespace holdfast::commit_log_model {

[[nodiscard]] constexpr byte bit(int of) { return static_cast<byte>(1U << static_cast<unsigned>(of)); }

/// An array whose index may be an int.
template <class T, int length>
struct row {
    T items[static_cast<unsigned>(length)]{};
    [[nodiscard]] constexpr T& operator[](int at) { return items[at]; }
    [[nodiscard]] constexpr const T& operator[](int at) const { return items[at]; }
    [[nodiscard]] constexpr T* begin() { return items; }
    [[nodiscard]] constexpr T* end() { return items + length; }
    [[nodiscard]] constexpr const T* begin() const { return items; }
    [[nodiscard]] constexpr const T* end() const { return items + length; }
    constexpr void fill(const T& value) { std::fill(begin(), end(), value); }
    friend constexpr auto operator<=>(const row&, const row&) = default;
};

/// A record's identity: two records that no reader of the log can tell apart have the same. 0: none.
using record_id = std::uint16_t;
/// Of one that is torn.
inline constexpr record_id torn = 0x8000;

enum class entry : byte {
    range,   ///< a sector of a used page
    whole,   ///< a page that was free
    direct,  ///< a page that was free, and is at home since this record
    freed,
};

/// A sector that a record changed has the record's sequence as its content.
struct record {
    entry kind = entry::range;
    byte page = 0;
    byte changed = 0;  ///< sectors that the program stored to
    byte logged = 0;   ///< sectors that the record holds; all of them, where the protocol is right
    byte sequence = 0;
    byte epoch = 0;
    record_id before = 0;
    friend auto operator<=>(const record&, const record&) = default;
};

/// All records of all histories, so that states hold numbers.
class record_table {
public:
    [[nodiscard]] record_id id_of(const record& one);
    [[nodiscard]] const record& operator[](record_id id) const { return records_[id]; }

private:
    std::vector<record> records_{1};
    std::map<record, record_id> ids_;
};

enum class phase : byte { closed, registered, chosen, unregistered, open };

struct process {
    phase at = phase::closed;
    byte version = 0;
    byte first = 0;       ///< where the log began when the version was chosen
    byte is_private = 0;  ///< bits of pages
    row<row<byte, sectors>, most_pages> copy{};
};

enum class transaction : byte { none, stored, direct };

inline constexpr byte hole = 7;  ///< content of a sector that was punched out

/// What media hold, and may hold after a loss of power.
struct media {
    row<row<byte, sectors>, most_pages> home{};      ///< what processes see
    row<row<byte, sectors>, most_pages> possible{};  ///< bits of contents
    row<record_id, most_slots> slot{};
    row<row<record_id, 8>, most_slots> possible_slot{};  ///< ascending
    row<byte, most_slots> possible_slots{};              ///< how many
    byte begin = 0;
    byte possible_begins = 0;  ///< bits
    byte lost_sectors = 0;     ///< the kernel takes them for written (bit 2 * page + sector)
    byte lost_slots = 0;
    byte lost_begin = 0;
};

struct state {
    media on;
    row<record_id, most_records + 1> history{};  ///< by sequence; what was appended
    byte last = 0;                               ///< appended
    byte published = 0;                          ///< taken for durable by all
    byte seen = 0;                               ///< by the reader
    byte epoch = 0;
    row<byte, most_pages> home_version{};
    byte writing = 0;  ///< page + 1 that goes home
    byte writing_sector = 0;
    byte writing_version = 0;
    byte checkpoint = 0;  ///< 0: none; 1: home is synced; 2: the superblock is written
    byte checkpoint_version = 0;
    byte turn = 0;  ///< process + 1
    transaction doing = transaction::none;
    byte page = 0;
    byte sector = 0;
    byte stale_base = 0;  ///< 1 + 2 * page + sector; base_too_new alone
    byte poisoned = 0;
    byte cold = 0;  ///< 1: all have closed; 2: the tail is written again
    row<process, process_count> processes{};
    // How often it has happened.
    byte appends = 0;
    byte power_losses = 0;
    byte deaths = 0;
    byte failed_syncs = 0;
    byte aborts = 0;
    byte holes = 0;
    byte readings = 0;
};
static_assert(std::has_unique_object_representations_v<state>);

}  // namespace holdfast::commit_log_model
