// What LMDB's documentation says of environments and transactions, sentence by sentence.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "store/store_fixture.hpp"

namespace holdfast::test {
namespace {

class store_environment : public store_test {};
class store_transaction : public store_test {
protected:
    /// A reader of a new environment, whose database "items" no other transaction has opened.
    MDB_txn* begin_that_opens_items() {
        open();
        MDB_txn* const writer = begin();
        EXPECT_EQ(put(writer, database(writer, "items", MDB_CREATE), "key", "data"), 0);
        commit(writer);
        open();
        MDB_txn* const reader = begin(MDB_RDONLY);
        EXPECT_EQ(get(reader, database(reader, "items"), "key"), "data");
        return reader;
    }
};
INSTANTIATE_TEST_SUITE_P(of, store_environment, testing::ValuesIn(lmdb_libraries()), name_of_library);
INSTANTIATE_TEST_SUITE_P(of, store_transaction, testing::ValuesIn(lmdb_libraries()), name_of_library);

unsigned mode_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : 0;
}

TEST_P(store_environment, a_directory_that_is_not_there_is_ENOENT) { EXPECT_EQ(open_at(path("nowhere"), 0), ENOENT); }

TEST_P(store_environment, files_are_named_and_have_the_mode_asked_for) {
    const mode_t before = ::umask(0);
    open();
    EXPECT_EQ(mode_of(path("data.mdb")), 0640U);
    EXPECT_EQ(mode_of(path("lock.mdb")), 0640U);
    EXPECT_EQ(open_at(path("single"), MDB_NOSUBDIR), 0);
    ::umask(before);
    EXPECT_EQ(mode_of(path("single")), 0640U);
    EXPECT_EQ(mode_of(path("single-lock")), 0640U);
}

TEST_P(store_environment, a_file_of_another_format_is_MDB_INVALID) {
    std::ofstream(path("data.mdb")) << std::string(65536, 'x');
    EXPECT_EQ(open_at(directory(), 0), MDB_INVALID);
}

TEST_P(store_environment, content_outlives_the_environment_and_its_lock_file) {
    open();
    MDB_txn* transaction = begin();
    EXPECT_EQ(put(transaction, database(transaction), "key", "data"), 0);
    commit(transaction);
    close();
    std::filesystem::remove(path("lock.mdb"));
    open();
    transaction = begin(MDB_RDONLY);
    EXPECT_EQ(get(transaction, database(transaction), "key"), "data");
    mdb.txn_abort(transaction);
}

TEST_P(store_environment, has_the_documented_defaults) {
    MDB_env* made = nullptr;
    ASSERT_EQ(mdb.env_create(&made), 0);
    unsigned readers = 0;
    EXPECT_EQ(mdb.env_get_maxreaders(made, &readers), 0);
    EXPECT_EQ(readers, 126U);
    EXPECT_EQ(mdb.env_get_maxkeysize(made), 511);
    ASSERT_EQ(mdb.env_open(made, directory().c_str(), 0, 0600), 0);
    MDB_envinfo information{};
    EXPECT_EQ(mdb.env_info(made, &information), 0);
    // The documentation says 10485760; Debian's liblmdb 0.9.24 has this.
    EXPECT_GE(information.me_mapsize, 1048576U);
    EXPECT_EQ(information.me_maxreaders, 126U);
    mdb.env_close(made);
}

TEST_P(store_environment, tells_errors_in_the_words_of_liblmdb) {
    EXPECT_STREQ(mdb.strerror(0), "Successful return: 0");
    EXPECT_STREQ(mdb.strerror(MDB_NOTFOUND), "MDB_NOTFOUND: No matching key/data pair found");
    EXPECT_STREQ(mdb.strerror(MDB_BAD_DBI), "MDB_BAD_DBI: The specified DBI handle was closed/changed unexpectedly");
    const lmdb_library& first = lmdb(lmdb_libraries().front().name);  // Debian's, where it is there
    for (int code = MDB_KEYEXIST - 1; code <= MDB_LAST_ERRCODE + 1; ++code) {
        EXPECT_EQ(std::string(mdb.strerror(code)), std::string(first.strerror(code)));
    }
    for (const int code : {ENOENT, EIO, ENOMEM, EACCES, EBUSY, EINVAL, ENOSPC, EROFS}) {
        EXPECT_EQ(std::string(mdb.strerror(code)), std::string(first.strerror(code)));
    }
}

TEST_P(store_environment, what_comes_before_opening_is_refused_after) {
    open();
    EXPECT_EQ(mdb.env_set_maxreaders(environment(), 10), EINVAL);
    EXPECT_EQ(mdb.env_set_maxdbs(environment(), 10), EINVAL);
}

TEST_P(store_environment, tells_path_descriptor_flags_and_context) {
    open(MDB_NOTLS | MDB_NOSYNC);
    const char* name = nullptr;
    EXPECT_EQ(mdb.env_get_path(environment(), &name), 0);
    EXPECT_EQ(std::string(name), directory());
    mdb_filehandle_t file = -1;
    EXPECT_EQ(mdb.env_get_fd(environment(), &file), 0);
    struct stat status {};
    EXPECT_EQ(::fstat(file, &status), 0);
    unsigned flags = 0;
    EXPECT_EQ(mdb.env_get_flags(environment(), &flags), 0);
    EXPECT_EQ(flags, unsigned{MDB_NOTLS | MDB_NOSYNC});
    EXPECT_EQ(mdb.env_set_flags(environment(), MDB_NOSYNC, 0), 0);
    EXPECT_EQ(mdb.env_set_flags(environment(), MDB_NOMETASYNC | MDB_NOMEMINIT | MDB_MAPASYNC, 1), 0);
    EXPECT_EQ(mdb.env_get_flags(environment(), &flags), 0);
    EXPECT_EQ(flags, unsigned{MDB_NOTLS | MDB_NOMETASYNC | MDB_NOMEMINIT | MDB_MAPASYNC});
    EXPECT_EQ(mdb.env_set_flags(environment(), MDB_RDONLY, 1), EINVAL);
    int context = 0;
    EXPECT_EQ(mdb.env_set_userctx(environment(), &context), 0);
    EXPECT_EQ(mdb.env_get_userctx(environment()), &context);
}

TEST_P(store_environment, results_that_go_nowhere_are_EINVAL) {
    open();
    EXPECT_EQ(mdb.env_get_flags(environment(), nullptr), EINVAL);
    EXPECT_EQ(mdb.env_get_path(environment(), nullptr), EINVAL);
    EXPECT_EQ(mdb.env_get_fd(environment(), nullptr), EINVAL);
    EXPECT_EQ(mdb.env_info(environment(), nullptr), EINVAL);
    EXPECT_EQ(mdb.env_stat(environment(), nullptr), EINVAL);
    EXPECT_EQ(mdb.txn_commit(nullptr), EINVAL);
}

TEST_P(store_environment, read_only_refuses_to_write_and_to_sync) {
    open();
    MDB_txn* transaction = begin();
    EXPECT_EQ(put(transaction, database(transaction), "key", "data"), 0);
    commit(transaction);
    open(MDB_RDONLY);
    MDB_txn* refused = nullptr;
    EXPECT_EQ(mdb.txn_begin(environment(), nullptr, 0, &refused), EACCES);
    EXPECT_EQ(mdb.env_sync(environment(), 1), EACCES);
    transaction = begin(MDB_RDONLY);
    EXPECT_EQ(get(transaction, database(transaction), "key"), "data");
    mdb.txn_abort(transaction);
}

TEST_P(store_environment, read_only_needs_an_environment_that_is_there) {
    EXPECT_EQ(open_at(directory(), MDB_RDONLY), ENOENT);
}

TEST_P(store_environment, mapsize_is_a_limit_that_can_be_raised) {
    open(MDB_NOTLS | MDB_NOSYNC, [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_mapsize(made, 1U << 20U), 0); });
    MDB_txn* transaction = begin();
    const MDB_dbi main = database(transaction);
    int code = 0;
    for (int i = 0; i < 1000 && code == 0; ++i) {
        code = put(transaction, main, "key" + std::to_string(i), std::string(4000, 'd'));
    }
    EXPECT_EQ(code, MDB_MAP_FULL);
    mdb.txn_abort(transaction);
    transaction = begin();
    EXPECT_TRUE(all(transaction, main).empty());
    EXPECT_EQ(put(transaction, main, "small", "data"), 0) << "the store does not go on";
    commit(transaction);
    EXPECT_EQ(mdb.env_set_mapsize(environment(), 16U << 20U), 0);
    transaction = begin();
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(put(transaction, main, "key" + std::to_string(i), std::string(4000, 'd')), 0);
    }
    commit(transaction);
    transaction = begin(MDB_RDONLY);
    EXPECT_EQ(all(transaction, main).size(), 1001U);
    mdb.txn_abort(transaction);
}

/// Was: 1 MiB for each process that set none, and no limit: a program that doubled it limited the store to what it had.
TEST_P(store_environment, the_size_of_the_map_belongs_to_the_file) {
    constexpr std::size_t mebi = std::size_t{1} << 20U;
    const auto open_with = [&](std::size_t bytes) {
        open(MDB_NOTLS, [&](MDB_env* made) { EXPECT_EQ(mdb.env_set_mapsize(made, bytes), 0); });
    };
    const auto size = [&] {
        MDB_envinfo information{};
        EXPECT_EQ(mdb.env_info(environment(), &information), 0);
        return information.me_mapsize;
    };
    const auto change = [&](std::size_t bytes) {
        MDB_txn* const transaction = begin();
        const MDB_dbi main = database(transaction);
        EXPECT_EQ(put(transaction, main, "key" + std::to_string(bytes), std::string(bytes, 'd')), 0);
        commit(transaction);
    };
    open_with(16 * mebi);
    change(4 * mebi);
    EXPECT_EQ(size(), 16 * mebi);
    open_with(0);
    EXPECT_EQ(size(), 16 * mebi);
    open_with(8 * mebi);  // a smaller one is of this process
    EXPECT_EQ(size(), 8 * mebi);
    change(100);
    open_with(0);
    EXPECT_EQ(size(), 16 * mebi);
    open_with(32 * mebi);  // a larger one stays when it has committed
    open_with(0);
    EXPECT_EQ(size(), 16 * mebi);
    open_with(32 * mebi);
    change(100);
    open_with(0);
    EXPECT_EQ(size(), 32 * mebi);
    EXPECT_EQ(mdb.env_set_mapsize(environment(), 64 * mebi), 0);
    EXPECT_EQ(size(), 64 * mebi);
    EXPECT_EQ(mdb.env_set_mapsize(environment(), 0), 0);
    EXPECT_EQ(size(), 32 * mebi);
    EXPECT_EQ(mdb.env_set_mapsize(environment(), 64 * mebi), 0);
    change(100);
    EXPECT_EQ(mdb.env_set_mapsize(environment(), mebi), 0);
    EXPECT_GE(size(), 4 * mebi) << "what the store has stays usable";
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(get(reader, database(reader), "key100"), std::string(100, 'd'));
    mdb.txn_abort(reader);
    open(MDB_NOTLS | MDB_RDONLY);
    EXPECT_EQ(size(), 64 * mebi);
}

TEST_P(store_environment, copies_are_environments) {
    open(MDB_NOTLS | MDB_NOSYNC);
    MDB_txn* transaction = begin();
    const MDB_dbi named = database(transaction, "named", MDB_CREATE | MDB_DUPSORT);
    for (int i = 0; i < 2000; ++i) {
        EXPECT_EQ(put(transaction, named, "key" + std::to_string(i % 37),
                      std::string(1U + static_cast<unsigned>(i) % 200U, 'd')),
                  0);
    }
    const items expected = all(transaction, named);
    commit(transaction);
    std::filesystem::create_directory(path("plain"));
    std::filesystem::create_directory(path("compact"));
    EXPECT_EQ(mdb.env_copy(environment(), path("plain").c_str()), 0);
    EXPECT_EQ(mdb.env_copy2(environment(), path("compact").c_str(), MDB_CP_COMPACT), 0);
    EXPECT_FALSE(std::filesystem::exists(path("plain/lock.mdb"))) << "no lock file is created";
    EXPECT_NE(mdb.env_copy(environment(), path("plain").c_str()), 0) << "the directory is not empty";
    for (const unsigned flags : {0U, unsigned{MDB_CP_COMPACT}}) {
        const std::string file = path("descriptor" + std::to_string(flags));
        const int to = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_EQ(mdb.env_copyfd2(environment(), to, flags), 0);
        ::close(to);
    }
    for (const std::string copy : {"plain", "compact", "descriptor0", "descriptor1"}) {
        const bool single = copy.find("desc") == 0;
        ASSERT_EQ(open_at(path(copy), single ? MDB_NOSUBDIR : 0U), 0) << copy;
        transaction = begin(MDB_RDONLY);
        EXPECT_EQ(all(transaction, database(transaction, "named")), expected) << copy;
        mdb.txn_abort(transaction);
    }
}

TEST_P(store_environment, errors_have_texts) {
    EXPECT_EQ(std::string(mdb.strerror(0)), "Successful return: 0");
    EXPECT_EQ(std::string(mdb.strerror(ENOENT)), std::strerror(ENOENT));
    for (int code = MDB_KEYEXIST; code <= MDB_LAST_ERRCODE; ++code) {
        EXPECT_EQ(std::string(mdb.strerror(code)).find("MDB_"), 0U) << code;
    }
    int major = -1;
    int minor = -1;
    EXPECT_NE(mdb.version(&major, &minor, nullptr), nullptr);
    EXPECT_EQ(major, 0);
    EXPECT_EQ(minor, 9);
}

TEST_P(store_environment, a_dead_reader_is_cleared) {
    open();
    MDB_txn* transaction = begin();
    EXPECT_EQ(put(transaction, database(transaction), "key", "data"), 0);
    commit(transaction);
    close();
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();  // lint-allow(fork): on the interface of LMDB alone
    if (child == 0) {
        open();
        MDB_txn* const reader = begin(MDB_RDONLY);
        const char done = reader != nullptr ? 'y' : 'n';
        static_cast<void>(::write(ready[1], &done, 1));
        ::pause();
        ::_exit(0);
    }
    char done = 0;
    ASSERT_EQ(::read(ready[0], &done, 1), 1);
    open();
    std::string list;
    const auto collect = [](const char* text, void* into) {
        *static_cast<std::string*>(into) += text;
        return 0;
    };
    EXPECT_GE(mdb.reader_list(environment(), collect, &list), 0);
    EXPECT_NE(list.find(std::to_string(child)), std::string::npos) << list;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    int dead = -1;
    EXPECT_EQ(mdb.reader_check(environment(), &dead), 0);
    EXPECT_GE(dead, 0);
    list.clear();
    EXPECT_GE(mdb.reader_list(environment(), collect, &list), 0);
    EXPECT_EQ(list.find(std::to_string(child)), std::string::npos) << list;
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_P(store_transaction, readers_keep_their_version_and_do_not_wait) {
    open();
    MDB_txn* writer = begin();
    const MDB_dbi main = database(writer);
    EXPECT_EQ(put(writer, main, "key", "old"), 0);
    commit(writer);
    MDB_txn* const reader = begin(MDB_RDONLY);
    writer = begin();
    EXPECT_EQ(put(writer, main, "key", "new"), 0);
    EXPECT_EQ(get(reader, main, "key"), "old");
    commit(writer);
    EXPECT_EQ(get(reader, main, "key"), "old");
    MDB_txn* const later = begin(MDB_RDONLY);
    EXPECT_EQ(get(later, main, "key"), "new");
    EXPECT_LT(mdb.txn_id(reader), mdb.txn_id(later));
    EXPECT_EQ(mdb.txn_env(reader), environment());
    mdb.txn_abort(reader);
    mdb.txn_abort(later);
}

TEST_P(store_transaction, identifiers_are_of_the_snapshot) {
    open();
    MDB_txn* writer = begin();
    const std::size_t first = mdb.txn_id(writer);
    EXPECT_EQ(put(writer, database(writer), "key", "data"), 0);
    commit(writer);
    MDB_txn* const reader = begin(MDB_RDONLY);
    MDB_txn* const other = begin(MDB_RDONLY);
    EXPECT_EQ(mdb.txn_id(reader), first);
    EXPECT_EQ(mdb.txn_id(other), first);
    MDB_envinfo information{};
    EXPECT_EQ(mdb.env_info(environment(), &information), 0);
    EXPECT_EQ(information.me_last_txnid, first);
    EXPECT_GE(information.me_numreaders, 2U);
    mdb.txn_abort(reader);
    mdb.txn_abort(other);
}

TEST_P(store_transaction, an_abort_leaves_nothing) {
    open();
    MDB_txn* writer = begin();
    const MDB_dbi main = database(writer);
    EXPECT_EQ(put(writer, main, "kept", "data"), 0);
    commit(writer);
    writer = begin();
    EXPECT_EQ(put(writer, main, "key", "data"), 0);
    EXPECT_EQ(del(writer, main, "kept"), 0);
    mdb.txn_abort(writer);
    writer = begin();
    EXPECT_EQ(all(writer, main), (items{{"kept", "data"}}));
    mdb.txn_abort(writer);
}

TEST_P(store_transaction, nests_to_any_level) {
    open();
    std::vector<MDB_txn*> levels{begin()};
    const MDB_dbi main = database(levels.back());
    for (int level = 1; level < 20; ++level) {
        EXPECT_EQ(put(levels.back(), main, "level" + std::to_string(level), "data"), 0);
        levels.push_back(begin(0, levels.back()));
    }
    EXPECT_EQ(put(levels.back(), main, "deepest", "data"), 0);
    for (std::size_t level = levels.size(); level-- > 0;) {
        level % 3 == 2 ? mdb.txn_abort(levels[level]) : commit(levels[level]);
    }
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(all(reader, main), (items{{"level1", "data"}, {"level2", "data"}}));
    mdb.txn_abort(reader);
}

TEST_P(store_transaction, a_parent_waits_for_its_child) {
    open();
    MDB_txn* const parent = begin();
    const MDB_dbi main = database(parent);
    MDB_txn* const child = begin(0, parent);
    EXPECT_EQ(put(parent, main, "key", "data"), MDB_BAD_TXN);
    EXPECT_EQ(get(parent, main, "key"), "MDB_BAD_TXN");
    EXPECT_EQ(put(child, main, "key", "data"), 0);
    commit(parent);  // with its child
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(get(reader, main, "key"), "data");
    mdb.txn_abort(reader);
}

TEST_P(store_transaction, a_writable_map_nests_or_says_that_it_does_not) {
    open(MDB_NOTLS | MDB_WRITEMAP);
    MDB_txn* const parent = begin();
    const MDB_dbi main = database(parent);
    MDB_txn* child = nullptr;
    if (mdb.txn_begin(environment(), parent, 0, &child) == 0) {
        EXPECT_EQ(put(child, main, "key", "data"), 0);
        mdb.txn_abort(child);
        EXPECT_EQ(get(parent, main, "key"), "MDB_NOTFOUND");
    }
    mdb.txn_abort(parent);
}

TEST_P(store_transaction, reset_lets_go_and_renew_takes_the_latest) {
    open();
    MDB_txn* writer = begin();
    const MDB_dbi main = database(writer);
    EXPECT_EQ(put(writer, main, "key", "old"), 0);
    commit(writer);
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(mdb.txn_renew(reader), EINVAL) << "it is not reset";
    mdb.txn_reset(reader);
    EXPECT_THAT(get(reader, main, "key"), testing::AnyOf("MDB_BAD_TXN", "EINVAL"));
    writer = begin();
    EXPECT_EQ(put(writer, main, "key", "new"), 0);
    commit(writer);
    EXPECT_EQ(mdb.txn_renew(reader), 0);
    EXPECT_EQ(get(reader, main, "key"), "new");
    mdb.txn_abort(reader);
}

/// Was, in our library: EINVAL for all others, for as long as the reset transaction was kept.
TEST_P(store_transaction, a_reset_closes_the_handles_that_it_opened) {
    MDB_txn* const reader = begin_that_opens_items();
    mdb.txn_reset(reader);
    MDB_txn* writer = begin();
    const MDB_dbi opened = database(writer, "items");
    commit(writer);
    writer = begin();
    EXPECT_EQ(put(writer, opened, "key", "other"), 0);
    commit(writer);
    EXPECT_EQ(mdb.txn_renew(reader), 0);
    EXPECT_EQ(get(reader, opened, "key"), "other");
    mdb.txn_reset(reader);
    EXPECT_EQ(mdb.txn_commit(reader), 0);
}

/// Was, in our library: the handle was that of the first for as long as it did not commit.
TEST_P(store_transaction, a_handle_that_two_have_opened_is_there_when_one_commits) {
    MDB_txn* const reader = begin_that_opens_items();
    MDB_txn* writer = begin();
    const MDB_dbi opened = database(writer, "items");
    commit(writer);
    writer = begin();
    EXPECT_EQ(get(writer, opened, "key"), "data");
    mdb.txn_abort(writer);
    EXPECT_EQ(mdb.txn_commit(reader), 0);
}

TEST_P(store_transaction, one_that_only_reads_is_refused_to_write) {
    open();
    MDB_txn* const reader = begin(MDB_RDONLY);
    const MDB_dbi main = database(reader);
    EXPECT_EQ(put(reader, main, "key", "data"), EACCES);
    EXPECT_EQ(del(reader, main, "key"), EACCES);
    EXPECT_EQ(mdb.drop(reader, main, 0), EACCES);
    MDB_dbi named = 0;
    EXPECT_EQ(mdb.dbi_open(reader, "named", MDB_CREATE, &named), EACCES);
    mdb.txn_abort(reader);
}

TEST_P(store_transaction, writers_of_several_threads_take_turns) {
    open(MDB_NOTLS | MDB_NOSYNC);
    MDB_txn* setup = begin();
    const MDB_dbi main = database(setup);
    commit(setup);
    std::atomic<int> inside{0};
    const auto work = [&] {
        for (int i = 0; i < 200; ++i) {
            MDB_txn* const writer = begin();
            EXPECT_EQ(inside.fetch_add(1), 0);
            const std::string before = get(writer, main, "count");
            const int count = before == "MDB_NOTFOUND" ? 0 : std::stoi(before);
            EXPECT_EQ(put(writer, main, "count", std::to_string(count + 1)), 0);
            inside.fetch_sub(1);
            commit(writer);
        }
    };
    std::thread first(work);
    std::thread second(work);
    first.join();
    second.join();
    MDB_txn* const reader = begin(MDB_RDONLY);
    EXPECT_EQ(get(reader, main, "count"), "400");
    mdb.txn_abort(reader);
}

TEST_P(store_transaction, a_writer_that_dies_holds_nothing_up) {
    const pid_t child = ::fork();  // lint-allow(fork): on the interface of LMDB alone
    if (child == 0) {
        open();
        MDB_txn* const writer = begin();
        put(writer, database(writer), "key", "data");
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    open();
    MDB_txn* const writer = begin();
    const MDB_dbi main = database(writer);
    EXPECT_TRUE(all(writer, main).empty());
    EXPECT_EQ(put(writer, main, "key", "mine"), 0);
    commit(writer);
}

TEST_P(store_transaction, values_stay_until_the_readers_end) {
    open(MDB_NOTLS | MDB_NOSYNC);
    MDB_txn* writer = begin();
    const MDB_dbi main = database(writer);
    const auto content = [](int round) { return std::string(3000, static_cast<char>('a' + round % 26)); };
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(put(writer, main, "key" + std::to_string(i), content(0)), 0);
    }
    commit(writer);
    MDB_txn* const reader = begin(MDB_RDONLY);
    std::vector<MDB_val> values(50);
    for (int i = 0; i < 50; ++i) {
        const std::string key = "key" + std::to_string(i);
        MDB_val k = value_of(key);
        EXPECT_EQ(mdb.get(reader, main, &k, &values[static_cast<std::size_t>(i)]), 0);
    }
    for (int round = 1; round < 10; ++round) {
        writer = begin();
        for (int i = 0; i < 50; ++i) {
            EXPECT_EQ(put(writer, main, "key" + std::to_string(i), content(round)), 0);
        }
        commit(writer);
    }
    for (const MDB_val& value : values) {
        EXPECT_EQ(bytes_of(value), content(0));
    }
    mdb.txn_abort(reader);
}

}  // namespace
}  // namespace holdfast::test
