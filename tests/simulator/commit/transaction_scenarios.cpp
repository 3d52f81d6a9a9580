// Transactions of the engine that end, and that are given up.
#include <vector>

#include "simulator/commit/space_explorer.hpp"

namespace holdfast::simulator {

namespace {

constexpr std::uint64_t mebibyte = base::mebibyte;
constexpr std::uint64_t small_segment = segment::minimum_segment_size;
constexpr std::uint64_t never = extent::decay_curve::never;

void put_and_drop(space_explorer& in, unsigned first) {
    for (unsigned i = first; i < first + 40; ++i) {
        in.put(i, 700);
    }
    in.put(first + 40, 30'000);
    in.put(first + 41, 300'000);
    in.drop(first + 3);
    in.drop(first + 41);
}

std::vector<space_scenario> scenarios_of_lone_transactions() {
    return {
        {"transactions that end, and that are given up", small_segment, never,
         [](space_explorer& in) {
             put_and_drop(in, 0);
             in.commit();
             in.begin();
             in.give_up([&] {
                 in.rewrite(1);
                 in.drop(2);
                 in.drop(40);
                 put_and_drop(in, 100);
             });
             in.transact([&] {
                 in.rewrite(1);
                 in.drop(2);
                 in.drop(40);
                 put_and_drop(in, 200);
             });
             in.reopen();
         }},
    };
}

void put_some(space_explorer& in, unsigned first, unsigned end) {
    for (unsigned i = first; i < end; ++i) {
        in.put(i, 1'000);
    }
}

std::vector<space_scenario> scenarios_of_blocks_that_come_back() {
    return {
        {"blocks that are listed to be handed out come back", small_segment, never,
         [](space_explorer& in) {
             put_some(in, 0, 64);
             in.commit();
             in.begin();
             in.give_up([&] {
                 for (unsigned i = 0; i < 32; ++i) {
                     in.drop(i);
                 }
                 put_some(in, 100, 101);
             });
             in.transact([&] { put_some(in, 200, 230); });
         }},
        {"slabs that became empty come back", small_segment, never,
         [](space_explorer& in) {
             put_some(in, 0, 200);
             in.commit();
             in.begin();
             in.give_up([&] {
                 for (unsigned i = 0; i < 200; ++i) {
                     in.drop(i);
                 }
                 in.put(300, 3 * mebibyte);  // the heap grows, and before that empties what it can
                 in.put(301, 60'000);
             });
             in.transact([&] { put_some(in, 200, 230); });
         }},
    };
}

std::vector<space_scenario> scenarios_of_parts() {
    return {
        {"parts of transactions, behind what was stored before", small_segment, 0,
         [](space_explorer& in) {
             put_and_drop(in, 0);
             in.commit();
             in.begin();
             in.rewrite(0);
             in.put(90, 500'000);
             in.transact([&] {
                 in.drop(90);
                 in.put(91, 400'000);
                 in.give_up([&] {
                     in.drop(91);
                     in.rewrite(0);
                     in.put(92, 600'000);
                 });
                 in.part([&] {
                     in.drop(91);
                     in.rewrite(0);
                     put_and_drop(in, 100);
                 });
                 in.rewrite(1);
             });
             in.give_up([&] {
                 for (unsigned i = 100; i < 140; ++i) {
                     if (i != 103) {
                         in.drop(i);
                     }
                 }
                 for (unsigned i = 200; i < 260; ++i) {
                     in.put(i, 1'500);
                 }
             });
             in.commit();
             in.reopen();
         }},
        {"transactions in sparse and morphed slabs", small_segment, never,
         [](space_explorer& in) {
             leave_three_of_a_slab(in);
             in.give_up([&] {
                 in.drop(2);
                 in.drop(30);
                 in.drop(61);
                 for (unsigned i = 100; i < 120; ++i) {
                     in.put(i, 2'000);
                 }
             });
             in.transact([&] {
                 in.drop(30);
                 in.put(121, 1'000);
             });
             in.shrink();
         }},
    };
}

}  // namespace

std::vector<space_scenario> transaction_scenarios() {
    std::vector<space_scenario> together = scenarios_of_lone_transactions();
    for (const auto& more : {scenarios_of_blocks_that_come_back(), scenarios_of_parts()}) {
        together.insert(together.end(), more.begin(), more.end());
    }
    return together;
}

}  // namespace holdfast::simulator
