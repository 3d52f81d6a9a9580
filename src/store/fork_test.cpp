// A store that a process opened before it called fork(): the child has none of the parent's locks, takes nothing from
// it, and opens the store anew.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

constexpr unsigned entries = 300;

std::string key_of(unsigned number) { return "key" + std::to_string(number); }

void fill(const test_environment& env, char with) {
    MDB_txn* in = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    for (unsigned i = 0; i < entries; ++i) {
        ASSERT_EQ(put(in, database, key_of(i), std::string(100, with)), 0);
    }
    ASSERT_EQ(mdb_txn_commit(in), 0);
}

class store_fork_test : public testing::Test {
protected:
    void TearDown() override {
        ::close(ends_[0]);
        ::close(ends_[1]);
        for (const pid_t each : children_) {
            ::kill(each, SIGKILL);
            ::waitpid(each, nullptr, 0);
        }
    }
    pid_t start(const std::function<int()>& work) {
        const pid_t made = ::fork();  // lint-allow(fork): a layer above base/
        if (made == 0) {
            ::_exit(work());
        }
        children_.push_back(made);
        return made;
    }
    int end_of(pid_t child) {
        int outcome = 0;
        EXPECT_EQ(::waitpid(child, &outcome, 0), child);
        std::erase(children_, child);
        return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : -1;
    }

    store_directory directory_;
    std::array<int, 2> ends_{-1, -1};
    std::vector<pid_t> children_;
};

/// Was: the child had the locks of its parent, so that a parent that was killed counted as one that reads.
TEST_F(store_fork_test, a_child_that_outlives_its_parent_kept_its_slots) {
    ASSERT_EQ(::pipe(ends_.data()), 0);
    const pid_t parent = start([this] {
        const test_environment env(directory_.path());
        fill(env, 'a');
        MDB_txn* reader = env.begin(MDB_RDONLY);
        const pid_t child = ::fork();  // lint-allow(fork): it lives on
        if (child == 0) {
            const pid_t own = ::getpid();
            static_cast<void>(::write(ends_[1], &own, sizeof own) == sizeof own);
        }
        ::pause();
        mdb_txn_abort(reader);
        return 0;
    });
    pid_t child = 0;
    ASSERT_EQ(::read(ends_[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
    children_.push_back(child);
    {
        const test_environment env(directory_.path());
        ASSERT_EQ(env.opened(), 0);
        int dead = -1;
        ASSERT_EQ(mdb_reader_check(env.get(), &dead), 0);
        EXPECT_EQ(dead, 0);
        ::kill(parent, SIGKILL);
        EXPECT_EQ(end_of(parent), -1);
        ASSERT_EQ(mdb_reader_check(env.get(), &dead), 0);
        EXPECT_EQ(dead, 1);
        fill(env, 'b');
    }
    const test_environment again(directory_.path());
    EXPECT_EQ(again.opened(), 0);
    EXPECT_EQ(hf_lmdb_check(again.get(), nullptr), 0);
}

/// Was: the close in the child gave back the slots of the parent's readers, and took the parent's lock for its own.
TEST_F(store_fork_test, a_child_that_closed_the_store_took_the_snapshots_of_its_parent) {
    const test_environment env(directory_.path(), MDB_NOTLS);
    fill(env, 'a');
    MDB_txn* reader = env.begin(MDB_RDONLY);
    MDB_txn* writer = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(reader, nullptr, 0, &database), 0);
    const pid_t child = start([&] {
        MDB_txn* made = nullptr;
        const bool refused = mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &made) == MDB_PANIC &&
                             mdb_txn_begin(env.get(), nullptr, 0, &made) == MDB_PANIC &&
                             put(writer, database, "of the child", "1") == MDB_PANIC &&
                             mdb_txn_commit(writer) == MDB_PANIC && mdb_env_sync(env.get(), 1) == MDB_PANIC;
        mdb_txn_abort(reader);
        mdb_env_close(env.get());
        return refused ? 0 : 1;
    });
    ASSERT_EQ(end_of(child), 0);
    ASSERT_EQ(put(writer, database, "of the parent", "1"), 0);
    ASSERT_EQ(mdb_txn_commit(writer), 0);
    for (char with = 'b'; with <= 'z'; ++with) {
        fill(env, with);
    }
    for (unsigned i = 0; i < entries; ++i) {
        ASSERT_EQ(get(reader, database, key_of(i)), std::string(100, 'a'));
    }
    EXPECT_EQ(get(reader, database, "of the parent"), "error -30798");
    mdb_txn_abort(reader);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
    // Another process comes in.
    const pid_t other = start([this] {
        const test_environment own(directory_.path());
        MDB_txn* in = own.begin(MDB_RDONLY);
        MDB_dbi main = 0;
        return mdb_dbi_open(in, nullptr, 0, &main) == 0 && get(in, main, "of the parent") == "1" ? 0 : 1;
    });
    EXPECT_EQ(end_of(other), 0);
}

/// The child of a process that has the store open is a process of its own where it opens the store.
TEST_F(store_fork_test, a_child_opens_the_store_anew) {
    const test_environment env(directory_.path());
    fill(env, 'a');
    const pid_t child = start([&] {
        mdb_env_close(env.get());
        const test_environment own(directory_.path());
        fill(own, 'b');
        return own.opened();
    });
    EXPECT_EQ(end_of(child), 0);
    MDB_txn* in = env.begin(MDB_RDONLY);
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    EXPECT_EQ(get(in, database, key_of(1)), std::string(100, 'b'));
    mdb_txn_abort(in);
}

/// Was: the close destroyed lists that another thread of the parent was changing, and a child waited for the lock of a
/// thread that was opening a store.
TEST_F(store_fork_test, a_child_closed_the_store_in_the_middle_of_what_another_thread_did) {
    const test_environment env(directory_.path());
    const store_directory of_child;
    std::atomic<bool> ends{false};
    std::jthread other([&] {
        while (!ends) {
            fill(env, 'a');
            MDB_env* made = nullptr;
            ASSERT_EQ(mdb_env_create(&made), 0);
            mdb_env_close(made);
        }
    });
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(end_of(start([&] {
                      ::alarm(20);
                      mdb_env_close(env.get());
                      const test_environment own(of_child.path());
                      return own.opened();
                  })),
                  0);
    }
    ends = true;
    other.join();
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

}  // namespace
}  // namespace holdfast::store_engine
