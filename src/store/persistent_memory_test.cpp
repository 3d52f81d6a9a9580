// A store on persistent memory, emulated: the kernel has no part in a commit.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>

#include <holdfast/detail/store_in_heap.h>

#include "base/process_test_support.hpp"
#include "persist/storage.hpp"
#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

using base::process_end;
using base::run_in_child;

constexpr int not_tested = 77;

/// From here on, each system call but the end of the process is its end, by SIGSYS. False: the kernel has no filters.
bool refuse_system_calls() {
    std::array<sock_filter, 4> steps = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    }};
    const sock_fprog program{.len = static_cast<unsigned short>(steps.size()), .filter = steps.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int takes_it(void* /*context*/, std::uint64_t /*commit*/) { return 0; }

class one_store {
public:
    one_store(const std::string& at, bool in_heap, bool emulated, std::uint64_t accepted = 0) {
        EXPECT_EQ(mdb_env_create(&env_), 0);
        if (emulated) {
            EXPECT_EQ(hf_lmdb_emulate_persistent_memory(env_), 0);
        }
        const hf_lmdb_heap heap{
            .accepted = accepted, .identity = {7}, .keeps_at_once = 1, .accept = takes_it, .context = nullptr};
        EXPECT_EQ(in_heap ? hf_lmdb_open_in_heap(env_, (at + "/store").c_str(), 0, 0664, &heap)
                          : mdb_env_open(env_, at.c_str(), 0, 0664),
                  0);
    }
    one_store(const one_store&) = delete;
    one_store& operator=(const one_store&) = delete;
    ~one_store() { mdb_env_close(env_); }

    [[nodiscard]] MDB_env* env() const noexcept { return env_; }
    [[nodiscard]] int set(std::string_view key, std::string_view value) const {
        MDB_txn* in = nullptr;
        if (const int outcome = mdb_txn_begin(env_, nullptr, 0, &in); outcome != 0) {
            return outcome;
        }
        const int outcome = value.empty() ? del(in, 1, key) : put(in, 1, key, value);
        return outcome != 0 ? outcome : mdb_txn_commit(in);
    }

private:
    MDB_env* env_ = nullptr;
};

/// Pages that transactions may take, in a store and a process that have been in use.
bool warm_up(const one_store& store) {
    const std::string large(std::size_t{2} << 20U, 'l');
    bool good = true;
    for (int i = 0; i < 4 && good; ++i) {
        good = store.set("large", large) == 0 && store.set("large", {}) == 0;
    }
    for (int i = 0; i < 30 && good; ++i) {
        good = store.set("key" + std::to_string(i), "before") == 0;
    }
    return good;
}

/// Commits in a store that has room, without system calls; not_tested where none can be refused.
process_end commit_without_kernel(const std::string& at, bool in_heap, bool emulated) {
    return run_in_child([&] {
        const one_store store(at, in_heap, emulated);
        if (!warm_up(store)) {
            ::_exit(1);
        }
        if (!refuse_system_calls()) {
            ::_exit(not_tested);
        }
        bool good = true;
        for (int i = 0; i < 30; ++i) {
            good = good && store.set("key" + std::to_string(i), "after") == 0;
        }
        ::_exit(good ? 0 : 2);  // closing the store calls the system
    });
}

content_of_store what_is_there(const std::string& at, bool in_heap, std::uint64_t commits) {
    const one_store store(at, in_heap, true, commits);
    return content_of(store.env());
}

class store_on_persistent_memory : public testing::TestWithParam<bool> {
protected:
    store_directory directory_;
};

TEST_P(store_on_persistent_memory, commits_without_a_system_call) {
#ifdef HOLDFAST_SANITIZED
    GTEST_SKIP() << "NOT TESTED HERE: a sanitizer calls the system for memory of its own";
#endif
    // On a disk: a sync that was left would be one.
    const process_end end = commit_without_kernel(directory_.path(), GetParam(), true);
    if (end.exit_status() == not_tested) {
        GTEST_SKIP() << "NOT TESTED HERE: system calls cannot be refused";
    }
    ASSERT_TRUE(end.succeeded()) << end;
    constexpr std::uint64_t commits = 8 + 30 + 30;
    const content_of_store found = what_is_there(directory_.path(), GetParam(), commits);
    EXPECT_EQ(found.size(), 30U);
    for (const auto& [key, value] : found) {
        EXPECT_EQ(value, "after") << key;
    }
}

TEST_P(store_on_persistent_memory, is_noticed_where_a_commit_calls_the_system) {
    const auto in_memory = persist::posix_storage().is_memory(directory_.path());
    if (in_memory && in_memory.value()) {
        GTEST_SKIP() << "NOT TESTED HERE: the tests' directory is on no disk, and a sync changes nothing";
    }
    const process_end end = commit_without_kernel(directory_.path(), GetParam(), false);
    if (end.exit_status() == not_tested) {
        GTEST_SKIP() << "NOT TESTED HERE: system calls cannot be refused";
    }
    EXPECT_EQ(end.signal(), SIGSYS) << "else the test above shows nothing";
}

INSTANTIATE_TEST_SUITE_P(each, store_on_persistent_memory, testing::Bool(),
                         [](const auto& of) { return of.param ? "in_a_heap" : "alone"; });

/// Was: two processes made commits of one store durable in ways that know nothing of each other.
TEST(store_on_emulated_memory, is_the_same_to_all_writers) {
    const store_directory directory;
    {
        const test_environment first(directory.path(), on_persistent_memory);
        ASSERT_EQ(first.opened(), 0);
        EXPECT_EQ(test_environment(directory.path()).opened(), EMEDIUMTYPE);
        EXPECT_NE(std::string(mdb_strerror(EMEDIUMTYPE)).find("another kind of memory"), std::string::npos);
        EXPECT_EQ(test_environment(directory.path(), MDB_RDONLY).opened(), 0);
        EXPECT_EQ(test_environment(directory.path(), on_persistent_memory).opened(), 0);
    }
    EXPECT_EQ(test_environment(directory.path()).opened(), 0) << "when all have closed it";
}

/// Who comes second does as the first: a system call is right on each medium.
TEST(store_on_emulated_memory, is_a_file_where_it_is_one_to_who_came_first) {
    const store_directory directory;
    const auto in_memory = persist::posix_storage().is_memory(directory.path());
    if (in_memory && in_memory.value()) {
        GTEST_SKIP() << "NOT TESTED HERE: the tests' directory is on no disk, and a sync changes nothing";
    }
    const test_environment first(directory.path(), MDB_NOTLS);
    ASSERT_EQ(first.opened(), 0);
    const process_end end = commit_without_kernel(directory.path(), false, true);
    if (end.exit_status() == not_tested) {
        GTEST_SKIP() << "NOT TESTED HERE: system calls cannot be refused";
    }
    EXPECT_EQ(end.signal(), SIGSYS) << "it calls no system";
}

/// As a loss of power leaves it: words of the first meta, in any order, behind the mark of one that is being made.
TEST(store_on_emulated_memory, is_made_anew_where_its_making_ended) {
    const store_directory directory;
    const auto write_file = [&](std::size_t other_at, std::size_t size) {
        std::string content(size, '\0');
        content.replace(0, 8, "HFSTORE?");
        content.replace(other_at, 8, "anything");
        std::ofstream(directory.data(), std::ios::binary) << content;
    };
    const std::size_t made_size = std::size_t{6} * 4096;
    write_file(152, made_size);
    for (const unsigned flags : {unsigned{MDB_RDONLY}, 0U}) {
        EXPECT_EQ(test_environment(directory.path(), flags).opened(), flags == 0 ? 0 : ENOENT);
    }
    write_file(160, made_size);
    EXPECT_EQ(test_environment(directory.path()).opened(), MDB_INVALID) << "no meta has so many bytes";
    write_file(16, made_size + 4096);
    EXPECT_EQ(test_environment(directory.path()).opened(), MDB_INVALID) << "no new store is so large";
}

TEST(store_on_emulated_memory, is_asked_for_before_it_is_open) {
    const store_directory directory;
    const test_environment env(directory.path());
    EXPECT_EQ(hf_lmdb_emulate_persistent_memory(env.get()), EINVAL);
    EXPECT_EQ(hf_lmdb_emulate_persistent_memory(nullptr), EINVAL);
}

}  // namespace
}  // namespace holdfast::store_engine
