// Data files of LMDB itself, for environments that are opened read-only.
#pragma once

#include <string>

#include "store/data_file.hpp"

namespace holdfast::store_engine {

/// Whether the file is one of LMDB's, of any version.
[[nodiscard]] bool is_lmdb_data(const std::string& path) noexcept;

/// Makes a store of what a data file of LMDB 0.9 or 1.0 holds, in a file that is memory of this process. Named
/// databases keep the order of their items, whatever function it comes from. incompatible: the unnamed one is not
/// sorted as its flags say, or the file is encrypted; version_mismatch: the file is of another version; corrupted: it
/// is damaged.
[[nodiscard]] status copy_lmdb_data(const std::string& path, descriptor& memory);

/// A path by which the file of a descriptor is opened.
[[nodiscard]] std::string path_of(const descriptor& file);

}  // namespace holdfast::store_engine
