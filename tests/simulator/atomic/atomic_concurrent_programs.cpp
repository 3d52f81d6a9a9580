// Programs of two threads.
#include "simulator/atomic/atomic_scenarios.hpp"

namespace holdfast::simulator {

namespace {

constexpr step holder{verb::allocate, 1};
constexpr step big0{verb::allocate, 0, 0, request::big};
constexpr step big2{verb::allocate, 2, 0, request::big};
constexpr step big3{verb::allocate, 3, 0, request::big};
constexpr step point{verb::checkpoint};

}  // namespace

const std::vector<concurrent_program>& concurrent_programs() {
    static const std::vector<concurrent_program> programs{
        {"two destinations of one line, and a checkpoint",
         {holder},
         {{{{verb::allocate, 0}, {verb::free, 0}}, {{verb::publish, 2}, point, {verb::free, 2}}}}},
        {"a block of pages goes from thread to thread",
         {holder, big0},
         {{{{verb::free, 0}, big0}, {big3, {verb::free, 3}, big2}}},
         false},
        {"a thread moves while another allocates in the same lines",
         {holder},
         {{{{verb::allocate, 0}, {verb::move, 2, 0}}, {{verb::allocate, 3}, {verb::move, 4, 3}, {verb::free, 4}}}}},
        {"destinations in each other",
         {},
         {{{holder, {verb::await, 2}, {verb::free, 1}, {verb::publish, 0}},
           {{verb::await, 1}, {verb::allocate, 3}, {verb::publish, 2}}}},
         false},
        {"one fills its ring and takes checkpoints while the other is in a call",
         {holder},
         {{{{verb::allocate, 0}},
           {{verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::publish, 3},
            {verb::free, 3}}}}},
        {"a ring is used again while another takes a checkpoint",
         {holder},
         {{{{verb::allocate, 0},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3},
            {verb::free, 3},
            {verb::allocate, 3}},
           {point}}},
         true,
         0,
         true},
        {"two checkpoints at once",
         {holder, {verb::allocate, 0}},
         {{{{verb::free, 0}, point}, {{verb::allocate, 3}, point}}},
         false},
        {"blocks given back, and taken by the other",
         {holder, {verb::keep}, {verb::give_back}},
         {{{{verb::allocate, 0}, {verb::free, 0}, {verb::give_back}}, {{verb::await, 2}, {verb::publish, 2}, point}}},
         false},
        {"batches beside single calls",
         {holder},
         {{{{verb::allocate_both}, {verb::free_both}}, {{verb::allocate, 3}, {verb::reallocate, 3}, point}}}},
        {"stamps pass half of their range",
         {holder},
         {{{{verb::allocate, 0}, {verb::free, 0}, {verb::allocate, 0}}, {{verb::allocate, 2}, point}}},
         true,
         (1U << 15U) - 2},
        {"a holder is freed and its memory reused for words that look like stamps",
         {holder, {verb::allocate, 3}},
         {{{{verb::free, 3}, {verb::free, 1}, {verb::publish, 0}}, {{verb::keep}, point, {verb::discard}}}},
         false},
    };
    return programs;
}

}  // namespace holdfast::simulator
