// Stores that are opened while others use them, were replaced, or were never made to the end. The system calls below
// stand before those of the C library: a test lets something happen at the moment of a call.
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>

#include "base/foreign_memory_test_support.hpp"
#include "store/committer.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

std::function<void()> at_fstatfs;
std::function<bool()> at_fdatasync;  // true: it fails
std::function<void()> at_msync;
bool has_full_disk = false;  // from here on, no file gets a block

}  // namespace
}  // namespace holdfast::store_engine

extern "C" int fstatfs(int file, struct statfs* information) noexcept {
    if (const auto call = std::exchange(holdfast::store_engine::at_fstatfs, nullptr)) {
        call();
    }
    return static_cast<int>(::syscall(SYS_fstatfs, file, information));
}

extern "C" int fdatasync(int file) {
    if (holdfast::store_engine::at_fdatasync && holdfast::store_engine::at_fdatasync()) {
        errno = EIO;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_fdatasync, file));
}

extern "C" int msync(void* start, std::size_t size, int flags) {
    if (holdfast::store_engine::at_msync) {
        holdfast::store_engine::at_msync();
    }
    return static_cast<int>(::syscall(SYS_msync, start, size, flags));
}

extern "C" int posix_fallocate(int file, off_t offset, off_t size) {
    struct stat information {};
    if (holdfast::store_engine::has_full_disk &&
        (::fstat(file, &information) != 0 || information.st_blocks * 512 < offset + size)) {
        return ENOSPC;
    }
    return ::syscall(SYS_fallocate, file, 0, offset, size) == 0 ? 0 : errno;
}

namespace holdfast::store_engine {
namespace {

constexpr std::size_t pages_at_first = meta_pages + least_log_pages;
#if defined(HOLDFAST_UNDER_QEMU)
constexpr bool under_qemu = true;
#else
constexpr bool under_qemu = false;
#endif
using base::has_memory_of_others;

void write_file(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void commit_entries(const test_environment& env, unsigned from, unsigned to, std::size_t size) {
    MDB_txn* in = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    for (unsigned i = from; i < to; ++i) {
        ASSERT_EQ(put(in, database, "key" + std::to_string(i), std::string(size, 'v')), 0);
    }
    ASSERT_EQ(mdb_txn_commit(in), 0);
}

void remove_entries(const test_environment& env) {
    MDB_txn* in = env.begin();
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    ASSERT_EQ(mdb_drop(in, database, 0), 0);
    ASSERT_EQ(mdb_txn_commit(in), 0);
}

class store_open_test : public testing::Test {
protected:
    void TearDown() override {
        at_fstatfs = nullptr;
        at_fdatasync = nullptr;
        at_msync = nullptr;
    }
    /// The status of a child that does this: the signal that killed it, or 1000 and its exit status.
    static int in_child(const std::function<int()>& work) {
        const pid_t made = ::fork();  // lint-allow(fork): a layer above base/
        if (made == 0) {
            ::_exit(work());
        }
        int outcome = 0;
        EXPECT_EQ(::waitpid(made, &outcome, 0), made);
        return WIFSIGNALED(outcome) ? WTERMSIG(outcome) : 1000 + WEXITSTATUS(outcome);
    }
    store_directory directory_;
};

/// Was: MDB_INVALID for good, where the process that made the store was killed before the first meta.
TEST_F(store_open_test, a_store_whose_making_was_cut_off_could_not_be_opened) {
    for (const std::size_t size : {pages_at_first * 4096, std::size_t{4096}, std::size_t{100}, std::size_t{0}}) {
        write_file(directory_.data(), std::string(size, '\0'));
        EXPECT_EQ(test_environment(directory_.path(), MDB_RDONLY).opened(), ENOENT) << size;
        const test_environment env(directory_.path());
        ASSERT_EQ(env.opened(), 0) << size;
        commit_entries(env, 0, 10, 100);
        EXPECT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
    }
}

/// Was: made a store of it, because it has no whole page.
TEST_F(store_open_test, a_short_file_of_something_else_was_written_over) {
    const std::string zeros_before(16, '\0');  // was: the place of a magic alone
    for (const std::string& content : {std::string("notes"), std::string(4095, 'x'), std::string(200, '\0') + "x",
                                       zeros_before + "notes" + std::string(4096, '\0')}) {
        write_file(directory_.data(), content);
        EXPECT_EQ(test_environment(directory_.path()).opened(), MDB_INVALID);
        EXPECT_TRUE(read_file(directory_.data()) == content);
    }
    const std::string zeros((pages_at_first + 1) * 4096, '\0');
    write_file(directory_.data(), zeros);
    EXPECT_EQ(test_environment(directory_.path()).opened(), MDB_INVALID) << "it is none that was being made";
}

/// Was: the file beside it, whose name is that of a lock file, was emptied, and one was made where none was.
TEST_F(store_open_test, what_lies_beside_a_file_that_is_no_store_stays) {
    for (const unsigned flags : {0U, unsigned{MDB_RDONLY}}) {
        write_file(directory_.data(), "notes");
        EXPECT_EQ(test_environment(directory_.path(), flags).opened(), MDB_INVALID);
        EXPECT_FALSE(std::filesystem::exists(directory_.lock()));
        write_file(directory_.lock(), "more notes");
        EXPECT_EQ(test_environment(directory_.path(), flags).opened(), MDB_INVALID);
        EXPECT_EQ(read_file(directory_.lock()), "more notes");
        std::filesystem::remove(directory_.data());
        std::filesystem::create_directory(directory_.data());
        EXPECT_EQ(test_environment(directory_.path(), flags).opened(), EISDIR);
        std::filesystem::remove(directory_.data());
        ASSERT_EQ(::mkfifo(directory_.data().c_str(), 0600), 0);
        EXPECT_EQ(test_environment(directory_.path(), flags).opened(), MDB_INVALID) << "was: waited for a writer";
        std::filesystem::remove(directory_.data());
        EXPECT_EQ(test_environment(directory_.path(), flags).opened(), flags == 0 ? EEXIST : ENOENT);
        EXPECT_EQ(read_file(directory_.lock()), "more notes");
        std::filesystem::remove(directory_.data());
        std::filesystem::remove(directory_.lock());
    }
    for (const std::string& earlier :
         {std::string("HFLOCK01"), std::string("\xDE\xC0\xEF\xBE\2\0\0\0", 8), std::string()}) {
        write_file(directory_.lock(), earlier);
        EXPECT_EQ(test_environment(directory_.path()).opened(), 0);
    }
}

/// Was: whoever opened the store told the writer the size from before, and the next put was a SIGBUS.
TEST_F(store_open_test, who_opened_a_store_that_shrank_meanwhile_killed_the_writer) {
    const int outcome = in_child([this] {
        const test_environment env(directory_.path(), MDB_NOSYNC);
        commit_entries(env, 0, 1000, 10'000);
        at_fstatfs = [&] {
            remove_entries(env);
            for (unsigned i = 0; i < 3; ++i) {  // checkpoints, until no version has the pages
                commit_entries(env, 0, 100, 3500);
                EXPECT_EQ(mdb_env_sync(env.get(), 1), 0);
            }
        };
        const test_environment other(directory_.path());
        if (at_fstatfs || other.opened() != 0) {
            return 1;  // nothing happened meanwhile
        }
        commit_entries(env, 0, 1000, 10'000);
        return hf_lmdb_check(env.get(), nullptr) == 0 && !HasFailure() ? 0 : 2;
    });
    EXPECT_EQ(outcome, 1000);
}

/// Was: who opened it then read the old file with the new one's root.
TEST_F(store_open_test, a_file_in_the_place_of_one_in_use_was_taken_for_it) {
    auto env = std::make_unique<test_environment>(directory_.path());
    commit_entries(*env, 0, 100, 100);
    env.reset();
    const std::string old = read_file(directory_.data());
    env = std::make_unique<test_environment>(directory_.path());
    commit_entries(*env, 0, 5000, 1000);
    write_file(directory_.path() + "/old", old);
    ASSERT_EQ(std::rename((directory_.path() + "/old").c_str(), directory_.data().c_str()), 0);
    EXPECT_EQ(test_environment(directory_.path()).opened(), ESTALE);
    EXPECT_EQ(test_environment(directory_.path(), MDB_RDONLY).opened(), ESTALE);
    EXPECT_NE(std::string(mdb_strerror(ESTALE)).find("replaced"), std::string::npos);
    env.reset();
    const test_environment again(directory_.path());
    ASSERT_EQ(again.opened(), 0);
    EXPECT_EQ(hf_lmdb_check(again.get(), nullptr), 0);
    std::filesystem::remove(directory_.data());
    EXPECT_EQ(test_environment(directory_.path()).opened(), ESTALE);
    EXPECT_FALSE(std::filesystem::exists(directory_.data()));
}

/// Was: MDB_CORRUPTED, because a writer on another mount wrote over what was read.
TEST_F(store_open_test, a_read_only_mount_of_a_store_in_use_is_refused) {
    std::filesystem::create_directory(directory_.path() + "/store");
    std::filesystem::create_directory(directory_.path() + "/mount");
    const std::string store = directory_.path() + "/store";
    const std::string mount = directory_.path() + "/mount";
    const auto mount_read_only = [&] {
        return (::geteuid() == 0 || ::unshare(CLONE_NEWUSER) == 0) && ::unshare(CLONE_NEWNS) == 0 &&
               ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount(store.c_str(), mount.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
               ::mount(nullptr, mount.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
    };
    ASSERT_EQ(in_child([&] {
                  const test_environment env(store);
                  commit_entries(env, 0, 100, 100);
                  ::_exit(HasFailure() ? 1 : 0);  // without a close, so that a recovery is needed
                  return 0;
              }),
              1000);
    const int outcome = in_child([&] {
        if (!mount_read_only()) {
            return 77;
        }
        const test_environment reader(mount, MDB_RDONLY | MDB_NOTLS);
        MDB_txn* in = nullptr;
        EXPECT_EQ(reader.opened(), 0);
        EXPECT_EQ(mdb_txn_begin(reader.get(), nullptr, MDB_RDONLY, &in), 0);
        EXPECT_EQ(get(in, 1, "key99"), std::string(100, 'v'));
        mdb_txn_reset(in);
        {
            const test_environment writer(store);
            commit_entries(writer, 100, 200, 100);
            EXPECT_EQ(test_environment(mount, MDB_RDONLY).opened(), EBUSY);
            EXPECT_EQ(mdb_txn_renew(in), EBUSY);
        }
        EXPECT_EQ(mdb_txn_renew(in), 0);
        MDB_stat numbers{};
        EXPECT_EQ(mdb_stat(in, 1, &numbers), 0);
        EXPECT_EQ(numbers.ms_entries, 200U);
        EXPECT_EQ(get(in, 1, "key0"), std::string(100, 'v'));
        EXPECT_EQ(get(in, 1, "key199"), std::string(100, 'v'));
        mdb_txn_abort(in);
        EXPECT_EQ(hf_lmdb_check(reader.get(), nullptr), 0);
        return HasFailure() ? 1 : 0;
    });
    if (outcome == 1077) {
        GTEST_SKIP() << "NOT TESTED: only root can mount a file system, and not in every container";
    }
    EXPECT_EQ(outcome, 1000);
}

/// Was: the limit became what the store had, so that the next put was MDB_MAP_FULL.
TEST_F(store_open_test, a_map_size_of_zero_took_the_room_away) {
    const test_environment env(directory_.path(), 0, 8, std::size_t{64} << 20U);
    EXPECT_EQ(mdb_env_set_mapsize(env.get(), 0), 0);
    MDB_envinfo information{};
    EXPECT_EQ(mdb_env_info(env.get(), &information), 0);
    EXPECT_EQ(information.me_mapsize, std::size_t{64} << 20U);
    commit_entries(env, 0, 1000, 10'000);
}

TEST_F(store_open_test, tells_what_its_processes_do) {
    hf_lmdb_activity now{};
    {
        MDB_env* closed = nullptr;
        ASSERT_EQ(mdb_env_create(&closed), 0);
        EXPECT_EQ(hf_lmdb_activity_of(closed, &now), EINVAL);
        mdb_env_close(closed);
    }
    const test_environment env(directory_.path(), MDB_NOTLS);
    EXPECT_EQ(hf_lmdb_activity_of(env.get(), nullptr), EINVAL);
    EXPECT_EQ(hf_lmdb_activity_of(nullptr, &now), EINVAL);
    ASSERT_EQ(hf_lmdb_activity_of(env.get(), &now), 0);
    const std::uint64_t first = now.last_txnid;
    EXPECT_EQ(now.readers, 0U);
    EXPECT_EQ(now.oldest_txnid, first);
    EXPECT_GT(now.log_room_bytes, 0U);
    MDB_txn* const oldest = env.begin(MDB_RDONLY);
    commit_entries(env, 0, 10, 100);
    MDB_txn* const newer = env.begin(MDB_RDONLY);
    ASSERT_EQ(hf_lmdb_activity_of(env.get(), &now), 0);
    EXPECT_GT(now.last_txnid, first);
    EXPECT_EQ(now.synced_txnid, now.last_txnid) << "each commit is synced";
    EXPECT_EQ(now.oldest_txnid, first);
    EXPECT_EQ(now.readers, 2U);
    EXPECT_GT(now.log_bytes, 1000U);
    EXPECT_LE(now.log_bytes, now.log_room_bytes);
    EXPECT_EQ(in_child([&] { return hf_lmdb_activity_of(env.get(), &now) == EINVAL ? 0 : 1; }), 1000);
    mdb_txn_abort(oldest);
    ASSERT_EQ(hf_lmdb_activity_of(env.get(), &now), 0);
    EXPECT_EQ(now.oldest_txnid, now.last_txnid);
    EXPECT_EQ(now.readers, 1U);
    mdb_txn_abort(newer);
    EXPECT_EQ(mdb_env_set_flags(env.get(), MDB_NOSYNC, 1), 0);
    commit_entries(env, 10, 20, 100);
    ASSERT_EQ(hf_lmdb_activity_of(env.get(), &now), 0);
    EXPECT_LT(now.synced_txnid, now.last_txnid);
}

/// Was: a SIGSEGV of the writer, and MDB_PAGE_NOTFOUND for readers.
TEST_F(store_open_test, a_store_that_outgrew_the_addresses_of_a_process_killed_it) {
    if (has_memory_of_others) {
        GTEST_SKIP() << "the memory of the emulator or sanitizer counts, too";
    }
    const test_environment env(directory_.path(), MDB_NOSYNC);
    const int outcome = in_child([this] {
        struct rlimit limit {};
        const std::string pages = read_file("/proc/self/statm");
        if (::getrlimit(RLIMIT_AS, &limit) != 0) {
            return 1;
        }
        const rlim_t most =
            std::exchange(limit.rlim_cur, std::strtoull(pages.c_str(), nullptr, 10) * 4096 + (std::size_t{80} << 20U));
        if (::setrlimit(RLIMIT_AS, &limit) != 0) {
            return 1;
        }
        const test_environment small(directory_.path());
        MDB_txn* early = nullptr;
        if (small.opened() != 0 || mdb_txn_begin(small.get(), nullptr, MDB_RDONLY, &early) != 0) {
            return 2;
        }
        mdb_txn_reset(early);
        const int grown = in_child([&] {
            limit.rlim_cur = most;
            if (::setrlimit(RLIMIT_AS, &limit) != 0) {
                return 1;
            }
            const test_environment large(directory_.path(), MDB_NOSYNC);
            commit_entries(large, 0, 1200, 100'000);
            return HasFailure() ? 2 : 0;
        });
        if (grown != 1000) {
            return 3;
        }
        MDB_txn* in = nullptr;
        return mdb_txn_renew(early) == MDB_MAP_RESIZED && mdb_txn_begin(small.get(), nullptr, 0, &in) == MDB_MAP_RESIZED
                   ? 0
                   : 4;
    });
    EXPECT_EQ(outcome, 1000);
}

/// Was: the failure was told to one writer, and the next one wrote records behind a checkpoint that no more counts.
TEST_F(store_open_test, a_sync_that_failed_after_a_death_was_forgotten) {
    if (under_qemu) {
        GTEST_SKIP()
            << "NOT TESTED: qemu-user does not tell the kernel about robust lists, so a lock stays with the dead";
    }
    const test_environment env(directory_.path());
    commit_entries(env, 0, 10, 100);
    const int outcome = in_child([this] {
        const test_environment other(directory_.path());
        at_msync = [] { ::raise(SIGKILL); };  // of the meta: all else of a checkpoint is synced by fdatasync
        commit_entries(other, 0, 2000, 1000);
        return 0;
    });
    ASSERT_EQ(outcome, SIGKILL);
    at_fdatasync = [] { return true; };
    MDB_txn* in = nullptr;
    EXPECT_EQ(mdb_txn_begin(env.get(), nullptr, 0, &in), EIO);
    at_fdatasync = nullptr;
    EXPECT_EQ(mdb_txn_begin(env.get(), nullptr, 0, &in), MDB_PANIC);
}

/// Was: who opens a store first truncated the lock file, and did not get its blocks again where others had taken them:
/// no process could open the store any more.
TEST_F(store_open_test, a_store_on_a_full_disk_was_closed_for_good) {
    {
        const test_environment env(directory_.path());
        commit_entries(env, 0, 10, 100);
    }
    std::filesystem::resize_file(directory_.lock(), std::size_t{1} << 20U);  // as many readers leave it
    has_full_disk = true;
    for (int i = 0; i < 2; ++i) {
        const test_environment env(directory_.path());
        EXPECT_EQ(env.opened(), 0);
    }
    has_full_disk = false;
    EXPECT_LT(std::filesystem::file_size(directory_.lock()), std::size_t{1} << 20U);
}

}  // namespace
}  // namespace holdfast::store_engine
