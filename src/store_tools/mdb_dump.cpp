// mdb_dump: the content of databases as text, which mdb_load reads.
#include <cstdio>

#include "store_tools/dump_format.hpp"
#include "store_tools/tool.hpp"

namespace holdfast_store_tools {
namespace {

void dump(const environment& opened, const transaction& in, const std::optional<std::string>& name, bool printable) {
    const MDB_dbi database = open_database(in, name);
    MDB_stat numbers{};
    MDB_envinfo information{};
    dump_header header;
    expect_success("mdb_stat", mdb_stat(in.get(), database, &numbers));
    expect_success("mdb_env_info", mdb_env_info(opened.get(), &information));
    expect_success("mdb_dbi_flags", mdb_dbi_flags(in.get(), database, &header.flags));
    header.printable = printable;
    header.database = name;
    header.map_size = information.me_mapsize;
    header.readers = information.me_maxreaders;
    header.page_size = numbers.ms_psize;
    write_header(stdout, header);
    reading_cursor over(in, database);
    MDB_val key{};
    MDB_val data{};
    while (over.move(key, data)) {
        write_value(stdout, bytes_of(key), printable);
        write_value(stdout, bytes_of(data), printable);
    }
    write_footer(stdout);
    close_database(in, database);
}

void run(const tool_arguments& given) {
    if (given.paths.size() != 1 || (given.count('a') != 0 && given.count('s') != 0)) {
        throw usage_error("");
    }
    if (const auto file = given.argument('f'); file && std::freopen(file->c_str(), "w", stdout) == nullptr) {
        throw std::runtime_error(*file + ": cannot be opened to write");
    }
    environment_limits limits;
    limits.databases = 2;
    const environment opened(given.paths.front(), MDB_RDONLY | (given.count('n') != 0 ? MDB_NOSUBDIR : 0U), limits);
    const transaction in(opened, MDB_RDONLY);
    const bool printable = given.count('p') != 0;
    if (given.count('a') == 0 && given.count('l') == 0) {
        dump(opened, in, given.argument('s'), printable);
        return;
    }
    const std::vector<std::string> names = database_names(in);
    MDB_stat numbers{};
    expect_success("mdb_stat", mdb_stat(in.get(), open_database(in, std::nullopt), &numbers));
    if (numbers.ms_entries == 0) {
        throw std::runtime_error(given.paths.front() + " does not contain multiple databases");
    }
    for (const std::string& name : names) {
        if (given.count('l') != 0) {
            std::printf("%s\n", name.c_str());
        } else {
            dump(opened, in, name, printable);
        }
    }
}

}  // namespace
}  // namespace holdfast_store_tools

int main(int argc, char** argv) {
    return holdfast_store_tools::run_tool(
        argc, argv, "Vaf:lnps:", "[-V] [-f output] [-l] [-n] [-p] [-a|-s subdb] dbpath", holdfast_store_tools::run);
}
