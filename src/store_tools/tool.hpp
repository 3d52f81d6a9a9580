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

/// Wrong arguments: the usage is printed.
class usage_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The arguments of a tool, as getopt() reads them.
struct tool_arguments {
    /// The letter of an option, each time that it was given, with its argument.
    std::vector<std::pair<char, std::string>> options;
    std::vector<std::string> paths;

    [[nodiscard]] unsigned count(char option) const noexcept;
    [[nodiscard]] std::optional<std::string> argument(char option) const;
};

/// Runs a tool: reads the arguments, prints the version for -V, runs `work`, and prints what failed to standard error.
/// `options` as getopt() takes them. Returns the exit status, 1 where something failed.
int run_tool(int argc, char** argv, const char* options, const char* usage,
             const std::function<void(const tool_arguments&)>& work);

/// The names of the databases in the environment, in the order of the unnamed one.
[[nodiscard]] std::vector<std::string> database_names(const transaction& in);

/// Opens a database that is there; nullopt: the unnamed one. Throws call_failure of "mdb_open".
[[nodiscard]] MDB_dbi open_database(const transaction& in, const std::optional<std::string>& name);

/// The handle of a named database. None: the key of the unnamed one is no name, for it has a zero byte, or a plain
/// value. Throws call_failure.
[[nodiscard]] std::optional<MDB_dbi> find_database(const transaction& in, const std::string& name);
/// Lets the next one have the handle: a program that looks at all databases needs two.
void close_database(const transaction& in, MDB_dbi database);

}  // namespace holdfast_store_tools
