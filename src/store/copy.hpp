// Copies of a store: the version that readers see when the copy begins, with no free pages in it.
#pragma once

#include "store/environment.hpp"

namespace holdfast::store_engine {

/// Writes the file of a store that is the copy; the descriptor may be a pipe. Nothing is synced.
[[nodiscard]] status copy_to_file(environment& env, int file);
/// Makes the copy in a directory, which must be there and have no data.mdb, or with MDB_NOSUBDIR in a new file. The
/// copy is durable when this returns ok.
[[nodiscard]] status copy_to_path(environment& env, const char* path);

}  // namespace holdfast::store_engine
