// Transactions over everything, in durability `commit`: plain stores, containers, objects with names, blocks.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "manager_test_support.hpp"

namespace holdfast::of_transact {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using numbers = vector<std::uint64_t>;
using table = map<string, vector<int>>;

struct given_up : std::runtime_error {
    given_up() : std::runtime_error("given up") {}
};

class transact_test : public testing::Test {
protected:
    /// As after a crash: what was not committed is gone.
    void crash() {
        heap_.close(false);
        heap_ = manager(open_only, path_);
    }
    [[nodiscard]] numbers& list(const char* name = "list") {
        return *heap_.find_or_construct<numbers>(name)(heap_.get_allocator<std::uint64_t>());
    }
    [[nodiscard]] table& words() { return *heap_.find_or_construct<table>("words")(heap_.get_allocator<>()); }
    template <class Body>
    void give_up(Body body) {
        EXPECT_THROW(heap_.transact([&] {
            body();
            throw given_up();
        }),
                     given_up);
        EXPECT_THAT(heap_.check(true), IsEmpty());
    }
    void add(std::string_view key, int value) {
        words()[string(key.data(), key.size(), heap_.get_allocator<char>())].push_back(value);
    }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
    manager heap_{create_only, path_, small_options()};
};

TEST_F(transact_test, is_durable_when_it_returns) {
    heap_.transact([&] {
        list().assign(1000, 7);
        add("one", 1);
        heap_.root(0) = heap_.allocate(100);
    });
    crash();
    EXPECT_EQ(list().size(), 1000U);
    EXPECT_EQ(words().size(), 1U);
    EXPECT_NE(heap_.root(0), nullptr);
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, writes_nothing_where_nothing_was_stored) {
    heap_.transact([&] { add("one", 1); });
    heap_.transact([&] { EXPECT_EQ(words().size(), 1U); });
    EXPECT_EQ(heap_.last_commit().written_bytes, 0U);
    const ticket later = heap_.transact_later([&] { add("two", 2); });
    heap_.transact([] {});  // has what the one before has left
    EXPECT_NE(heap_.last_commit().written_bytes, 0U);
    heap_.sync(later);
    heap_.transact([] {});
    EXPECT_EQ(heap_.last_commit().written_bytes, 0U);
    crash();
    EXPECT_EQ(words().size(), 2U);
}

TEST_F(transact_test, gives_its_result) {
    EXPECT_EQ(heap_.transact([&] { return list().size(); }), 0U);
    EXPECT_EQ(heap_.transact([&](transaction& /*tx*/) { return 5; }), 5);
}

TEST_F(transact_test, an_exception_takes_all_of_it_back) {
    heap_.transact([&] {
        list().assign({1, 2, 3});
        add("one", 1);
    });
    const usage before = usage_of(heap_);
    give_up([&] {
        list().assign(100, 9);
        add("two", 2);
        add("one", 3);
        heap_.root(1) = heap_.allocate(50);
        static_cast<void>(heap_.construct<int>("new")(5));
        heap_.destroy<table>("words");
    });
    EXPECT_EQ(usage_of(heap_), before);
    EXPECT_THAT(list(), ElementsAre(1, 2, 3));
    EXPECT_EQ(words().size(), 1U);
    EXPECT_THAT(words().begin()->second, ElementsAre(1));
    EXPECT_EQ(heap_.root(1), nullptr);
    EXPECT_EQ(heap_.find<int>("new").first, nullptr);
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 2, 3));
    EXPECT_EQ(usage_of(heap_), before);
}

TEST_F(transact_test, abort_takes_all_of_it_back) {
    heap_.transact([&] { list().assign({1}); });
    heap_.transact([&](transaction& tx) {
        list().push_back(2);
        tx.abort();
    });
    EXPECT_THAT(list(), ElementsAre(1));
}

TEST_F(transact_test, takes_back_blocks_of_all_sizes) {
    std::vector<void*> kept;
    for (std::size_t bytes = 8; bytes <= (std::size_t{4} << 20U); bytes *= 2) {
        void* const block = heap_.allocate(bytes);
        std::memset(block, 1, bytes);
        kept.push_back(block);
    }
    heap_.commit();
    const usage before = usage_of(heap_);
    for (int round = 0; round < 3; ++round) {
        give_up([&] {
            for (void* const block : kept) {
                heap_.deallocate(block);
            }
            for (int i = 0; i < 3; ++i) {
                for (std::size_t bytes = 8; bytes <= (std::size_t{4} << 20U); bytes *= 2) {
                    std::memset(heap_.allocate(bytes), 2, bytes);
                }
            }
        });
        EXPECT_EQ(usage_of(heap_), before);
    }
    std::size_t bytes = 8;
    for (void* const block : kept) {
        const auto* const begin = static_cast<const unsigned char*>(block);
        EXPECT_TRUE(std::all_of(begin, begin + bytes, [](unsigned char each) { return each == 1; })) << bytes;
        heap_.deallocate(block);
        bytes *= 2;
    }
}

TEST_F(transact_test, what_was_stored_before_stays) {
    list().assign({1, 2});
    add("before", 1);
    give_up([&] {
        list().push_back(3);
        add("before", 2);
    });
    EXPECT_THAT(list(), ElementsAre(1, 2));
    heap_.transact([&] { list().push_back(4); });
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 2, 4));
    EXPECT_THAT(words().begin()->second, ElementsAre(1));
}

TEST_F(transact_test, slabs_that_become_empty_come_back) {
    std::vector<std::uint64_t*> many(20'000);
    std::ranges::generate(many, [&] { return static_cast<std::uint64_t*>(heap_.allocate(64)); });
    for (std::size_t i = 0; i < many.size(); ++i) {
        *many[i] = i;
    }
    heap_.commit();
    const usage before = usage_of(heap_);
    give_up([&] {
        std::ranges::for_each(many, [&](void* block) { heap_.deallocate(block); });
        for (int i = 0; i < 20'000; ++i) {
            std::memset(heap_.allocate(96), 0xff, 96);
        }
    });
    EXPECT_EQ(usage_of(heap_), before);
    for (std::size_t i = 0; i < many.size(); ++i) {
        ASSERT_EQ(*many[i], i);
    }
    heap_.transact([&] { std::ranges::for_each(many, [&](void* block) { heap_.deallocate(block); }); });
    EXPECT_TRUE(heap_.all_memory_deallocated());
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, an_inner_one_is_dropped_alone) {
    heap_.transact([&] {
        list().assign({1});
        void* const block = heap_.allocate(40'000);
        EXPECT_THROW(heap_.transact([&] {
            list().push_back(2);
            heap_.deallocate(block);
            static_cast<void>(heap_.construct<int>("inner")(1));
            throw given_up();
        }),
                     given_up);
        EXPECT_THAT(list(), ElementsAre(1));
        heap_.transact([&] { list().push_back(3); });
        EXPECT_GE(heap_.usable_size(block), 40'000U);
        heap_.deallocate(block);
    });
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 3));
    EXPECT_EQ(heap_.find<int>("inner").first, nullptr);
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, an_outer_one_takes_inner_ones_back) {
    heap_.transact([&] { list().assign({1}); });
    const usage before = usage_of(heap_);
    give_up([&] {
        heap_.transact([&] {
            list().push_back(2);
            static_cast<void>(heap_.construct<int>("inner")(1));
            heap_.root(3) = heap_.allocate(100'000);
        });
        heap_.transact([&] { heap_.deallocate(heap_.root(3).get()); });
    });
    EXPECT_EQ(usage_of(heap_), before);
    EXPECT_THAT(list(), ElementsAre(1));
}

TEST_F(transact_test, objects_go_and_come_back) {
    heap_.transact([&] {
        static_cast<void>(heap_.construct<int>("a")(1));
        static_cast<void>(heap_.construct<long>(unique_instance)(2L));
    });
    give_up([&] {
        EXPECT_TRUE(heap_.destroy<int>("a"));
        static_cast<void>(heap_.construct<double>("a")(1.5));
        EXPECT_TRUE(heap_.destroy<double>("a"));
        EXPECT_TRUE(heap_.destroy<long>(unique_instance));
        for (int i = 0; i < 2000; ++i) {
            static_cast<void>(heap_.construct<int>(std::to_string(i))(i));
        }
    });
    EXPECT_EQ(*heap_.find<int>("a").first, 1);
    EXPECT_EQ(*heap_.find<long>(unique_instance).first, 2);
    EXPECT_EQ(heap_.get_num_named_objects(), 1U);
    EXPECT_THROW(heap_.deallocate(heap_.find<int>("a").first), error);  // destroy() alone frees it
    EXPECT_TRUE(heap_.destroy<int>("a"));
    heap_.commit();
    crash();
    EXPECT_EQ(heap_.get_num_named_objects(), 0U);
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, a_heap_that_grew_goes_on) {
    give_up([&] { list().assign(5'000'000, 3); });
    heap_.transact([&] { list().assign(4'000'000, 4); });
    crash();
    EXPECT_EQ(list().size(), 4'000'000U);
    EXPECT_TRUE(std::ranges::all_of(list(), [](std::uint64_t each) { return each == 4; }));
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, free_space_goes_back) {
    open_options options = small_options();
    options.decay = std::chrono::milliseconds(0);
    manager heap(create_only, directory_.path("shrinking"), options);
    constexpr std::size_t bytes = 8 << 20;
    heap.transact([&] {
        heap.root(0) = heap.allocate(bytes);
        std::memset(heap.root(0).get(), 1, bytes);
    });
    const std::uint64_t before = heap.statistics().charged_bytes;
    heap.transact([&] {
        heap.deallocate(heap.root(0).get());
        heap.root(0) = nullptr;
    });
    heap.transact([] {});
    EXPECT_LT(heap.statistics().charged_bytes + bytes / 2, before);
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(transact_test, later_ones_are_durable_after_a_sync) {
    const ticket first = heap_.transact_later([&] { list().push_back(1); });
    static_cast<void>(heap_.transact_later([&] { list().push_back(2); }));
    EXPECT_THROW(static_cast<void>(heap_.transact_later([&] {
                     list().push_back(3);
                     throw given_up();
                 })),
                 given_up);
    heap_.sync(first);
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 2));
    static_cast<void>(heap_.transact_later([&] { list().push_back(4); }));
    heap_.sync();
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 2, 4));
}

TEST_F(transact_test, open_and_store_work_within) {
    heap_.transact([&](transaction& tx) {
        list().push_back(1);
        tx.store(heap_.root(0), static_cast<void*>(tx.make<std::uint64_t>(7U)));
    });
    crash();
    EXPECT_EQ(*static_cast<std::uint64_t*>(heap_.root(0).get()), 7U);
    EXPECT_THROW(heap_.transact([&](transaction& tx) {
        tx.open(*static_cast<std::uint64_t*>(heap_.root(0).get())) = 8;
        list().push_back(2);
        tx.commit();
        throw given_up();
    }),
                 given_up);
    EXPECT_EQ(*static_cast<std::uint64_t*>(heap_.root(0).get()), 7U);
    EXPECT_THAT(list(), ElementsAre(1));
}

TEST_F(transact_test, reserved_blocks_come_back) {
    void* const first = heap_.allocate(64);
    heap_.root(0) = first;
    heap_.commit();
    void* reserved = nullptr;
    give_up([&] {
        heap_.deallocate(first);
        std::vector<void*> taken;
        for (int i = 0; i < 2000; ++i) {
            taken.push_back(heap_.reserve(64));
            if (taken.back() == first) {
                reserved = first;
            }
        }
    });
    EXPECT_EQ(heap_.usable_size(first), 64U);
    if (reserved != nullptr) {
        EXPECT_EQ(reason_of([&] { heap_.cancel(reserved); }), errc::bad_address);
    }
    heap_.deallocate(first);
}

TEST_F(transact_test, names_misuse) {
    const auto refuses = [&](auto call) {
        EXPECT_EQ(reason_of([&] { heap_.transact(call); }), errc::invalid_argument);
    };
    refuses([&] { heap_.commit(); });
    refuses([&] { heap_.close(); });
    refuses([&] { heap_.snapshot(directory_.path("copy")); });
    refuses([&] { heap_.shrink(); });
    refuses([&] { heap_.sync(heap_.transact_later([] {})); });
    refuses([&] { const transaction other(heap_); });
    refuses([&] {
        const std::array<std::uint64_t, 1> values{1};
        const word_run run{&heap_.root(0), values};
        heap_.store_words({&run, 1});
    });
    EXPECT_EQ(reason_of([&] { heap_.read([&] { heap_.transact([] {}); }); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { heap_.read([&] { heap_.commit(); }); }), errc::invalid_argument);
    heap_.commit();
}

TEST_F(transact_test, checked_heaps_fill_what_an_abort_removes) {
    constexpr int removed_word = static_cast<int>(0xdbdb'dbdbU);
    heap_.close();
    open_options checked;
    checked.check_transactions = true;
    heap_ = manager(open_only, path_, checked);
    const int* value = nullptr;
    const int* of_part = nullptr;
    int* const kept = heap_.construct<int>("kept")(5);
    for (const bool saves_pages : {false, true}) {
        give_up([&] {
            add("one", 1);
            value = &words().begin()->second.front();
            if (saves_pages) {
                give_up([&] {
                    add("two", 2);
                    of_part = &std::next(words().begin())->second.front();
                });
                EXPECT_EQ(*of_part, removed_word);
                EXPECT_EQ(*value, 1);
            }
            *kept = 6;
        });
        EXPECT_EQ(*value, removed_word);
        EXPECT_EQ(*kept, 5);
    }
    crash();
    EXPECT_EQ(words().size(), 0U);
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, is_refused_in_other_durabilities) {
    open_options options = small_options();
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    options.domain = open_options::domain_choice::page_cache;
    manager other(create_only, directory_.path("other"), options);
    EXPECT_EQ(reason_of([&] { other.transact([] {}); }), errc::unsupported);
    EXPECT_EQ(reason_of([&] { static_cast<void>(other.transact_later([] {})); }), errc::unsupported);
    other.transact([](transaction&) {});
    EXPECT_EQ(other.read([] { return 1; }), 1);
}

TEST_F(transact_test, threads_take_turns) {
    constexpr std::uint64_t threads = 8;
    constexpr std::uint64_t each = 50;
    heap_.transact([&] { list().push_back(0); });
    std::vector<std::jthread> running;
    for (std::uint64_t i = 0; i < threads; ++i) {
        running.emplace_back([&, i] {
            for (std::uint64_t k = 0; k < each; ++k) {
                const bool gives_up = k % 5 == 4;
                try {
                    heap_.transact([&] {
                        numbers& all = list();
                        const std::uint64_t last = all.back();
                        all.push_back(last + 1);
                        add("thread " + std::to_string(i), static_cast<int>(k));
                        if (gives_up) {
                            throw given_up();
                        }
                    });
                } catch (const given_up&) {
                    EXPECT_TRUE(gives_up);
                }
                heap_.read([&] { EXPECT_EQ(list().back() + 1, list().size()); });
            }
        });
    }
    running.clear();
    crash();
    EXPECT_EQ(list().size(), threads * (each - each / 5) + 1);
    EXPECT_EQ(words().size(), threads);
    for (const auto& [key, values] : words()) {
        EXPECT_EQ(values.size(), each - each / 5);
    }
    EXPECT_THAT(heap_.check(true), IsEmpty());
}

TEST_F(transact_test, a_commit_of_another_thread_waits) {
    std::promise<void> is_inside;
    std::promise<void> may_go_on;
    std::thread other([&] {
        heap_.transact([&] {
            list().push_back(1);
            is_inside.set_value();
            may_go_on.get_future().wait();
            list().push_back(2);
        });
    });
    is_inside.get_future().wait();
    std::atomic<bool> has_committed{false};
    std::thread committer([&] {
        heap_.commit();
        has_committed = true;
    });
    EXPECT_FALSE(has_committed);
    may_go_on.set_value();
    other.join();
    committer.join();
    crash();
    EXPECT_THAT(list(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace holdfast::of_transact
