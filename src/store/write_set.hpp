// The pages that a write transaction wrote, took and freed.
#pragma once

#include <cstdint>
#include <vector>

#include "store/shared_state.hpp"
#include "store/store_format.hpp"

namespace holdfast::store_engine {

struct dirty_page {
    std::uint64_t page;
    std::uint64_t base;   ///< the page of the last commit that it is a copy of; 0: none
    std::uint32_t pages;  ///< of a run; 1
    bool live;            ///< false: freed again within the transaction
};

struct write_set {
    root version{};  ///< of the commit; `main` is set by it
    std::vector<dirty_page> dirty;
    std::vector<std::uint64_t> loose;          ///< of dirty entries that are not live, to be taken again
    std::vector<extent_on_media> taken;        ///< from free space
    std::vector<freed_extent_on_media> freed;  ///< pages of earlier commits
    std::uint64_t taken_pages = 0;             ///< from free space and behind the last page
    std::uint64_t freed_pages = 0;             ///< in `freed`
    bool frees_space = false;                  ///< what is being done leaves the store no larger
    bool stays_within = false;                 ///< even so, it takes no page beyond the limit
    std::uint64_t bound = 0;                   ///< it takes pages from here on, beyond the limit, too; 0: none
    bool has_long_keys = false;                ///< the store's version must allow them

    void clear() noexcept {
        dirty.clear();
        loose.clear();
        taken.clear();
        freed.clear();
        taken_pages = 0;
        freed_pages = 0;
        frees_space = false;
        stays_within = false;
        bound = 0;
        has_long_keys = false;
    }
};

}  // namespace holdfast::store_engine
