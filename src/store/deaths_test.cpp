// Processes that die in a commit, at each of its steps: all who have the store open, and who open it afterwards, agree
// at once whether the commit is there, and no read is younger than a later one. Also: a sync that fails, and processes
// of different namespaces, whose numbers of processes and threads are the same.
//
// The syncs below stand before those of the C library. Where mutants are compiled in, each operation on memory that
// processes share is a step, too.
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/process_test_support.hpp"
#include "store/shared_state.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

std::function<bool()> at_a_sync;  ///< false: it fails
struct range_of_file {
    off_t begin;
    off_t end;
};
std::vector<range_of_file> written;  ///< by calls

int answer_of_sync() {
    if (at_a_sync && !at_a_sync()) {
        errno = EIO;
        return -1;
    }
    return 0;
}

}  // namespace
}  // namespace holdfast::store_engine

extern "C" int fstatfs(int file, struct statfs* information) noexcept {
    const long outcome = ::syscall(SYS_fstatfs, file, information);
    information->f_type = EXT4_SUPER_MAGIC;  // a store in memory syncs nothing
    return static_cast<int>(outcome);
}
extern "C" ssize_t pwrite(int file, const void* from, std::size_t size, off_t offset) {
    holdfast::store_engine::written.push_back({offset, offset + static_cast<off_t>(size)});
    return ::syscall(SYS_pwrite64, file, from, size, offset);
}
extern "C" int fdatasync(int /*file*/) { return holdfast::store_engine::answer_of_sync(); }
extern "C" int msync(void* /*start*/, std::size_t /*size*/, int /*flags*/) {
    return holdfast::store_engine::answer_of_sync();
}

namespace holdfast::store_engine {
namespace {

using base::child_process;
using base::process_end;

/// Kills its process at a step.
class killer
#if HOLDFAST_MUTANTS
    : public base::interleaving
#endif
{
public:
    explicit killer(unsigned at) : at_(at) {
        at_a_sync = [this] {
            count();
            return true;
        };
#if HOLDFAST_MUTANTS
        base::this_interleaving = this;
#endif
    }
    killer(const killer&) = delete;
    killer& operator=(const killer&) = delete;
    ~killer() {
#if HOLDFAST_MUTANTS
        base::this_interleaving = nullptr;
#endif
        at_a_sync = nullptr;
    }
    [[nodiscard]] unsigned steps() const noexcept { return steps_; }
#if HOLDFAST_MUTANTS
    void step() noexcept override { count(); }
    void fall_asleep(const void* /*address*/, bool /*has_limit*/) noexcept override {}
    void wake(const void* /*address*/, bool /*all*/) noexcept override { count(); }
#endif

private:
    void count() noexcept {
        if (++steps_ == at_) {
            ::kill(::getpid(), SIGKILL);
        }
    }
    unsigned at_;
    unsigned steps_ = 0;
};

struct size_of_commit {
    unsigned entries;
    std::size_t bytes;
};
constexpr size_of_commit small{1, 10};
constexpr size_of_commit larger_than_the_log{300, 5000};

int commit_number(MDB_env* env, unsigned number, size_of_commit of = small) {
    MDB_txn* in = nullptr;
    int outcome = mdb_txn_begin(env, nullptr, 0, &in);
    for (unsigned i = 0; outcome == 0 && i < of.entries; ++i) {
        outcome = put(in, 1, "entry" + std::to_string(i), std::to_string(number) + std::string(of.bytes, 'v'));
    }
    outcome = outcome == 0 ? put(in, 1, "number", std::to_string(number)) : outcome;
    if (outcome != 0) {
        mdb_txn_abort(in);
        return outcome;
    }
    return mdb_txn_commit(in);
}

/// -1: none; an error is one of the test.
int number_in(MDB_env* env, unsigned flags) {
    MDB_txn* in = nullptr;
    const int begun = mdb_txn_begin(env, nullptr, flags, &in);
    EXPECT_EQ(begun, 0) << mdb_strerror(begun);
    if (begun != 0) {
        return -2;
    }
    const std::string found = get(in, 1, "number");
    mdb_txn_abort(in);
    return found.starts_with("error") ? -1 : std::stoi(found);
}

class store_deaths_test : public testing::Test {
protected:
    struct outcome {
        std::atomic<unsigned> steps;  ///< of a commit that was not killed
        std::atomic<int> number;
    };
    void dies_at(unsigned step, unsigned number, unsigned flags, size_of_commit of);
    void watch(unsigned step, int before, unsigned flags, size_of_commit of);
    void all_agree(unsigned flags, size_of_commit of);

    store_directory directory_{::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp"};
    base::shared_memory<outcome> found_;
};

/// A process commits the number and dies at a step, if the commit has so many.
void store_deaths_test::dies_at(unsigned step, unsigned number, unsigned flags, size_of_commit of) {
    const process_end end = base::run_in_child([&] {
        const test_environment own(directory_.path(), flags);
        const killer one(step);
        const int committed = commit_number(own.get(), number, of);
        found_->steps = one.steps();
        return committed;
    });
    EXPECT_TRUE(end.was_killed() || end.succeeded()) << end.text();
}

/// A process that has the store open before and after, and is killed in the end.
void store_deaths_test::watch(unsigned step, int before, unsigned flags, size_of_commit of) {
    const test_environment env(directory_.path(), flags);
    const test_environment reader(directory_.path(), MDB_RDONLY | MDB_NOTLS | (flags & on_persistent_memory));
    ASSERT_EQ(number_in(env.get(), MDB_RDONLY), before);
    dies_at(step, static_cast<unsigned>(before) + 1, flags, of);
    const int at_once = number_in(step % 2 == 0 ? env.get() : reader.get(), MDB_RDONLY);
    const int of_writer = number_in(env.get(), 0);
    ASSERT_TRUE(of_writer == before || of_writer == before + 1);
    ASSERT_TRUE(at_once == of_writer || at_once == before);
    ASSERT_EQ(number_in(env.get(), MDB_RDONLY), of_writer) << "a read went back";
    ASSERT_EQ(number_in(reader.get(), MDB_RDONLY), of_writer) << "a read went back";
    found_->number = of_writer;
    ::kill(::getpid(), SIGKILL);
}

void store_deaths_test::all_agree(unsigned flags, size_of_commit of) {
    int before = 0;
    unsigned seen = 0;
    unsigned lost = 0;
    {
        const test_environment env(directory_.path(), flags);
        ASSERT_EQ(commit_number(env.get(), 0), 0);
    }
    constexpr unsigned never = 1U << 30U;
    const auto look = [&](unsigned step) {
        ASSERT_TRUE(base::run_in_child([&] { watch(step, before, flags, of); }).was_killed()) << "at step " << step;
        const test_environment env(directory_.path(), flags);
        ASSERT_EQ(number_in(env.get(), MDB_RDONLY), found_->number) << "opened again, at step " << step;
        ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0) << "at step " << step;
        (found_->number == before ? lost : seen) += 1;
        before = found_->number;
    };
    look(never);
    look(never);
    // A large commit has many steps before it touches what others see.
    constexpr unsigned at_the_end = 150;
    const unsigned steps = found_->steps;
    found_->steps = 0;
    for (unsigned step = 1; found_->steps == 0 && !HasFatalFailure(); step += step + at_the_end < steps ? 16 : 1) {
        look(step);
    }
    EXPECT_GT(seen, 1U);
#if HOLDFAST_MUTANTS
    EXPECT_GT(lost, 0U);
#endif
}

/// Was: a commit whose process died in its sync was seen by writers and not by readers, until somebody committed.
TEST_F(store_deaths_test, a_commit_of_a_killed_process_appeared_later_and_reads_went_back) { all_agree(0, small); }
TEST_F(store_deaths_test, all_agree_on_a_checkpoint_of_a_killed_process) { all_agree(0, larger_than_the_log); }
TEST_F(store_deaths_test, all_agree_on_a_commit_without_sync) { all_agree(MDB_NOSYNC, small); }
TEST_F(store_deaths_test, all_agree_on_a_commit_with_a_writable_map) {
    all_agree(MDB_WRITEMAP | MDB_NOMETASYNC, small);
}
TEST_F(store_deaths_test, all_agree_on_a_commit_on_persistent_memory) { all_agree(on_persistent_memory, small); }
TEST_F(store_deaths_test, all_agree_on_a_checkpoint_on_persistent_memory) {
    all_agree(on_persistent_memory, larger_than_the_log);
}

/// Was: who had written on a commit that was being synced, and aborted, then read the version before.
TEST_F(store_deaths_test, a_read_behind_an_aborted_write_was_older_than_that) {
    struct progress {
        std::atomic<bool> syncs;
        std::atomic<bool> has_read;
    };
    base::shared_memory<progress> now;
    const test_environment env(directory_.path());
    ASSERT_EQ(commit_number(env.get(), 0), 0);
    child_process other([&] {
        const test_environment own(directory_.path());
        shared_state state;
        bool first = false;
        if (state.open(directory_.lock(), 0664, first) != status::ok) {
            return 2;
        }
        at_a_sync = [&] {
            now->syncs = true;
            while ((state.header().sync_turns.load() & 1U) == 0 && !now->has_read) {
                ::sched_yield();  // until somebody waits for this sync, or need not
            }
            return true;
        };
        return commit_number(own.get(), 1);
    });
    ASSERT_TRUE(other.runs_until([&] { return now->syncs.load(); }));
    EXPECT_EQ(number_in(env.get(), MDB_RDONLY), 0) << "it is not durable";
    EXPECT_EQ(number_in(env.get(), 0), 1);
    const int read = number_in(env.get(), MDB_RDONLY);
    now->has_read = true;
    EXPECT_EQ(read, 1);
    EXPECT_TRUE(other.wait().succeeded());
}

/// Was: a sync had failed, and its process was killed before it could say so. The kernel took for written what it had
/// lost, so the next sync worked, and all believed in a commit that no medium had.
TEST_F(store_deaths_test, what_a_killed_process_failed_to_sync_is_written_again) {
    const test_environment env(directory_.path());
    ASSERT_EQ(commit_number(env.get(), 0), 0);
    ASSERT_TRUE(base::run_in_child([&] {
                    const test_environment own(directory_.path());
                    at_a_sync = [] { return ::kill(::getpid(), SIGKILL) == 0; };
                    return commit_number(own.get(), 1, {.entries = 1, .bytes = 9000});
                }).was_killed());
    shared_state state;
    bool first = false;
    ASSERT_EQ(state.open(directory_.lock(), 0664, first), status::ok);
    const auto in_file = [](std::uint64_t at) { return static_cast<off_t>(at); };
    const std::uint64_t log = state.header().log_page * page_size;
    const range_of_file record{in_file(log + state.header().log_synced), in_file(log + state.header().log_end)};
    ASSERT_LT(record.begin, record.end);
    root last{};
    ASSERT_TRUE(state.get_root(1 + state.header().durable, last));
    const range_of_file page{in_file(last.main.root * page_size), in_file((last.main.root + 1) * page_size)};
    const auto was_written = [](const range_of_file& wanted) {
        return std::ranges::any_of(
            written, [&](const range_of_file& each) { return each.begin <= wanted.begin && wanted.end <= each.end; });
    };
    const test_environment reader(directory_.path(), MDB_RDONLY | MDB_NOTLS);
    EXPECT_EQ(hf_lmdb_check(reader.get(), nullptr), 0);
    EXPECT_EQ(number_in(reader.get(), MDB_RDONLY), 0) << "it can write nothing again";
    written.clear();
    bool is_again = false;
    at_a_sync = [&] { return is_again = was_written(record); };
    EXPECT_EQ(number_in(env.get(), MDB_RDONLY), 1);
    EXPECT_TRUE(is_again) << "the record";
    written.clear();
    at_a_sync = [&] {
        is_again = was_written(page);
        at_a_sync = nullptr;
        return true;
    };
    EXPECT_EQ(commit_number(env.get(), 2, larger_than_the_log), 0);
    EXPECT_TRUE(is_again) << "pages, before the checkpoint";
    at_a_sync = nullptr;
}

/// Nobody goes on behind a failed sync, also who saw what it lost, until all have closed the store.
TEST_F(store_deaths_test, a_failed_sync_stops_all_until_all_have_closed_the_store) {
    {
        const test_environment env(directory_.path());
        ASSERT_EQ(commit_number(env.get(), 0), 0);
        MDB_txn* saw = nullptr;
        base::shared_memory<std::atomic<int>> stage;
        child_process other([&] {
            const test_environment own(directory_.path());
            at_a_sync = [&] {
                *stage = 1;
                while (*stage == 1) {
                    ::sched_yield();
                }
                return false;
            };
            return commit_number(own.get(), 1) == EIO ? 0 : 1;
        });
        ASSERT_TRUE(other.runs_until([&] { return *stage == 1; }));
        ASSERT_EQ(mdb_txn_begin(env.get(), nullptr, 0, &saw), 0);
        EXPECT_EQ(get(saw, 1, "number"), "1");
        *stage = 2;
        EXPECT_TRUE(other.wait().succeeded());
        mdb_txn_abort(saw);
        MDB_txn* in = nullptr;
        EXPECT_EQ(mdb_txn_begin(env.get(), nullptr, MDB_RDONLY, &in), MDB_PANIC) << "it would read the version before";
        EXPECT_EQ(mdb_txn_begin(env.get(), nullptr, 0, &in), MDB_PANIC);
        const test_environment joins(directory_.path());
        EXPECT_EQ(number_in(joins.get(), MDB_RDONLY), 0);
        EXPECT_EQ(commit_number(joins.get(), 2), MDB_PANIC);
    }
    const test_environment again(directory_.path());
    EXPECT_EQ(commit_number(again.get(), 3), 0);
}

/// Was: nobody wrote any more, when the lock was a word in memory.
TEST_F(store_deaths_test, a_thread_that_ends_in_a_transaction_holds_nobody_up) {
    const test_environment env(directory_.path());
    ASSERT_EQ(commit_number(env.get(), 0), 0);
    MDB_txn* left = nullptr;
    std::thread([&] {
        left = env.begin();
        EXPECT_EQ(put(left, 1, "number", "1"), 0);
        MDB_txn* second = nullptr;
        EXPECT_EQ(mdb_txn_begin(env.get(), nullptr, 0, &second), EDEADLK);
    }).join();
    EXPECT_EQ(commit_number(env.get(), 2), 0);
    mdb_txn_abort(left);
    EXPECT_EQ(number_in(env.get(), 0), 2);
    EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

/// A thread that has a transaction in one environment, and begins another one of the same store.
TEST_F(store_deaths_test, a_thread_does_not_wait_for_itself_in_another_environment) {
    const test_environment one(directory_.path());
    const test_environment other(directory_.path());
    MDB_txn* first = one.begin();
    MDB_txn* second = nullptr;
    EXPECT_EQ(mdb_txn_begin(other.get(), nullptr, 0, &second), EDEADLK);
    mdb_txn_abort(first);
    EXPECT_EQ(commit_number(other.get(), 1), 0);
}

// --- namespaces -----------------------------------------------------------------------------------------------------

constexpr unsigned rounds = 1500;

int count_up(const std::string& path, unsigned flags) {
    const test_environment env(path, flags);
    for (unsigned i = 0; i < rounds; ++i) {
        MDB_txn* in = nullptr;
        if (mdb_txn_begin(env.get(), nullptr, 0, &in) != 0) {
            return 1;
        }
        const std::string found = get(in, 1, "number");
        const int number = found.starts_with("error") ? 0 : std::stoi(found);
        if (put(in, 1, "number", std::to_string(number + 1)) != 0 || mdb_txn_commit(in) != 0) {
            return 2;
        }
        if (i % 16 == 0 && number_in(env.get(), MDB_RDONLY) <= number) {
            return 3;
        }
    }
    return 0;
}

/// Was: EDEADLK for each transaction, because the other container's writer has the same thread number.
TEST_F(store_deaths_test, two_containers_could_not_write_one_store) {
    if (!base::has_process_namespaces()) {
        GTEST_SKIP() << "NOT TESTED HERE: no namespaces of processes";
    }
    for (const unsigned flags : {0U, unsigned{MDB_NOSYNC}}) {
        const store_directory shared("/tmp");
        const auto container = [&] {
            return base::run_in_own_namespace([&] { return count_up(shared.path(), flags); });
        };
        child_process one(container);
        child_process other(container);
        EXPECT_EQ(one.wait().exit_status(), 0);
        EXPECT_EQ(other.wait().exit_status(), 0);
        const test_environment env(shared.path());
        EXPECT_EQ(number_in(env.get(), MDB_RDONLY), static_cast<int>(2 * rounds));
    }
}

/// A container dies with the lock, and with a reader, beside one whose processes have the same numbers.
TEST_F(store_deaths_test, a_container_that_dies_holds_no_other_up) {
    if (!base::has_process_namespaces()) {
        GTEST_SKIP() << "NOT TESTED HERE: no namespaces of processes";
    }
    const auto dies = [&] {
        return base::run_in_own_namespace([&] {
            const test_environment own(directory_.path(), MDB_NOTLS);
            static_cast<void>(own.begin(MDB_RDONLY));
            static_cast<void>(own.begin());
            ::_exit(0);  // process 1 of a namespace cannot kill itself
            return 1;
        });
    };
    const auto lives = [&] {
        return base::run_in_own_namespace([&] {
            const test_environment own(directory_.path());
            if (commit_number(own.get(), 1) != 0 || base::run_in_child(dies).exit_status() != 0) {
                return 1;
            }
            int dead = 0;
            return commit_number(own.get(), 2) == 0 && mdb_reader_check(own.get(), &dead) == 0 && dead == 1 ? 0 : 2;
        });
    };
    EXPECT_EQ(base::run_in_child(lives).exit_status(), 0);
}

}  // namespace
}  // namespace holdfast::store_engine
