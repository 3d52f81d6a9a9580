// For the fuzzer of lanes: the content of media, and how an input edits it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "lane/head.hpp"
#include "lane/record.hpp"
#include "log/files_in_memory_test_support.hpp"
#include "log/log.hpp"
#include "segment/fuzz/fuzz_input.hpp"
#include "segment/fuzz/fuzz_support.hpp"
#include "slab/classes/size_classes.hpp"

namespace holdfast::heap::lanes_fuzz {

using segment::fuzz_input;
using segment::fuzz_operation;

enum control_bits : unsigned {
    repair_checksums = 1U << 0U,
    repair_sequences = 1U << 1U,
    repair_seals = 1U << 2U,
    repair_times = 1U << 3U,
    in_flight = 1U << 8U,
    line_mix_shift = 9,
    line_mix_mask = 31,
    cut_off = 1U << 14U,
    logged = 1U << 15U,
};

inline constexpr std::uint64_t key = 0x5eed;
inline constexpr std::uint64_t slots = lane::minimum_slots;
inline constexpr std::uint64_t most_lanes = 4;
using contents = std::vector<std::byte>;

inline constexpr std::uint64_t log_files = 4;
inline constexpr log::mark log_begin{0, 0, 1};

struct image {
    contents user;
    contents metadata;
    contents lanes;
    contents log;
};

enum class edited_place : std::uint8_t { record, written_record, made_record, copied_record, head, completed, size };

class editor {
public:
    editor(image& media, bool is_log) : media_(media), is_log_(is_log) {}

    void apply(const fuzz_input::record& bytes) {
        constexpr edited_place places[16] = {
            edited_place::record,         edited_place::written_record, edited_place::written_record,
            edited_place::made_record,    edited_place::made_record,    edited_place::made_record,
            edited_place::made_record,    edited_place::copied_record,  edited_place::copied_record,
            edited_place::head,           edited_place::completed,      edited_place::size,
            edited_place::written_record, edited_place::made_record,    edited_place::written_record,
            edited_place::head,
        };
        const segment::fuzz_edit edit = fuzz_input::edit(bytes);
        switch (places[bytes[0] % 16]) {
            case edited_place::record: change(record_at(edit.which, edit.offset / 8), edit); break;
            case edited_place::written_record: change(record_at(written(edit.which)), edit); break;
            case edited_place::made_record: record_at(edit.which, edit.offset) = make(edit); break;
            case edited_place::copied_record:
                record_at(edit.which, edit.offset) = record_at(written(static_cast<unsigned>(edit.value)));
                break;
            case edited_place::head:
                changed_head_ = true;
                change(head(), edit);
                break;
            case edited_place::completed: change(*header_of(edit.which % most_lanes), edit); break;
            case edited_place::size:
                media_.lanes.resize(edit.value % (lane::lanes_file_size(most_lanes, slots) + 1));
                break;
        }
    }

    void repair(unsigned control) {
        const std::uint64_t in_force = head().checkpoints[1].value.time;
        for (const auto& [index, slot] : touched_) {
            if (!has(index)) {
                continue;
            }
            lane::record_on_media& record = slots_of(index)[slot];
            if ((control & repair_sequences) != 0 && is_log_) {
                const std::uint64_t number = lane::number_of(record);
                record.sequence &= ~lane::sequence_mask;
                record.sequence |= (number >> lane::log_lane_shift) % most_lanes << lane::log_lane_shift;
                record.sequence += number % (2 * slots) + 1;
            } else if ((control & repair_sequences) != 0) {
                record.sequence = (record.sequence & ~(slots - 1)) | slot;
                record.sequence += record.sequence == 0 ? slots : 0;
            }
            if ((control & repair_times) != 0) {
                record.time = in_force + 1 + record.time % 64;
            }
            if ((control & repair_checksums) != 0) {
                record.checksum = lane::checksum_of(record, lane::seed_of(key, 1, is_log_ ? 0 : index));
            }
        }
        if (changed_head_ && media_.lanes.size() >= lane::lanes_at && (control & repair_seals) != 0) {
            for (std::size_t i = 0; i < lane::sealed_copies; ++i) {
                auto& last = head().checkpoints[i];
                auto& count = head().lane_counts[i];
                last = lane::sealed(last.value, key);
                count = lane::sealed(count.value, key);
            }
        }
    }

private:
    using place = std::pair<std::uint64_t, std::uint64_t>;  ///< lane, slot

    [[nodiscard]] bool has(std::uint64_t index) const {
        return media_.lanes.size() >= lane::lanes_file_size(index + 1, slots);
    }
    [[nodiscard]] lane::lanes_head_on_media& head() {
        return media_.lanes.size() < lane::lanes_at
                   ? nothing_head_
                   : *reinterpret_cast<lane::lanes_head_on_media*>(media_.lanes.data());
    }
    [[nodiscard]] lane::lane_header_on_media* header_of(std::uint64_t index) {
        return has(index) ? reinterpret_cast<lane::lane_header_on_media*>(media_.lanes.data() + lane::lanes_at +
                                                                          index * lane::lane_size(slots))
                          : &nothing_header_;
    }
    [[nodiscard]] lane::record_on_media* slots_of(std::uint64_t index) {
        return reinterpret_cast<lane::record_on_media*>(reinterpret_cast<std::byte*>(header_of(index)) +
                                                        lane::lane_header_size);
    }
    [[nodiscard]] lane::record_on_media& record_at(place where) {
        if (!has(where.first)) {
            return nothing_;
        }
        touched_.insert(where);
        return slots_of(where.first)[where.second];
    }
    [[nodiscard]] lane::record_on_media& record_at(std::uint64_t which, std::uint64_t slot) {
        return record_at({which % most_lanes, slot % slots});
    }
    [[nodiscard]] place written(unsigned n) {
        std::vector<place> all;
        for (std::uint64_t index = 0; index < most_lanes && has(index); ++index) {
            for (std::uint64_t slot = 0; slot < slots; ++slot) {
                if (slots_of(index)[slot].checksum != 0) {
                    all.emplace_back(index, slot);
                }
            }
        }
        return all.empty() ? place{0, 0} : all[n % all.size()];
    }

    template <class T>
    static void change(T& target, const segment::fuzz_edit& edit) {
        const std::size_t at = edit.offset % (sizeof target / 8) * 8;
        std::uint64_t word = 0;
        std::memcpy(&word, reinterpret_cast<std::byte*>(&target) + at, sizeof word);
        switch (edit.what) {
            case fuzz_operation::set: {
                const std::uint64_t mask =
                    edit.width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * edit.width) - 1;
                word = (word & ~mask) | (edit.value & mask);
                break;
            }
            case fuzz_operation::add: word += edit.value; break;
            case fuzz_operation::flip: word ^= std::uint64_t{1} << edit.value % 64; break;
            case fuzz_operation::copy: word = word << 8 * edit.width % 64 | edit.value % 256; break;
        }
        std::memcpy(reinterpret_cast<std::byte*>(&target) + at, &word, sizeof word);
    }

    static std::pair<std::uint64_t, lane::block_word> some_block(std::uint64_t number) {
        const std::uint64_t granule = (1 + number % 15) * base::granule_size;
        const slab::size_class& kind = slab::size_classes[(number >> 5U) % slab::class_count];
        const std::uint64_t index = number >> 12U;
        switch ((number >> 10U) % 4) {
            case 0: return {granule, {lane::block_kind::slab, kind.block_size, 0}};
            case 1:
                return {granule + index % 16 * base::page_size, {lane::block_kind::pages, 1 + (number >> 5U) % 24, 0}};
            default:
                return {granule + index % kind.block_count * kind.block_size,
                        {lane::block_kind::small, kind.block_size, 0}};
        }
    }
    [[nodiscard]] lane::record_on_media make(const segment::fuzz_edit& edit) const {
        const std::uint64_t value = edit.value * 0x9e3779b97f4a7c15 ^ edit.value >> 29U;  // spreads the bits: most
                                                                                          // values are small
        lane::record_on_media made{0, edit.offset + slots, value >> 58U, lane::nowhere, lane::nowhere, 0, lane::nowhere,
                                   0};
        const auto [block, word] = some_block(value);
        const auto [other, other_word] = some_block(value >> 24U);
        if (is_log_) {
            made.sequence += value % most_lanes << lane::log_lane_shift;
        }
        if (edit.width != 1) {
            made.allocated = block;
            made.allocated_block = lane::encode(word);
        }
        if (edit.width == 1 || edit.width == 4) {
            made.freed = edit.width == 1 ? block : other;
            made.freed_block = lane::encode(edit.width == 1 ? word : other_word);
        }
        if (edit.seek) {
            const std::uint64_t inner = edit.what == fuzz_operation::set ? other : 0;
            made.destination =
                lane::encode_destination(inner + value % 128 * 8, static_cast<std::uint16_t>(value >> 50U));
        }
        return made;
    }

    image& media_;
    bool is_log_;
    std::set<place> touched_;
    bool changed_head_ = false;
    lane::record_on_media nothing_{};
    lane::lanes_head_on_media nothing_head_{};
    lane::lane_header_on_media nothing_header_{};
};

/// The log's records in slots of lanes, where the editor finds them.
inline void spread_log(image& media, std::span<const lane::record_on_media> records) {
    media.lanes.resize(lane::lanes_file_size(most_lanes, slots));
    for (std::size_t i = 0; i < records.size() && i < most_lanes * slots; ++i) {
        const std::uint64_t in_lane = lane::lane_header_size + i % slots * sizeof records[i];
        std::memcpy(&media.lanes[lane::lanes_file_size(i / slots, slots) + in_lane], &records[i], sizeof records[i]);
    }
}

/// The other way round: slots that hold something are a log that begins at log_begin.
inline void gather_log(image& media) {
    std::fill(media.log.begin(), media.log.end(), std::byte{0});
    log::files_in_memory files(media.log.data(), log_files, log::least_file_size);
    const auto made = segment::must(log::log::open(files, {files.place(), lane::seed_of(key, 1, 0), 1}, log_begin,
                                                   [](const log::record&) { return base::result<void>(); }));
    for (std::uint64_t index = 0; media.lanes.size() >= lane::lanes_file_size(index + 1, slots); ++index) {
        for (std::uint64_t slot = 0; slot < slots; ++slot) {
            const std::byte* const record =
                &media.lanes[lane::lanes_file_size(index, slots) + lane::lane_header_size + slot * 64];
            if (std::any_of(record, record + 64, [](std::byte each) { return each != std::byte{0}; })) {
                segment::must(made->append(1, {record, 64}));
            }
        }
    }
    segment::must(made->wait(made->end().sequence));
    media.lanes.resize(std::min<std::uint64_t>(media.lanes.size(), lane::lanes_at));
}

/// Each line of metadata and user space is either old or new.
inline void mix_lines(image& media, const image& before, unsigned mix) {
    const auto each = [mix](contents& to, const contents& from, std::uint64_t salt) {
        for (std::size_t at = 0; at < to.size(); at += base::cache_line_size) {
            const std::uint64_t hash = (at / base::cache_line_size + salt) * 0x9e3779b97f4a7c15 * (2 * mix + 1);
            if (mix == line_mix_mask || (hash >> 60U & 1U) != 0) {
                std::memcpy(&to[at], &from[at], base::cache_line_size);
            }
        }
    };
    if (mix != 0) {
        each(media.user, before.user, 1);
        each(media.metadata, before.metadata, 7777);
    }
}

}  // namespace holdfast::heap::lanes_fuzz
