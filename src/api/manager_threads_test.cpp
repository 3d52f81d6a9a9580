// Many threads on one heap, between commits.
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

constexpr int thread_count = 4;

void in_threads(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
        threads.emplace_back(work, i);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_F(manager_test, gives_each_thread_blocks_of_its_own) {
    manager heap = create();
    for (int round = 0; round < 3; ++round) {
        std::array<std::vector<std::pair<char*, std::size_t>>, thread_count> kept;
        in_threads([&](int thread) {
            std::mt19937_64 random(static_cast<unsigned>(100 * round + thread));
            auto& mine = kept[static_cast<std::size_t>(thread)];
            for (int i = 0; i < 2000; ++i) {
                const std::size_t bytes = 1 + random() % (random() % 50 == 0 ? 100000 : 500);
                auto* const block = static_cast<char*>(heap.allocate(bytes));
                std::memset(block, thread + 1, bytes);
                mine.emplace_back(block, bytes);
                if (random() % 3 == 0) {
                    heap.deallocate(mine.front().first);
                    mine.erase(mine.begin());
                }
            }
        });
        heap.commit();
        EXPECT_THAT(heap.check(false), IsEmpty());
        std::size_t blocks = 0;
        for (const auto& mine : kept) {
            blocks += mine.size();
        }
        EXPECT_EQ(heap.statistics().allocated_blocks, blocks);
        // Each frees what another allocated.
        in_threads([&](int thread) {
            for (const auto& [block, bytes] : kept[static_cast<std::size_t>((thread + 1) % thread_count)]) {
                EXPECT_EQ(block[0], (thread + 1) % thread_count + 1);
                EXPECT_EQ(block[bytes - 1], block[0]);
                heap.deallocate(block);
            }
        });
        EXPECT_TRUE(heap.all_memory_deallocated());
    }
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(manager_test, constructs_and_destroys_in_many_threads) {
    manager heap = create();
    in_threads([&](int thread) {
        for (int i = 0; i < 200; ++i) {
            const std::string name = fmt::format("{} of {}", i, thread);
            static_cast<void>(heap.construct<int>(name)[3](i));
            static_cast<void>(heap.construct<int>(anonymous_instance)(i));
            EXPECT_EQ(heap.find<int>(name).first[2], i);
            if (i % 2 == 0) {
                EXPECT_TRUE(heap.destroy<int>(name));
            } else {
                heap.set_instance_description(heap.find<int>(name).first, name);
            }
            EXPECT_GE(heap.get_num_anonymous_objects(), 1U);
        }
    });
    EXPECT_EQ(heap.get_num_named_objects(), 100U * thread_count);
    EXPECT_EQ(heap.get_num_anonymous_objects(), 200U * thread_count);
    EXPECT_THAT(heap.check(false), IsEmpty());
    heap.close();
    const manager again = open();
    for (auto it = again.named_begin(); it != again.named_end(); ++it) {
        EXPECT_EQ(it->description(), it->name());
    }
}

TEST_F(manager_test, constructs_a_name_once_however_many_threads_ask) {
    manager heap = create();
    std::atomic<int> made = 0;
    for (int round = 0; round < 50; ++round) {
        const std::string name = fmt::format("object {}", round);
        std::array<int*, thread_count> found{};
        in_threads([&](int thread) {
            if (round % 2 == 0) {
                found[static_cast<std::size_t>(thread)] = heap.find_or_construct<int>(name)(thread);
            } else if (heap.construct<int>(name, std::nothrow)(thread) != nullptr) {
                ++made;
            }
        });
        if (round % 2 == 0) {
            EXPECT_TRUE(std::all_of(found.begin(), found.end(), [&](const int* one) { return one == found[0]; }));
        }
    }
    EXPECT_EQ(made, 25);
    std::atomic<int> destroyed = 0;
    in_threads([&](int) { destroyed += heap.destroy<int>("object 0") ? 1 : 0; });
    EXPECT_EQ(destroyed, 1);
}

TEST_F(manager_test, serves_containers_of_several_heaps_in_many_threads) {
    manager first = create("first");
    manager second = create("second");
    std::array<manager*, 2> heaps{&first, &second};
    for (int thread = 0; thread < thread_count; ++thread) {
        for (manager* const heap : heaps) {
            static_cast<void>(heap->construct<unordered_map<int, string>>(fmt::format("table {}", thread))(
                heap->get_allocator<char>()));
        }
    }
    in_threads([&](int thread) {
        for (int i = 0; i < 2000; ++i) {
            manager& heap = *heaps[static_cast<std::size_t>(i % 2)];
            auto& table = *heap.find<unordered_map<int, string>>(fmt::format("table {}", thread)).first;
            table.emplace(i % 300, string(static_cast<std::size_t>(i % 70), 'v', heap.get_allocator<char>()));
            if (i % 5 == 0) {
                table.erase(i % 150);
            }
        }
    });
    for (manager* const heap : heaps) {
        EXPECT_THAT(heap->check(false), IsEmpty());
        for (int thread = 0; thread < thread_count; ++thread) {
            EXPECT_TRUE((heap->destroy<unordered_map<int, string>>(fmt::format("table {}", thread))));
        }
        EXPECT_TRUE(heap->all_memory_deallocated());
    }
}

TEST_F(manager_test, is_opened_and_closed_while_threads_live_on) {
    constexpr int rounds = 20;
    std::atomic<int> arrived = 0;
    std::atomic<int> round = -1;
    std::optional<manager> heap;
    std::vector<std::thread> threads;
    for (int i = 0; i < thread_count; ++i) {
        threads.emplace_back([&] {
            for (int next = 0; next < rounds; ++next) {
                round.wait(next - 1);
                void* const block = heap->allocate(64);
                vector<int> list(heap->get_allocator<int>());
                list.assign(100, next);
                heap->deallocate(block);
                list = vector<int>(heap->get_allocator<int>());
                ++arrived;
                arrived.notify_one();
            }
            round.wait(rounds - 1);  // a thread that ends uses the heap
        });
    }
    for (int next = 0; next < rounds; ++next) {
        heap.emplace(open_or_create, path(fmt::format("heap {}", next % 3)), small_options());
        arrived = 0;
        round = next;
        round.notify_all();
        for (int count = arrived.load(); count < thread_count; count = arrived.load()) {
            arrived.wait(count);
        }
        EXPECT_THAT(heap->check(false), IsEmpty());
        EXPECT_TRUE(heap->all_memory_deallocated());
        heap.reset();
    }
    round = rounds;
    round.notify_all();
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST_F(manager_test, a_thread_follows_the_node_that_it_runs_on) {
    {
        open_options options = small_options();
        options.node_directories = {"", ""};
        manager heap(create_only, path("nodes"), options);
        static_cast<void>(heap.follow_this_thread());  // whatever the machine has
        static_cast<void>(heap.allocate(100));
        EXPECT_THAT(heap.check(true), IsEmpty());
    }
    manager heap = create();
    EXPECT_FALSE(heap.follow_this_thread()) << "it has one directory";
    heap.close();
    EXPECT_THROW(heap.follow_this_thread(), error);
}

}  // namespace
}  // namespace holdfast
