// The images that a crash may leave: any possible content for each line, any possible T, and for each slot in writing
// the old record, a torn one or the new one.
#include "model/protocol_replay.hpp"

namespace holdfast::model {

namespace {

/// Chooses for one thing after the other, recursively.
class image_visitor {
public:
    image_visitor(const rules& chosen, const state& before, const std::function<bool(const image&)>& visit)
        : chosen_(chosen), before_(before), visit_(visit) {}

    bool choose_line(int index) {
        if (index == max_lines) {
            return choose_time(0);
        }
        const line& from = before_.lines[static_cast<std::size_t>(index)];
        for (std::size_t each = 0; each < from.count; ++each) {
            put_line(index, from.possible[each]);
            if (!choose_line(index + 1)) {
                return false;
            }
        }
        return true;
    }

private:
    void put_line(int index, int content) {
        if (index == 0) {
            image_.blocks = static_cast<byte>(content);
            return;
        }
        for (std::size_t word = 0; word < chosen_.about.lines.size(); ++word) {
            if (chosen_.about.lines[word] == index) {
                image_.words[word] = static_cast<byte>(content & 31);
                content >>= 5;
            }
        }
    }

    bool choose_time(int time) {
        for (; before_.possible_times >> time != 0; ++time) {
            if ((before_.possible_times >> time & 1) != 0) {
                image_.time = static_cast<byte>(time);
                if (!choose_growth()) {
                    return false;
                }
            }
        }
        return true;
    }

    bool choose_growth() {
        image_.grown = before_.grown == growth::durable ? 1 : 0;
        if (!choose_slot(0)) {
            return false;
        }
        if (before_.grown == growth::pending) {
            image_.grown = 1;
            return choose_slot(0);
        }
        return true;
    }

    /// What a write that was cut off leaves: nothing, for its checksum does not fit. The mistake: half of the record.
    [[nodiscard]] record torn(const slot& from) const {
        if (!chosen_.wrong.torn_records_count) {
            return {};
        }
        record half = from.pending;
        half.stamp = from.media.stamp;
        half.target = from.media.target;
        return half;
    }

    bool choose_slot(int index) {
        if (index == max_threads * max_slots) {
            return visit_(image_);
        }
        const auto lane = static_cast<std::size_t>(index / max_slots);
        const auto at = static_cast<std::size_t>(index % max_slots);
        const slot& from = before_.rings[lane][at];
        image_.rings[lane][at] = from.media;
        if (!choose_slot(index + 1)) {
            return false;
        }
        if (from.pending == wiped) {
            image_.rings[lane][at] = {};
            return from.media.is_void() || choose_slot(index + 1);
        }
        if (from.pending.is_void()) {
            return true;
        }
        for (const record& each : {torn(from), from.pending}) {
            if (each == from.media) {
                continue;
            }
            image_.rings[lane][at] = each;
            if (!choose_slot(index + 1)) {
                return false;
            }
        }
        return true;
    }

    const rules& chosen_;
    const state& before_;
    const std::function<bool(const image&)>& visit_;
    image image_;
};

}  // namespace

void for_each_image(const rules& chosen, const state& before, const std::function<bool(const image&)>& visit) {
    image_visitor(chosen, before, visit).choose_line(0);
}

}  // namespace holdfast::model
