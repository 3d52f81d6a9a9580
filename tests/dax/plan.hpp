// The calls of each thread of the guest, determined by a seed. The worker carries them out; after the crash the next
// program finds the call after which the heap stands, and may go on behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace holdfast::dax {

inline constexpr std::size_t threads = 2;
inline constexpr std::size_t slots_a_thread = 200;  // roots: thread t has those from t * slots_a_thread

/// What a slot's root points to: a node, with a value that is not 0 and perhaps a child; or a raw block, which begins
/// with a zero word.
struct slot_state {
    enum class content : std::uint8_t { nothing, raw, node } holds = content::nothing;
    std::uint64_t bytes = 0;  ///< raw: as requested
    std::uint64_t value = 0;  ///< of a node
    std::uint64_t child = 0;  ///< value of a node's child; 0: none
    [[nodiscard]] bool operator==(const slot_state&) const = default;
};

struct call {
    enum class action : std::uint8_t { make_node, make_child, allocate, reallocate, free_child, free } what;
    std::size_t slot;      ///< of the thread
    std::uint64_t bytes;   ///< allocate, reallocate
    std::uint64_t number;  ///< from 1; the value of what is made
};

/// Each call changes exactly one destination.
class plan {
public:
    plan(std::uint64_t seed, std::size_t thread) : random_(seed * threads + thread) {}

    [[nodiscard]] const slot_state& at(std::size_t slot) const { return slots_.at(slot); }

    /// The next call; at() tells the slot's state after it.
    call next() {
        call made{call::action::free, random_() % slots_a_thread, 0, ++number_};
        slot_state& slot = slots_.at(made.slot);
        const bool first_choice = random_() % 2 == 0;
        switch (slot.holds) {
            case slot_state::content::nothing:
                made.what = first_choice ? call::action::make_node : call::action::allocate;
                made.bytes = random_() % 128 == 0 ? (1U << 20U) + random_() % (2U << 20U) : 8 + random_() % 3000;
                slot = first_choice ? slot_state{slot_state::content::node, 0, number_, 0}
                                    : slot_state{slot_state::content::raw, made.bytes, 0, 0};
                return made;
            case slot_state::content::raw:
                if (first_choice) {
                    break;
                }
                made.what = call::action::reallocate;
                slot.bytes = made.bytes = slot.bytes < 1000 ? 5000 + random_() % 20'000 : 16 + random_() % 200;
                return made;
            case slot_state::content::node:
                if (slot.child == 0 && first_choice) {
                    break;
                }
                made.what = slot.child == 0 ? call::action::make_child : call::action::free_child;
                slot.child = slot.child == 0 ? number_ : 0;
                return made;
        }
        slot = {};
        return made;
    }

private:
    std::mt19937_64 random_;
    std::uint64_t number_ = 0;
    std::array<slot_state, slots_a_thread> slots_{};
};

}  // namespace holdfast::dax
