// The ordered map of DRAM that stands in for inner nodes where a peer has none of its own.
#pragma once

#include <map>

#if HOLDFAST_BENCH_HAS_ABSL  // by CMake
#include <absl/container/btree_map.h>
#endif

namespace indexes {

#if HOLDFAST_BENCH_HAS_ABSL
template <class Key, class Value>
using dram_map = absl::btree_map<Key, Value>;
#else
template <class Key, class Value>
using dram_map = std::map<Key, Value>;
#endif

}  // namespace indexes
