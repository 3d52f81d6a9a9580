// Copies have the version that readers see at the beginning, and no free pages.
#pragma once

#include "store/environment.hpp"

namespace holdfast::store_engine {

/// The descriptor may be a pipe. Nothing is synced.
[[nodiscard]] status copy_to_file(environment& env, int file);
/// To a directory without data.mdb or, with MDB_NOSUBDIR, a new file. Durable when this returns ok.
[[nodiscard]] status copy_to_path(environment& env, const char* path);

}  // namespace holdfast::store_engine
