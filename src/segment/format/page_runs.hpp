// Sorted, disjoint runs of pages, as sets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/units.hpp"
#include "segment/format/space.hpp"

namespace holdfast::segment {

[[nodiscard]] inline base::pages end_of(const free_runs::value_type& run) noexcept { return run.first + run.second; }

/// Appends a run that begins in or behind the last one.
inline void append_run(free_runs& to, base::pages first, base::pages end) {
    if (!(first < end)) {
        return;
    }
    if (!to.empty() && !(end_of(to.back()) < first)) {
        to.back().second = std::max(end_of(to.back()), end) - to.back().first;
    } else {
        to.emplace_back(first, end - first);
    }
}

/// Pages of either.
[[nodiscard]] inline free_runs either(const free_runs& one, const free_runs& other) {
    free_runs all;
    all.reserve(one.size() + other.size());
    auto left = one.begin();
    auto right = other.begin();
    while (left != one.end() || right != other.end()) {
        auto& next = right == other.end() || (left != one.end() && left->first < right->first) ? left : right;
        append_run(all, next->first, end_of(*next));
        ++next;
    }
    return all;
}

/// Pages of both.
[[nodiscard]] inline free_runs common(const free_runs& one, const free_runs& other) {
    free_runs all;
    auto right = other.begin();
    for (const auto& run : one) {
        while (right != other.end() && !(run.first < end_of(*right))) {
            ++right;
        }
        for (auto at = right; at != other.end() && at->first < end_of(run); ++at) {
            append_run(all, std::max(run.first, at->first), std::min(end_of(run), end_of(*at)));
        }
    }
    return all;
}

/// Pages of `one` alone.
[[nodiscard]] inline free_runs without(const free_runs& one, const free_runs& other) {
    free_runs all;
    auto right = other.begin();
    for (const auto& run : one) {
        base::pages at = run.first;
        while (right != other.end() && !(run.first < end_of(*right))) {
            ++right;
        }
        for (auto cut = right; cut != other.end() && cut->first < end_of(run); ++cut) {
            append_run(all, at, cut->first);
            at = std::max(at, end_of(*cut));
        }
        append_run(all, at, end_of(run));
    }
    return all;
}

}  // namespace holdfast::segment
