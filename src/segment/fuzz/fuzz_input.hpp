// An input of a fuzzer: 2 bytes of control bits, then edits of 16 bytes, applied one after the other; all little
// endian:
//   u8 place, u8 width (bits 0..1: 1, 2, 4 or 8 bytes), operation (bits 2..3) and seek (bit 4), u8 which (copy, segment
//   or file), u8 unused, u32 offset (modulo the size of the place), u64 value.
// Then the checksums that the control bits name are repaired, so that the damage gets past them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

/// Returns the new size.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t room);

namespace holdfast::segment {

[[noreturn]] inline void finding(const std::string& what) {
    std::fprintf(stderr, "FINDING: %s\n", what.c_str());
    std::abort();
}
template <class T>
T must(base::result<T> outcome) {
    if (!outcome) {
        finding(outcome.error().message());
    }
    return std::move(outcome).value();
}
inline void must(const base::result<void>& outcome) {
    if (!outcome) {
        finding(outcome.error().message());
    }
}

/// HOLDFAST_FUZZ_TELL in the environment shows the message.
inline void expect_telling(const base::failure& what) {
    static const bool tell = std::getenv("HOLDFAST_FUZZ_TELL") != nullptr;
    if (tell) {
        std::fprintf(stderr, "refused: %s\n", what.message().c_str());
    }
    if (what.code == base::failure_code::none || what.path.empty() || (what.field.empty() && what.os_error == 0)) {
        finding("a failure that says too little: " + what.message());
    }
}

/// A writer refuses a file of another heap that a reader would not even read.
inline bool is_not_ours_to_write(const base::failure& what) { return what.field == "uuid"; }

enum class fuzz_place : std::uint8_t {
    superblock_fields,  ///< which: of copy 0, of copy 1, of both
    superblocks,
    record_headers,  ///< which: record of the log, also of the next two
    record_superblocks,
    record_entries,
    log,
    slab_headers,  ///< which: segment, also of the next four
    page_entries,
    bitmaps,
    checksums,
    user_pages,
    object_checksums,
    objects,
    size,   ///< which: file
    names,  ///< set: a file more; else which: a file less
    count,
};

enum class fuzz_operation : std::uint8_t { set, add, flip, copy };

enum fuzz_repair : unsigned {
    repair_superblocks = 1U << 0U,
    repair_log = 1U << 1U,
    repair_pages = 1U << 2U,
    repair_records = 1U << 3U,  ///< of objects; the heap's fuzzer does it
    repair_sizes = 1U << 4U,    ///< from the superblock, where they are small
    repair_all = (1U << 5U) - 1,
};
constexpr unsigned first_control_bit = 8;  ///< of the fuzzer's own

struct fuzz_edit {
    fuzz_place where = fuzz_place::superblocks;
    fuzz_operation what = fuzz_operation::set;
    std::uint64_t width = 1;
    bool seek = false;  ///< the offset counts the 8-byte words that are not zero
    unsigned which = 0;
    std::uint64_t offset = 0;
    std::uint64_t value = 0;
};

struct fuzz_input {
    using record = std::array<std::uint8_t, 16>;
    static constexpr std::size_t most_edits = 24;
    static constexpr std::size_t largest = 2 + most_edits * sizeof(record);

    std::uint16_t control = 0;
    std::vector<record> records;

    explicit fuzz_input(std::span<const std::uint8_t> bytes) {
        if (bytes.size() >= sizeof control) {
            std::memcpy(&control, bytes.data(), sizeof control);
            bytes = bytes.subspan(sizeof control);
        }
        for (; bytes.size() >= sizeof(record) && records.size() < most_edits; bytes = bytes.subspan(sizeof(record))) {
            std::memcpy(records.emplace_back().data(), bytes.data(), sizeof(record));
        }
    }

    [[nodiscard]] static fuzz_edit edit(const record& from) {
        fuzz_edit made;
        made.where = static_cast<fuzz_place>(from[0] % static_cast<unsigned>(fuzz_place::count));
        made.width = std::uint64_t{1} << (from[1] & 3U);
        made.what = static_cast<fuzz_operation>(from[1] >> 2U & 3U);
        made.seek = (from[1] >> 4U & 1U) != 0;
        made.which = from[2];
        std::uint32_t offset = 0;
        std::memcpy(&offset, from.data() + 4, sizeof offset);
        made.offset = offset;
        std::memcpy(&made.value, from.data() + 8, sizeof made.value);
        return made;
    }

    std::size_t write(std::uint8_t* data, std::size_t room) const {
        const std::size_t count = room < sizeof control ? 0 : (room - sizeof control) / sizeof(record);
        if (room >= sizeof control) {
            std::memcpy(data, &control, sizeof control);
        }
        const std::size_t written = std::min({count, records.size(), most_edits});
        for (std::size_t i = 0; i < written; ++i) {
            std::memcpy(data + sizeof control + i * sizeof(record), records[i].data(), sizeof(record));
        }
        return std::min(room, sizeof control + written * sizeof(record));
    }
};

/// Changes whole edits, to numbers that mean something on media.
class fuzz_mutator {
public:
    explicit fuzz_mutator(unsigned seed) : random_(seed) {}

    std::size_t mutate(std::uint8_t* data, std::size_t size, std::size_t room) {
        fuzz_input input({data, size});
        if (input.records.empty()) {
            input.control = static_cast<std::uint16_t>(below(256) << first_control_bit | repair_all);
            input.records.push_back(make());
        }
        for (std::uint64_t steps = 1 + below(3); steps > 0; --steps) {
            step(input);
        }
        return input.write(data, room);
    }

    std::size_t cross(std::span<const std::uint8_t> one, std::span<const std::uint8_t> other,
                      std::span<std::uint8_t> out) {
        fuzz_input made(one);
        const fuzz_input more(other);
        made.records.resize(below(made.records.size() + 1));
        const auto from = more.records.begin() + static_cast<std::ptrdiff_t>(below(more.records.size() + 1));
        made.records.insert(made.records.end(), from, more.records.end());
        return made.write(out.data(), out.size());
    }

private:
    using record = fuzz_input::record;

    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

    void step(fuzz_input& input) {
        auto& records = input.records;
        const std::uint64_t action = below(16);
        if (action == 0) {
            input.control = static_cast<std::uint16_t>(input.control ^ 1U << below(first_control_bit - 3U));
        } else if (action == 1) {
            input.control = static_cast<std::uint16_t>(input.control ^ 1U << (first_control_bit + below(8)));
        } else if (action < 5 && records.size() < fuzz_input::most_edits) {
            const auto at = records.begin() + static_cast<std::ptrdiff_t>(below(records.size() + 1));
            records.insert(at, records.empty() || below(3) != 0 ? make() : records[below(records.size())]);
        } else if (action < 7 && records.size() > 1) {
            records.erase(records.begin() + static_cast<std::ptrdiff_t>(below(records.size())));
        } else if (!records.empty()) {
            change(records[below(records.size())]);
        }
    }

    void change(record& one) {
        switch (below(6)) {
            case 0: one[0] = byte(); break;
            case 1: one[1] = byte(); break;
            case 2: one[2] = static_cast<std::uint8_t>(below(4)); break;
            case 3: set_offset(one); break;
            case 4: set_value(one, number()); break;
            default: {  // what libFuzzer learns from comparisons is best
                const std::size_t size = std::size_t{1} << (one[1] & 3U);
                static_cast<void>(LLVMFuzzerMutate(one.data() + 8, size, size));
                break;
            }
        }
    }

    record make() {
        record made{};
        made[0] = byte();
        made[1] = byte();
        made[2] = static_cast<std::uint8_t>(below(4));
        set_offset(made);
        set_value(made, number());
        return made;
    }

    std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

    void set_offset(record& one) {
        const auto offset = static_cast<std::uint32_t>(below(2) == 0 ? 4 * below(128) : random_());
        std::memcpy(one.data() + 4, &offset, sizeof offset);
    }
    static void set_value(record& one, std::uint64_t value) { std::memcpy(one.data() + 8, &value, sizeof value); }

    std::uint64_t number() {
        const std::uint64_t power = std::uint64_t{1} << below(64);
        switch (below(8)) {
            case 0: return below(8);
            case 1: return below(1024);
            case 2: return power - below(2);
            case 3: return power + below(2);
            case 4: return ~below(below(2) == 0 ? 2 : 5000);
            case 5: return below(8) << 40U | (below(2) == 0 ? 0 : below(600));  // a page entry, a place in the log
            case 6: return below(below(2) == 0 ? 9 : 4096) << 21U;              // regions
            default: return (std::uint64_t{random_()} << 32U | random_()) >> below(64);
        }
    }

    std::mt19937 random_;
};

}  // namespace holdfast::segment

extern "C" [[gnu::used]] inline std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                    std::size_t room, unsigned seed) {
    return holdfast::segment::fuzz_mutator(seed).mutate(data, size, room);
}
extern "C" [[gnu::used]] inline std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* one, std::size_t size,
                                                                      const std::uint8_t* other, std::size_t other_size,
                                                                      std::uint8_t* out, std::size_t room,
                                                                      unsigned seed) {
    return holdfast::segment::fuzz_mutator(seed).cross({one, size}, {other, other_size}, {out, room});
}
