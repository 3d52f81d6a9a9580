// Whether a store is sound: every page of the last version is read.
#pragma once

#include "store/environment.hpp"

namespace holdfast::store_engine {

/// `pages`, unless null, is set to how many pages there are. corrupted, page_not_found: it is not sound.
[[nodiscard]] status check_store(environment& env, std::size_t* pages);

}  // namespace holdfast::store_engine
