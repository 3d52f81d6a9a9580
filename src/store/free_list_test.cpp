// The list of free pages accounts for every page that no tree uses; a store that grows keeps what it grew by.
#include <array>
#include <fstream>

#include "store/store_format.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

/// Was: a list of free pages that became shorter by its last extent, and so by a page, lost that page for good.
TEST(store_free_list_test, a_page_of_the_list_of_free_pages_was_lost) {
    const store_directory directory;
    constexpr unsigned entries = 540;  // a list of 4,096 bytes has 255 extents
    {
        const test_environment env(directory.path(), MDB_NOSYNC);
        MDB_txn* in = env.begin();
        for (unsigned i = 0; i < entries; ++i) {
            ASSERT_EQ(put(in, 1, std::to_string(i), std::string(3000, 'v')), 0);  // a page of its own
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    for (unsigned i = 0; i < entries; i += 2) {
        {  // each close writes a list, longer by an extent
            const test_environment env(directory.path(), MDB_NOSYNC);
            MDB_txn* in = env.begin();
            ASSERT_EQ(del(in, 1, std::to_string(i)), 0);
            ASSERT_EQ(mdb_txn_commit(in), 0);
        }
        std::ifstream file(directory.data(), std::ios::binary);
        std::array<meta_on_media, 2> metas{};
        for (unsigned page = 0; page < 2; ++page) {
            file.seekg(page * page_size);
            file.read(reinterpret_cast<char*>(&metas[page]), sizeof(meta_on_media));
        }
        const meta_on_media& last = metas[metas[0].sequence > metas[1].sequence ? 0 : 1];
        const test_environment env(directory.path(), MDB_RDONLY);
        MDB_txn* in = env.begin(MDB_RDONLY);
        MDB_stat used{};
        ASSERT_EQ(mdb_stat(in, 1, &used), 0);
        MDB_cursor* at = nullptr;
        ASSERT_EQ(mdb_cursor_open(in, 0, &at), 0);
        MDB_val key{};
        MDB_val value{};
        std::size_t free_pages = 0;
        while (mdb_cursor_get(at, &key, &value, MDB_NEXT) == 0) {
            free_pages += *static_cast<const std::size_t*>(value.mv_data);
        }
        mdb_cursor_close(at);
        mdb_txn_abort(in);
        const std::size_t list = (last.free_list_size + page_size - 1) / page_size;
        ASSERT_EQ(used.ms_branch_pages + used.ms_leaf_pages + used.ms_overflow_pages + free_pages + list +
                      last.log_pages + meta_pages,
                  last.next_page)
            << i;
    }
}

/// Was: each checkpoint of a store that grew gave back what the file had grown by, and the next commit took it again:
/// three fifths of the time of a bulk load.
TEST(store_growth_test, what_the_next_commit_took_was_given_back) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC);
    std::size_t before = 0;
    for (unsigned batch = 0; batch < 60; ++batch) {
        MDB_txn* in = env.begin();
        for (unsigned i = 0; i < 1000; ++i) {
            ASSERT_EQ(put(in, 1, std::to_string(10'000'000 + batch * 1000 + i), std::string(1000, 'v')), 0);
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
        ASSERT_GE(std::filesystem::file_size(directory.data()), before) << "commit " << batch;
        before = std::filesystem::file_size(directory.data());
    }
}

}  // namespace
}  // namespace holdfast::store_engine
