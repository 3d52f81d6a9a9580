// A commit that has taken what it writes: the program goes on, and stores to the same pages, while it is written.
//
// Invariants:
//   CAP-1: the commit's pages lie in copies, as they were at one moment in which no thread stored; but for those with
//          checksums alone, which only commits store to.
//   CAP-2: a captured commit moves no space: files keep their sizes and names, nothing becomes a hole, and each of its
//          pages lies over a file. So nothing is left to do for memory, but to drop pages that stayed private.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "segment/commit/commit_builder.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/commit/committer.hpp"

namespace holdfast::segment {

struct captured_commit {
    captured_commit(free_runs not_used, capture_room in) : free(std::move(not_used)), room(std::move(in)) {}
    captured_commit(const captured_commit&) = delete;
    captured_commit& operator=(const captured_commit&) = delete;
    ~captured_commit() = default;

    const free_runs free;
    const space_going going{};
    const free_runs kept{};
    const noted_pages noted{};
    capture_room room;
    std::optional<commit_builder> builder;
    commit_plan plan;
    commit_statistics statistics;
};

}  // namespace holdfast::segment
