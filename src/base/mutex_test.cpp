#include "base/mutex.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace holdfast::base {

namespace {

/// False for 0, which stands for no thread.
bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    file >> number >> name >> state;
    return thread != 0 && state == "S";
}

template <class Mutex>
class lock_test : public testing::Test {
protected:
    Mutex mutex_;
    std::uint64_t guarded_ = 0;  // not atomic, so that ThreadSanitizer sees whether the lock orders its changes
};

using locks = testing::Types<mutex, brief_mutex>;
TYPED_TEST_SUITE(lock_test, locks);

TYPED_TEST(lock_test, is_held_by_one_at_a_time) {
    constexpr int threads = 8;
    constexpr int rounds = 20'000;
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) {
        workers.emplace_back([this] {
            for (int k = 0; k < rounds; ++k) {
                const scoped_lock lock(this->mutex_);
                ++this->guarded_;
            }
        });
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(this->guarded_, std::uint64_t{threads} * rounds);
}

TYPED_TEST(lock_test, who_waits_longer_than_he_spins_is_served_too) {
    constexpr int sleepers = 4;
    std::vector<std::thread> workers;
    std::array<std::atomic<pid_t>, sleepers> names{};
    {
        const scoped_lock lock(this->mutex_);
        for (auto& name : names) {
            workers.emplace_back([this, &name] {
                name.store(::gettid());
                const scoped_lock own(this->mutex_);
                ++this->guarded_;
            });
        }
        for (auto& name : names) {
            while (!sleeps(name.load())) {
                std::this_thread::yield();
            }
        }
        EXPECT_EQ(this->guarded_, 0U);
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(this->guarded_, std::uint64_t{sleepers});
    if (this->mutex_.try_lock()) {
        this->mutex_.unlock();
    } else {
        ADD_FAILURE() << "the lock is held after all have given it up";
    }
}

/// Regression: a thread that held the lock most of the time, and took it again at once, kept another one out for 300
/// ms.
TEST(mutex_test, who_takes_the_lock_again_and_again_kept_others_out) {
    using clock = std::chrono::steady_clock;
    mutex shared;
    std::atomic<bool> ended{false};
    std::atomic<unsigned> turns{0};
    std::thread other([&] {
        while (!ended.load()) {
            const scoped_lock lock(shared);
            ++turns;
        }
    });
    constexpr unsigned wanted = 10;
    constexpr unsigned limit = 3000;  // a busy machine takes longer to wake a thread
    unsigned served = 0;              // the other thread had the lock between two rounds
    unsigned rounds = 0;
    for (unsigned seen = 0; served < wanted && rounds < limit; ++rounds) {
        const scoped_lock lock(shared);
        served += turns.load() != seen ? 1U : 0U;
        seen = turns.load();
        const auto until = clock::now() + std::chrono::microseconds(300);
        while (clock::now() < until) {
        }
    }
    ended.store(true);
    other.join();
    EXPECT_EQ(served, wanted) << "in " << rounds << " rounds";
}

}  // namespace

}  // namespace holdfast::base
