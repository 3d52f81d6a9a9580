// Everything that a heap does, with every call in it failing (campaign.hpp states the fault model).
#include <algorithm>
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "campaign.hpp"
#include "support/counted_heap.hpp"

namespace holdfast::faults {
namespace {

namespace fs = std::filesystem;

using support::advance;
using support::make_heap;
using support::small_segments;
using support::step_of;
using ::testing::IsEmpty;

std::function<void(const std::string&)> heap_at(std::uint64_t step) {
    return [step](const std::string& path) { make_heap(path, step); };
}

/// Commits as a program does that does not give up at once: what failed is tried again.
void commit(manager& heap, const trial& one, std::uint64_t step) {
    one.begin(step);
    try {
        heap.commit();
    } catch (const error&) {
        heap.commit();
    } catch (const std::bad_alloc&) {
        heap.commit();
    }
    one.done(step);
}

/// Also in the process that committed, the heap holds what it should.
void expect_step(const manager& heap, std::uint64_t step) {
    if (step_of(heap) != step) {
        throw support::wrong_content("another step than was committed");
    }
}

/// A directory in which nothing was made, or in which a heap can be made.
void expect_room_for_a_heap(const std::string& path) {
    EXPECT_FALSE(manager::consistent(path));
    make_heap(path, 1);
    const manager opened(open_read_only, path, small_segments());
    EXPECT_EQ(step_of(opened), 1U);
}

/// The directory of a copy: whole where it was acknowledged, else nothing, or nothing that keeps a copy from being
/// made.
void judge_copy(const trial& one, bool once, std::uint64_t step) {
    if (one.told.succeeded || manager::consistent(one.other)) {
        const manager copy(open_read_only, one.other, small_segments());
        EXPECT_EQ(step_of(copy), step);
        EXPECT_THAT(copy.check(true), IsEmpty());
        return;
    }
    if (once) {
        EXPECT_FALSE(fs::exists(one.other)) << "remains of a copy";
    }
    fs::remove_all(one.other);
}

TEST(faults, create) {
    run_campaign({"create", [](const std::string&) {},
                  [](const trial& one) {
                      manager heap(create_only, one.heap, small_segments());
                      one.done(0);
                      advance(heap, 1);
                      commit(heap, one, 1);
                      heap.close(true);
                  },
                  [](const trial& one, bool once) {
                      if (manager::consistent(one.heap)) {
                          judge_commits(one, once);
                          return;
                      }
                      EXPECT_EQ(one.told.attempted, 0U);
                      if (once) {
                          EXPECT_FALSE(fs::exists(one.heap)) << "remains of a creation";
                      }
                      expect_room_for_a_heap(one.heap);
                  }});
}

TEST(faults, open_and_close) {
    run_campaign({"open and close", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      manager heap(open_only, one.heap, small_segments());
                      static_cast<void>(step_of(heap));
                      heap.close(true);
                  },
                  judge_commits});
}

TEST(faults, read) {
    run_campaign({"read", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      const manager heap(open_read_only, one.heap, small_segments());
                      static_cast<void>(step_of(heap));
                      static_cast<void>(heap.check(true));
                      static_cast<void>(heap.statistics());
                      static_cast<void>(heap.get_description());
                  },
                  judge_commits});
}

TEST(faults, commit) {
    run_campaign({"commit", heap_at(4),
                  [](const trial& one) {
                      one.done(4);
                      manager heap(open_only, one.heap, small_segments());
                      advance(heap, 5);
                      commit(heap, one, 5);
                      advance(heap, 6);
                      commit(heap, one, 6);
                      expect_step(heap, 6);
                  },
                  judge_commits});
}

/// The log begins anew with longer files, a record has parts, and several threads write the pages home.
TEST(faults, commit_of_a_long_record) {
    constexpr std::size_t bytes = std::size_t{40} << 20U;
    constexpr std::size_t changed = std::size_t{20} << 20U;
    const auto wide = [] {
        open_options options = small_segments();
        options.segment_size = std::uint64_t{16} << 20U;
        return options;
    };
    const auto has = [](const manager& heap, int value) {
        const auto* const block = static_cast<const char*>(heap.root(1).get());
        return block[0] == value && std::equal(block, block + changed - 1, block + 1);
    };
    run_campaign({"commit of a long record",
                  [&](const std::string& path) {
                      manager heap(create_only, path, wide());
                      auto* const block = static_cast<char*>(heap.allocate(bytes));
                      heap.root(1) = block;
                      std::fill_n(block, changed, '\1');
                      heap.close(true);
                  },
                  [&](const trial& one) {
                      one.done(1);
                      manager heap(open_only, one.heap, wide());
                      auto* const block = static_cast<char*>(heap.root(1).get());
                      for (const std::uint64_t step : {2U, 3U}) {
                          std::fill_n(block, changed, static_cast<char>(step));
                          commit(heap, one, step);
                      }
                      heap.close(false);
                  },
                  [&](const trial& one, bool /*once*/) {
                      manager heap(open_only, one.heap, wide());
                      EXPECT_THAT(heap.check(true), IsEmpty());
                      EXPECT_TRUE(has(heap, static_cast<int>(one.told.acknowledged)) ||
                                  has(heap, static_cast<int>(one.told.attempted)))
                          << "acknowledged " << one.told.acknowledged << ", attempted " << one.told.attempted;
                      std::fill_n(static_cast<char*>(heap.root(1).get()), changed, '\4');
                      heap.close(true);
                      EXPECT_TRUE(has(manager(open_read_only, one.heap, wide()), 4));
                  }});
}

/// New memory and old, pinned for a device, compared with the files, let go.
TEST(faults, commit_of_pinned_memory) {
    run_campaign({"commit of pinned memory", heap_at(4),
                  [](const trial& one) {
                      constexpr std::size_t bytes = 100'000;
                      one.done(4);
                      manager heap(open_only, one.heap, small_segments());
                      auto* const block = static_cast<char*>(heap.allocate(bytes));
                      heap.root(1) = block;
                      heap.pin(block, bytes);
                      for (const std::uint64_t step : {5U, 6U, 7U}) {
                          advance(heap, step);
                          std::fill_n(block, bytes, static_cast<char>(step));
                          commit(heap, one, step);
                          if (step == 6) {
                              heap.unpin(block, bytes);
                          }
                          if (std::count(block, block + bytes, static_cast<char>(step)) != bytes) {
                              throw support::wrong_content("pinned memory that a commit has changed");
                          }
                      }
                      expect_step(heap, 7);
                  },
                  judge_commits});
}

TEST(faults, grow) {
    run_campaign({"grow", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      manager heap(open_only, one.heap, small_segments());
                      heap.root(1) = heap.allocate(5UL << 20U);
                      for (int i = 0; i < 2000; ++i) {
                          static_cast<void>(heap.allocate(900));
                      }
                      advance(heap, 3);
                      commit(heap, one, 3);
                      // What was just committed for the first time is changed and committed again, and read.
                      advance(heap, 4);
                      commit(heap, one, 4);
                      expect_step(heap, 4);
                      advance(heap, 5);
                      commit(heap, one, 5);
                      expect_step(heap, 5);
                  },
                  judge_commits});
}

TEST(faults, an_allocation_that_fails_leaves_a_heap_that_goes_on) {
    run_campaign({"allocation", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      manager heap(open_only, one.heap, small_segments());
                      for (int i = 0; i < 2; ++i) {
                          void* const block = heap.allocate(3UL << 20U, std::nothrow);
                          if (block != nullptr) {
                              heap.deallocate(block);
                          }
                      }
                      advance(heap, 3);
                      commit(heap, one, 3);
                  },
                  judge_commits});
}

TEST(faults, close_with_commit) {
    run_campaign({"close", heap_at(4),
                  [](const trial& one) {
                      one.done(4);
                      manager heap(open_only, one.heap, small_segments());
                      advance(heap, 5);
                      one.begin(5);
                      heap.close(true);
                      one.done(5);
                  },
                  judge_commits});
}

TEST(faults, snapshot) {
    run_campaign({"snapshot", heap_at(4),
                  [](const trial& one) {
                      one.done(4);
                      manager heap(open_only, one.heap, small_segments());
                      advance(heap, 5);
                      one.begin(5);
                      heap.snapshot(one.other);
                      one.done(5);
                  },
                  [](const trial& one, bool once) {
                      judge_copy(one, once, 5);
                      judge_commits(one, once);
                  }});
}

TEST(faults, copy) {
    run_campaign({"copy", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      manager::copy(one.heap, one.other);
                  },
                  [](const trial& one, bool once) {
                      judge_copy(one, once, 2);
                      judge_commits(one, once);
                  }});
}

TEST(faults, copy_of_a_heap_with_a_commit_in_its_log) {
    run_campaign({"copy of a crashed heap",
                  [](const std::string& path) { support::make_heap_with_pending_commit(path, 4); },
                  [](const trial& one) {
                      one.done(4);
                      manager::copy(one.heap, one.other);
                  },
                  [](const trial& one, bool once) {
                      judge_copy(one, once, 4);
                      judge_commits(one, once);
                  }});
}

TEST(faults, remove) {
    run_campaign({"remove", heap_at(2),
                  [](const trial& one) {
                      one.done(2);
                      static_cast<void>(manager::remove(one.heap));
                  },
                  [](const trial& one, bool once) {
                      if (manager::consistent(one.heap)) {
                          EXPECT_FALSE(one.told.succeeded);
                          judge_commits(one, once);
                          return;
                      }
                      if (one.told.succeeded) {
                          EXPECT_FALSE(fs::exists(one.heap));
                      }
                      expect_room_for_a_heap(one.heap);
                  }});
}

TEST(faults, open_after_a_crash_in_a_commit) {
    run_campaign({"recovery", [](const std::string& path) { support::make_heap_with_pending_commit(path, 4); },
                  [](const trial& one) {
                      one.done(4);
                      manager heap(open_only, one.heap, small_segments());
                      static_cast<void>(step_of(heap));
                      heap.close(true);
                  },
                  judge_commits});
}

TEST(faults, read_after_a_crash_in_a_commit) {
    run_campaign({"reader's recovery", [](const std::string& path) { support::make_heap_with_pending_commit(path, 4); },
                  [](const trial& one) {
                      one.done(4);
                      const manager heap(open_read_only, one.heap, small_segments());
                      static_cast<void>(step_of(heap));
                  },
                  judge_commits});
}

// --- segments in directories of nodes -------------------------------------------------------------------------------

/// Two places for segments. They go with what a trial may leave.
open_options in_two_places(const trial& one) {
    open_options options = small_segments();
    for (const char* const place : {"/0", "/1"}) {
        options.node_directories.push_back(one.other + place);
        fs::create_directories(options.node_directories.back());
    }
    return options;
}

/// What lies in the places is the heap's, or may not be there.
void expect_places_in_use(const trial& one, std::ptrdiff_t directories) {
    for (const std::string& place : in_two_places(one).node_directories) {
        EXPECT_EQ(std::distance(fs::directory_iterator(place), fs::directory_iterator()), directories) << place;
    }
}

/// No heap is there: the next that is made and removed leaves nothing, whatever was there before.
void expect_room_for_a_heap_in_two_places(const trial& one) {
    {
        manager heap(create_only, one.heap, in_two_places(one));
        expect_places_in_use(one, 1);
        advance(heap, 1);
        heap.close(true);
    }
    EXPECT_EQ(step_of(manager(open_read_only, one.heap, small_segments())), 1U);
    EXPECT_TRUE(manager::remove(one.heap));
    EXPECT_FALSE(fs::exists(one.heap));
    expect_places_in_use(one, 0);
}

TEST(faults, create_in_two_places) {
    run_campaign({"create in two places", [](const std::string&) {},
                  [](const trial& one) {
                      manager heap(create_only, one.heap, in_two_places(one));
                      one.done(0);
                      advance(heap, 1);
                      commit(heap, one, 1);
                      heap.close(true);
                  },
                  [](const trial& one, bool once) {
                      if (manager::consistent(one.heap)) {
                          judge_commits(one, once);
                          expect_places_in_use(one, 1);
                          return;
                      }
                      EXPECT_EQ(one.told.attempted, 0U);
                      if (once) {
                          EXPECT_FALSE(fs::exists(one.heap)) << "remains of a creation";
                          expect_places_in_use(one, 0);
                      }
                      expect_room_for_a_heap_in_two_places(one);
                  }});
}

TEST(faults, remove_from_two_places) {
    run_campaign({"remove from two places", [](const std::string&) {},
                  [](const trial& one) {
                      {
                          disarmed_section without_faults;
                          manager heap(create_only, one.heap, in_two_places(one));
                          advance(heap, 1);
                          heap.close(true);
                          one.done(1);
                      }
                      static_cast<void>(manager::remove(one.heap));
                  },
                  [](const trial& one, bool once) {
                      if (manager::consistent(one.heap)) {
                          EXPECT_FALSE(one.told.succeeded);
                          judge_commits(one, once);
                          return;
                      }
                      if (one.told.succeeded) {
                          EXPECT_FALSE(fs::exists(one.heap));
                          expect_places_in_use(one, 0);
                      }
                      expect_room_for_a_heap_in_two_places(one);
                  }});
}

// --- durability `atomic`, with lanes in directories of nodes --------------------------------------------------------

constexpr std::size_t atomic_root = 7;

open_options atomic_options() {
    open_options options = small_segments();
    options.durability = durability::atomic;
    options.domain = open_options::domain_choice::emulated;
    options.accept_process_crash_only = true;
    return options;
}

/// A heap in two directories of its own, at step 1.
void make_heap_of_two_nodes(const std::string& path) {
    open_options options = small_segments();
    options.node_directories = {"", ""};
    manager heap(create_only, path, options);
    advance(heap, 1);
    heap.commit();
    heap.close(true);
}

/// Step 2 is one durable allocation: it is there or not, and where it was acknowledged, it is there.
void judge_allocation(const std::string& path, const progress& told) {
    {
        manager heap(open_only, path, atomic_options());
        const bool there = heap.root(atomic_root).get() != nullptr;
        EXPECT_TRUE(there || told.acknowledged < 2);
        EXPECT_TRUE(!there || told.attempted >= 2);
        EXPECT_EQ(step_of(heap), 1U);
        EXPECT_THAT(heap.check(false), IsEmpty());
        EXPECT_EQ(heap.free_from(heap.root(atomic_root)), there) << "the root points to a block that is allocated";
        heap.allocate_to(heap.root(atomic_root + 1), 100);
        heap.close();
    }
    const manager reader(open_read_only, path);
    EXPECT_TRUE(reader.root(atomic_root + 1));
}

TEST(faults, lanes_of_two_nodes) {
    run_campaign({"lanes of two nodes", make_heap_of_two_nodes,
                  [](const trial& one) {
                      one.done(1);
                      manager heap(open_only, one.heap, atomic_options());
                      one.begin(2);
                      heap.allocate_to(heap.root(atomic_root), 100);  // the file of the second node grows
                      if (heap.root(atomic_root).get() == nullptr) {
                          throw support::wrong_content("an allocation that returned and did nothing");
                      }
                      one.done(2);
                      heap.close();
                  },
                  [](const trial& one, bool /*once*/) { judge_allocation(one.heap, one.told); }});
}

/// The heap's writer died with records that count.
void make_crashed_heap_of_two_nodes(const std::string& path) {
    make_heap_of_two_nodes(path);
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path, atomic_options());
        heap.allocate_to(heap.root(atomic_root), 100);
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    ASSERT_TRUE(manager::lanes(path).pending);
}

TEST(faults, open_lanes_of_two_nodes_after_a_crash) {
    run_campaign({"open lanes of two nodes", make_crashed_heap_of_two_nodes,
                  [](const trial& one) {
                      one.begin(2);
                      one.done(2);
                      manager heap(open_only, one.heap, atomic_options());
                      heap.close();
                  },
                  [](const trial& one, bool /*once*/) { judge_allocation(one.heap, one.told); }});
}

TEST(faults, copy_lanes_of_two_nodes) {
    run_campaign({"copy lanes of two nodes", make_crashed_heap_of_two_nodes,
                  [](const trial& one) {
                      one.begin(2);
                      one.done(2);
                      manager::copy(one.heap, one.other);
                  },
                  [](const trial& one, bool once) {
                      if (one.told.succeeded || manager::consistent(one.other)) {
                          judge_allocation(one.other, one.told);
                      } else if (once) {
                          EXPECT_FALSE(fs::exists(one.other)) << "remains of a copy";
                      }
                      judge_allocation(one.heap, one.told);
                  }});
}

}  // namespace
}  // namespace holdfast::faults
