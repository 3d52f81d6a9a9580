// mdb_stat: the status of an environment, its databases and its readers.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "store_tools/tool.hpp"

namespace holdfast_store_tools {
namespace {

constexpr MDB_dbi free_list = 0;  ///< the database of free pages, by LMDB's convention

void print_statistics(const MDB_stat& numbers) {
    std::printf("  Tree depth: %u\n  Branch pages: %zu\n  Leaf pages: %zu\n  Overflow pages: %zu\n  Entries: %zu\n",
                numbers.ms_depth, numbers.ms_branch_pages, numbers.ms_leaf_pages, numbers.ms_overflow_pages,
                numbers.ms_entries);
}

void print_environment(const environment& opened) {
    MDB_stat numbers{};
    MDB_envinfo information{};
    expect_success("mdb_env_stat", mdb_env_stat(opened.get(), &numbers));
    expect_success("mdb_env_info", mdb_env_info(opened.get(), &information));
    std::printf("Environment Info\n");
    // As %p in the C library, (nil) for none.
    std::printf("  Map address: %p\n", information.me_mapaddr);
    std::printf("  Map size: %zu\n", information.me_mapsize);
    std::printf("  Page size: %u\n", numbers.ms_psize);
    std::printf("  Max pages: %zu\n", information.me_mapsize / numbers.ms_psize);
    std::printf("  Number of pages used: %zu\n", information.me_last_pgno + 1);
    std::printf("  Last transaction ID: %zu\n", information.me_last_txnid);
    std::printf("  Max readers: %u\n", information.me_maxreaders);
    std::printf("  Number of readers used: %u\n", information.me_numreaders);
}

int print_message(const char* message, void* /*context*/) { return std::fputs(message, stdout); }

void print_readers(const environment& opened, bool clear) {
    std::printf("Reader Table Status\n");
    const auto list = [&] {
        const int code = mdb_reader_list(opened.get(), print_message, nullptr);
        if (code < 0) {
            throw call_failure("mdb_reader_list", code);
        }
    };
    list();
    if (clear) {
        int dead = 0;
        expect_success("mdb_reader_check", mdb_reader_check(opened.get(), &dead));
        std::printf("  %d stale readers cleared.\n", dead);
        list();
    }
}

/// A record of the free list: how many page numbers, then they, descending. Of what is damaged: no page.
std::vector<std::size_t> pages_of(const MDB_val& record) {
    std::vector<std::size_t> pages(record.mv_size / sizeof(std::size_t));
    if (!pages.empty()) {
        std::memcpy(pages.data(), record.mv_data, pages.size() * sizeof(std::size_t));
        const std::size_t count = std::min(pages.front(), pages.size() - 1);
        pages.erase(pages.begin());
        pages.resize(count);
    }
    return pages;
}

/// The longest run of pages in a free list.
std::size_t longest_run(const std::vector<std::size_t>& pages) {
    std::size_t longest = 0;
    std::size_t run = 0;
    for (std::size_t i = 0; i < pages.size(); ++i) {
        run = i > 0 && pages[i - 1] == pages[i] + 1 ? run + 1 : 1;
        longest = std::max(longest, run);
    }
    return longest;
}

void print_free_list(const transaction& in, unsigned detail) {
    std::printf("Freelist Status\n");
    MDB_stat numbers{};
    expect_success("mdb_stat", mdb_stat(in.get(), free_list, &numbers));
    print_statistics(numbers);
    reading_cursor over(in, free_list);
    MDB_val key{};
    MDB_val data{};
    std::size_t total = 0;
    while (over.move(key, data)) {
        const std::vector<std::size_t> pages = pages_of(data);
        total += pages.size();
        if (detail > 1) {
            std::size_t identifier = 0;
            std::memcpy(&identifier, key.mv_data, std::min(key.mv_size, sizeof(identifier)));
            std::printf("    Transaction %zu, %zu pages, maxspan %zu\n", identifier, pages.size(), longest_run(pages));
        }
        for (std::size_t i = pages.size(); detail > 2 && i > 0;) {
            const std::size_t first = pages[--i];
            std::size_t run = 1;
            while (i > 0 && pages[i - 1] == first + run) {
                --i;
                ++run;
            }
            run > 1 ? std::printf("     %9zu[%zu]\n", first, run) : std::printf("     %9zu\n", first);
        }
    }
    std::printf("  Free pages: %zu\n", total);
}

void print_database(const transaction& in, const std::optional<std::string>& name) {
    MDB_stat numbers{};
    const MDB_dbi database = open_database(in, name);
    expect_success("mdb_stat", mdb_stat(in.get(), database, &numbers));
    close_database(in, database);
    std::printf("Status of %s\n", name ? name->c_str() : "Main DB");
    print_statistics(numbers);
}

void run(const tool_arguments& given) {
    if (given.paths.size() != 1 || (given.count('a') != 0 && given.count('s') != 0)) {
        throw usage_error("");
    }
    environment_limits limits;
    limits.databases = 4;
    const environment opened(given.paths.front(), MDB_RDONLY | (given.count('n') != 0 ? MDB_NOSUBDIR : 0U), limits);
    if (given.count('e') != 0) {
        print_environment(opened);
    }
    if (const unsigned detail = given.count('r'); detail != 0) {
        print_readers(opened, detail > 1);
        if (given.count('f') == 0 && given.count('s') == 0 && given.count('a') == 0) {
            return;
        }
    }
    const transaction in(opened, MDB_RDONLY);
    if (const unsigned detail = given.count('f'); detail != 0) {
        print_free_list(in, detail);
    }
    print_database(in, given.argument('s'));
    if (given.count('a') != 0) {
        for (const std::string& name : database_names(in)) {
            print_database(in, name);
        }
    }
}

}  // namespace
}  // namespace holdfast_store_tools

int main(int argc, char** argv) {
    return holdfast_store_tools::run_tool(
        argc, argv, "Vaefnrs:", "[-V] [-n] [-e] [-r[r]] [-f[f[f]]] [-a|-s subdb] dbpath", holdfast_store_tools::run);
}
