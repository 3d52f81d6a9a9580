// Data files of LMDB itself, for environments that are opened read-only.
#pragma once

#include <string>

#include "store/data_file.hpp"

namespace holdfast::store_engine {

/// Of any version.
[[nodiscard]] bool is_lmdb_data(const std::string& path) noexcept;

/// Makes a store of a data file of LMDB 0.9 or 1.0, in memory of this process. Named databases keep the order of their
/// items, whatever function it comes from. incompatible: the unnamed one is not sorted as its flags say, or the file is
/// encrypted; version_mismatch: another version; corrupted: it is damaged.
[[nodiscard]] status copy_lmdb_data(const std::string& path, descriptor& memory);

[[nodiscard]] std::string path_of(const descriptor& file);

}  // namespace holdfast::store_engine
