#include <gtest/gtest.h>

#include "extent/decay.hpp"
#include "extent/extent_test_support.hpp"

namespace holdfast::extent {
namespace {

using base::pages;

class extent_decay_test : public testing::Test {
protected:
    extent_decay_test() { test_time = 0; }

    extent_decay decay_;
};

TEST_F(extent_decay_test, is_off_until_it_is_started) {
    EXPECT_EQ(decay_.now(), 0U);
    EXPECT_FALSE(decay_.enabled());
    EXPECT_FALSE(decay_.is_due());
    EXPECT_FALSE(decay_.step({1000}));
}

TEST_F(extent_decay_test, fewer_pages_may_stay_with_each_step) {
    decay_.start(10 * decay_curve::step_ns, test_clock);
    EXPECT_TRUE(decay_.enabled());
    EXPECT_FALSE(decay_.at_once());
    EXPECT_FALSE(decay_.step({1000})) << "no step is over";
    pages left{1000};
    for (int step = 0; step < 12; ++step) {
        test_time += decay_curve::step_ns;
        EXPECT_TRUE(decay_.is_due());
        ASSERT_TRUE(decay_.step(left));
        EXPECT_LE(decay_.may_stay(), left);
        left = decay_.may_stay();
    }
    EXPECT_EQ(left.value, 0U);
}

TEST_F(extent_decay_test, of_no_length_lets_nothing_stay) {
    decay_.start(0, test_clock);
    EXPECT_TRUE(decay_.at_once());
    EXPECT_TRUE(decay_.is_due());
    ASSERT_TRUE(decay_.step({1000}));
    EXPECT_EQ(decay_.may_stay().value, 0U);
    EXPECT_EQ(decay_.limit({1000}).value, 0U);
}

TEST_F(extent_decay_test, that_never_ends_has_no_steps) {
    decay_.start(decay_curve::never, test_clock);
    test_time = ~std::uint64_t{0} / 2;
    EXPECT_FALSE(decay_.enabled());
    EXPECT_FALSE(decay_.is_due());
    EXPECT_EQ(decay_.now(), test_time);
}

}  // namespace
}  // namespace holdfast::extent
