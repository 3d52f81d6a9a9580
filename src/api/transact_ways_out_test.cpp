// Transactions over everything that end in unusual ways, and what is stored in them in unusual ways.
#include <fcntl.h>
#include <pthread.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/holdfast.h>
#include <holdfast/transaction.h>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/units.hpp"

namespace holdfast::of_ways_out {
namespace {

constexpr std::size_t mebibyte = holdfast::base::mebibyte;
using testing::HasSubstr;
using testing::IsEmpty;

using numbers = vector<std::uint64_t>;

struct given_up : std::runtime_error {
    given_up() : std::runtime_error("given up") {}
};

class transact_ways_out_test : public manager_test {
protected:
    void TearDown() override { set_error_handler({}); }
    template <class Body>
    void give_up(Body body) {
        EXPECT_THROW(heap_.transact([&] {
            body();
            throw given_up();
        }),
                     given_up);
        EXPECT_THAT(heap_.check(true), IsEmpty());
    }
    /// As after a crash: what was not committed is gone.
    void crash() {
        heap_.close(false);
        heap_ = open();
    }

    manager heap_ = create();
};

/// The kernel stores, and no instruction of the program.
TEST_F(transact_ways_out_test, what_a_system_call_has_read_is_taken_back) {
    constexpr std::size_t bytes = 5'000;
    const std::string source = directory_.path("source");
    const int file = ::open(source.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const std::vector<char> content(bytes, 'r');
    ASSERT_EQ(::pwrite(file, content.data(), bytes, 0), static_cast<ssize_t>(bytes));
    auto* const block = static_cast<char*>(heap_.allocate(bytes));
    heap_.transact([&] { std::memset(block, 'b', bytes); });
    const auto read_into = [&](char* to) { ASSERT_EQ(::pread(file, to, bytes, 0), static_cast<ssize_t>(bytes)); };
    give_up([&] { read_into(block); });
    EXPECT_EQ(std::count(block, block + bytes, 'b'), std::ptrdiff_t{bytes});
    give_up([&] {
        std::memset(block, 'c', bytes / 2);
        give_up([&] { read_into(block); });
        EXPECT_EQ(std::count(block, block + bytes, 'c'), std::ptrdiff_t{bytes / 2});
        read_into(static_cast<char*>(heap_.allocate(bytes)));
    });
    EXPECT_EQ(std::count(block, block + bytes, 'b'), std::ptrdiff_t{bytes});
    heap_.root(0) = block;
    heap_.transact([&] { read_into(block); });
    ::close(file);
    crash();
    const auto* const found = static_cast<const char*>(heap_.root(0).get());
    EXPECT_EQ(std::count(found, found + bytes, 'r'), std::ptrdiff_t{bytes});
}

TEST_F(transact_ways_out_test, one_that_is_larger_than_the_log_is_taken_back_or_durable) {
    constexpr std::size_t count = 32 * mebibyte / sizeof(std::uint64_t);
    auto& all = *heap_.construct<numbers>("all")(heap_.get_allocator<std::uint64_t>());
    heap_.transact([&] { all.assign(count, 1); });
    give_up([&] {
        std::ranges::fill(all, 2);
        give_up([&] { std::ranges::fill(all, 3); });
        EXPECT_EQ(std::ranges::count(all, 2U), std::ptrdiff_t{count});
    });
    EXPECT_EQ(std::ranges::count(all, 1U), std::ptrdiff_t{count});
    heap_.transact([&] { std::ranges::fill(all, 4); });
    crash();
    EXPECT_EQ(std::ranges::count(*heap_.find<numbers>("all").first, 4U), std::ptrdiff_t{count});
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_ways_out_test, a_thread_that_is_ended_within_takes_it_back) {
    auto* const word = heap_.construct<int>("word")(1);
    heap_.commit();
    std::vector<std::string> told;
    set_error_handler([&](const error& what) { told.emplace_back(what.what()); });
    std::thread([&] {
        heap_.transact([&] {
            *word = 2;
            static_cast<void>(heap_.construct<int>("more")(3));
            ::pthread_exit(nullptr);  // unwinds, as a cancellation does
        });
    }).join();
    EXPECT_EQ(*word, 1);
    EXPECT_EQ(heap_.find<int>("more").first, nullptr);
    EXPECT_THAT(told, IsEmpty()) << "it was not left open";
    heap_.transact([&] { *word = 4; });
    crash();
    EXPECT_EQ(*heap_.find<int>("word").first, 4);
}

TEST_F(transact_ways_out_test, a_thread_that_leaves_it_open_takes_it_back) {
    auto* const word = heap_.construct<int>("word")(1);
    heap_.commit();
    std::vector<std::string> told;
    set_error_handler([&](const error& what) { told.emplace_back(what.what()); });
    alignas(transact_scope) std::array<std::byte, sizeof(transact_scope)> place{};
    std::thread([&] {
        ::new (place.data()) transact_scope(heap_);
        *word = 2;
    }).join();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_THAT(told.front(), HasSubstr("a thread that ends within it"));
    EXPECT_EQ(*word, 1);
    heap_.transact([&] { *word = 3; });
    EXPECT_EQ(*word, 3);
}

std::jmp_buf way_out;

/// In C there is no destructor that a jump leaves out.
TEST_F(transact_ways_out_test, a_jump_leaves_it_open_and_the_program_may_end_it) {
    heap_.close();
    hf_heap* heap = nullptr;
    ASSERT_EQ(hf_open(path().c_str(), nullptr, &heap), HF_OK);
    auto* const word = static_cast<int*>(hf_allocate(heap, sizeof(int)));
    *word = 1;
    ASSERT_EQ(hf_commit(heap), HF_OK);
    if (setjmp(way_out) == 0) {
        ASSERT_EQ(hf_transact_begin(heap), HF_OK);
        *word = 2;
        std::longjmp(way_out, 1);
    }
    EXPECT_EQ(*word, 2);
    EXPECT_EQ(hf_commit(heap), HF_INVALID_ARGUMENT) << "it is open";
    EXPECT_EQ(hf_transact_abort(heap), HF_OK);
    EXPECT_EQ(*word, 1);
    EXPECT_EQ(hf_transact_abort(heap), HF_INVALID_ARGUMENT);
    EXPECT_EQ(hf_close(heap), HF_OK);
    heap_ = open();
}

/// Its calls are cut off all the time.
TEST_F(transact_ways_out_test, signals_come_meanwhile) {
    auto& all = *heap_.construct<numbers>("all")(heap_.get_allocator<std::uint64_t>());
    heap_.commit();
    static volatile std::sig_atomic_t signals = 0;
    struct sigaction before {};
    struct sigaction count {};
    count.sa_handler = [](int) { signals = signals + 1; };  // without SA_RESTART
    ASSERT_EQ(::sigaction(SIGALRM, &count, &before), 0);
    itimerval often{{0, 100}, {0, 100}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    std::uint64_t next = 0;
    while (next < 200 || signals < 200) {
        heap_.transact([&] { all.push_back(next); });
        ++next;
        EXPECT_THROW(heap_.transact([&] {
            all.push_back(0);
            throw given_up();
        }),
                     given_up);
    }
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    crash();
    const numbers& found = *heap_.find<numbers>("all").first;
    ASSERT_EQ(found.size(), next);
    for (std::uint64_t i = 0; i < next; ++i) {
        ASSERT_EQ(found[i], i);
    }
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

}  // namespace
}  // namespace holdfast::of_ways_out
