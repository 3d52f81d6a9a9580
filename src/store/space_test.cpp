// Space: a full store stays usable, by its limit or its file system; a limit holds; stores that are small, or many.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "base/foreign_memory_test_support.hpp"
#include "store/page_checksum.hpp"
#include "store/store_format.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

using base::has_memory_of_others;

constexpr MDB_dbi unnamed = 1;
constexpr std::size_t limit = std::size_t{4} << 20U;

std::size_t size_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
}

std::string name_of(unsigned number) {
    std::string digits = std::to_string(number);
    return std::string(8 - digits.size(), '0') + digits;
}

// The status of a child that does this: the signal that killed it, or 1000 and its exit status.
int in_child(const std::function<int()>& work) {
    const pid_t made = ::fork();  // lint-allow(fork): a layer above base/
    if (made == 0) {
        ::_exit(work());
    }
    int outcome = 0;
    EXPECT_EQ(::waitpid(made, &outcome, 0), made);
    return WIFSIGNALED(outcome) ? WTERMSIG(outcome) : 1000 + WEXITSTATUS(outcome);
}

// Commits of 50 entries from `next` on, until one finds no room; returns its code.
int fill(MDB_env* env, unsigned& next, std::size_t size) {
    for (;;) {
        MDB_txn* in = nullptr;
        EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
        int code = 0;
        for (unsigned i = 0; i < 50 && code == 0; ++i) {
            code = put(in, unnamed, name_of(next + i), std::string(size, 'v'));
        }
        if (code != 0) {
            mdb_txn_abort(in);
            return code;
        }
        code = mdb_txn_commit(in);
        if (code != 0) {
            return code;
        }
        next += 50;
    }
}

int put_in_one(MDB_env* env, std::string_view key, std::string_view value) {
    MDB_txn* in = nullptr;
    if (const int code = mdb_txn_begin(env, nullptr, 0, &in); code != 0) {
        return code;
    }
    const int code = put(in, unnamed, key, value);
    if (code != 0) {
        mdb_txn_abort(in);
        return code;
    }
    return mdb_txn_commit(in);
}

// How a full store gets room.
int delete_by_cursor(MDB_txn* in, unsigned next) {
    MDB_cursor* at = nullptr;
    int code = mdb_cursor_open(in, unnamed, &at);
    MDB_val key{};
    MDB_val value{};
    for (unsigned i = 0; i < next / 6 && code == 0; ++i) {
        code = mdb_cursor_get(at, &key, &value, i == 0 ? MDB_FIRST : MDB_NEXT);
        code = code == 0 ? mdb_cursor_del(at, 0) : code;
    }
    return code;
}
int delete_in_nested(MDB_txn* in, unsigned next) {
    MDB_txn* inner = nullptr;
    int code = mdb_txn_begin(mdb_txn_env(in), in, 0, &inner);
    code = code == 0 ? delete_by_cursor(inner, next) : code;
    return code == 0 ? mdb_txn_commit(inner) : code;
}
int delete_some(MDB_txn* in, unsigned next) {
    int code = 0;
    for (unsigned i = 0; i < 40 && code == 0; ++i) {
        code = del(in, unnamed, name_of(i * (next / 40)));
        code = code == MDB_NOTFOUND ? 0 : code;  // an earlier round had it
    }
    return code;
}
int drop_all(MDB_txn* in, unsigned) { return mdb_drop(in, unnamed, 0); }
int overwrite_by_smaller(MDB_txn* in, unsigned) {
    int code = 0;
    for (unsigned i = 0; i < 900 && code == 0; ++i) {
        code = put(in, unnamed, name_of(i), "short");
    }
    return code;
}

struct full_store_case {
    const char* name;
    unsigned flags;
    int (*make_room)(MDB_txn* in, unsigned next);
    bool frees_pages = true;
};

class full_store_test : public testing::TestWithParam<full_store_case> {
protected:
    store_directory directory_;
};
INSTANTIATE_TEST_SUITE_P(
    of, full_store_test,
    testing::Values(full_store_case{"cursor", 0, delete_by_cursor},
                    full_store_case{"cursor_without_syncs", MDB_NOSYNC, delete_by_cursor},
                    full_store_case{"cursor_without_lock", MDB_NOLOCK | MDB_NOSYNC, delete_by_cursor},
                    full_store_case{"nested", MDB_WRITEMAP, delete_in_nested},
                    full_store_case{"scattered", 0, delete_some, false}, full_store_case{"drop", 0, drop_all},
                    full_store_case{"drop_without_syncs", MDB_NOSYNC, drop_all},
                    full_store_case{"smaller", MDB_NOSYNC, overwrite_by_smaller, false}),
    [](const auto& one) { return std::string(one.param.name); });

/// Was: a delete needed pages that the full store did not have, and where it had them, nothing could be put ever again.
TEST_P(full_store_test, could_not_be_emptied_or_used) {
    unsigned next = 0;
    auto env = std::make_unique<test_environment>(directory_.path(), GetParam().flags, 8, limit);
    for (unsigned round = 0; round < 3; ++round) {
        ASSERT_EQ(fill(env->get(), next, 100), MDB_MAP_FULL);
        EXPECT_LE(size_of(directory_.data()), limit);
        MDB_txn* in = env->begin();
        ASSERT_EQ(GetParam().make_room(in, next), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
        if (round == 1) {
            env.reset();
            env = std::make_unique<test_environment>(directory_.path(), GetParam().flags, 8, limit);
        }
        ASSERT_EQ(put_in_one(env->get(), name_of(0), std::string(100, 'z')), 0);
        const unsigned before = next;
        ASSERT_EQ(fill(env->get(), next, 100), MDB_MAP_FULL);
        EXPECT_GE(next, before + (GetParam().frees_pages ? 50 : 0)) << "what was freed is of no use";
        EXPECT_LE(size_of(directory_.data()), limit);
    }
    ASSERT_EQ(hf_lmdb_check(env->get(), nullptr), 0);
}

/// Was: a process that was killed behind the deletions left a store that was full for good.
TEST_P(full_store_test, was_of_no_use_after_a_kill) {
    unsigned next = 0;
    {  // not killed: the child finds what a process before it left
        const test_environment env(directory_.path(), GetParam().flags, 8, limit);
        ASSERT_EQ(fill(env.get(), next, 100), MDB_MAP_FULL);
    }
    ASSERT_EQ(in_child([&] {
                  MDB_env* env = nullptr;
                  MDB_txn* in = nullptr;
                  const bool done = mdb_env_create(&env) == 0 && mdb_env_set_mapsize(env, limit) == 0 &&
                                    mdb_env_open(env, directory_.path().c_str(), GetParam().flags, 0664) == 0 &&
                                    mdb_txn_begin(env, nullptr, 0, &in) == 0 && GetParam().make_room(in, next) == 0 &&
                                    mdb_txn_commit(in) == 0;
                  return done ? 0 : 1;
              }),
              1000);
    const test_environment env(directory_.path(), GetParam().flags, 8, limit);
    ASSERT_EQ(put_in_one(env.get(), name_of(0), std::string(100, 'z')), 0);
    ASSERT_EQ(fill(env.get(), next, 100), MDB_MAP_FULL);
    EXPECT_LE(size_of(directory_.data()), limit);
    ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

/// Transactions that change a full store and leave it as large as it was, for ever.
TEST(store_limit_test, a_full_store_takes_changes_that_need_no_room) {
    const store_directory directory;
    unsigned next = 0;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, limit);
    ASSERT_EQ(fill(env.get(), next, 100), MDB_MAP_FULL);
    for (unsigned round = 0; round < 500; ++round) {
        MDB_txn* in = env.begin();
        for (unsigned i = 0; i < 20; ++i) {
            ASSERT_EQ(put(in, unnamed, name_of((round * 7919 + i) % next), std::string(100, 'w')), 0) << round;
        }
        round % 7 == 6 ? mdb_txn_abort(in) : static_cast<void>(mdb_txn_commit(in));
    }
    EXPECT_LE(size_of(directory.data()), limit);
    ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

/// Was: each time that a program stated its limit again, the store grew by its log (8 MiB became 30.5).
TEST(store_limit_test, a_limit_that_is_stated_again_rose) {
    const store_directory directory;
    unsigned next = 0;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, limit);
    for (unsigned round = 0; round < 5; ++round) {
        ASSERT_EQ(fill(env.get(), next, 1000), MDB_MAP_FULL);
        ASSERT_EQ(mdb_env_set_mapsize(env.get(), limit), 0);
        MDB_envinfo information{};
        ASSERT_EQ(mdb_env_info(env.get(), &information), 0);
        EXPECT_EQ(information.me_mapsize, limit);
    }
    EXPECT_LE(size_of(directory.data()), limit);
}

/// A reader keeps what others free: a limit below what the store has lets it be emptied, and it grows no more.
TEST(store_limit_test, a_limit_below_what_the_store_has_holds) {
    const store_directory directory;
    const test_environment env(directory.path(), MDB_NOSYNC, 8, 4 * limit);
    for (unsigned i = 0; i < 10'000; i += 100) {
        MDB_txn* in = env.begin();
        for (unsigned j = i; j < i + 100; ++j) {
            ASSERT_EQ(put(in, unnamed, name_of(j), std::string(1000, 'v')), 0);
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    const std::size_t before = size_of(directory.data());
    ASSERT_EQ(mdb_env_set_mapsize(env.get(), limit), 0);
    EXPECT_EQ(put_in_one(env.get(), "more", std::string(20'000, 'v')), MDB_MAP_FULL);
    MDB_txn* const reader = env.begin(MDB_RDONLY);
    unsigned deleted = 0;
    for (int code = 0; code == 0 && deleted < 10'000; deleted += 10) {
        MDB_txn* in = env.begin();
        for (unsigned i = 0; i < 10 && code == 0; ++i) {
            code = del(in, unnamed, name_of(deleted + i));
        }
        code == 0 ? static_cast<void>(mdb_txn_commit(in)) : mdb_txn_abort(in);
    }
    EXPECT_GT(deleted, 500U);
    EXPECT_LE(size_of(directory.data()), before + before / 8);
    mdb_txn_abort(reader);
    for (unsigned i = 0; i < 10'000; i += 10) {
        MDB_txn* in = env.begin();
        for (unsigned j = i; j < i + 10; ++j) {
            const int code = del(in, unnamed, name_of(j));
            ASSERT_TRUE(code == 0 || code == MDB_NOTFOUND) << code;
        }
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
    ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

// --- one transaction that changes more pages than are held back -----------------------------------------------------

struct scattered_case {
    const char* name;
    unsigned flags;
    unsigned of_ten;     ///< entries of ten that go
    bool named = false;  ///< in a named database with several values a key
};
class full_store_by_one_transaction : public testing::TestWithParam<scattered_case> {
protected:
    /// Entry `i` of what fills a store; keys come in no order.
    void put_one(MDB_txn* in, MDB_dbi database, unsigned i, int& code) const {
        const std::string key = name_of(i * 2'654'435'761U % 100'000'000U);
        for (unsigned value = 0; value < (GetParam().named ? 3U : 1U) && code == 0; ++value) {
            code = put(in, database, key, std::to_string(value) + std::string(60, 'v'));
        }
    }
    [[nodiscard]] static MDB_dbi open(const test_environment& env) {
        return GetParam().named ? env.open("of values", MDB_CREATE | MDB_DUPSORT) : unnamed;
    }
    [[nodiscard]] static bool goes(unsigned i) { return i * 7919U % 10U < GetParam().of_ten; }

    [[nodiscard]] unsigned fill_by(MDB_env* env, MDB_dbi database, unsigned first) const {
        for (unsigned next = first;; next += 20) {
            MDB_txn* in = nullptr;
            EXPECT_EQ(mdb_txn_begin(env, nullptr, 0, &in), 0);
            int code = 0;
            for (unsigned i = next; i < next + 20 && code == 0; ++i) {
                put_one(in, database, i, code);
            }
            if (code != 0) {
                mdb_txn_abort(in);
            } else {
                code = mdb_txn_commit(in);
            }
            if (code != 0) {
                EXPECT_EQ(code, MDB_MAP_FULL);
                return next;
            }
        }
    }
    /// Of all up to `next`.
    [[nodiscard]] static int remove(MDB_txn* in, MDB_dbi database, unsigned next) {
        int code = 0;
        for (unsigned i = 0; i < next && code == 0; ++i) {
            code = goes(i) ? del(in, database, name_of(i * 2'654'435'761U % 100'000'000U)) : 0;
        }
        return code;
    }
    [[nodiscard]] static std::size_t entries(const test_environment& env, MDB_dbi database) {
        MDB_txn* in = env.begin(MDB_RDONLY);
        MDB_stat found{};
        EXPECT_EQ(mdb_stat(in, database, &found), 0);
        mdb_txn_abort(in);
        EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
        return found.ms_entries;
    }
    [[nodiscard]] static std::size_t stay(unsigned next) {
        std::size_t left = 0;
        for (unsigned i = 0; i < next; ++i) {
            left += goes(i) ? 0U : GetParam().named ? 3U : 1U;
        }
        return left;
    }

    store_directory directory_;
};
INSTANTIATE_TEST_SUITE_P(of, full_store_by_one_transaction,
                         testing::Values(scattered_case{"a_tenth", 0, 1}, scattered_case{"half", MDB_NOSYNC, 5},
                                         scattered_case{"most", MDB_WRITEMAP | MDB_NOSYNC, 8},
                                         scattered_case{"all", MDB_NOSYNC, 10},
                                         scattered_case{"half_of_values", MDB_NOSYNC, 5, true},
                                         scattered_case{"all_values", MDB_NOSYNC, 10, true}),
                         [](const auto& one) { return std::string(one.param.name); });

/// Was: MDB_MAP_FULL for a transaction that removed from more pages than are held back, 1 of 16.
TEST_P(full_store_by_one_transaction, could_not_be_emptied) {
    auto env = std::make_unique<test_environment>(directory_.path(), GetParam().flags, 8, limit);
    MDB_dbi database = open(*env);
    const unsigned next = fill_by(env->get(), database, 0);
    MDB_txn* in = env->begin();
    ASSERT_EQ(remove(in, database, next), 0);
    mdb_txn_abort(in);
    ASSERT_EQ(entries(*env, database), next * (GetParam().named ? 3U : 1U));
    in = env->begin();
    ASSERT_EQ(remove(in, database, next), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_LE(size_of(directory_.data()), limit);
    EXPECT_EQ(entries(*env, database), stay(next));
    env.reset();
    env = std::make_unique<test_environment>(directory_.path(), GetParam().flags, 8, limit);
    database = open(*env);
    EXPECT_EQ(entries(*env, database), stay(next));
    const unsigned last = fill_by(env->get(), database, next);
    EXPECT_GT(last, next + (GetParam().of_ten > 3 ? next / 100 : 0)) << "what was freed is of no use";
    EXPECT_LE(size_of(directory_.data()), limit);
    EXPECT_EQ(entries(*env, database), stay(next) + (last - next) * (GetParam().named ? 3U : 1U));
}

/// A reader keeps what is freed, so the store would stay beyond its limit: as before, the transaction finds no room.
TEST_P(full_store_by_one_transaction, keeps_its_limit_beside_a_reader) {
    const test_environment env(directory_.path(), GetParam().flags | MDB_NOTLS, 8, limit);
    const MDB_dbi database = open(env);
    const unsigned next = fill_by(env.get(), database, 0);
    const std::size_t all = entries(env, database);
    MDB_txn* const reader = env.begin(MDB_RDONLY);
    MDB_txn* in = env.begin();
    ASSERT_EQ(remove(in, database, next), MDB_MAP_FULL);
    mdb_txn_abort(in);
    EXPECT_LE(size_of(directory_.data()), limit);
    mdb_txn_abort(reader);
    EXPECT_EQ(entries(env, database), all);

    // One that comes in its midst keeps the file as long as it lives.
    in = env.begin();
    ASSERT_EQ(remove(in, database, next), 0);
    MDB_txn* const later = env.begin(MDB_RDONLY);
    ASSERT_EQ(mdb_txn_commit(in), 0);
    EXPECT_LE(size_of(directory_.data()), 2 * limit + limit / 8);
    MDB_stat seen{};
    ASSERT_EQ(mdb_stat(later, database, &seen), 0);
    EXPECT_EQ(seen.ms_entries, all);
    mdb_txn_abort(later);
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_EQ(put_in_one(env.get(), "z", std::string(10 + i, 'z')), 0);
    }
    EXPECT_LE(size_of(directory_.data()), limit);
    EXPECT_EQ(entries(env, database), stay(next) + (GetParam().named ? 0 : 1));
}

/// Was, while this was made: each kill before the pages had moved left the store larger, without end.
class full_store_of_a_killed_process : public full_store_by_one_transaction {};
INSTANTIATE_TEST_SUITE_P(of, full_store_of_a_killed_process,
                         testing::Values(scattered_case{"half", MDB_NOSYNC, 5},
                                         scattered_case{"values", MDB_NOSYNC, 8, true}),
                         [](const auto& one) { return std::string(one.param.name); });
TEST_P(full_store_of_a_killed_process, stays_within_its_limit) {
    for (unsigned round = 0; round < 3; ++round) {
        ASSERT_EQ(in_child([&] {
                      const test_environment env(directory_.path(), GetParam().flags | MDB_NOTLS, 8, limit);
                      const MDB_dbi database = open(env);
                      const unsigned next = fill_by(env.get(), database, 0);
                      MDB_txn* const in = env.begin();
                      const int removed = remove(in, database, next);
                      const MDB_txn* const reader = env.begin(MDB_RDONLY);
                      const bool done = removed == 0 && reader != nullptr && mdb_txn_commit(in) == 0;
                      ::_exit(done ? 0 : 1);  // and no close
                      return 1;
                  }),
                  1000);
        EXPECT_GT(size_of(directory_.data()), limit);
        const test_environment env(directory_.path(), GetParam().flags, 8, limit);
        const MDB_dbi database = open(env);
        mdb_txn_abort(env.begin());
        EXPECT_LE(size_of(directory_.data()), limit + limit / 64);  // the list of free pages may lie behind
        EXPECT_GT(entries(env, database), 1000U);
        MDB_txn* in = env.begin();
        ASSERT_EQ(mdb_drop(in, database, 0), 0);
        ASSERT_EQ(mdb_txn_commit(in), 0);
    }
}

// --- the map's size -------------------------------------------------------------------------------------------------

std::size_t map_size_of(const test_environment& env) {
    MDB_envinfo information{};
    EXPECT_EQ(mdb_env_info(env.get(), &information), 0);
    return information.me_mapsize;
}

/// Was: a killed process, and a copy, left no size.
TEST(store_map_size_test, stays_with_the_file) {
    const store_directory directory;
    ASSERT_EQ(in_child([&] {
                  const test_environment env(directory.path(), 0, 8, limit);
                  return put_in_one(env.get(), "key", "value");  // and no close
              }),
              1000);
    const test_environment env(directory.path());
    EXPECT_EQ(map_size_of(env), limit);
    unsigned next = 0;
    EXPECT_EQ(fill(env.get(), next, 1000), MDB_MAP_FULL);
    EXPECT_LE(size_of(directory.data()), limit);
    // Another process raises it; who set none has it at once.
    ASSERT_EQ(in_child([&] {
                  const test_environment larger(directory.path(), 0, 8, 2 * limit);
                  return put_in_one(larger.get(), "key", "value");
              }),
              1000);
    EXPECT_EQ(map_size_of(env), 2 * limit);
    EXPECT_EQ(put_in_one(env.get(), "large", std::string(100'000, 'v')), 0);
    const store_directory copied;
    ASSERT_EQ(mdb_env_copy(env.get(), copied.path().c_str()), 0);
    EXPECT_EQ(map_size_of(test_environment(copied.path(), MDB_RDONLY)), 2 * limit);
}

TEST(store_map_size_test, lies_where_the_format_says) {
    const store_directory directory;
    { const test_environment env(directory.path(), 0, 8, limit); }
    std::ifstream file(directory.data(), std::ios::binary);
    std::vector<char> page(160);
    file.read(page.data(), 160);
    meta_on_media meta{};
    std::memcpy(&meta, page.data(), sizeof(meta));
    EXPECT_EQ(std::string(page.data(), 8), "HFSTORE\n");
    std::uint64_t map_size = 0;
    std::memcpy(&map_size, page.data() + 144, sizeof(map_size));
    EXPECT_EQ(map_size, limit);
    std::uint64_t checksum = 0;
    std::memcpy(&checksum, page.data() + 152, sizeof(checksum));
    EXPECT_EQ(checksum, meta_checksum(meta));
}

// --- sizes and addresses --------------------------------------------------------------------------------------------

/// Was: 1 MiB, where LMDB takes 16 KiB.
TEST(store_small_test, a_store_of_a_few_entries_is_small) {
    const store_directory directory;
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}}) {
        const test_environment env(directory.path(), flags);
        for (unsigned i = 0; i < 5; ++i) {
            ASSERT_EQ(put_in_one(env.get(), name_of(i), "value"), 0);
        }
        EXPECT_LT(size_of(directory.data()), std::size_t{80} << 10U);
    }
    EXPECT_LT(size_of(directory.data()), std::size_t{80} << 10U);
}

/// Was: 272 environments took all addresses of the process; under `ulimit -v`, two or three.
TEST(store_addresses_test, a_thousand_environments_left_no_addresses) {
    if (has_memory_of_others) {
        GTEST_SKIP() << "the memory of the emulator or sanitizer counts, too";
    }
    const store_directory directory;
    const auto open_all = [&](std::size_t addresses) {
        rlimit files{};
        rlimit memory{.rlim_cur = addresses, .rlim_max = addresses};
        if (::getrlimit(RLIMIT_NOFILE, &files) != 0) {
            return 1;
        }
        files.rlim_cur = files.rlim_max;
        if (::setrlimit(RLIMIT_NOFILE, &files) != 0 || (addresses != 0 && ::setrlimit(RLIMIT_AS, &memory) != 0)) {
            return 1;
        }
        std::vector<std::unique_ptr<test_environment>> all;
        for (unsigned i = 0; i < 1000; ++i) {
            all.push_back(std::make_unique<test_environment>(directory.path() + "/" + std::to_string(i),
                                                             MDB_NOSUBDIR | MDB_NOTLS | MDB_NOSYNC, 8,
                                                             std::size_t{1} << 30U));
            if (all.back()->opened() != 0 || put_in_one(all.back()->get(), "key", "value") != 0) {
                return 2;
            }
        }
        return std::unique_ptr<char[]>(new (std::nothrow) char[std::size_t{64} << 20U]) ? 0 : 3;
    };
    EXPECT_EQ(in_child([&] { return open_all(0); }), 1000);
    EXPECT_EQ(in_child([&] { return open_all(std::size_t{4} << 30U); }), 1000);
}

/// What a transaction has returned stays where it is when the store outgrows its addresses.
TEST(store_addresses_test, values_stay_while_the_store_grows) {
    const store_directory directory;
    const auto grow_beside_a_reader = [&](unsigned flags) {
        const test_environment env(directory.path(), flags | MDB_NOTLS | MDB_NOSYNC, 8, std::size_t{1} << 20U);
        int code = put_in_one(env.get(), "key", "value") + put_in_one(env.get(), "long", std::string(50'000, 'v'));
        MDB_txn* const reader = env.begin(MDB_RDONLY);
        MDB_val long_value{};
        MDB_val key = as_val("long");
        code += mdb_get(reader, unnamed, &key, &long_value) + mdb_env_set_mapsize(env.get(), std::size_t{64} << 20U);
        MDB_txn* const writer = env.begin();
        MDB_val own{};
        key = as_val("key");
        code += mdb_get(writer, unnamed, &key, &own);
        for (unsigned i = 0; i < 300; ++i) {
            code += put(writer, 1, name_of(i), std::string(100'000, 'g'));
        }
        code += mdb_txn_commit(writer);
        code += as_view(long_value) == std::string(50'000, 'v') ? 0 : 1;
        mdb_txn_abort(reader);
        code += content_of(env.get()).size() == 302 ? 0 : 1;
        code += hf_lmdb_check(env.get(), nullptr);
        MDB_txn* const last = env.begin();
        code += mdb_drop(last, unnamed, 0) + mdb_txn_commit(last);
        return code;
    };
    EXPECT_EQ(grow_beside_a_reader(0), 0);
    EXPECT_EQ(grow_beside_a_reader(MDB_WRITEMAP), 0);
}

// --- ulimit -f ------------------------------------------------------------------------------------------------------

/// Was: SIGXFSZ ended the process, or the error was MDB_MAP_FULL, which programs answer by a larger map, for ever.
TEST(store_file_size_test, a_limit_of_the_file_size_is_an_error_of_its_own) {
    const store_directory directory;
    const auto with_limit = [&](std::size_t bytes, const std::function<int()>& work) {
        return in_child([&] {
            rlimit most{};
            if (::getrlimit(RLIMIT_FSIZE, &most) != 0) {
                return 100;
            }
            most.rlim_cur = bytes;
            return ::setrlimit(RLIMIT_FSIZE, &most) == 0 ? work() : 100;
        });
    };
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}, unsigned{MDB_WRITEMAP}}) {
        EXPECT_EQ(with_limit(std::size_t{1} << 20U,
                             [&] {
                                 const test_environment env(directory.path(), flags);
                                 unsigned next = 0;
                                 const int full = fill(env.get(), next, 1000);
                                 MDB_txn* in = env.begin();
                                 const int freed = delete_by_cursor(in, next) + mdb_txn_commit(in);
                                 return full == EFBIG && freed == 0 && put_in_one(env.get(), "again", "value") == 0 ? 0
                                                                                                                    : 1;
                             }),
                  1000);
    }
    const store_directory copied;
    const test_environment env(directory.path());
    EXPECT_EQ(with_limit(std::size_t{64} << 10U,
                         [&] { return test_environment(copied.path() + "/no").opened() == ENOENT ? 0 : 1; }),
              1000);
    EXPECT_EQ(
        with_limit(std::size_t{8} << 10U, [&] { return test_environment(copied.path()).opened() == EFBIG ? 0 : 1; }),
        1000);
    std::filesystem::remove(copied.data());
    EXPECT_EQ(with_limit(std::size_t{64} << 10U,
                         [&] {
                             const test_environment source(directory.path());
                             return mdb_env_copy(source.get(), copied.path().c_str()) == EFBIG ? 0 : 1;
                         }),
              1000);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

}  // namespace
}  // namespace holdfast::store_engine
