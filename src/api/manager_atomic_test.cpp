// Durability `atomic` through the C++ API: what is there after a close, after a kill, and what is refused.
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <holdfast/containers.hpp>

#include "api/manager_atomic_fixture.hpp"
#include "base/process_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

using base::mebibyte;

INSTANTIATE_TEST_SUITE_P(domains, manager_atomic_test,
                         testing::Values(domain_choice::emulated, domain_choice::page_cache, domain_choice::disk),
                         [](const auto& each) { return name_of(each.param); });

TEST_P(manager_atomic_test, keeps_what_it_allocated_through_a_close) {
    {
        manager heap = create_atomic();
        EXPECT_EQ(heap.durability(), durability::atomic);
        for (std::size_t i = 0; i < 100; ++i) {
            auto* const block = static_cast<char*>(heap.allocate_to(heap.root(i), 8 + i * 400));
            std::memset(block, static_cast<int>(i), 8 + i * 400);
            EXPECT_EQ(heap.root(i), block);
        }
        for (std::size_t i = 0; i < 100; i += 2) {
            EXPECT_TRUE(heap.free_from(heap.root(i)));
            EXPECT_FALSE(heap.root(i));
            EXPECT_FALSE(heap.free_from(heap.root(i))) << "null already";
        }
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    for (const bool as_atomic : {true, false, true}) {
        manager heap = as_atomic ? open_atomic() : open();
        EXPECT_EQ(count_blocks(heap), 50U);
        for (std::size_t i = 1; i < 100; i += 2) {
            const auto* const block = static_cast<const unsigned char*>(heap.root(i).get());
            ASSERT_NE(block, nullptr);
            EXPECT_EQ(block[0], i);
            EXPECT_EQ(block[8 + i * 400 - 1], i);
        }
        EXPECT_THAT(heap.check(true), IsEmpty());
        EXPECT_EQ(heap.statistics().recovered, false);
    }
}

TEST_P(manager_atomic_test, keeps_every_call_that_returned_through_a_kill) {
    create_atomic().close();
    const std::uint64_t rounds = GetParam() == domain_choice::disk ? 1000 : 20'000;
    run_and_kill([rounds](manager& heap) {
        ptr<node>& head = reinterpret_cast<ptr<node>&>(heap.root(0));
        for (std::uint64_t i = 0; i < rounds; ++i) {
            ptr<node>& other = reinterpret_cast<ptr<node>&>(heap.root(1 + i % 500));
            heap.free_from(other);
            heap.make_persistent<node>(other, i);
        }
        heap.make_persistent<node>(head, 1U);
        heap.make_persistent<node>(head->next, 2U);
        heap.allocate_to(heap.root(511), 5 * mebibyte);
    });
    {
        const manager heap(open_read_only, path());
        EXPECT_EQ(count_blocks(heap), 503U);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    manager heap = open_atomic();
    EXPECT_TRUE(heap.statistics().recovered);
    EXPECT_EQ(count_blocks(heap), 503U);
    std::set<std::uint64_t> values;
    for (std::size_t i = 1; i <= 500; ++i) {
        values.insert(static_cast<node*>(heap.root(i).get())->value);
    }
    EXPECT_EQ(values.size(), 500U);
    EXPECT_EQ(*values.begin(), rounds - 500);
    EXPECT_EQ(static_cast<node*>(heap.root(0).get())->next->value, 2U);
    EXPECT_EQ(heap.usable_size(heap.root(511).get()), 5 * mebibyte);
    EXPECT_THAT(heap.check(false), IsEmpty());
    for (std::size_t i = 0; i < manager::root_count; ++i) {
        if (i == 0) {
            heap.free_from(static_cast<node*>(heap.root(0).get())->next);
        }
        heap.free_from(heap.root(i));
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_atomic_test, opens_in_durability_commit_after_a_kill) {
    create_atomic().close();
    run_and_kill([](manager& heap) { heap.allocate_to(heap.root(7), 64); });
    manager heap = open();
    EXPECT_EQ(heap.durability(), durability::commit);
    EXPECT_EQ(count_blocks(heap), 1U);
    heap.free_from(heap.root(7));
    heap.commit();
    heap.close();
    EXPECT_THAT(open().check(true), IsEmpty());
}

TEST_P(manager_atomic_test, copies_of_a_crashed_heap_have_the_calls_that_were_cut_off) {
    if (GetParam() == domain_choice::page_cache) {
        return;  // there the record of a call that returned counts no more
    }
    create_atomic().close();
    run_and_kill([](manager& heap) {
        auto& word = reinterpret_cast<std::uint64_t&>(heap.root(7));
        const std::uint64_t before = word;
        heap.allocate_to(heap.root(7), 64);
        word = before;  // as if killed behind the fence of the record
    });
    manager::copy(path(), path("copy"));
    {
        manager reader(open_read_only, path());
        reader.snapshot(path("snapshot"));
    }
    for (const char* const name : {"copy", "snapshot"}) {
        for (const bool writable : {false, true}) {
            const manager heap = writable ? manager(open_only, path(name)) : manager(open_read_only, path(name));
            EXPECT_TRUE(heap.root(7)) << name;
            EXPECT_EQ(count_blocks(heap), 1U) << name;
            EXPECT_THAT(heap.check(true), IsEmpty());
        }
        manager::copy(path(name), path("again"));
        EXPECT_FALSE(manager(open_only, path("again")).statistics().recovered) << "the copy of a clean heap is clean";
        manager::remove(path("again"));
    }
}

TEST_P(manager_atomic_test, stays_a_heap_where_there_is_no_space_for_its_first_lane) {
    create().close();
    const base::process_end end = base::run_in_child([&] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit smallest{65536, 65536};  // no file grows beyond
        ::setrlimit(RLIMIT_FSIZE, &smallest);
        const bool refused = reason_of([this] { open_atomic(); }) != errc::none;
        return refused;
    });
    ASSERT_TRUE(end.succeeded()) << end;
    EXPECT_THAT(manager(open_read_only, path()).check(true), IsEmpty());
    EXPECT_FALSE(open_atomic().statistics().recovered);
    EXPECT_THAT(open().check(true), IsEmpty());
}

TEST_P(manager_atomic_test, keeps_named_objects_through_a_kill) {
    create_atomic().close();
    run_and_kill([](manager& heap) {
        for (int i = 0; i < 300; ++i) {
            heap.construct<int>(("object " + std::to_string(i)).c_str())[1000](i);
        }
        for (int i = 0; i < 300; i += 3) {
            heap.destroy<int>(("object " + std::to_string(i)).c_str());
        }
        heap.construct<double>(unique_instance)(2.5);
        heap.set_description("a heap");
        heap.set_description(
            "another description, longer than the first, so that it takes more cells than that one had");
        heap.set_instance_description(heap.find<double>(unique_instance).first, "two and a half");
        auto* const numbers = heap.construct<vector<int>>("numbers")(heap.get_allocator<int>());
        numbers->assign(10'000, 7);
    });
    for (const bool read_only : {true, false}) {
        manager heap = read_only ? manager(open_read_only, path()) : open_atomic();
        EXPECT_THAT(heap.check(false), IsEmpty());
        EXPECT_EQ(heap.get_num_named_objects(), 201U);
        EXPECT_EQ(heap.find<int>("object 3").first, nullptr);
        EXPECT_EQ(heap.find<int>("object 4").first[999], 4);
        EXPECT_EQ(*heap.find<double>(unique_instance).first, 2.5);
        EXPECT_THAT(heap.get_description(), HasSubstr("another"));
        EXPECT_EQ(heap.find<vector<int>>("numbers").first->back(), 7);
        EXPECT_EQ(count_blocks(heap), 203U);
    }
}

TEST_P(manager_atomic_test, forgets_reserved_blocks_in_a_kill) {
    create_atomic().close();
    run_and_kill([](manager& heap) {
        static_cast<void>(heap.reserve(64));
        static_cast<void>(heap.reserve(mebibyte));
        void* const kept = heap.reserve(100);
        std::memset(kept, 7, 100);
        heap.persist(kept, 100);
        heap.publish(heap.root(0), kept);
        void* const big = heap.reserve(3 * mebibyte);
        heap.publish(heap.root(1), big);
        heap.cancel(heap.reserve(2 * mebibyte));
    });
    manager heap = open_atomic();
    EXPECT_EQ(count_blocks(heap), 2U);
    EXPECT_EQ(static_cast<char*>(heap.root(0).get())[99], 7);
    EXPECT_EQ(heap.usable_size(heap.root(1).get()), 3 * mebibyte);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_atomic_test, freed_big_blocks_are_free_after_a_kill) {
    create_atomic().close();
    run_and_kill([](manager& heap) {
        heap.allocate_to(heap.root(0), 100'000);
        for (std::size_t bytes = 20'000; bytes < mebibyte; bytes += 5'000) {
            heap.allocate_to(heap.root(1), bytes);
            heap.free_from(heap.root(1));
        }
        if (!heap.check(false).empty() || count_blocks(heap) != 1) {  // with extents in the caches
            throw std::runtime_error("not sound before the kill");
        }
    });
    manager heap = open_atomic();
    EXPECT_EQ(count_blocks(heap), 1U);
    std::size_t reserved = 0;
    heap.for_each_extent([&](const extent_info& one) { reserved += one.kind == extent_kind::reserved ? 1 : 0; });
    EXPECT_EQ(reserved, 0U);
    EXPECT_THAT(heap.check(false), IsEmpty());
    EXPECT_THROW(heap.deallocate(static_cast<std::byte*>(heap.root(0).get()) + 4096), error);
}

TEST_P(manager_atomic_test, forgets_reserved_blocks_in_a_close) {
    {
        manager heap = create_atomic();
        static_cast<void>(heap.reserve(64));
        static_cast<void>(heap.reserve(mebibyte));
        EXPECT_THAT(heap.check(false), IsEmpty());
        EXPECT_EQ(count_blocks(heap), 0U);
    }
    manager heap = open();
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_atomic_test, refuses_what_is_no_destination_and_changes_nothing) {
    manager heap = create_atomic();
    ptr<void> outside;
    EXPECT_EQ(reason_of([&] { heap.allocate_to(outside, 64); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.free_from(outside); }), errc::bad_address);
    heap.allocate_to(heap.root(0), 64);
    auto* const block = static_cast<char*>(heap.root(0).get());
    heap.root(1) = block + 8;
    EXPECT_EQ(reason_of([&] { heap.free_from(heap.root(1)); }), errc::bad_address) << "inside a block";
    heap.root(1) = block;
    heap.free_from(heap.root(0));
    EXPECT_EQ(reason_of([&] { heap.free_from(heap.root(1)); }), errc::bad_address) << "free already";
    EXPECT_EQ(heap.root(1), block) << "nothing changed";
    heap.root(1) = &outside;
    EXPECT_EQ(reason_of([&] { heap.free_from(heap.root(1)); }), errc::bad_address) << "outside of the heap";
    EXPECT_EQ(reason_of([&] { heap.cancel(block); }), errc::bad_address) << "not reserved";
    EXPECT_EQ(reason_of([&] { heap.publish(heap.root(2), static_cast<void*>(block)); }), errc::bad_address);
    EXPECT_EQ(reason_of([&] { heap.allocate_to(heap.root(2), 0); }), errc::invalid_argument);
    EXPECT_TRUE(heap.all_memory_deallocated());
    heap.root(1) = nullptr;
}

TEST_P(manager_atomic_test, reallocates_with_the_content) {
    manager heap = create_atomic();
    auto* const first = static_cast<char*>(heap.realloc_to(heap.root(0), 40));
    std::memset(first, 3, 40);
    for (const std::size_t bytes : {100U, 20'000U, 3'000'000U, 50U}) {
        auto* const moved = static_cast<char*>(heap.realloc_to(heap.root(0), bytes));
        EXPECT_EQ(heap.root(0), moved);
        EXPECT_THAT(std::vector<char>(moved, moved + 40), Each(3));
        EXPECT_EQ(count_blocks(heap), 1U);
    }
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_atomic_test, allocates_zeroed_and_aligned) {
    manager heap = create_atomic();
    for (const std::size_t alignment : {std::size_t{64}, std::size_t{4096}, std::size_t{65536}}) {
        auto* const block =
            static_cast<char*>(heap.allocate_to(heap.root(0), 1000, {.alignment = alignment, .zeroed = true}));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
        EXPECT_THAT(std::vector<char>(block, block + 1000), Each(0));
        std::memset(block, 1, 1000);
        heap.free_from(heap.root(0));
    }
}

TEST_P(manager_atomic_test, works_in_batches) {
    manager heap = create_atomic();
    std::vector<ptr<void>*> words;
    for (std::size_t i = 0; i < 100; ++i) {
        words.push_back(&heap.root(i));
    }
    const protocol_counters before = heap.counters();
    heap.allocate_batch<void>(words, 48);
    const protocol_counters after = heap.counters();
    EXPECT_EQ(after.durable_records - before.durable_records, 101U) << "one each, and the slab's";
    EXPECT_EQ(after.fences - before.fences, GetParam() == domain_choice::page_cache ? 0U : 5U)
        << "one for 32, and the slab's; none is executed where only processes crash";
    EXPECT_EQ(count_blocks(heap), 100U);
    heap.free_from(heap.root(50));
    heap.free_batch<void>(words);
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_P(manager_atomic_test, serves_many_threads) {
    constexpr std::size_t threads = 8;
    constexpr std::size_t rounds = 5000;
    manager heap = create_atomic();
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
        workers.emplace_back([&heap, t] {
            for (std::size_t i = 0; i < rounds; ++i) {
                ptr<void>& own = heap.root(t * 32 + i % 32);
                heap.free_from(own);
                heap.allocate_to(own, 16 + (i * 37) % 3000);
            }
        });
    }
    for (std::thread& worker : workers) {
        worker.join();
    }
    EXPECT_EQ(count_blocks(heap), threads * 32);
    EXPECT_THAT(heap.check(false), IsEmpty());
    heap.close();
    EXPECT_EQ(count_blocks(open_atomic()), threads * 32);
}

TEST_P(manager_atomic_test, keeps_one_record_and_one_fence_a_call) {
    manager heap = create_atomic();
    constexpr std::uint64_t calls = 200'000;
    for (std::uint64_t i = 0; i < calls / 2; ++i) {
        heap.allocate_to(heap.root(0), 64);
        heap.free_from(heap.root(0));
    }
    const protocol_counters counters = heap.counters();
    EXPECT_LE(counters.durable_records, calls + 10);
    if (GetParam() != domain_choice::page_cache) {
        EXPECT_GE(counters.fences, calls);
        EXPECT_LE(counters.fences, calls + calls / 100);
        EXPECT_GT(counters.checkpoints, 0U);
    } else {
        EXPECT_EQ(counters.fences, 0U) << "none is executed where only processes crash";
        EXPECT_EQ(counters.checkpoints, 0U);
    }
}

TEST_P(manager_atomic_test, tells_a_child_of_fork_that_the_heap_is_its_parents) {
    manager heap = create_atomic();
    heap.allocate_to(heap.root(0), 64);
    ptr<void>& destination = heap.root(1);
    const base::process_end end = base::run_in_child([&] {
        const bool told = reason_of([&] { heap.allocate_to(destination, 64); }) == errc::wrong_process &&
                          reason_of([&] { static_cast<void>(heap.allocate(64)); }) == errc::wrong_process &&
                          reason_of([&] { static_cast<void>(heap.reserve(64)); }) == errc::wrong_process &&
                          reason_of([&] { heap.commit(); }) == errc::wrong_process;
        return told;
    });
    EXPECT_TRUE(end.succeeded()) << end;
    heap.allocate_to(destination, 64);
    EXPECT_EQ(count_blocks(heap), 2U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_F(manager_test, refuses_damaged_lanes_of_a_crashed_heap_by_name) {
    open_options wanted = small_options();
    wanted.durability = durability::atomic;
    wanted.domain = open_options::domain_choice::emulated;
    manager(create_only, path(), wanted).close();
    const base::process_end end = base::run_in_child([&] {
        manager heap(open_only, path(), wanted);
        heap.allocate_to(heap.root(0), 64);
        heap.checkpoint();
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(end.was_killed()) << end;
    const std::string lanes = path() + "/lanes";
    const auto refused = [&](errc reason, const std::string& said) {
        for (const bool read_only : {true, false}) {
            try {
                const manager heap = read_only ? manager(open_read_only, path()) : manager(open_only, path(), wanted);
                ADD_FAILURE() << "opened: " << said;
            } catch (const error& thrown) {
                EXPECT_EQ(thrown.reason(), reason) << thrown.what();
                EXPECT_THAT(thrown.what(), HasSubstr(lanes));
                EXPECT_THAT(thrown.what(), HasSubstr(said));
            }
        }
    };
    std::filesystem::rename(lanes, lanes + ".kept");
    refused(errc::missing, "the heap's redo rings");
    std::filesystem::copy_file(lanes + ".kept", lanes);
    std::filesystem::resize_file(lanes, std::uint64_t{1} << 40);
    refused(errc::corrupt, "file size");
    std::filesystem::resize_file(lanes, 100);
    refused(errc::corrupt, "size of the lanes");
    std::filesystem::copy_file(lanes + ".kept", lanes, std::filesystem::copy_options::overwrite_existing);
    {
        std::fstream file(lanes, std::ios::in | std::ios::out | std::ios::binary);
        for (const int at : {0, 40}) {  // both copies of the time
            file.seekp(at);
            file.put('\x5a');
        }
    }
    refused(errc::corrupt, "time of the last checkpoint");
    std::filesystem::copy_file(lanes + ".kept", lanes, std::filesystem::copy_options::overwrite_existing);
    const std::uint64_t size = std::filesystem::file_size(lanes);
    std::filesystem::resize_file(lanes, 4096 + 4096 + 64 * 8192);  // lane 0 alone
    refused(errc::corrupt, fmt::format("found {}, expected at least {}, for 2 lanes", 4096 + 4096 + 64 * 8192, size));
    std::filesystem::resize_file(lanes, 0);
    std::filesystem::resize_file(lanes, size);  // zeros
    refused(errc::corrupt, "time of the last checkpoint");
    std::filesystem::rename(lanes + ".kept", lanes);
    EXPECT_TRUE(manager(open_only, path(), wanted).root(0));
}

TEST_F(manager_test, opens_a_clean_heap_whatever_its_lanes_hold_and_a_crash_of_that_opening_is_recovered) {
    open_options wanted = small_options();
    wanted.durability = durability::atomic;
    wanted.domain = open_options::domain_choice::emulated;
    manager(create_only, path(), wanted).close();
    const std::string lanes = path() + "/lanes";
    for (const std::uint64_t size : std::initializer_list<std::uint64_t>{0, 100, 4096, 12288}) {
        std::filesystem::resize_file(lanes, size);
        std::fstream(lanes, std::ios::in | std::ios::out | std::ios::binary) << std::string(size, '\x5a');
        const base::process_end end = base::run_in_child([&] {
            manager heap(open_only, path(), wanted);
            heap.free_from(heap.root(0));
            heap.allocate_to(heap.root(0), 64);
            ::raise(SIGKILL);
        });
        ASSERT_TRUE(end.was_killed()) << end << size;
        manager heap(open_only, path(), wanted);
        EXPECT_TRUE(heap.root(0)) << size;
        EXPECT_EQ(heap.statistics().allocated_blocks, 1U) << size;
        heap.close();
    }
}

TEST_F(manager_test, syncs_its_records_on_ordinary_files_unless_told_otherwise) {
    open_options wanted = small_options();
    wanted.durability = durability::atomic;
    {
        manager heap(create_only, path(), wanted);
        EXPECT_EQ(heap.domain(), "disk");
        EXPECT_NE(heap.allocate_to(heap.root(0), 64), nullptr);
        EXPECT_EQ(heap.lanes().order, "logged");
    }
    wanted.accept_process_crash_only = true;
    manager heap(open_only, path(), wanted);
    EXPECT_EQ(heap.domain(), "page-cache");
    EXPECT_TRUE(heap.root(0));
}

TEST_F(manager_test, asks_the_caller_to_accept_what_the_page_cache_does_not_cover) {
    open_options wanted = small_options();
    wanted.durability = durability::atomic;
    wanted.domain = domain_choice::page_cache;
    EXPECT_EQ(reason_of([&] { manager heap(create_only, path(), wanted); }), errc::promise_unavailable);
    EXPECT_EQ(reason_of([&] { manager heap(open_only, path()); }), errc::not_found) << "nothing is left behind";
    try {
        manager heap(create_only, path(), wanted);
    } catch (const error& thrown) {
        EXPECT_THAT(thrown.what(), HasSubstr("accept_process_crash_only"));
        EXPECT_THAT(thrown.found(), HasSubstr("page-cache"));
    }
}

TEST_F(manager_test, has_the_same_functions_in_durability_commit) {
    {
        manager heap = create();
        heap.allocate_to(heap.root(0), 64, {.zeroed = true});
        heap.make_persistent<node>(reinterpret_cast<ptr<node>&>(heap.root(1)), 5U);
        heap.commit();
        heap.free_from(heap.root(0));
        heap.realloc_to(heap.root(1), 5000);
        heap.close(false);
    }
    manager heap = open();
    EXPECT_TRUE(heap.root(0));
    EXPECT_EQ(static_cast<node*>(heap.root(1).get())->value, 5U);
    EXPECT_EQ(heap.statistics().allocated_blocks, 2U);
}

}  // namespace
}  // namespace holdfast
