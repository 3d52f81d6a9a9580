// Transactions in the domain `disk` with every call in them failing (campaign.hpp states the fault model).
//
// A step is a node more in a list behind root 0, in one transaction. It is acknowledged when the transaction has
// returned. After a failed sync nothing more may be acknowledged.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "campaign.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::faults {
namespace {

using support::wrong_content;
using testing::IsEmpty;

struct link {
    ptr<link> next;
    std::uint64_t step = 0;
    std::uint64_t bytes = 0;
};

open_options on_disk() {
    open_options options = support::small_segments();
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::disk;
    return options;
}

/// Content in the group, content that is synced before it, and blocks that make the heap grow.
std::uint64_t link_bytes(std::uint64_t step) {
    return step % 4 == 3 ? 700'000 : step % 4 == 2 ? 20'000 : 40 + step * 8;
}

enum class commit_kind : std::uint8_t { durable, synced_later };

/// Throws what the transaction throws: then nothing has changed, or a later sync makes it durable.
void push_link(manager& heap, const trial& one, commit_kind kind = commit_kind::durable) {
    auto& head = reinterpret_cast<ptr<link>&>(heap.root(0));
    transaction tx(heap);
    link* const before = tx.load(head);
    const std::uint64_t step = before == nullptr ? 1 : before->step + 1;
    one.begin(step);
    auto* const made = ::new (tx.allocate(link_bytes(step))) link;
    std::memset(static_cast<void*>(made), static_cast<int>(step % 200), link_bytes(step));
    ::new (made) link{before, step, link_bytes(step)};
    tx.store(head, made);
    if (kind == commit_kind::durable) {
        tx.commit();
    } else {
        heap.sync(tx.commit_later());
    }
    one.done(step);
}

/// As many steps as there are until one fails. After a failed sync none succeeds.
void push_links_until_failure(manager& heap, const trial& one, unsigned steps,
                              commit_kind kind = commit_kind::durable) {
    bool poisoned = false;
    for (unsigned i = 0; i < steps; ++i) {
        try {
            push_link(heap, one, kind);
            if (poisoned) {
                throw wrong_content("a transaction was acknowledged after a failed sync");
            }
        } catch (const error& failure) {
            poisoned = poisoned || failure.reason() == errc::poisoned;
        } catch (const bad_alloc&) {  // no space: the heap is as it was, and the next step may succeed
        }
    }
}

std::uint64_t step_of_chain(const manager& heap) {
    const auto* at = static_cast<const link*>(heap.root(0).get());
    const std::uint64_t newest = at == nullptr ? 0 : at->step;
    for (std::uint64_t step = newest; step > 0; --step, at = at->next.get()) {
        if (at == nullptr || at->step != step || at->bytes != link_bytes(step)) {
            throw wrong_content("the list ends, or goes elsewhere, at step " + std::to_string(step));
        }
        const auto* const bytes = reinterpret_cast<const unsigned char*>(at);
        for (std::uint64_t i = sizeof(link); i < at->bytes; ++i) {
            if (bytes[i] != step % 200) {
                throw wrong_content("content of step " + std::to_string(step));
            }
        }
    }
    return newest;
}

constexpr std::uint64_t first_link = 6;

void make_chain(const std::string& path, bool dies) {
    const base::process_end end = base::run_in_child([&] {
        progress ignored{};
        const trial one{path, {}, ignored};
        manager heap(create_only, path, on_disk());
        for (std::uint64_t i = 0; i < first_link; ++i) {
            push_link(heap, one);
        }
        if (!dies) {
            heap.close();
        }
        ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
}

/// The heap opens, is sound, holds what was acknowledged, and goes on.
void judge_chain(const trial& one, bool /*once*/) {
    std::uint64_t step = 0;
    {
        manager heap(open_only, one.heap, on_disk());
        EXPECT_THAT(heap.check(false), IsEmpty());
        step = step_of_chain(heap);
        EXPECT_TRUE(step == one.told.acknowledged || step == one.told.attempted)
            << "step " << step << ", acknowledged " << one.told.acknowledged << ", attempted " << one.told.attempted;
        EXPECT_EQ(heap.statistics().allocated_blocks, step) << "a block leaks, or is lost";
        progress ignored{};
        push_link(heap, {one.heap, {}, ignored});
        heap.close();
    }
    const manager again(open_read_only, one.heap, support::small_segments());
    EXPECT_FALSE(again.statistics().recovered);
    EXPECT_EQ(step_of_chain(again), step + 1);
}

void live(const trial& one) {
    one.begin(first_link);
    one.done(first_link);
    manager heap(open_only, one.heap, on_disk());
    push_links_until_failure(heap, one, 8);
    heap.checkpoint();
    push_links_until_failure(heap, one, 4, commit_kind::synced_later);
    heap.close();
}

TEST(faults_of_disks, transactions_and_close) {
    run_campaign(
        {"transactions on a disk", [](const std::string& path) { make_chain(path, false); }, live, judge_chain});
}

TEST(faults_of_disks, replay_of_the_log) {
    run_campaign({"replay of a log", [](const std::string& path) { make_chain(path, true); }, live, judge_chain});
}

/// Was: taken for a range of which a part is not mapped, so T moved past what no sync had written.
TEST(faults_of_disks, a_sync_that_has_no_memory_has_failed) {
    const support::scratch_directory scratch;
    base::shared_memory<progress> told;
    const trial one{scratch / "heap", {}, *told};
    manager heap(create_only, one.heap, on_disk());
    push_link(heap, one);
    for (const std::uint64_t nth : {1U, 0U}) {  // and no other fault behind it
        arm({call::msync, nth, false, ENOMEM});
        try {
            push_link(heap, one);  // its content is synced before its record
            disarm();
            ADD_FAILURE() << "acknowledged";
        } catch (const error& failure) {
            disarm();
            EXPECT_EQ(failure.reason(), errc::poisoned);
        }
    }
    heap.close(false);
}

/// Was: answered with the block, as if what the program had stored in it were durable.
TEST(faults_of_disks, a_reallocation_that_stays_in_place_fails_where_its_sync_does) {
    const support::scratch_directory scratch;
    manager heap(create_only, scratch / "heap", on_disk());
    heap.allocate_to(heap.root(1), 100'000);
    arm({call::msync, 1, false, EIO});
    EXPECT_THROW(heap.realloc_to(heap.root(1), 99'000), std::exception);
    EXPECT_NE(fired(), 0U);
    disarm();
    heap.close(false);
}

// --- a close that fails, and the next one ----------------------------------------------------------------------------

enum class close_outcome : int { whole = 10, data_lost = 11, mark_lost = 12 };

/// In this process: the n-th sync of a close fails. Returns what it was for; `whole` where there are fewer. Leaves the
/// heap open after a failure.
close_outcome close_with_fault(manager& heap, std::uint64_t nth) {
    arm({call::fdatasync, nth, false, EIO});
    try {
        heap.close(true);
    } catch (const error& failure) {
        disarm();
        const bool of_mark = failure.path().ends_with("superblock");
        return of_mark ? close_outcome::mark_lost : close_outcome::data_lost;
    }
    disarm();
    return close_outcome::whole;
}

open_options in_page_cache(durability chosen) {
    open_options options = support::small_segments();
    options.durability = chosen;
    options.accept_process_crash_only = true;
    options.domain = open_options::domain_choice::page_cache;
    return options;
}

/// Makes a heap of one link, and lets `work` return an exit status for each sync of a close that may fail.
void for_each_fault_of_a_close(const open_options& options,
                               const std::function<int(manager& heap, const trial& one, close_outcome found)>& work,
                               const std::function<void(const trial& one, close_outcome found)>& judge) {
    const support::scratch_directory scratch;
    base::shared_memory<progress> told;
    for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        const trial one{scratch / std::to_string(nth), {}, *told};
        const base::process_end end = base::run_in_child([&]() -> int {
            set_error_handler([](const error&) {});
            manager heap(create_only, one.heap, options);
            push_link(heap, one);
            const close_outcome found = close_with_fault(heap, nth);
            return found == close_outcome::whole ? static_cast<int>(found) : work(heap, one, found);
        });
        const auto found = static_cast<close_outcome>(end.exit_status());
        ASSERT_TRUE(found == close_outcome::whole || found == close_outcome::data_lost ||
                    found == close_outcome::mark_lost)
            << end;
        if (found == close_outcome::whole) {
            EXPECT_GT(nth, 4U) << "segments, objects, lanes and superblock";
            break;
        }
        judge(one, found);
    }
}

/// Was: the kernel tells a lost write once, so the second close, the destructor's for example, synced nothing and said
/// that the heap was clean.
TEST(faults_of_closes, no_close_says_clean_after_a_sync_that_failed) {
    const auto close_again = [](manager& heap, const trial& /*one*/, close_outcome found) {
        const auto is_refused = [](const auto& call) {
            try {
                call();
                return false;
            } catch (const error& failure) {
                return failure.reason() == errc::poisoned;
            }
        };
        if (found == close_outcome::data_lost) {
            if (!is_refused([&] { heap.commit(); }) || !is_refused([&] { heap.close(true); })) {
                return 1;
            }
            heap.close(false);
        } else if (is_refused([&] { heap.close(true); })) {
            return 2;
        }
        return heap.is_open() ? 3 : static_cast<int>(found);
    };
    for (const open_options& options :
         {on_disk(), in_page_cache(durability::atomic), in_page_cache(durability::collect)}) {
        SCOPED_TRACE(static_cast<int>(options.durability));
        for_each_fault_of_a_close(options, close_again, [&](const trial& one, close_outcome found) {
            const manager heap(open_only, one.heap, options);
            EXPECT_EQ(heap.statistics().recovered, found == close_outcome::data_lost);
            EXPECT_EQ(step_of_chain(heap), 1U);
            EXPECT_THAT(heap.check(false), IsEmpty());
        });
    }
}

/// Was: a part of the superblock said that the heap was closed, so the next open replayed none of these calls.
TEST(faults_of_closes, what_follows_a_close_that_failed_is_replayed) {
    const auto go_on = [](manager& heap, const trial& one, close_outcome found) {
        if (found == close_outcome::mark_lost) {
            push_link(heap, one);
        }
        std::_Exit(static_cast<int>(found));
        return 0;
    };
    for (const open_options& options : {on_disk(), in_page_cache(durability::atomic)}) {
        for_each_fault_of_a_close(options, go_on, [&](const trial& one, close_outcome found) {
            const manager heap(open_only, one.heap, options);
            EXPECT_TRUE(heap.statistics().recovered);
            EXPECT_EQ(step_of_chain(heap), found == close_outcome::mark_lost ? 2U : 1U);
            EXPECT_THAT(heap.check(false), IsEmpty());
        });
    }
}

}  // namespace
}  // namespace holdfast::faults
