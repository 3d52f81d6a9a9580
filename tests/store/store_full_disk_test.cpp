// A file system without room: the transaction that finds none fails, and the store goes on.
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "base/process_test_support.hpp"
#include "full_disk/full_disks.hpp"
#include "store/store_fixture.hpp"

namespace holdfast::test {
namespace {

class store_full_disk : public store_test {
protected:
    void SetUp() override {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
    }
    void fills_and_goes_on(const std::string& at);
    void empties_and_is_used_on(const std::string& at, unsigned flags);
    void copy_with_holes_is_used_on(const std::string& at, bool on_memory, std::uint64_t holes);
};
INSTANTIATE_TEST_SUITE_P(of, store_full_disk, testing::ValuesIn(lmdb_libraries()), name_of_library);

// Not MDB_MAP_FULL, which programs answer by a larger map, for ever.
bool is_no_space(int code) { return code == ENOSPC; }

void store_full_disk::fills_and_goes_on(const std::string& at) {
    const auto unlimited = [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_mapsize(made, std::size_t{1} << 30U), 0); };
    ASSERT_EQ(open_at(at, MDB_NOTLS, unlimited), 0);
    MDB_txn* transaction = begin();
    const MDB_dbi main = database(transaction);
    EXPECT_EQ(put(transaction, main, "kept", "data"), 0);
    commit(transaction);
    items expected{{"kept", "data"}};
    for (int round = 0; round < 3; ++round) {
        // Until a transaction of 100 items finds no room: none of them may be there then.
        int code = 0;
        for (int batch = 0; code == 0 && batch < 100; ++batch) {
            MDB_txn* const filling = begin();
            items added;
            for (int i = 0; i < 100 && code == 0; ++i) {
                added.emplace_back("item " + std::to_string(round * 100000 + batch * 100 + i), std::string(9000, 'f'));
                code = put(filling, main, added.back().first, added.back().second);
            }
            if (code != 0) {
                mdb.txn_abort(filling);
                break;
            }
            code = mdb.txn_commit(filling);
            if (code == 0) {
                expected.insert(expected.end(), added.begin(), added.end());
            }
        }
        // liblmdb 0.9.24 calls a write that is cut short EIO.
        EXPECT_TRUE(is_no_space(code) || (GetParam().name == "debian" && code == EIO)) << error_name(code);
        std::sort(expected.begin(), expected.end());
        MDB_txn* const reader = begin(MDB_RDONLY);
        EXPECT_EQ(all(reader, main), expected);
        mdb.txn_abort(reader);
        // What is small finds room where something large is removed: after some tries, as pages become free.
        int freed = EIO;
        for (int attempt = 0; attempt < 4 && freed != 0 && expected.size() > 1; ++attempt) {
            MDB_txn* const removing = begin();
            freed = 0;
            const std::size_t victims = std::min<std::size_t>(expected.size() - 1, 60);
            for (std::size_t i = 0; i < victims && freed == 0; ++i) {
                freed = del(removing, main, expected[i].first);
            }
            if (freed != 0) {
                mdb.txn_abort(removing);
                continue;
            }
            freed = mdb.txn_commit(removing);
            if (freed == 0) {
                expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(victims));
            }
        }
        // liblmdb needs new pages to remove some: on a full disk it may be stuck, and reports that.
        EXPECT_TRUE(freed == 0 || (GetParam().name == "debian" && (is_no_space(freed) || freed == EIO)))
            << error_name(freed);
    }
    ASSERT_EQ(open_at(at, MDB_NOTLS, unlimited), 0) << "it cannot be opened again";
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(all(reader, main), expected);
    mdb.txn_abort(reader);
    close();
}

TEST_P(store_full_disk, on_tmpfs_fails_the_transaction_alone) {
    const memory_file_system files("size=16m");
    fills_and_goes_on(files.path());
}

/// Was: pages whose blocks had gone back to the file system were taken for such that have some, after a checkpoint that
/// found no room, say: a SIGBUS where the disk was full.
TEST_P(store_full_disk, that_fills_and_empties_is_used_on) {
    const memory_file_system files("size=6m");
    const std::string store = files.path() + "/store";
    const std::string filler = files.path() + "/filler";
    std::filesystem::create_directory(store);
    const auto unlimited = [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_mapsize(made, std::size_t{1} << 30U), 0); };
    ASSERT_EQ(open_at(store, MDB_NOTLS, unlimited), 0);
    std::mt19937_64 random(7);
    std::map<std::string, std::string> expected;
    for (int round = 0; round < 1000; ++round) {
        if (round % 25 == 24) {
            if (!std::filesystem::remove(filler)) {
                std::ofstream(filler) << std::string(6U << 20U, 'f');
            }
        }
        MDB_txn* transaction = begin();
        ASSERT_NE(transaction, nullptr);
        const MDB_dbi main = database(transaction);
        auto changed = expected;
        int code = 0;
        for (std::uint64_t left = random() % 40; left > 0 && code == 0; --left) {
            const std::string key = "key" + std::to_string(random() % 60);
            if (random() % 2 == 0) {
                changed[key] = std::string(random() % 8 == 0 ? random() % 90'000 : random() % 5000, 'd');
                code = put(transaction, main, key, changed[key]);
            } else if (changed.erase(key) != 0) {
                code = del(transaction, main, key);
            }
        }
        if (code != 0 || random() % 5 == 0) {
            mdb.txn_abort(transaction);
        } else if (mdb.txn_commit(transaction) == 0) {
            expected = changed;
        }
        if (round % 40 == 39) {
            close();
            if (open_at(store, MDB_NOTLS, unlimited) != 0) {
                std::filesystem::remove(filler);  // it needs room to open
                ASSERT_EQ(open_at(store, MDB_NOTLS, unlimited), 0);
            }
        }
    }
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(all(reader, database(reader)), items(expected.begin(), expected.end()));
    mdb.txn_abort(reader);
    close();
}

void store_full_disk::empties_and_is_used_on(const std::string& at, unsigned flags) {
    const auto unlimited = [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_mapsize(made, std::size_t{1} << 30U), 0); };
    ASSERT_EQ(open_at(at, MDB_NOTLS | flags, unlimited), 0);
    unsigned next = 0;
    const auto name = [](unsigned number) { return "entry " + std::to_string(1'000'000 + number); };
    const auto fill = [&] {
        int code = 0;
        while (code == 0) {
            MDB_txn* const filling = begin();
            const MDB_dbi main = database(filling);
            for (unsigned i = 0; i < 50 && code == 0; ++i) {
                code = put(filling, main, name(next + i), std::string(200, 'f'));
            }
            code == 0 ? static_cast<void>(code = mdb.txn_commit(filling)) : mdb.txn_abort(filling);
            next += code == 0 ? 50 : 0;
        }
        return code;
    };
    unsigned first = 0;
    for (unsigned round = 0; round < 6; ++round) {
        ASSERT_EQ(fill(), ENOSPC);
        if (round % 3 == 1) {
            ASSERT_EQ(open_at(at, MDB_NOTLS | flags, unlimited), 0);
        }
        MDB_txn* const removing = begin();
        const MDB_dbi main = database(removing);
        if (round == 4) {
            ASSERT_EQ(mdb.drop(removing, main, 0), 0);
            first = next;
        }
        for (const unsigned end = first + (round == 4 ? 0 : (next - first) / 4); first < end; ++first) {
            ASSERT_EQ(del(removing, main, name(first)), 0) << round;
        }
        ASSERT_EQ(mdb.txn_commit(removing), 0) << round;
        if (round % 3 == 2) {
            ASSERT_EQ(open_at(at, MDB_NOTLS | flags, unlimited), 0);
        }
        const unsigned before = next;
        ASSERT_EQ(fill(), ENOSPC);
        EXPECT_GT(next, before) << "what was freed is of no use";
    }
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(all(reader, database(reader)).size(), next - first);
    mdb.txn_abort(reader);
    close();
}

/// Was: deletions needed pages that a full file system did not have, and what they freed was of no use.
TEST_P(store_full_disk, can_be_emptied_on_tmpfs) {
    if (GetParam().name == "debian") {
        return;  // it is stuck there
    }
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}}) {
        const memory_file_system files("size=8m");
        empties_and_is_used_on(files.path(), flags);
    }
}

TEST_P(store_full_disk, can_be_emptied_on_ext4) {
    if (const std::string why = unavailable(file_system_kind::ext4); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    if (GetParam().name == "debian") {
        return;  // it is stuck there
    }
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}}) {
        const image_file_system files(file_system_kind::ext4, std::uint64_t{64} << 20U);
        const ballast rest(files.path(), 10 * mebibyte);
        std::filesystem::create_directory(files.path() + "/store");
        empties_and_is_used_on(files.path() + "/store", flags);
    }
}

/// Was: a SIGBUS. What reads ahead has holes and pages that got blocks in one folio, and the first store to it asks for
/// blocks for all of it; the process did not know that another program had filled the disk.
TEST_P(store_full_disk, beside_holes_that_were_read_ahead_takes_stores) {
    if (const std::string why = unavailable(file_system_kind::ext4); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    if (GetParam().name == "debian") {
        return;  // it makes no holes
    }
    image_file_system files(file_system_kind::ext4, 64 * mebibyte);
    const std::string at = files.path() + "/store";
    std::filesystem::create_directory(at);
    constexpr int all_entries = 4800;
    constexpr int group = 24;  // of which four stay: holes of 20 pages, with fewer pages between than a folio has
    const auto name = [](int number) { return "entry " + std::to_string(100'000 + number); };
    const auto change = [&](int first, int step, bool adds) {
        MDB_txn* const changing = begin();
        const MDB_dbi main = database(changing);
        int code = 0;
        for (int i = first; i < all_entries && code == 0; i += step) {
            code = adds ? put(changing, main, name(i), std::string(3000, 'v')) : del(changing, main, name(i));
        }
        return code == 0 ? mdb.txn_commit(changing) : (mdb.txn_abort(changing), code);
    };
    ASSERT_EQ(open_at(at, MDB_NOTLS, nullptr), 0);
    ASSERT_EQ(change(0, 1, true), 0);
    for (int place = 4; place < group; ++place) {
        ASSERT_EQ(change(place, group, false), 0);
    }
    close();
    struct stat information {};
    ASSERT_EQ(::stat((at + "/data.mdb").c_str(), &information), 0);
    ASSERT_LT(information.st_blocks * 512, information.st_size / 2) << "else nothing is tested here";
    files.mount_again();
    ASSERT_EQ(std::system(("cat '" + at + "/data.mdb' > /dev/null").c_str()), 0);
    const base::process_end end = base::run_in_child([&] {
        const auto update = [&](int i) {
            MDB_txn* const changing = begin();
            const int code = put(changing, database(changing), name(i * group), std::string(3000, 'n'));
            return code == 0 ? mdb.txn_commit(changing) : (mdb.txn_abort(changing), code);
        };
        ASSERT_EQ(open_at(at, MDB_NOTLS, nullptr), 0);
        ASSERT_EQ(update(0), 0);
        const ballast full(files.path(), 0);
        int updated = 0;
        for (int i = 1; i < all_entries / group; ++i) {
            const int code = update(i);
            EXPECT_TRUE(code == 0 || is_no_space(code)) << error_name(code);
            updated += code == 0 ? 1 : 0;
        }
        EXPECT_GT(updated, 0);
    });
    EXPECT_TRUE(end.succeeded()) << end;
    std::filesystem::remove(files.path() + "/ballast");
    ASSERT_EQ(open_at(at, MDB_NOTLS, nullptr), 0);
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(all(reader, database(reader)).size(), std::size_t{all_entries / group * 4});
    mdb.txn_abort(reader);
    close();
}

/// Was: a SIGBUS. A copy has holes where the store wrote zeros, in the log and in lists of free pages.
void store_full_disk::copy_with_holes_is_used_on(const std::string& at, bool on_memory, std::uint64_t holes) {
    const std::string original = at + "/store";
    const std::string copy = at + "/copy";
    std::filesystem::create_directory(original);
    std::filesystem::create_directory(copy);
    const auto prepare = [&](MDB_env* made) { EXPECT_EQ(on_memory ? mdb.emulate_persistent_memory(made) : 0, 0); };
    const auto update = [&](const std::string& value) {
        MDB_txn* const changing = begin();
        const int code = put(changing, database(changing), "key", value);
        return code == 0 ? mdb.txn_commit(changing) : (mdb.txn_abort(changing), code);
    };
    ASSERT_EQ(open_at(original, MDB_NOTLS, prepare), 0);
    items expected{{"key", "after"}};
    if (holes != 0) {  // in pages that are in use
        constexpr std::size_t page = 4096;
        std::string value;
        for (std::uint64_t i = 0; i < holes; ++i) {
            value += std::string(page, 'x') + std::string(2 * page, 0);
        }
        MDB_txn* const changing = begin();
        ASSERT_EQ(put(changing, database(changing), "holes", value), 0);
        ASSERT_EQ(mdb.txn_commit(changing), 0);
        expected.insert(expected.begin(), {"holes", std::move(value)});
    }
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(update(std::string(2'000'000, 'l')), 0);
        ASSERT_EQ(update("before"), 0);  // free pages have blocks, and are no zeros
    }
    ASSERT_EQ(std::system(("cp --sparse=always '" + original + "/data.mdb' '" + copy + "'").c_str()), 0);
    struct stat information {};
    ASSERT_EQ(::stat((copy + "/data.mdb").c_str(), &information), 0);
    ASSERT_LT(information.st_blocks * 512, information.st_size) << "else nothing is tested here";
    close();
    const base::process_end end = base::run_in_child([&] {
        ASSERT_EQ(open_at(copy, MDB_NOTLS, prepare), 0);
        {
            const ballast full(at, 0);
            int codes = 0;
            for (int i = 0; i < 100; ++i) {
                const int code = update(std::string(100, 'v'));
                EXPECT_TRUE(code == 0 || is_no_space(code)) << error_name(code);
                codes |= code;
            }
            EXPECT_TRUE(codes != 0 || holes != 0) << "no hole was met";
        }
        EXPECT_EQ(update("after"), 0);
    });
    EXPECT_TRUE(end.succeeded()) << end;
    ASSERT_EQ(open_at(copy, MDB_NOTLS, prepare), 0);
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_TRUE(all(reader, database(reader)) == expected);  // without megabytes of text
    mdb.txn_abort(reader);
    close();
}

TEST_P(store_full_disk, a_copy_with_holes_takes_no_signal) {
    if (const std::string why = unavailable(file_system_kind::ext4); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    if (GetParam().name == "debian") {
        return;  // it makes no holes
    }
    for (const bool on_memory : {false, true}) {
        SCOPED_TRACE(on_memory ? "on persistent memory" : "by system calls");
        for (const std::uint64_t holes : {0U, 1100U}) {  // as many as are looked for, and more
            const image_file_system files(file_system_kind::ext4, 96 * mebibyte);
            copy_with_holes_is_used_on(files.path(), on_memory, holes);
        }
    }
}

TEST_P(store_full_disk, on_ext4_fails_the_transaction_alone) {
    if (const std::string why = unavailable(file_system_kind::ext4); !why.empty()) {
        report_unavailable(why);
        GTEST_SKIP() << why;
    }
    const image_file_system files(file_system_kind::ext4, std::uint64_t{64} << 20U);
    const ballast rest(files.path(), 12 * mebibyte);
    std::filesystem::create_directory(files.path() + "/store");
    fills_and_goes_on(files.path() + "/store");
}

}  // namespace
}  // namespace holdfast::test
