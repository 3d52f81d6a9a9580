// A heap in durability `collect` with every call in it failing (campaign.hpp states the fault model).
//
// A step is a node more in a list behind root 0; every eighth has a named object, too. Nothing commits: a step is there
// when it was stored, whatever failed since, as the process lives on.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "campaign.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::faults {
namespace {

using support::wrong_content;
using testing::IsEmpty;

struct node {
    ptr<node> next;
    std::uint64_t step;
    std::uint64_t bytes;
};

open_options collecting(open_options::domain_choice domain) {
    open_options options = support::small_segments();
    options.durability = durability::collect;
    options.accept_process_crash_only = true;
    options.domain = domain;
    return options;
}

/// Small blocks, blocks of pages, and some that make the heap grow.
std::uint64_t bytes_of(std::uint64_t step) { return step % 4 == 3 ? 700'000 : step % 4 == 2 ? 20'000 : 40 + step * 8; }

std::string node_name(std::uint64_t step) { return "node of step " + std::to_string(step); }

/// False where there is no space; the heap is as it was.
bool push(manager& heap, const trial& one) {
    auto* const head = static_cast<node*>(heap.root(0).get());
    const std::uint64_t step = head == nullptr ? 1 : head->step + 1;
    auto* const fresh = static_cast<node*>(heap.allocate(bytes_of(step), std::nothrow));
    if (fresh == nullptr) {
        return false;
    }
    std::memset(static_cast<void*>(fresh), static_cast<int>(step % 200), bytes_of(step));
    fresh->next = head;
    fresh->step = step;
    fresh->bytes = bytes_of(step);
    if (step % 8 == 0) {
        static_cast<void>(heap.construct<std::uint64_t>(node_name(step).c_str())(step));  // may throw: no step then
    }
    one.begin(step);
    heap.root(0) = fresh;
    one.done(step);
    return true;
}

/// The step, and every byte of it compared. Throws wrong_content.
std::uint64_t step_of_list(const manager& heap) {
    const auto* at = static_cast<const node*>(heap.root(0).get());
    const std::uint64_t newest = at == nullptr ? 0 : at->step;
    for (std::uint64_t step = newest; step > 0; --step, at = at->next.get()) {
        if (at == nullptr || at->step != step || at->bytes != bytes_of(step)) {
            throw wrong_content("the list ends, or goes elsewhere, at step " + std::to_string(step));
        }
        const auto* const bytes = reinterpret_cast<const unsigned char*>(at);
        for (std::uint64_t i = sizeof(node); i < at->bytes; ++i) {
            if (bytes[i] != step % 200) {
                throw wrong_content("content of step " + std::to_string(step));
            }
        }
        if (step % 8 == 0) {
            const auto* const named = heap.find<std::uint64_t>(node_name(step).c_str()).first;
            if (named == nullptr || *named != step) {
                throw wrong_content("the object of step " + std::to_string(step));
            }
        }
    }
    return newest;
}

/// Fills two segments, loses some, and leaves. `dies`: without a close.
void make_list(const std::string& path, open_options::domain_choice domain, bool dies, std::uint64_t segment_size = 0) {
    const base::process_end end = base::run_in_child([&] {
        progress ignored{};
        const trial one{path, {}, ignored};
        open_options options = collecting(domain);
        options.segment_size = segment_size == 0 ? options.segment_size : segment_size;
        manager heap(create_only, path, options);
        for (int i = 0; i < 10; ++i) {
            static_cast<void>(push(heap, one) ? 0 : ::raise(SIGABRT));
            static_cast<void>(heap.allocate(i % 3 == 0 ? 100'000 : 200));
        }
        if (!dies) {
            heap.close();
        }
        ::kill(::getpid(), SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
}

constexpr std::uint64_t first_step = 10;

/// The heap opens, is sound, holds what was stored, and goes on.
void judge_list(const trial& one, bool /*once*/) {
    std::uint64_t step = 0;
    {
        manager heap(open_only, one.heap, collecting(open_options::domain_choice::page_cache));
        EXPECT_THAT(heap.check(false), IsEmpty());
        step = step_of_list(heap);
        EXPECT_TRUE(step == one.told.acknowledged || step == one.told.attempted)
            << "step " << step << ", acknowledged " << one.told.acknowledged << ", attempted " << one.told.attempted;
        progress ignored{};
        EXPECT_TRUE(push(heap, {one.heap, {}, ignored}));
        static_cast<void>(heap.collect());
        heap.close();
    }
    manager again(open_read_only, one.heap, support::small_segments());
    EXPECT_FALSE(again.statistics().recovered);
    EXPECT_EQ(step_of_list(again), step + 1);
    EXPECT_EQ(again.collect({.dry_run = true}).blocks_freed, 0U);
    EXPECT_THAT(again.check(true), IsEmpty());
}

constexpr auto on_page_cache = open_options::domain_choice::page_cache;

std::function<void(const std::string&)> prepared_list(open_options::domain_choice domain, bool dies) {
    return [=](const std::string& path) { make_list(path, domain, dies); };
}

/// What depends on the domain.
class collect_faults : public testing::TestWithParam<open_options::domain_choice> {
protected:
    static std::function<void(const std::string&)> list(bool dies) { return prepared_list(GetParam(), dies); }
};

INSTANTIATE_TEST_SUITE_P(
    on, collect_faults, testing::Values(open_options::domain_choice::page_cache, open_options::domain_choice::emulated),
    [](const auto& each) { return each.param == open_options::domain_choice::emulated ? "emulated" : "page_cache"; });

TEST(faults_of_collect, create) {
    run_campaign({"create in collect", [](const std::string&) {},
                  [](const trial& one) {
                      manager heap(create_only, one.heap, collecting(on_page_cache));
                      while (step_of_list(heap) < 3) {
                          if (!push(heap, one)) {
                              break;
                          }
                      }
                      heap.close();
                  },
                  [](const trial& one, bool once) {
                      if (manager::consistent(one.heap) || one.told.acknowledged != 0) {
                          judge_list(one, once);
                          return;
                      }
                      // Nothing, or what a creation that is cut off may leave: the next one succeeds.
                      if (std::filesystem::exists(one.heap + "/superblock")) {
                          judge_list(one, once);
                          return;
                      }
                      EXPECT_FALSE(once && std::filesystem::exists(one.heap)) << "remains of a creation";
                      manager(create_only, one.heap, collecting(on_page_cache)).close();
                  }});
}

TEST_P(collect_faults, open_grow_collect_and_close) {
    run_campaign({"a life in collect", list(false),
                  [](const trial& one) {
                      one.begin(first_step);
                      one.done(first_step);
                      manager heap(open_only, one.heap, collecting(GetParam()));
                      for (unsigned i = 0; i < 12 && push(heap, one); ++i) {
                          static_cast<void>(heap.allocate(30'000UL * (1 + i % 3), std::nothrow));
                      }
                      const collect_report done = heap.collect();
                      if (done.blocks_freed < 10 && done.lines.empty()) {
                          throw wrong_content("what was lost is not freed, and nothing says why");
                      }
                      static_cast<void>(step_of_list(heap));
                      heap.shrink();
                      static_cast<void>(push(heap, one));
                      heap.close();
                  },
                  judge_list});
}

/// Was: the threads that had been started waited without an end for those for which no memory was left.
TEST(faults_of_collect, a_trace_ends_with_the_threads_that_there_is_memory_for) {
    const support::scratch_directory directory;
    manager heap(create_only, directory.path() + "/heap", collecting(on_page_cache));
    bool has_failed = true;
    for (std::uint64_t nth = 1; has_failed; ++nth) {
        arm({call::memory, nth, false, ENOMEM});
        try {
            static_cast<void>(heap.collect({.threads = 4}));
        } catch (const std::exception&) {  // where all of it needs the memory
        }
        has_failed = fired() != 0;
        disarm();
    }
}

TEST_P(collect_faults, open_after_a_death) {
    run_campaign({"recovery by tracing", list(true),
                  [](const trial& one) {
                      one.begin(first_step);
                      one.done(first_step);
                      manager heap(open_only, one.heap, collecting(GetParam()));
                      static_cast<void>(step_of_list(heap));
                      static_cast<void>(push(heap, one));
                      heap.close();
                  },
                  judge_list});
}

/// XFS of some kernels asks for a block to make a hole.
TEST_P(collect_faults, a_crashed_heap_opens_on_a_full_disk_where_no_hole_can_be_made) {
    const support::scratch_directory scratch;
    const std::string path = scratch / "heap";
    make_list(path, GetParam(), true,
              std::uint64_t{64} << 20U);  // the last segment is not full: what is behind its end must go
    arm({call::fallocate, 1, true, ENOSPC});
    try {
        manager heap(open_only, path, collecting(GetParam()));
        const std::uint64_t failed = fired();
        disarm();
        EXPECT_GT(failed, 0U) << "no hole was tried";
        EXPECT_EQ(step_of_list(heap), first_step);
        EXPECT_THAT(heap.check(false), IsEmpty());
    } catch (const error& failure) {
        disarm();
        ADD_FAILURE() << failure.what();
    }
}

TEST(faults_of_collect, read_after_a_death) {
    run_campaign({"a reader's trace", prepared_list(on_page_cache, true),
                  [](const trial& one) {
                      one.begin(first_step);
                      one.done(first_step);
                      const manager heap(open_read_only, one.heap, support::small_segments());
                      static_cast<void>(step_of_list(heap));
                  },
                  judge_list});
}

TEST(faults_of_collect, open_in_commit_after_a_death) {
    run_campaign({"recovery by tracing, then durability commit", prepared_list(on_page_cache, true),
                  [](const trial& one) {
                      one.begin(first_step);
                      one.done(first_step);
                      manager heap(open_only, one.heap, support::small_segments());
                      static_cast<void>(step_of_list(heap));
                  },
                  judge_list});
}

TEST(faults_of_collect, snapshot) {
    run_campaign({"snapshot of a heap in collect", prepared_list(on_page_cache, false),
                  [](const trial& one) {
                      one.begin(first_step);
                      one.done(first_step);
                      manager heap(open_only, one.heap, collecting(on_page_cache));
                      static_cast<void>(push(heap, one));
                      heap.snapshot(one.other);
                      heap.close();
                  },
                  [](const trial& one, bool once) {
                      if (one.told.succeeded || manager::consistent(one.other)) {
                          const manager copy(open_read_only, one.other, support::small_segments());
                          EXPECT_GE(step_of_list(copy), first_step);
                          EXPECT_THAT(copy.check(true), IsEmpty());
                      }
                      judge_list(one, once);
                  }});
}

}  // namespace
}  // namespace holdfast::faults
