// holdfast defrag: gives back what is free, changes nothing else.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using base::mebibyte;

class cli_defrag : public ::testing::Test {
protected:
    /// 40 blocks of a MiB, every fourth of which stays.
    void make_heap_with_holes(durability kind) const {
        open_options wanted = small_segments();
        wanted.durability = kind;
        wanted.accept_process_crash_only = true;
        wanted.decay = std::chrono::milliseconds(-1);
        manager made(create_only, heap_, wanted);
        for (std::size_t i = 0; i < 40; ++i) {
            std::memset(made.allocate_to(made.root(i), mebibyte), static_cast<int>(i), mebibyte);
        }
        made.commit();
        for (std::size_t i = 0; i < 40; ++i) {
            if (i % 4 != 0) {
                made.free_from(made.root(i));
            }
        }
        made.commit();
    }
    void expect_sound() const {
        const manager heap(open_read_only, heap_);
        EXPECT_THAT(heap.check(true), IsEmpty());
        for (std::size_t i = 0; i < 40; i += 4) {
            const auto* const block = static_cast<const unsigned char*>(heap.root(i).get());
            ASSERT_NE(block, nullptr);
            EXPECT_TRUE(block[0] == i && block[mebibyte - 1] == i) << i;
        }
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

TEST_F(cli_defrag, gives_back_what_is_free) {
    for (const durability kind : {durability::commit, durability::atomic}) {
        make_heap_with_holes(kind);
        const answer given = run_holdfast({"defrag", heap_, "--json"});
        ASSERT_EQ(given.status, 0) << given.err;
        const auto json = given.json();
        EXPECT_GE(json["charged_before"].get<std::uint64_t>(), 40 * mebibyte);
        EXPECT_LT(json["charged_after"].get<std::uint64_t>(), 16 * mebibyte);
        EXPECT_GE(json["given_back"].get<std::uint64_t>() + json["shortened"].get<std::uint64_t>(), 28 * mebibyte);
        expect_sound();
        const answer again = run_holdfast({"defrag", heap_});
        EXPECT_EQ(again.status, 0);
        EXPECT_THAT(again.out, AllOf(HasSubstr("charged before"), HasSubstr("heap shortened by")));
        expect_sound();
        EXPECT_TRUE(manager::remove(heap_));
    }
}

TEST_F(cli_defrag, says_whether_the_target_was_reached) {
    make_heap_with_holes(durability::commit);
    EXPECT_EQ(run_holdfast({"defrag", heap_, "--target", "1T"}).status, 0);
    const answer missed = run_holdfast({"defrag", heap_, "--target", "1 MiB", "--json"});
    EXPECT_EQ(missed.status, 2);
    EXPECT_EQ(missed.json()["reached"], false);
    EXPECT_EQ(missed.json()["target"], mebibyte);
    EXPECT_EQ(run_holdfast({"defrag", heap_, "--target", "30M"}).status, 0);
    expect_sound();
}

TEST_F(cli_defrag, refuses_what_is_no_size_and_what_is_no_heap) {
    make_heap_with_holes(durability::commit);
    for (const char* const wrong : {"many", "12X", "-1", "99999999999999999999", "16777216T", "1MM"}) {
        const answer refused = run_holdfast({"defrag", heap_, fmt::format("--target={}", wrong)});
        EXPECT_EQ(refused.status, 2) << wrong;
        EXPECT_THAT(refused.err, HasSubstr("--target")) << wrong;
    }
    EXPECT_EQ(run_holdfast({"defrag", scratch_ / "nothing"}).status, 2);
    const manager writer(open_only, heap_);
    const answer locked = run_holdfast({"defrag", heap_});
    EXPECT_EQ(locked.status, 2);
    EXPECT_THAT(locked.err, HasSubstr("locked"));
}

TEST_F(cli_defrag, recovers_a_crashed_heap_first) {
    make_crashed_heap(heap_, 5);
    EXPECT_EQ(run_holdfast({"defrag", heap_}).status, 0);
    const manager heap(open_read_only, heap_);
    EXPECT_EQ(step_of(heap), 5U);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

}  // namespace
}  // namespace holdfast::support
