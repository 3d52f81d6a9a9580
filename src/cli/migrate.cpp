#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "store_tools/migration.hpp"

namespace holdfast_cli {

int migrate(const arguments& given, const migration_arguments& how, bool imports) {
    const holdfast_store_tools::migration_options options{how.no_subdirectory, how.sort};
    const holdfast_store_tools::migration_result made =
        imports ? holdfast_store_tools::import_environment(how.from, how.to, options)
                : holdfast_store_tools::export_environment(how.from, how.to, options);
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
