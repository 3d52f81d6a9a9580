// The life of a store (src/store/) on a recorded file: changes, syncs that fail, processes that die, losses of power.
//
// Wherever the store writes or syncs, the power may be cut: what the medium holds then is opened, and must be what the
// store promises. Some lives go on with what a cut left.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::simulator {

enum class store_kind : std::uint8_t {
    synced,        ///< a commit that returned is there
    now_and_then,  ///< in sessions with MDB_NOSYNC: some commit is there, none older than the last mdb_env_sync()
    heap_at_once,  ///< the heap's word is durable when it is set
    heap_commits,  ///< the heap's word is durable with a commit of the heap
};

struct store_report {
    std::uint64_t images = 0;
    std::uint64_t commits = 0;
    std::uint64_t older = 0;  ///< images without the last commit
    std::string wrong;        ///< empty: nothing
};

[[nodiscard]] store_report live(store_kind of, std::uint64_t seed, std::uint64_t images);

}  // namespace holdfast::simulator
