// The pages that a write transaction wrote, took and freed. A commit hands it to the engine.
#pragma once

#include <cstdint>
#include <vector>

#include "store/shared_state.hpp"
#include "store/store_format.hpp"

namespace holdfast::store_engine {

struct dirty_page {
    std::uint64_t page;
    std::uint64_t base;   ///< the page of the last commit that it began as a copy of; 0: none
    std::uint32_t pages;  ///< of a run; 1
    bool live;            ///< false: freed again within the transaction
};

struct write_set {
    root version{};  ///< what the commit makes of the store; `main` is set at the commit
    std::vector<dirty_page> dirty;
    std::vector<std::uint64_t> loose;          ///< pages of dirty entries that are not live, to be taken again
    std::vector<extent_on_media> taken;        ///< from free space
    std::vector<freed_extent_on_media> freed;  ///< pages of earlier commits
    bool has_long_keys = false;                ///< some were written: the store's version must allow them

    void clear() noexcept {
        dirty.clear();
        loose.clear();
        taken.clear();
        freed.clear();
        has_long_keys = false;
    }
};

}  // namespace holdfast::store_engine
