#pragma once

#include "store/stored_pages.hpp"
#include "store/write_set.hpp"

namespace holdfast::store_engine {

/// What a checkpoint must find durable before its meta: the pages of all commits since the one before, and of this one.
/// On persistent memory by instructions alone, where nothing else may be missing.
[[nodiscard]] status make_pages_durable(stored_pages& of, const write_set& changes);

}  // namespace holdfast::store_engine
