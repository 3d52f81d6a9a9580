#include "store.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "output.hpp"
#include "progress.hpp"
#include "store_tools/migration.hpp"
#include "store_tools/tool.hpp"

namespace holdfast_cli {

namespace {

using holdfast_store_tools::environment;
using holdfast_store_tools::expect_success;
using holdfast_store_tools::transaction;

constexpr std::string_view store_magic = "HFSTORE\n";  // docs/store-format.md
constexpr MDB_dbi most_databases = 2;                  // open at a time

/// The file of a store; empty where the path is none.
std::string data_file_of(const std::string& path) {
    std::error_code ignored;
    const std::string file = std::filesystem::is_directory(path, ignored) ? path + "/data.mdb" : path;
    if (!std::filesystem::is_regular_file(file, ignored)) {
        return {};
    }
    constexpr std::size_t page_size = 4096;
    std::array<char, page_size + store_magic.size()> head{};
    std::ifstream(file, std::ios::binary).read(head.data(), head.size());
    const std::string_view text(head.data(), head.size());
    // A store whose first meta is damaged has its second.
    const bool is_ours = text.starts_with(store_magic) || text.ends_with(store_magic);
    return is_ours ? file : std::string();
}

/// Of the newer one of the two metas in the first pages.
std::uint32_t format_version_of(const std::string& file) {
    constexpr std::size_t page_size = 4096;
    std::array<char, page_size + store_magic.size() + sizeof(std::uint32_t)> head{};
    std::ifstream(file, std::ios::binary).read(head.data(), head.size());
    std::uint32_t newest = 0;
    for (const std::size_t meta : {std::size_t{0}, page_size}) {
        std::uint32_t version = 0;
        std::memcpy(&version, head.data() + meta + store_magic.size(), sizeof(version));
        if (std::string_view(head.data() + meta, store_magic.size()) == store_magic) {
            newest = std::max(newest, version);
        }
    }
    return newest;
}

environment open_store(const std::string& path) {
    try {
        return {path,
                MDB_RDONLY | (is_store_file(path) ? MDB_NOSUBDIR : 0U),
                {.map_size = 0, .readers = 0, .databases = most_databases}};
    } catch (const holdfast_store_tools::call_failure& what) {
        if (what.code() == MDB_VERSION_MISMATCH) {
            throw std::runtime_error(path +
                                     ": the store lies in a heap (name the heap's directory), or has a version "
                                     "that this program does not read");
        }
        throw;
    }
}

struct database {
    std::string name;  ///< empty: the unnamed one
    MDB_stat numbers{};
    unsigned flags = 0;

    [[nodiscard]] std::uint64_t pages() const noexcept {
        return numbers.ms_branch_pages + numbers.ms_leaf_pages + numbers.ms_overflow_pages;
    }
};

database describe_database(const transaction& in, const std::string& name) {
    database one;
    one.name = name;
    MDB_dbi handle = 0;
    expect_success("mdb_dbi_open", mdb_dbi_open(in.get(), name.empty() ? nullptr : name.c_str(), 0, &handle));
    expect_success("mdb_stat", mdb_stat(in.get(), handle, &one.numbers));
    expect_success("mdb_dbi_flags", mdb_dbi_flags(in.get(), handle, &one.flags));
    holdfast_store_tools::close_database(in, handle);
    return one;
}

/// The unnamed one first.
std::vector<database> databases_of(const transaction& in) {
    std::vector<database> all = {describe_database(in, "")};
    for (const std::string& name : holdfast_store_tools::database_names(in)) {
        all.push_back(describe_database(in, name));
    }
    return all;
}

std::vector<std::string> names_of_flags(unsigned flags) {
    struct named_flag {
        unsigned flag;
        const char* name;
    };
    constexpr std::array all = {named_flag{MDB_REVERSEKEY, "reversekey"}, named_flag{MDB_DUPSORT, "dupsort"},
                                named_flag{MDB_INTEGERKEY, "integerkey"}, named_flag{MDB_DUPFIXED, "dupfixed"},
                                named_flag{MDB_INTEGERDUP, "integerdup"}, named_flag{MDB_REVERSEDUP, "reversedup"}};
    std::vector<std::string> names;
    for (const named_flag& one : all) {
        if ((flags & one.flag) != 0) {
            names.emplace_back(one.name);
        }
    }
    return names;
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : ",") + word;
    }
    return text;
}

/// 0 where the store is too damaged to tell.
std::uint64_t pages_in_use(const environment& opened) {
    try {
        const transaction in(opened, MDB_RDONLY);
        std::uint64_t pages = 0;
        for (const database& one : databases_of(in)) {
            pages += one.pages();
        }
        return pages;
    } catch (const holdfast_store_tools::call_failure&) {
        return 0;
    }
}

}  // namespace

bool is_store_file(const std::string& path) { return data_file_of(path) == path; }
bool is_store(const std::string& path) { return !data_file_of(path).empty(); }

void refuse_lmdb(const std::string& path) {
    std::error_code ignored;
    const bool is_directory = std::filesystem::is_directory(path, ignored);
    const std::string file = is_directory ? path + "/data.mdb" : path;
    if (!std::filesystem::is_regular_file(file, ignored)) {
        return;
    }
    constexpr std::uint32_t magic = 0xbeefc0de;
    constexpr std::size_t behind_page_header = 16;
    std::array<char, behind_page_header + sizeof magic> head{};
    std::ifstream(file, std::ios::binary).read(head.data(), head.size());
    std::uint32_t found = 0;
    std::memcpy(&found, head.data() + behind_page_header, sizeof found);
    if (found == magic) {
        throw std::runtime_error(fmt::format("{}: it is LMDB's: `holdfast import {}{} STORE` makes a store of it", path,
                                             is_directory ? "" : "--no-subdir ", path));
    }
}

std::uint32_t store_format(const std::string& path) { return format_version_of(data_file_of(path)); }
bool is_known_store_format(std::uint32_t format) noexcept {
    constexpr std::uint32_t first = 7;
    constexpr std::uint32_t last = 9;
    return format >= first && format <= last;
}

store_numbers numbers_of_store(const std::string& path) {
    const environment opened = open_store(path);
    store_numbers numbers = numbers_of_store(opened.get(), path);
    numbers.format = format_version_of(data_file_of(path));
    return numbers;
}

store_numbers numbers_of_store(MDB_env* opened, const std::string& path) {
    store_numbers numbers;
    expect_success("hf_lmdb_activity_of", hf_lmdb_activity_of(opened, &numbers.activity));
    const transaction in(opened, MDB_RDONLY);  // behind that: it is a reader
    MDB_envinfo information{};
    expect_success("mdb_env_info", mdb_env_info(opened, &information));
    mdb_filehandle_t file = -1;
    expect_success("mdb_env_get_fd", mdb_env_get_fd(opened, &file));
    struct stat of_file {};
    struct statvfs disk {};
    if (::fstat(file, &of_file) != 0 || ::fstatvfs(file, &disk) != 0) {
        throw std::runtime_error(path + ": its file is gone");
    }
    constexpr std::uint64_t block = 512;  // of st_blocks
    numbers.apparent_bytes = static_cast<std::uint64_t>(of_file.st_size);
    numbers.charged_bytes = static_cast<std::uint64_t>(of_file.st_blocks) * block;
    numbers.available_bytes = disk.f_bavail * disk.f_frsize;
    numbers.reader_slots = information.me_numreaders;
    for (const database& one : databases_of(in)) {
        ++numbers.databases;
        numbers.page_bytes = one.numbers.ms_psize;
        numbers.entries += one.numbers.ms_entries;
        numbers.pages += one.pages();
    }
    numbers.entries -= numbers.databases - 1;  // each named one is an entry of the unnamed one
    return numbers;
}

int store_info(const arguments& given) {
    const store_numbers of = numbers_of_store(given.heap);
    if (given.json) {
        print({{"path", given.heap},
               {"kind", "store"},
               {"format_version", of.format},
               {"last_transaction", of.activity.last_txnid},
               {"synced_transaction", of.activity.synced_txnid},
               {"databases", of.databases},
               {"entries", of.entries},
               {"page_bytes", of.page_bytes},
               {"pages_in_use", of.pages},
               {"log_bytes", of.activity.log_bytes},
               {"log_room_bytes", of.activity.log_room_bytes},
               {"apparent_bytes", of.apparent_bytes},
               {"charged_bytes", of.charged_bytes},
               {"readers", of.activity.readers},
               {"reader_lag", of.activity.last_txnid - of.activity.oldest_txnid},
               {"reader_slots", of.reader_slots}});
        return exit_sound;
    }
    print_line("store", printable(given.heap));
    print_line("format version", fmt::format("{}", of.format));
    print_line("last transaction", fmt::format("{}", of.activity.last_txnid));
    print_line("databases", fmt::format("{}", of.databases));
    print_line("entries", fmt::format("{}", of.entries));
    print_line("pages in use", fmt::format("{}: {}", of.pages, size_text(of.pages * of.page_bytes)));
    print_line("log", fmt::format("{} since the last checkpoint, room for {}", size_text(of.activity.log_bytes),
                                  size_text(of.activity.log_room_bytes)));
    print_line("file, apparent", size_text(of.apparent_bytes));
    print_line("file, on disk", size_text(of.charged_bytes));
    print_line("readers", fmt::format("{}", of.activity.readers));
    print_line("reader slots", fmt::format("{}", of.reader_slots));
    return exit_sound;
}

int store_copy(const arguments& given, const copy_arguments& to) {
    if (!to.node_directories.empty()) {
        throw std::runtime_error(given.heap + ": a store, which lies in one file: --node is for heaps");
    }
    const store_numbers of = numbers_of_store(given.heap);
    progress shown({.what = "copy", .all = of.pages * of.page_bytes, .done = bytes_written, .is_wanted = !given.json});
    holdfast_store_tools::copy_environment(given.heap, to.destination);
    shown.end();
    if (given.json) {
        print({{"path", to.destination}, {"kind", "store"}});
    } else {
        print_line("copy", printable(to.destination));
    }
    return exit_sound;
}

int store_check(const arguments& given) {
    std::string problem;
    std::size_t pages = 0;
    try {
        const environment opened = open_store(given.heap);
        const auto looked_at = [&pages] { return std::atomic_ref(pages).load(std::memory_order_relaxed); };
        const progress shown({.what = "check: pages",
                              .all = pages_in_use(opened),
                              .done = looked_at,
                              .are_bytes = false,
                              .is_wanted = !given.json});
        expect_success("check", hf_lmdb_check(opened.get(), &pages));
    } catch (const holdfast_store_tools::call_failure& what) {
        const int code = what.code();
        if (code != MDB_CORRUPTED && code != MDB_PAGE_NOTFOUND && code != MDB_INVALID) {
            throw;
        }
        problem = code == MDB_CORRUPTED ? "MDB_CORRUPTED: a page is damaged, or is not what it should be"
                                        : mdb_strerror(code);
    }
    if (given.json) {
        print({{"path", given.heap},
               {"kind", "store"},
               {"sound", problem.empty()},
               {"pages_compared", pages},
               {"problems", problem.empty() ? json::array() : json::array({problem})}});
    } else if (problem.empty()) {
        fmt::print("{}: sound: {} pages compared with their checksums\n", printable(given.heap), pages);
    } else {
        fmt::print("{}: {}\n", printable(given.heap), printable(problem));
    }
    return problem.empty() ? exit_sound : exit_problems;
}

int store_list(const arguments& given) {
    const environment opened = open_store(given.heap);
    const transaction in(opened, MDB_RDONLY);
    const std::vector<database> databases = databases_of(in);
    if (given.json) {
        json answer;
        answer["path"] = given.heap;
        answer["kind"] = "store";
        answer["databases"] = json::array();
        for (const database& one : databases) {
            answer["databases"].push_back({{"name", one.name.empty() ? json() : json(one.name)},
                                           {"entries", one.numbers.ms_entries},
                                           {"depth", one.numbers.ms_depth},
                                           {"pages", one.pages()},
                                           {"flags", names_of_flags(one.flags)}});
        }
        print(answer);
        return exit_sound;
    }
    std::vector<std::vector<std::string>> rows{{"DATABASE", "ENTRIES", "DEPTH", "PAGES", "FLAGS"}};
    for (const database& one : databases) {
        rows.push_back({one.name.empty() ? "-" : printable(one.name), fmt::format("{}", one.numbers.ms_entries),
                        fmt::format("{}", one.numbers.ms_depth), fmt::format("{}", one.pages()),
                        joined(names_of_flags(one.flags))});
    }
    print_table(rows);
    return exit_sound;
}

}  // namespace holdfast_cli
