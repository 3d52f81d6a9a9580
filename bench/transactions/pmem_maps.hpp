// The maps and the queue of examples/maps, for libpmemobj, by the same algorithms.
#pragma once

#include "transactions/pmem_pool.hpp"

#if HOLDFAST_BENCH_HAS_PMEMOBJ

#include <memory>
#include <string_view>

#include <maps/map.hpp>
#include <maps/queue.hpp>

namespace transactions {

// What the structures have in the root object; zeros to begin with.
struct pmem_hash_head {
    std::uint64_t size;
    std::uint64_t bits;
    PMEMoid table;
};
struct pmem_tree_head {
    PMEMoid root;
    std::uint64_t height;  ///< of a B-tree
};
struct pmem_queue_head {
    std::uint64_t front;
    std::uint64_t back;
    PMEMoid ring;
};

[[nodiscard]] std::unique_ptr<maps::map> make_hash_map(const pmem_pool& pool, pmem_hash_head& head);
[[nodiscard]] std::unique_ptr<maps::map> make_b_tree(const pmem_pool& pool, pmem_tree_head& head);
[[nodiscard]] std::unique_ptr<maps::map> make_red_black_tree(const pmem_pool& pool, pmem_tree_head& head);
/// With room for 2^bits texts.
[[nodiscard]] std::unique_ptr<maps::queue> make_queue(const pmem_pool& pool, pmem_queue_head& head, unsigned bits);

}  // namespace transactions

#endif
