// Rebuilds, after a crash, the pages of commits whose records are whole.
#pragma once

#include "store/known_free_pages.hpp"
#include "store/stored_pages.hpp"

namespace holdfast::store_engine {

/// From the checkpoint `meta` on, up to the last commit that is accepted. By who has the write lock or opens the store.
[[nodiscard]] status replay(stored_pages& of, known_free_pages& free, const meta_on_media& meta);

}  // namespace holdfast::store_engine
