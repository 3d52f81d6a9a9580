// Whether a store is sound, by every page of the last version.
#pragma once

#include <vector>

#include <lmdb.h>

#include "store/environment.hpp"

namespace holdfast::store_engine {

/// `pages`, unless null, is how many were looked at, as it goes, by relaxed atomic stores. corrupted, page_not_found:
/// it is not sound.
[[nodiscard]] status check_store(environment& env, std::size_t* pages);

/// What every page of the file is used for, in order. Fails as check_store() does.
[[nodiscard]] status map_store(environment& env, std::vector<hf_lmdb_extent>& all);

}  // namespace holdfast::store_engine
