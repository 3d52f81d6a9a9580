// From LMDB's data files to environments of the library that this is linked with, and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast_store_tools {

struct migration_options {
    bool no_subdirectory = false;  ///< the environment is one file: MDB_NOSUBDIR
    bool sort = false;  ///< import: databases that a program's own function sorts become sorted as their flags say
};

struct migration_result {
    std::uint64_t databases = 0;  ///< with the unnamed one
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;  ///< of the keys and the data
    std::vector<std::string> warnings;
};

/// Reads a data file of LMDB 0.9 or 1.0 (or the data.mdb of a directory), which no program may write meanwhile, and
/// makes an environment of all that it holds. That must not exist; it appears, durable, when all is in it, or not at
/// all. Throws std::exception.
migration_result import_environment(const std::string& from, const std::string& to, const migration_options& how);

/// Writes what an environment holds, which programs may use meanwhile, as a data file of LMDB 0.9 in a new directory
/// (or, with `no_subdirectory`, as a new file). That appears, durable, when all is in it, or not at all. Throws
/// std::exception.
migration_result export_environment(const std::string& from, const std::string& to, const migration_options& how);

/// Copies one version of a store, which programs may use meanwhile: to a directory where `from` is one, else to a file.
/// That must not exist; it appears, durable, when all is in it, or not at all. Throws std::exception.
void copy_environment(const std::string& from, const std::string& to);

}  // namespace holdfast_store_tools
