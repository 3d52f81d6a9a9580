// holdfast gc and leaks: what is unreachable, by type and size; freed, or only said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "segment/format/heap_format.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class cli_gc : public ::testing::TestWithParam<durability> {
protected:
    void SetUp() override {
        open_options wanted = small_segments();
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        manager made(create_only, heap_, wanted);
        made.register_type({7, 48, 48, {{0}}, "leaked thing"});
        std::memset(made.allocate_to(made.root(0), 100), 0, 100);
        for (int i = 0; i < 10; ++i) {
            made.allocate_to(made.root(1), 48, {.type = 7});
        }
        made.allocate_to(made.root(1), 300'000, {.zeroed = true});
        made.commit();
    }
    [[nodiscard]] std::uint64_t blocks() const { return manager(open_read_only, heap_).statistics().allocated_blocks; }

    scratch_directory directory_;
    std::string heap_ = directory_.path() + "/heap";
};

INSTANTIATE_TEST_SUITE_P(in, cli_gc, ::testing::Values(durability::commit, durability::atomic),
                         [](const auto& each) { return each.param == durability::atomic ? "atomic" : "commit"; });

TEST_P(cli_gc, leaks_says_what_they_are_and_changes_nothing) {
    const auto said = run_holdfast({"leaks", heap_});
    EXPECT_EQ(said.status, 1);
    EXPECT_THAT(said.out, HasSubstr("10 blocks, 480"));
    EXPECT_THAT(said.out, HasSubstr("leaked thing"));
    EXPECT_THAT(said.out, HasSubstr("age"));
    EXPECT_EQ(blocks(), 12U);
    const auto object = run_holdfast({"gc", heap_, "--dry-run", "--json"}).json();
    EXPECT_EQ(object.at("blocks_unreachable"), 10);
    EXPECT_EQ(object.at("unreachable").at(0).at("type"), 7);
    EXPECT_EQ(object.at("unreachable").at(0).at("size"), 48);
    EXPECT_EQ(blocks(), 12U);
}

TEST_P(cli_gc, gc_frees_them_and_then_there_are_none) {
    const auto done = run_holdfast({"gc", heap_, "--precise", "--threads", "2"});
    EXPECT_EQ(done.status, 0) << done.err;
    EXPECT_EQ(blocks(), 2U);
    EXPECT_EQ(run_holdfast({"leaks", heap_}).status, 0);
    EXPECT_EQ(run_holdfast({"check", heap_}).status, 0);
}

TEST_P(cli_gc, null_transient_makes_pointers_to_memory_that_is_gone_null) {
    {
        open_options wanted = small_segments();
        wanted.durability = GetParam();
        wanted.accept_process_crash_only = true;
        manager heap(open_only, heap_, wanted);
        auto* const leads_out =
            static_cast<ptr<char>*>(heap.allocate_to(heap.root(2), 48, {.zeroed = true, .type = 7}));
        static char of_this_process = 0;
        *leads_out = &of_this_process;
        heap.commit();
    }
    EXPECT_EQ(run_holdfast({"gc", heap_, "--null-transient"}).status, 2) << "without --precise";
    EXPECT_EQ(run_holdfast({"gc", heap_, "--precise", "--null-transient", "--dry-run"}).status, 2);
    const auto leads_out_now = [this] {
        const manager heap(open_read_only, heap_);
        return !segment::is_null_pointer(*static_cast<const std::uint64_t*>(heap.root(2).get()));
    };
    EXPECT_EQ(run_holdfast({"gc", heap_, "--precise", "--json"}).json().at("nulled_pointers"), 0);
    EXPECT_TRUE(leads_out_now());
    const auto done = run_holdfast({"gc", heap_, "--precise", "--null-transient", "--json"}).json();
    EXPECT_EQ(done.at("wild_pointers"), 1);
    EXPECT_EQ(done.at("nulled_pointers"), 1);
    EXPECT_FALSE(leads_out_now());
}

TEST_P(cli_gc, strict_refuses_types_that_nobody_registered) {
    EXPECT_EQ(run_holdfast({"gc", heap_, "--strict"}).status, 2) << "without --precise";
    const auto refused = run_holdfast({"gc", heap_, "--precise", "--strict"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("registered type"));
    EXPECT_EQ(blocks(), 12U);
}

}  // namespace
}  // namespace holdfast::support
