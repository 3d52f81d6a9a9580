#include "store_tools/tool.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

namespace holdfast_store_tools {

unsigned tool_arguments::count(char option) const noexcept {
    return static_cast<unsigned>(
        std::count_if(options.begin(), options.end(), [&](const auto& given) { return given.first == option; }));
}

std::optional<std::string> tool_arguments::argument(char option) const {
    for (auto given = options.rbegin(); given != options.rend(); ++given) {
        if (given->first == option) {
            return given->second;
        }
    }
    return std::nullopt;
}

int run_tool(int argc, char** argv, const char* options, const char* usage,
             const std::function<void(const tool_arguments&)>& work) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow (`ulimit -f`) is an error, as a full disk is
    const std::string full_name = argc > 0 ? argv[0] : "";
    const std::string name = full_name.substr(full_name.rfind('/') + 1);
    try {
        tool_arguments given;
        for (int option = 0; (option = ::getopt(argc, argv, options)) != -1;) {
            if (option == 'V') {
                std::printf("%s\n", mdb_version(nullptr, nullptr, nullptr));
                return std::fflush(stdout) == 0 ? 0 : 1;
            }
            if (option == '?' || option == ':') {
                throw usage_error("");  // getopt() has said what is wrong
            }
            given.options.emplace_back(static_cast<char>(option), ::optarg == nullptr ? "" : ::optarg);
            ::optarg = nullptr;
        }
        given.paths.assign(argv + ::optind, argv + argc);
        work(given);
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            throw std::runtime_error(name + ": cannot write to standard output");
        }
        return 0;
    } catch (const usage_error&) {
        std::fprintf(stderr, "usage: %s %s\n", name.c_str(), usage);
    } catch (const call_failure& what) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s\n", what.what());
    } catch (const std::exception& what) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s: %s\n", name.c_str(), what.what());
    }
    return 1;
}

MDB_dbi open_database(const transaction& in, const std::optional<std::string>& name) {
    MDB_dbi database = 0;
    expect_success("mdb_open", mdb_dbi_open(in.get(), name ? name->c_str() : nullptr, 0, &database));
    return database;
}

std::optional<MDB_dbi> find_database(const transaction& in, const std::string& name) {
    MDB_dbi database = 0;
    const int code =
        name.find('\0') != std::string::npos ? MDB_NOTFOUND : mdb_dbi_open(in.get(), name.c_str(), 0, &database);
    if (code == MDB_NOTFOUND || code == MDB_INCOMPATIBLE) {
        return std::nullopt;
    }
    expect_success("mdb_open", code);
    return database;
}

void close_database(const transaction& in, MDB_dbi database) {
    constexpr MDB_dbi unnamed = 1;
    if (database > unnamed) {
        mdb_dbi_close(mdb_txn_env(in.get()), database);
    }
}

std::vector<std::string> database_names(const transaction& in) {
    std::vector<std::string> names;
    reading_cursor over(in, open_database(in, std::nullopt));
    MDB_val key{};
    MDB_val data{};
    while (over.move(key, data, MDB_NEXT_NODUP)) {
        const std::string name(bytes_of(key));
        if (const auto database = find_database(in, name)) {
            close_database(in, *database);
            names.push_back(name);
        }
    }
    return names;
}

}  // namespace holdfast_store_tools
