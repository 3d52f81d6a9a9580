// What a checkpoint must find durable before its meta: the pages of all commits since the one before, and of this one.
#pragma once

#include <cstdint>
#include <vector>

#include "store/stored_pages.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

struct page_run {
    std::uint64_t start;
    std::uint64_t count;
};

struct write_back_plan {
    bool by_call = true;         ///< the kernel writes the whole file back
    std::vector<page_run> runs;  ///< else: the pages, each once
};

/// With the sync turn. By instructions alone on persistent memory, where nothing else may be missing. Throws
/// std::bad_alloc.
[[nodiscard]] write_back_plan plan_write_back(const stored_pages& of, const write_set& changes);
/// What is in the plan, and what this thread has written before, is durable on return.
[[nodiscard]] status write_back(const data_file& file, const write_back_plan& plan) noexcept;

}  // namespace holdfast::store_engine
