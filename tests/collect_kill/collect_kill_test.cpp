// Durability `collect` under kill -9, with an oracle outside of the victim: everything that the roots reach is as the
// completed operations left it, and everything else is free, to the block.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collect_model.hpp"
#include "segment/test_support.hpp"

namespace holdfast::collect_kill {
namespace {

using testing::IsEmpty;

std::uint64_t cycles = 2000;
std::uint64_t first_seed = 1;

/// Memory that parent and victim share.
class shared_journals {
public:
    shared_journals()
        : memory_(::mmap(nullptr, sizeof(journals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) {
            throw std::bad_alloc();
        }
        clear();
    }
    shared_journals(const shared_journals&) = delete;
    shared_journals& operator=(const shared_journals&) = delete;
    ~shared_journals() { ::munmap(memory_, sizeof(journals)); }
    void clear() { new (memory_) journals; }  // lint-allow(hand-memory): in place
    journals* operator->() const { return static_cast<journals*>(memory_); }
    journals& operator*() const { return *static_cast<journals*>(memory_); }

private:
    void* memory_;
};

open_options options_for(open_options::domain_choice domain) {
    open_options options;
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    options.domain = domain;
    options.segment_size = std::uint64_t{4} << 20U;
    options.reservation = std::uint64_t{1} << 30U;
    return options;
}

/// Runs a victim and kills it after `target` operations in all; 0: after so many turns, while it opens and recovers.
void run_and_kill(const std::string& path, const open_options& options, shared_journals& shared, const victim& how,
                  std::uint64_t target, std::uint64_t turns) {
    shared.clear();
    const pid_t victim = ::fork();
    ASSERT_GE(victim, 0);
    if (victim == 0) {
        run_victim(path, options, *shared, how);
    }
    int status = 0;
    pid_t ended = 0;
    for (std::uint64_t turn = 0; ended == 0 && (target == 0 ? turn < turns : shared->completed() < target); ++turn) {
        ::sched_yield();
        ended = ::waitpid(victim, &status, WNOHANG);
    }
    if (ended == 0) {
        ::kill(victim, SIGKILL);
        ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    }
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the victim ended by itself: " << status;
}

class collect_kill_test : public testing::TestWithParam<open_options::domain_choice> {};

TEST_P(collect_kill_test, what_is_reached_is_intact_and_what_is_not_is_free) {
    const segment::test_directory directory;
    const std::string path = directory.path("heap");
    const open_options options = options_for(GetParam());
    manager(create_only, path, options).close();
    shared_journals shared;
    shared_journals of_second;
    model expected;
    std::uint64_t killed_in_recovery = 0;
    std::uint64_t largest = 0;
    for (std::uint64_t cycle = 0; cycle < cycles / 2; ++cycle) {
        const std::uint64_t seed = first_seed * 1'000'000 + cycle;
        SCOPED_TRACE("cycle " + std::to_string(cycle));
        std::mt19937_64 random(seed);
        const bool early = random() % 8 == 0;
        const std::uint64_t target = 1 + random() % 3000;
        run_and_kill(path, options, shared, {seed, cycle, false}, early ? 0 : target, random() % 300);
        ASSERT_FALSE(HasFatalFailure());
        if (cycle % 3 == 0) {  // another one, killed while it recovers
            run_and_kill(path, options, of_second, {seed, cycle, true}, 0, random() % 400);
            ASSERT_FALSE(HasFatalFailure());
            killed_in_recovery += of_second->open ? 0U : 1U;
        }
        manager heap(open_only, path, options);
        ASSERT_EQ(expected.examine(heap, *shared), "");
        std::uint64_t blocks = 0;
        heap.for_each_block([&blocks](const block_info&) { ++blocks; });
        ASSERT_EQ(blocks, expected.nodes()) << "what is not reached is free";
        if (cycle % 50 == 0) {
            ASSERT_THAT(heap.check(false), IsEmpty());
        }
        largest = std::max<std::uint64_t>(largest, heap.get_size());
    }
    std::printf("%llu cycles, %llu victims killed while they recovered, largest heap %llu bytes\n",
                static_cast<unsigned long long>(cycles / 2), static_cast<unsigned long long>(killed_in_recovery),
                static_cast<unsigned long long>(largest));
    EXPECT_LT(largest, std::uint64_t{512} << 20U) << "what was unreachable is used again";
}

INSTANTIATE_TEST_SUITE_P(domains, collect_kill_test,
                         testing::Values(open_options::domain_choice::page_cache,
                                         open_options::domain_choice::emulated),
                         [](const auto& choice) {
                             return choice.param == open_options::domain_choice::emulated ? "emulated" : "page_cache";
                         });

}  // namespace
}  // namespace holdfast::collect_kill

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument.starts_with("--cycles=")) {
            holdfast::collect_kill::cycles = std::strtoull(argv[i] + 9, nullptr, 10);
        } else if (argument.starts_with("--seed=")) {
            holdfast::collect_kill::first_seed = std::strtoull(argv[i] + 7, nullptr, 10);
        }
    }
    return RUN_ALL_TESTS();
}
