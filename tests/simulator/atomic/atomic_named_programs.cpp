// Sequences that are dangerous.
#include "simulator/atomic/atomic_scenarios.hpp"

namespace holdfast::simulator {

namespace {

constexpr step holder{verb::allocate, 1};
constexpr step point{verb::checkpoint};
constexpr step slot{verb::keep, 0, 0, request::slot};
constexpr step typed_slot{verb::keep, 0, 0, request::typed_slot};
constexpr step discard{verb::discard};
constexpr step into_small{verb::morph, 4};  // place 4 is null: the slab of the block kept last
constexpr step into_slots{verb::morph, 0, 0, request::slot};
constexpr step allocate{verb::allocate, 0};
constexpr step free{verb::free, 0};

atomic_program program(std::vector<step> setup, std::vector<step> steps, std::uint16_t stamp = 0) {
    return {std::move(setup), std::move(steps), 0, true, stamp};
}

}  // namespace

namespace {

std::vector<named_program> programs_of_pointers() {
    return {
        {"a pointer moves on within its line", program({holder}, {allocate, {verb::move, 2, 0}, {verb::free, 2}})},
        {"a pointer moves on to another line", program({holder}, {allocate, {verb::move, 3, 0}, {verb::free, 3}})},
        {"a holder is freed and its memory holds words that look like old stamps",
         program({holder}, {{verb::allocate, 3}, {verb::free, 1}, {verb::publish, 0}})},
        {"a holder is freed, reused as a holder, and freed again",
         program(
             {holder},
             {{verb::allocate, 3}, {verb::free, 1}, holder, {verb::allocate, 3}, {verb::free, 1}, {verb::publish, 0}})},
        // A thread hands out a block that it freed only with the next word of states, or after its blocks have gone
        // back.
        {"a holder is freed, and its memory is another block at once, with words that look like old stamps",
         program({holder}, {{verb::allocate, 3}, {verb::free, 1}, {verb::give_back}, {verb::publish, 0}})},
        {"a holder is freed, reused as a holder at once, and freed again", program({holder}, {{verb::allocate, 3},
                                                                                              {verb::free, 1},
                                                                                              {verb::give_back},
                                                                                              holder,
                                                                                              {verb::allocate, 3},
                                                                                              {verb::free, 1},
                                                                                              {verb::give_back},
                                                                                              {verb::publish, 0}})},
        {"a block that holds its own destination is freed, and reused at once",
         program({holder, {verb::allocate, 3}, {verb::free, 3}},
                 {{verb::free_cycle}, {verb::give_back}, {verb::publish, 0}})},
        {"a record durable whose call never returned", program({holder}, {allocate, free, {verb::publish, 0}})},
        {"a record not durable whose later neighbour is",
         program({holder}, {{verb::allocate_both}, {verb::free_both}, {verb::allocate_both}})},
        {"a stamp passes half of its range on a hot destination",
         program({holder}, {allocate, free, allocate, free, allocate, free}, (1U << 15U) - 3)},
        {"a stamp passes its range on a hot destination",
         program({holder}, {allocate, free, allocate, free, allocate, free}, 65533)},
        {"a stamp comes round while its destination is not written back",
         program({}, {{verb::skip_stamps, 0, 1U << 15U}, allocate, {verb::skip_stamps, 0, 1U << 16U}, free, allocate},
                 1)},
        {"garbage stamps in memory that was never initialised",
         program({holder, {verb::publish, 0}, free, allocate},
                 {{verb::allocate_carelessly, 0}, {verb::allocate, 3}, point, {verb::free, 3}})},
        {"the block that holds the destination is the one that is freed",
         program({holder, {verb::allocate, 3}, {verb::free, 3}}, {{verb::free_cycle}, {verb::publish, 0}})},
    };
}

std::vector<named_program> programs_of_slabs() {
    return {
        {"a slab of large blocks becomes one of small ones",
         program({holder, slot, slot, discard}, {into_small, allocate, {verb::allocate, 3}, free, discard})},
        {"blocks from before are freed, and others take their place",
         program({holder, slot, slot, slot}, {into_small, discard, {verb::give_back}, allocate, discard, slot})},
        {"a slab of small blocks becomes one of large ones, and has both",
         program({holder, allocate},
                 {into_slots, {verb::allocate, 3, 0, request::slot}, free, {verb::free, 3}, {verb::free, 1}})},
        {"a slab morphs and morphs back while its first records count",
         program({holder}, {slot, into_small, allocate, discard, into_slots, slot, free, discard})},
        {"a slab morphs after a checkpoint, and again before the next",
         program({holder, slot, point}, {into_small, allocate, discard, point, into_slots, slot, free})},
        {"a morphed slab is released, and made again",
         program({holder, slot, slot, slot, slot, slot, discard, discard, discard, discard},
                 {into_small, discard, {verb::give_back}, {verb::allocate, 0, 0, request::big}, free, slot})},
        {"a slab goes and comes: released, and made again for blocks of another size",
         program(
             {holder, slot, slot, slot, slot, slot, discard, discard, discard, discard, discard},
             {{verb::give_back}, {verb::allocate, 0, 0, request::other}, free, {verb::allocate, 0, 0, request::big}})},
        {"a slab is released, its granule is a block of pages, and a slab again",
         program({holder, slot, slot, slot, slot, slot, discard, discard, discard, discard, discard},
                 {{verb::give_back},
                  {verb::allocate, 0, 0, request::big},
                  free,
                  {verb::allocate, 0, 0, request::other},
                  {verb::allocate, 3, 0, request::big}})},
        {"a slab with a type is released, and made again with none, and with another type",
         program(
             {holder, typed_slot, typed_slot, typed_slot, typed_slot, typed_slot, discard, discard, discard, discard},
             {discard, {verb::allocate, 0, 0, request::slot}, {verb::allocate, 3, 0, request::other}, free})},
        {"a slab without a type is released, and made again with one",
         program({holder, slot, slot, slot, slot, slot, discard, discard, discard, discard, discard},
                 {{verb::give_back}, {verb::allocate, 0, 0, request::typed_slot}, free, {verb::publish, 3}})},
        {"blocks of one size with two types and with none, one keeps its type in another class",
         program({holder, typed_slot}, {{verb::allocate, 0, 0, request::slot},
                                        {verb::allocate, 3, 0, request::typed_slot},
                                        {verb::reallocate, 3, 0, request::small},
                                        {verb::reallocate, 0, 0, request::other},
                                        {verb::free, 3}})},
        {"the heap grows, and the new space is used at once",
         program({holder,
                  {verb::keep, 0, 0, request::big},
                  {verb::keep, 0, 0, request::big},
                  {verb::keep, 0, 0, request::big},
                  {verb::keep, 0, 0, request::big}},
                 {{verb::allocate, 0, 0, request::big}, {verb::reallocate, 0, 0, request::big}, free})},
    };
}

}  // namespace

const std::vector<named_program>& named_programs() {
    static const std::vector<named_program> programs = [] {
        std::vector<named_program> all = programs_of_pointers();
        const std::vector<named_program> more = programs_of_slabs();
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }();
    return programs;
}

atomic_report explore_lap_of_stamps() {
    constexpr std::uint64_t stamps = 65536;
    constexpr std::uint64_t operations_a_lane = 32000;  // a ring has 65536 slots; no checkpoint before it is half full
    atomic_explorer explorer({stamps, lane::record_order::clock, crash_kind::power_loss, 5}, {{1, 0, 0, 4}, 1});
    const std::vector<step> setup{holder, allocate, point};
    // Another owner gets the first block, so that its pointer is wrong when the stamp comes round.
    std::vector<step> first{free, {verb::keep}, allocate};
    std::uint64_t operations = 2;  // of place 0
    const auto fill = [&operations](std::vector<step>& part, std::uint64_t up_to) {
        for (; operations < up_to; operations += 2) {
            part.push_back(free);
            part.push_back(allocate);
        }
    };
    fill(first, operations_a_lane);
    std::vector<step> second;
    fill(second, 2 * operations_a_lane);
    std::vector<step> third;
    fill(third, stamps);
    explorer.run_in_turns(setup, {first, second}, third);
    return explorer.report();
}

atomic_report explore_deaths(const atomic_setting& setting, const atomic_effort& effort) {
    // The dying thread holds no lock that others need, and they need no more records than a ring has.
    const std::vector<step> other{{verb::allocate, 4}, {verb::free, 4}, {verb::publish, 4}, point, {verb::free, 4}};
    const auto dying = [&other](std::string name, std::vector<step> part, std::vector<step> setup = {holder}) {
        return concurrent_program{std::move(name), std::move(setup), {std::move(part), other}, true, 0, true};
    };
    const std::vector<concurrent_program> programs{
        dying("single calls", {allocate, free, {verb::publish, 0}}),
        dying("batches", {{verb::allocate_both}, {verb::free_both}}),
        dying("blocks of pages",
              {{verb::allocate, 2, 0, request::big}, {verb::reallocate, 2, 0, request::small}, {verb::free, 2}}),
        dying("blocks with types",
              {{verb::allocate, 0, 0, request::big}, {verb::reallocate, 0, 0, request::slot}, free},
              {holder, typed_slot}),
        dying("blocks without destinations",
              {{verb::keep}, {verb::discard}, {verb::keep, 0, 0, request::big}, discard}),
        dying("a slab in the making", {{verb::allocate, 0, 0, request::other}}),
        dying("a slab that morphs", {into_small, allocate}, {holder, slot}),
        dying("blocks of a morphed slab", {allocate, discard, free}, {holder, slot, into_small}),
    };
    atomic_explorer explorer(setting, effort);
    for (const concurrent_program& each : programs) {
        for (unsigned death = 1; !explorer.failed(); ++death) {
            if (!explorer.run_with_death(each, death, false) || !explorer.run_with_death(each, death, true)) {
                break;
            }
        }
    }
    return explorer.report();
}

}  // namespace holdfast::simulator
