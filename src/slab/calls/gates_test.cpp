// Changes, of which a commit cuts none in two.

#include "slab/calls/gates.hpp"

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "slab/test_heap.hpp"

namespace holdfast::slab {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class change_gate_test : public testing::Test {
protected:
    /// For a gate that nobody keeps open, or that somebody keeps open for good.
    [[nodiscard]] bool try_close() { return gate_.try_close(clock::now() + 20ms); }
    /// In a thread of its own.
    template <class Work>
    void elsewhere(Work&& work) {
        std::thread(std::forward<Work>(work)).join();
    }

    test_heap heap_;
    change_gate& gate_ = changes_of(heap_.blocks());
};

TEST_F(change_gate_test, IsNotClosedWhileAnotherThreadHasAChangeOpen) {
    std::promise<void> began;
    std::promise<void> ends;
    std::thread other([&] {
        const change_call outer(&gate_);
        { const change_call inner(&gate_); }
        began.set_value();
        ends.get_future().wait();
    });
    began.get_future().wait();
    EXPECT_FALSE(try_close());
    EXPECT_FALSE(try_close()) << "the first attempt left it open";
    ends.set_value();
    other.join();
    ASSERT_TRUE(try_close());
    gate_.open();
}

TEST_F(change_gate_test, ChangesOfTheThreadThatClosesItGoOn) {
    const change_call before(&gate_);
    ASSERT_TRUE(try_close());
    { const change_call within(&gate_); }
    gate_.open();
    elsewhere([&] { EXPECT_FALSE(try_close()) << "the change is open again for others"; });
}

TEST_F(change_gate_test, ChangesWaitUntilItIsOpen) {
    ASSERT_TRUE(try_close());
    std::atomic<bool> is_open{false};
    std::thread other([&] {
        const change_call waits(&gate_);
        EXPECT_TRUE(is_open.load());
    });
    is_open.store(true);  // before it is: a change that does not wait most likely sees false
    gate_.open();
    other.join();
}

TEST_F(change_gate_test, AChangeMayEndInAnotherThread) {
    std::promise<thread_cache*> began;
    std::promise<void> ends;
    std::thread other([&] {
        began.set_value(gate_.enter());
        ends.get_future().wait();
        const change_call again(&gate_);
    });
    gate_.leave_anywhere(began.get_future().get());
    ASSERT_TRUE(try_close()) << "the change has ended, though its thread goes on";
    ends.set_value();
    gate_.open();
    other.join();
    ASSERT_TRUE(try_close());
    gate_.open();
}

TEST_F(change_gate_test, AChangeWhoseThreadEndedIsForgotten) {
    thread_cache* begun = nullptr;
    elsewhere([&] { begun = gate_.enter(); });
    EXPECT_TRUE(try_close());
    gate_.open();
}

}  // namespace

}  // namespace holdfast::slab
