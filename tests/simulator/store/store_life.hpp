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

/// What its file lies on.
enum class store_medium : std::uint8_t { disk, persistent_memory };

inline constexpr std::size_t kinds_of_stores = 4;
/// By a number below twice kinds_of_stores.
[[nodiscard]] constexpr store_kind kind_of(std::uint64_t number) noexcept {
    return static_cast<store_kind>(number % kinds_of_stores);
}
[[nodiscard]] constexpr store_medium medium_of(std::uint64_t number) noexcept {
    return number / kinds_of_stores % 2 == 0 ? store_medium::disk : store_medium::persistent_memory;
}

struct store_report {
    std::uint64_t images = 0;
    std::uint64_t commits = 0;
    std::uint64_t older = 0;  ///< images without the last commit
    std::string wrong;        ///< empty: nothing
};

[[nodiscard]] store_report live(store_kind of, store_medium on, std::uint64_t seed, std::uint64_t images);

}  // namespace holdfast::simulator
