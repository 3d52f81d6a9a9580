// What a record does to the heap: its destination, its blocks, its data. For a call whose thread is gone; replay has
// its own way, for it decides by all records of a word (replay.hpp).
#pragma once

#include <atomic>
#include <cstdint>

#include "lane/effects.hpp"
#include "lane/lane.hpp"
#include "lane/lane_format.hpp"
#include "lane/lane_options.hpp"
#include "lane/record.hpp"
#include "persist/domain.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/space.hpp"

namespace holdfast::lane {

template <persist::persistence_domain Domain>
class record_effects {
public:
    record_effects(Domain& domain, segment::space_view space, const lane_options& options) noexcept
        : domain_(domain), space_(space), states_(options.states), by_clock_(is_by_clock(options.order)) {}
    record_effects(const record_effects&) = delete;
    record_effects& operator=(const record_effects&) = delete;
    ~record_effects() = default;

    /// The stamp tells whether the destination was written before.
    void carry_out(const record_on_media& record) noexcept {
        if (has_flag(record, data_flag)) {
            store_data(record);
            return;
        }
        if (record.destination != nowhere) {
            const std::uint64_t offset = destination_offset(record.destination);
            const std::uint16_t stamp = destination_stamp(record.destination);
            auto& word = *reinterpret_cast<std::uint64_t*>(space_.address({offset}));
            const std::uint64_t found = std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
            if (segment::stamp_of(found) != stamp) {
                domain_.store(word,
                              record.allocated == nowhere ? segment::null_pointer(stamp)
                                                          : segment::encode_pointer(offset, record.allocated, stamp),
                              "lane.finish.destination");
            }
        }
        const block_word old = morphed_from(record);
        change(record.allocated, record.allocated_block, true, old);
        if (old.kind == block_kind::none) {
            change(record.freed, record.freed_block, false, {});
        }
    }

    /// No descriptor has the lines of a payload: a fence must come before complete().
    void store_data(const record_on_media& record) noexcept {
        const data_place place = decode_data(record.destination);
        if (place.words == payload_marker) {
            const payload_place payload = payload_of(record);
            const auto* const records = reinterpret_cast<const record_on_media*>(space_.address({payload.offset}));
            for (std::uint64_t i = 0; i < payload.records; ++i) {
                carry_out(records[i]);
                if (has_flag(records[i], data_flag)) {
                    const data_place stored = decode_data(records[i].destination);
                    domain_.flush(space_.address({stored.offset}), stored.words * sizeof(std::uint64_t),
                                  "lane.payload.flush");
                }
            }
            return;
        }
        const auto words = words_of(record);
        for (std::uint64_t i = 0; i < place.words; ++i) {
            domain_.store(*reinterpret_cast<std::uint64_t*>(space_.address({place.offset + i * sizeof(std::uint64_t)})),
                          words[i], "lane.data.store");
        }
    }

private:
    void change(std::uint64_t offset, std::uint64_t encoded, bool allocate, block_word old) noexcept {
        if (offset == nowhere) {
            return;
        }
        const block_word block = decode_block(encoded);
        const bool has_state =
            states_ != nullptr && block.kind != block_kind::slab && states_->set_state(offset, block, allocate);
        if (has_state && by_clock_) {
            return;  // a checkpoint stores the bitmap
        }
        const block_place place = place_of(space_, offset, block);
        if (allocate && block.kind == block_kind::slab) {
            store_slab_header(space_, offset, block, old, [this](std::uint64_t& word, std::uint64_t value) {
                domain_.store(word, value, "lane.finish.header");
            });
        }
        domain_.fetch_and(*place.word, ~place.mask, "lane.finish.clear");
        if (allocate) {
            domain_.fetch_or(*place.word, place.set, "lane.finish.set");
        }
    }

    Domain& domain_;
    segment::space_view space_;
    block_states* states_;  ///< or null
    bool by_clock_;         ///< checkpoints store the bitmaps
};

}  // namespace holdfast::lane
