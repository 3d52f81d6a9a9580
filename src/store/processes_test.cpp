// Processes that use one store and are killed while they do: two write, one reads. The oracle lies outside, in memory
// that they share: what a writer was told is committed is there after any kill, each transaction as a whole, and who
// lives on is never held up. HOLDFAST_STORE_KILLS says how many are killed.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <random>

#include "store/store_test_support.hpp"

namespace holdfast::store_engine {
namespace {

constexpr unsigned writers = 2;
constexpr unsigned parts = 12;  // entries that a transaction changes together

struct oracle {
    std::array<std::atomic<std::uint64_t>, writers> begun;
    std::array<std::atomic<std::uint64_t>, writers> acknowledged;
    std::atomic<std::uint64_t> looks;  // of the reader
    std::atomic<int> fault;
};

unsigned kills() {
    const char* text = std::getenv("HOLDFAST_STORE_KILLS");
    return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : 32;
}

std::string key_of(unsigned writer, unsigned part) {
    // Far apart, so that a transaction changes several leaves.
    return std::to_string(part * 7919U % 100U) + "/" + std::to_string(writer) + std::string(part * 20, 'k');
}

// The number that all entries of a writer have in this snapshot. False: they differ.
bool read_number(MDB_txn* in, MDB_dbi database, unsigned writer, std::uint64_t& number) {
    for (unsigned part = 0; part < parts; ++part) {
        const std::string found = get(in, database, key_of(writer, part));
        const std::uint64_t here = found.starts_with("error") ? 0 : std::strtoull(found.c_str(), nullptr, 10);
        if (part != 0 && here != number) {
            return false;
        }
        number = here;
    }
    return true;
}

// A process of the test: it ends by being killed, or says what is wrong.
[[noreturn]] void fail(oracle& shared, int where) {
    shared.fault.store(where);
    ::_exit(1);
}

[[noreturn]] void write_for_ever(oracle& shared, const std::string& path, unsigned writer, unsigned flags) {
    MDB_env* env = nullptr;
    if (mdb_env_create(&env) != 0 || hf_lmdb_set_maxkeysize(env, HF_LMDB_MOST_KEYSIZE) != 0 ||
        mdb_env_open(env, path.c_str(), flags, 0664) != 0) {
        fail(shared, 1);
    }
    std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
    for (bool first = true;; first = false) {
        MDB_txn* in = nullptr;
        MDB_dbi database = 0;
        if (mdb_txn_begin(env, nullptr, 0, &in) != 0 || mdb_dbi_open(in, nullptr, 0, &database) != 0) {
            fail(shared, 2);
        }
        std::uint64_t number = 0;
        if (!read_number(in, database, writer, number) || number < shared.acknowledged[writer] ||
            number > shared.begun[writer] || (!first && number != shared.acknowledged[writer])) {
            fail(shared, 3);
        }
        shared.begun[writer] = ++number;
        for (unsigned part = 0; part < parts; ++part) {
            const std::string value = std::to_string(number) + std::string(random() % 300, 'v');
            if (put(in, database, key_of(writer, part), value) != 0) {
                fail(shared, 4);
            }
        }
        for (unsigned i = 0; i < 4; ++i) {  // other entries come and go, so that pages are freed and used again
            const auto which = static_cast<unsigned>(random() % 400);
            const std::string key = std::string(which % 5 == 0 ? 2500 + which * 20 : 5, 'o') + std::to_string(which);
            const int outcome =
                random() % 2 == 0 ? put(in, database, key, std::string(random() % 6000, 'o')) : del(in, database, key);
            if (outcome != 0 && outcome != MDB_NOTFOUND) {
                fail(shared, 5);
            }
        }
        if (mdb_txn_commit(in) != 0) {
            fail(shared, 6);
        }
        shared.acknowledged[writer] = number;
        // The mutex is not fair: the process that had it last tends to have it next, unless it does something else.
        for (unsigned i = 0; i < 20; ++i) {
            ::sched_yield();
        }
    }
}

[[noreturn]] void read_for_ever(oracle& shared, const std::string& path) {
    MDB_env* env = nullptr;
    if (mdb_env_create(&env) != 0 || mdb_env_open(env, path.c_str(), 0, 0664) != 0) {
        fail(shared, 11);
    }
    for (;;) {
        std::array<std::uint64_t, writers> told{};
        for (unsigned writer = 0; writer < writers; ++writer) {
            told[writer] = shared.acknowledged[writer];
        }
        MDB_txn* in = nullptr;
        MDB_dbi database = 0;
        if (mdb_txn_begin(env, nullptr, MDB_RDONLY, &in) != 0 || mdb_dbi_open(in, nullptr, 0, &database) != 0) {
            fail(shared, 12);
        }
        for (unsigned look = 0; look < 3; ++look) {  // one version each time, whatever is written meanwhile
            for (unsigned writer = 0; writer < writers; ++writer) {
                std::uint64_t number = 0;
                if (!read_number(in, database, writer, number) || number < told[writer]) {
                    fail(shared, 13);
                }
                told[writer] = number;
            }
        }
        mdb_txn_abort(in);
        ++shared.looks;
    }
}

class processes_test : public testing::Test {
protected:
    void SetUp() override {
        void* at = ::mmap(nullptr, sizeof(oracle), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(at, MAP_FAILED);
        shared_ = ::new (at) oracle{};
    }
    void TearDown() override {
        for (pid_t& one : processes_) {
            end(one);
        }
        ::munmap(shared_, sizeof(oracle));
    }
    void start(unsigned which, unsigned flags) {
        const pid_t made = ::fork();  // lint-allow(fork): a layer above base/
        ASSERT_GE(made, 0);
        if (made == 0) {
            if (which < writers) {
                write_for_ever(*shared_, directory_.path(), which, flags);
            }
            read_for_ever(*shared_, directory_.path());
        }
        processes_[which] = made;
    }
    static void end(pid_t& process) {
        if (process > 0) {
            ::kill(process, SIGKILL);
            ::waitpid(process, nullptr, 0);
        }
        process = 0;
    }
    [[nodiscard]] std::uint64_t progress(unsigned which) const {
        return which < writers ? shared_->acknowledged[which].load() : shared_->looks.load();
    }
    // Until a process has done something more. False: it was held up, or found a fault.
    [[nodiscard]] bool wait_for(unsigned which, std::uint64_t steps) const {
        const std::uint64_t before = progress(which);
        const std::time_t limit = std::time(nullptr) + 60;
        while (progress(which) < before + steps) {
            if (shared_->fault != 0 || std::time(nullptr) > limit) {
                return false;
            }
            ::sched_yield();
        }
        return true;
    }
    void check_after_all_were_killed();
    void run(unsigned flags, unsigned count, std::uint64_t seed);

    store_directory directory_;
    oracle* shared_ = nullptr;
    std::array<pid_t, writers + 1> processes_{};
};

void processes_test::check_after_all_were_killed() {
    for (pid_t& one : processes_) {
        end(one);
    }
    const test_environment env(directory_.path());
    ASSERT_EQ(env.opened(), 0);
    MDB_txn* in = env.begin(MDB_RDONLY);
    MDB_dbi database = 0;
    ASSERT_EQ(mdb_dbi_open(in, nullptr, 0, &database), 0);
    for (unsigned writer = 0; writer < writers; ++writer) {
        std::uint64_t number = 0;
        ASSERT_TRUE(read_number(in, database, writer, number)) << "a transaction is there in part";
        ASSERT_GE(number, shared_->acknowledged[writer]);
        ASSERT_LE(number, shared_->begun[writer]);
    }
    mdb_txn_abort(in);
    ASSERT_EQ(hf_lmdb_check(env.get(), nullptr), 0);
}

void processes_test::run(unsigned flags, unsigned count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (unsigned killed = 0; killed < count && !HasFatalFailure();) {
        for (unsigned which = 0; which < processes_.size(); ++which) {
            if (processes_[which] == 0) {
                start(which, flags);
                ASSERT_TRUE(wait_for(which, 1)) << "process " << which << " fault " << shared_->fault;
            }
        }
        const auto victim = static_cast<unsigned>(random() % processes_.size());
        ASSERT_TRUE(wait_for(victim, random() % 8)) << "fault " << shared_->fault;
        for (std::uint64_t spin = random() % 300; spin > 0; --spin) {
            ::sched_yield();
        }
        end(processes_[victim]);
        ++killed;
        for (unsigned which = 0; which < processes_.size(); ++which) {
            if (which != victim) {
                ASSERT_TRUE(wait_for(which, 2))
                    << "process " << which << " is held up by the dead " << victim << ", fault " << shared_->fault;
            }
        }
        if (killed % 10 == 0) {
            check_after_all_were_killed();
            killed += static_cast<unsigned>(processes_.size()) - 1;
        }
    }
    check_after_all_were_killed();
}

TEST_F(processes_test, without_sync) { run(MDB_NOSYNC, kills() * 3 / 4, 1); }

TEST_F(processes_test, with_sync) { run(0, kills() / 4, 2); }

}  // namespace
}  // namespace holdfast::store_engine
