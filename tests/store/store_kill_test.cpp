// SIGKILL of processes that write and read one store, at any moment, with an oracle in another process.
//
// After a death, those that live go on: no lock is held up. After the death of all, the store holds the content of one
// transaction's number, which is no less than what was acknowledged and no more than what was begun. By hand:
// store_kill_test --cycles N --seed N.
#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"
#include "kill/options.hpp"
#include "store/crash_world.hpp"
#include "store/random_program.hpp"

namespace holdfast::test {
namespace {

constexpr unsigned cycles_of_a_store = 40;
constexpr std::size_t quota = std::size_t{256} << 20U;

/// Waits for as many commits as that, or for some time. False where none came in a minute, or a process that lives
/// ended.
bool wait_for_commits(const crash_oracle& oracle, const base::child_process& living, std::uint64_t commits,
                      std::chrono::microseconds most) {
    constexpr std::uint64_t interval_ns = 50'000;
    const std::uint64_t before = oracle.commits;
    const auto start = std::chrono::steady_clock::now();
    while (oracle.commits < before + commits && !living.ends_within(interval_ns)) {
        const auto waited = std::chrono::steady_clock::now() - start;
        if (waited > most && (oracle.commits > before || waited > std::chrono::minutes(1))) {
            break;
        }
    }
    return oracle.commits > before;
}

class kill_cycles {
public:
    kill_cycles(const lmdb_library& library, std::uint64_t seed, bool on_memory = false)
        : library_(library), on_memory_(on_memory), random_(seed) {}

    void run(std::uint64_t cycles) {
        for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
            if (cycle % cycles_of_a_store == 0) {
                new_store();
            }
            SCOPED_TRACE("cycle " + std::to_string(cycle) + ", environment flags " + std::to_string(plan_.flags));
            one_cycle();
            if (testing::Test::HasFailure()) {
                place_->keep();
                std::cout << "the store is kept in " << place_->path() << '\n';
                return;
            }
        }
        std::cout << cycles << " cycles, " << commits_ << " commits acknowledged, " << reads_ << " reads of all\n";
        EXPECT_GT(commits_, 2 * cycles);
    }

private:
    void new_store() {
        place_ = std::make_unique<base::scratch_directory>();
        constexpr unsigned flags[] = {0, MDB_NOSYNC, MDB_NOMETASYNC, MDB_WRITEMAP | MDB_NOSYNC};
        plan_ = {&library_, place_->path(), flags[random_.below(std::size(flags))], random_.next(), quota};
        plan_.on_memory = on_memory_;
        oracle_ = std::make_unique<base::shared_memory<crash_oracle>>();
        model_ = std::make_unique<crash_model>(plan_.seed);
    }

    void one_cycle() {
        crash_oracle& oracle = **oracle_;
        const std::uint64_t commits_before = oracle.commits;
        const std::uint64_t reads_before = oracle.reads;
        std::vector<std::unique_ptr<base::child_process>> writers;
        std::vector<std::unique_ptr<base::child_process>> readers;
        for (std::uint64_t i = 0; i < 2; ++i) {
            writers.push_back(
                std::make_unique<base::child_process>([&, i] { return write_transactions(plan_, oracle, i); }));
            readers.push_back(std::make_unique<base::child_process>([&] { return read_transactions(plan_, oracle); }));
        }
        wait_for_commits(oracle, *writers[1], 1 + random_.below(12), std::chrono::microseconds(random_.below(6000)));
        // One dies, and the other writer must go on.
        const bool of_writers = random_.below(3) != 0;
        (of_writers ? writers : readers)[0]->kill();
        EXPECT_TRUE(
            wait_for_commits(oracle, *writers[1], 1 + random_.below(3), std::chrono::microseconds(random_.below(2000))))
            << "nobody writes after the death of a " << (of_writers ? "writer" : "reader");
        for (auto* const group : {&writers, &readers}) {
            for (auto& one : *group) {
                one->send(SIGKILL);
            }
        }
        writers.clear();
        readers.clear();
        EXPECT_EQ(model_->examine(plan_, oracle), "");
        commits_ += oracle.commits - commits_before;
        reads_ += oracle.reads - reads_before;
    }

    const lmdb_library& library_;
    bool on_memory_;
    random_words random_;
    std::unique_ptr<base::scratch_directory> place_;
    crash_plan plan_{};
    std::unique_ptr<base::shared_memory<crash_oracle>> oracle_;
    std::unique_ptr<crash_model> model_;
    std::uint64_t commits_ = 0;
    std::uint64_t reads_ = 0;
};

TEST(store_kill, of_debians_library_leaves_what_was_acknowledged) {
    if (!has_lmdb("debian")) {
        GTEST_SKIP() << "NOT TESTED HERE: there is no liblmdb0";
    }
    // It shows that the test is right; a tenth of the cycles is enough for that.
    kill_cycles(lmdb("debian"), options().seed).run(options().cycles / 10);
}

TEST(store_kill, of_our_library_leaves_what_was_acknowledged) {
    if (!has_lmdb("holdfast")) {
        GTEST_SKIP() << "NOT TESTED HERE: hf_lmdb is not built";
    }
    kill_cycles(lmdb("holdfast"), options().seed).run(options().cycles);
}

TEST(store_kill, of_our_library_on_persistent_memory_leaves_what_was_acknowledged) {
    if (!has_lmdb("holdfast")) {
        GTEST_SKIP() << "NOT TESTED HERE: hf_lmdb is not built";
    }
    kill_cycles(lmdb("holdfast"), options().seed, true).run(options().cycles / 2);
}

}  // namespace
}  // namespace holdfast::test

int main(int count, char** arguments) { return holdfast::test::crash_test_main(count, arguments, 2000); }
