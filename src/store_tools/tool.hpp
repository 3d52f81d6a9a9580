// What mdb_stat, mdb_dump, mdb_load and mdb_copy share: their command lines are those of lmdb-utils.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lmdb.h>

#include "store_tools/handles.hpp"

namespace holdfast_store_tools {

/// Makes run_tool() print the usage.
class usage_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// As getopt() reads them.
struct tool_arguments {
    /// Of an option, each time that it was given, with its argument.
    std::vector<std::pair<char, std::string>> options;
    std::vector<std::string> paths;

    [[nodiscard]] unsigned count(char option) const noexcept;
    [[nodiscard]] std::optional<std::string> argument(char option) const;
};

/// Reads the arguments, prints the version for -V, runs `work`, and prints failures to standard error. `options` as
/// getopt() takes them. Returns the exit status, 1 after a failure.
int run_tool(int argc, char** argv, const char* options, const char* usage,
             const std::function<void(const tool_arguments&)>& work);

/// In the order of the unnamed database.
[[nodiscard]] std::vector<std::string> database_names(const transaction& in);

/// nullopt: the unnamed one. Throws call_failure of "mdb_open" where there is none.
[[nodiscard]] MDB_dbi open_database(const transaction& in, const std::optional<std::string>& name);

/// None: the key of the unnamed one is no name, for it has a zero byte, or a plain value. Throws call_failure.
[[nodiscard]] std::optional<MDB_dbi> find_database(const transaction& in, const std::string& name);
/// Lets the next one have the handle: a program that looks at all databases needs two.
void close_database(const transaction& in, MDB_dbi database);

}  // namespace holdfast_store_tools
