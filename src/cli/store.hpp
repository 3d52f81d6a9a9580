// Stores (docs/store.md): what `info`, `check`, `ls` and `map` say of them.
#pragma once

#include <cstdint>
#include <string>

#include <lmdb.h>

#include "commands.hpp"

namespace holdfast_cli {

/// A directory with a data.mdb of ours in it, or such a file.
[[nodiscard]] bool is_store(const std::string& path);
[[nodiscard]] bool is_store_file(const std::string& path);

/// Throws where the path is a data file of LMDB, or a directory with one: names the command that reads it.
void refuse_lmdb(const std::string& path);

/// Of the newer one of its two metas: 7 to 9. 0: both are damaged.
[[nodiscard]] std::uint32_t store_format(const std::string& path);
[[nodiscard]] bool is_known_store_format(std::uint32_t format) noexcept;

// Each opens the store as a reader does, beside writers: after a crash it is recovered. Failures are thrown.

struct store_numbers {
    std::uint32_t format = 0;     ///< 0: of a store in a heap
    std::uint64_t databases = 0;  ///< with the unnamed one
    std::uint64_t entries = 0;    ///< of all of them
    std::uint64_t page_bytes = 0;
    std::uint64_t pages = 0;  ///< in use
    std::uint64_t apparent_bytes = 0;
    std::uint64_t charged_bytes = 0;
    std::uint64_t available_bytes = 0;  ///< that the file system has left
    unsigned reader_slots = 0;          ///< ever used
    hf_lmdb_activity activity{};
};
[[nodiscard]] store_numbers numbers_of_store(const std::string& path);
/// Of a store that is open, with two databases at least that nobody has opened. `path`: for a message.
[[nodiscard]] store_numbers numbers_of_store(MDB_env* opened, const std::string& path);

int store_info(const arguments& given);
/// Reads every page of the last version: checksums, order of keys, counts.
int store_check(const arguments& given);
int store_list(const arguments& given);
/// Copies the last version, beside writers.
int store_copy(const arguments& given, const copy_arguments& to);
/// The page of `holdfast map`: of a store alone, and of one in a heap.
[[nodiscard]] std::string store_page(const std::string& path);
[[nodiscard]] std::string store_page(const std::string& heap, const std::string& name);

}  // namespace holdfast_cli
