// The programs that test durability `collect`.
#include "simulator/collect/collect_explorer.hpp"

namespace holdfast::simulator {

namespace {

std::vector<named_collect_program> programs_of_extents() {
    using enum collect_verb;
    return {
        {"a slab that goes after its bitmap was written, and another in its place",
         {{push, 1, large_block},
          {push, 1, large_block},
          {push, 1, large_block},
          {push, 1, large_block},
          {push, 1, large_block},
          {reopen},
          {pop, 1},
          {pop, 1},
          {pop, 1},
          {pop, 1},
          {pop, 1},
          {shrink},
          {push, 2, pages_block},
          {push, 0, 64},
          {push, 0, 2048},
          {reopen}},
         5},
        {"pages that become a slab, and a slab that becomes pages",
         {{push, 2, pages_block},
          {push, 4, pages_block},
          {pop, 2},
          {push, 1, large_block},
          {shrink},
          {push, 2, 64},
          {pop, 1},
          {shrink},
          {push, 4, 13 * base::page_size},
          {pop, 4},
          {reopen},
          {push, 0, 64}}},
        {"small extents that become one, and a larger block over them",
         {{push, 2, pages_block},
          {push, 2, pages_block},
          {push, 2, pages_block},
          {push, 0, pages_block},
          {pop, 2},
          {pop, 2},
          {pop, 2},
          {shrink},
          {push, 4, 13 * base::page_size},
          {push, 2, 64},
          {reopen}},
         4},
        {"a slab that goes, and pages across where it began",
         {{push, 2, pages_block},
          {push, 2, pages_block},
          {push, 1, large_block},
          {pop, 1},
          {shrink},
          {push, 1, 13 * base::page_size},
          {push, 2, pages_block},
          {pop, 1},
          {push, 0, pages_block},
          {reopen}},
         3},
    };
}

std::vector<named_collect_program> programs_of_morphing() {
    using enum collect_verb;
    return {
        {"a slab that is morphed, and blocks of both sizes that go",
         {{push, 1, large_block},
          {push, 1, large_block},
          {pop, 1},
          {morph, 1, 64},
          {push, 0, 64},
          {lose, 0, 64},
          {pop, 1},
          {push, 2, 64},
          {pop, 0},
          {reopen}}},
        {"blocks from before go, and others lie where they were",
         {{push, 0, 64},
          {push, 1, large_block},
          {push, 1, large_block},
          {push, 1, large_block},
          {pop, 1},
          {morph, 1, 2048},
          {push, 0, 2048},
          {pop, 1},
          {write_back},
          {shrink},
          {push, 2, 2048},
          {push, 2, 2048},
          {die, 0, 3},
          {push, 0, 2048}}},
        {"a slab that is morphed, and back",
         {{push, 1, 2048},
          {push, 1, 2048},
          {morph, 1, large_block},
          {push, 2, large_block},
          {pop, 1},
          {pop, 1},
          {reopen},
          {push, 1, large_block},
          {morph, 2, 2048},
          {push, 0, 2048},
          {pop, 2},
          {reopen}}},
        {"a slab that is morphed, and a pointer that is durable with the block's size",
         {{push, 1, large_block}, {morph, 1, 64}, {lend, 0, 64}, {push, 2, 64}, {reopen}}},
    };
}

std::vector<named_collect_program> programs_of_lists() {
    using enum collect_verb;
    return {
        {"named objects that come and go",
         {{push, 3, 64},
          {push, 3, 64},
          {push, 4, pages_block},
          {pop, 3},
          {pop, 3},
          {push, 3, 2048},
          {pop, 4},
          {reopen},
          {push, 4, 64},
          {pop, 3},
          {push, 3, pages_block}}},
        {"what is lost, closed, and lost for good",
         {{lose, 0, 64},
          {lose, 0, large_block},
          {lose, 0, pages_block},
          {push, 0, 64},
          {reopen},
          {free_lost},
          {lose, 0, 64},
          {write_back},
          {push, 1, large_block},
          {reopen}}},
        {"a process that dies before its pointer is written back, and one that uses what it freed",
         {{push, 0, 64},
          {push, 2, pages_block},
          {die, 0, 3},
          {push, 0, 64},
          {push, 1, 64},
          {die, 0, 2},
          {pop, 2},
          {push, 1, pages_block},
          {die, 0, 2},
          {pop, 0},
          {push, 1, 64},
          {push, 1, 64},
          {reopen}}},
        {"growth",
         {{push, 1, 13 * base::page_size},
          {push, 1, 13 * base::page_size},
          {push, 1, 13 * base::page_size},
          {push, 1, 13 * base::page_size},
          {push, 1, 13 * base::page_size},
          {push, 0, 64},
          {pop, 1},
          {pop, 1},
          {pop, 1},
          {pop, 1},
          {shrink},
          {push, 1, 13 * base::page_size},
          {reopen}},
         3},
    };
}

std::vector<named_collect_program> programs_of_destinations() {
    using enum collect_verb;
    return {
        {"destinations of whole pages",
         {{allocate_to, 0, pages_block},
          {free_from, 0},
          {publish, 0, pages_block},
          {realloc_to, 0, 13 * base::page_size},
          {realloc_to, 0, 64},
          {push, 1, pages_block},
          {realloc_to, 0, pages_block},
          {free_from, 0},
          {push, 2, pages_block},
          {reopen}}},
        {"destinations of small blocks, whose memory is used again",
         {{push, 0, 64},
          {push, 1, 64},
          {pop, 0},
          {free_from, 1},
          {allocate_to, 0, 64},
          {publish, 1, 64},
          {realloc_to, 1, large_block},
          {push, 2, 64},
          {free_from, 0},
          {publish, 0, 2048},
          {realloc_to, 1, 64},
          {reopen},
          {free_from, 1}}},
    };
}

}  // namespace

const std::vector<collect_step>& collect_alphabet() {
    static const std::vector<collect_step> all{
        {collect_verb::push, 0, 64},
        {collect_verb::push, 1, large_block},
        {collect_verb::push, 1, large_block},
        {collect_verb::push, 2, pages_block},
        {collect_verb::push, 3, 64},
        {collect_verb::push, 4, pages_block},
        {collect_verb::push, 0, 2048},
        {collect_verb::push, 3, large_block},
        {collect_verb::pop, 0},
        {collect_verb::pop, 1},
        {collect_verb::pop, 1},
        {collect_verb::pop, 2},
        {collect_verb::pop, 3},
        {collect_verb::pop, 4},
        {collect_verb::allocate_to, 0, 64},
        {collect_verb::allocate_to, 2, pages_block},
        {collect_verb::publish, 0, pages_block},
        {collect_verb::publish, 2, 64},
        {collect_verb::free_from, 0},
        {collect_verb::free_from, 2},
        {collect_verb::realloc_to, 0, pages_block},
        {collect_verb::realloc_to, 2, 64},
        {collect_verb::lose, 0, 64},
        {collect_verb::lose, 0, large_block},
        {collect_verb::lose, 0, pages_block},
        {collect_verb::free_lost},
        {collect_verb::write_back},
        {collect_verb::shrink},
        {collect_verb::reopen},
        {collect_verb::reopen},
        {collect_verb::die, 0, 2},
        {collect_verb::die, 0, 3},
    };
    return all;
}

const std::vector<named_collect_program>& named_collect_programs() {
    static const std::vector<named_collect_program> all = [] {
        std::vector<named_collect_program> every = programs_of_extents();
        for (auto* const more : {programs_of_lists, programs_of_morphing, programs_of_destinations}) {
            for (named_collect_program& one : more()) {
                every.push_back(std::move(one));
            }
        }
        return every;
    }();
    return all;
}

}  // namespace holdfast::simulator
