#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "store.hpp"
#include "store_tools/migration.hpp"

namespace holdfast_cli {

namespace {

/// What is read of a file of LMDB, or written of a store; 0 where it is none: then the work says why.
std::uint64_t bytes_to_move(const std::string& path, bool imports) {
    try {
        if (!imports) {
            const store_numbers of = numbers_of_store(path);
            return of.pages * of.page_bytes;
        }
        return std::filesystem::file_size(std::filesystem::is_directory(path) ? path + "/data.mdb" : path);
    } catch (const std::exception&) {
        return 0;
    }
}

/// Says what to do where the path is of another kind than the command is for.
void expect_source(const std::string& path, const migration_arguments& how, bool imports) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
        throw std::runtime_error(path + ": nothing is there");
    }
    const bool is_directory = fs::is_directory(path, ignored);
    if (is_directory && fs::exists(path + "/superblock", ignored)) {
        throw std::runtime_error(
            fmt::format("{}: a heap, and {}: `holdfast copy` copies heaps", path,
                        imports ? "import reads data files of LMDB" : "export writes what a store holds"));
    }
    if (imports) {
        if (is_store(path)) {
            throw std::runtime_error(path + ": a store already: `holdfast copy` copies it, and export makes LMDB's");
        }
        return;
    }
    if (is_directory == how.no_subdirectory) {
        throw std::runtime_error(fmt::format("{}: a {}: `holdfast export {}{} {}`", path,
                                             is_directory ? "directory" : "file", is_directory ? "" : "--no-subdir ",
                                             path, how.to));
    }
}

}  // namespace

int migrate(const arguments& given, const migration_arguments& how, bool imports) {
    expect_source(how.from, how, imports);
    const holdfast_store_tools::migration_options options{how.no_subdirectory, how.sort};
    progress shown({.what = imports ? "import" : "export",
                    .all = bytes_to_move(how.from, imports),
                    .done = imports ? bytes_read : bytes_written,
                    .is_wanted = !given.json});
    const holdfast_store_tools::migration_result made =
        imports ? holdfast_store_tools::import_environment(how.from, how.to, options)
                : holdfast_store_tools::export_environment(how.from, how.to, options);
    shown.end();
    if (given.json) {
        print({{"path", how.to},
               {"databases", made.databases},
               {"items", made.items},
               {"bytes", made.bytes},
               {"warnings", made.warnings}});
        return exit_sound;
    }
    for (const std::string& warning : made.warnings) {
        fmt::print(stderr, "holdfast: {}: {}\n", printable(how.from), printable(warning));
    }
    print_line(imports ? "store" : "LMDB", printable(how.to));
    print_line("databases", fmt::format("{}", made.databases));
    print_line("items", fmt::format("{}", made.items));
    print_line("keys and data", size_text(made.bytes));
    return exit_sound;
}

}  // namespace holdfast_cli
