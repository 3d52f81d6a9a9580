// Indexes whose heap is closed or full, and heads that somebody destroys while an index is open.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/hash_index.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/ordered_index.hpp>

#include "base/process_test_support.hpp"
#include "support/scratch.hpp"

namespace holdfast {
namespace {

class index_life : public testing::Test {
protected:
    using numbers = ordered_index<std::uint64_t, std::uint64_t>;
    using hashed_numbers = hash_index<std::uint64_t, std::uint64_t>;
    using hashed_texts = hash_index<std::string_view, std::string_view>;

    template <class Function>
    static errc reason_of(Function&& call) {
        try {
            std::forward<Function>(call)();
        } catch (const error& refused) {
            return refused.reason();
        }
        return errc::none;
    }

    support::scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
};

struct heap_with_index {
    explicit heap_with_index(const std::string& path) : heap(create_only, path), index(heap, "index") {}
    manager heap;
    ordered_index<std::uint64_t, std::uint64_t> index;
};
std::unique_ptr<heap_with_index> closed_at_exit;

/// Was: the list of open indexes was destroyed before a static object that has one: a second free of its entry ended
/// the process before the heap was closed, so the last commit was missing.
TEST_F(index_life, AnIndexOfAStaticObjectEndedTheProcess) {
    const base::process_end end = base::run_in_child([&] {
        closed_at_exit = std::make_unique<heap_with_index>(path_);
        closed_at_exit->index.insert(1, 2);
        std::exit(0);
    });
    EXPECT_TRUE(end.succeeded()) << end;
    manager heap(open_only, path_);
    const numbers index(heap, "index");
    EXPECT_EQ(index.find(1), 2U);
}

/// Was: the child freed what a thread of its parent was moving, and died.
TEST_F(index_life, AChildOfForkLeavesAnIndexToItsParent) {
    manager heap(create_only, path_);
    auto ordered = std::make_unique<ordered_index<std::string_view, std::string_view>>(heap, "ordered");
    auto hashed = std::make_unique<hashed_texts>(heap, "hashed");
    std::atomic<bool> ends{false};
    std::jthread other([&] {
        for (std::uint64_t i = 0; !ends; ++i) {
            const std::string key = std::to_string(i * 0x9e37'79b9'7f4a'7c15U);
            static_cast<void>(ordered->upsert(key, "value"));
            static_cast<void>(hashed->upsert(key, "value"));
        }
    });
    for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(base::succeeds_in_child([&] {
            ordered.reset();
            hashed.reset();
            return true;
        }));
    }
    ends = true;
    other.join();
    EXPECT_EQ(ordered->check(), std::vector<std::string>{});
    EXPECT_EQ(hashed->check(), std::vector<std::string>{});
}

/// Was: SIGSEGV.
TEST_F(index_life, WhatAnIndexIsAskedForBehindACloseIsRefused) {
    auto heap = std::make_unique<manager>(create_only, path_);
    numbers ordered(*heap, "ordered");
    hashed_numbers hashed(*heap, "hashed");
    ordered.insert(1, 2);
    hashed.insert(1, 2);
    const auto refuses_all = [&] {
        const std::vector<std::pair<std::uint64_t, std::uint64_t>> entries{{3, 4}};
        const auto each = [](std::uint64_t /*key*/, std::uint64_t /*value*/) { return true; };
        EXPECT_EQ(reason_of([&] { static_cast<void>(ordered.find(1)); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { ordered.insert(3, 4); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { ordered.remove(1); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { ordered.scan(each); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { ordered.scan_backward(5, each); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(ordered.first()); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(hashed.find(1)); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { hashed.upsert(1, 3); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { hashed.for_each(each); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(hashed.size()); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(hashed.check()); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { hashed.clear(); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { hashed.bulk_load(entries.begin(), entries.end()); }), errc::invalid_argument);
    };
    heap->close();
    refuses_all();
    heap.reset();
    refuses_all();
}

/// Was: locked, where the heap came to lie at the same address again.
TEST_F(index_life, AnIndexThatOutlivesItsHeapIsInNobodysWay) {
    manager heap(create_only, path_);
    auto old = std::make_unique<numbers>(heap, "index");
    old->insert(1, 2);
    heap.close();
    manager again(open_only, path_);
    const numbers index(again, "index");
    EXPECT_EQ(index.find(1), 2U);
    old.reset();
    EXPECT_EQ(reason_of([&] { const numbers second(again, "index"); }), errc::locked);
}

/// Was: the head was freed under the index.
TEST_F(index_life, TheHeadOfAnOpenIndexIsNotDestroyed) {
    manager heap(create_only, path_);
    {
        hashed_numbers index(heap, "index");
        index.insert(1, 2);
        using head = stored_hash_index<std::uint64_t, std::uint64_t>;
        EXPECT_EQ(reason_of([&] { heap.destroy<head>("index"); }), errc::locked);
        EXPECT_EQ(reason_of([&] { heap.destroy_ptr(heap.find<head>("index").first); }), errc::locked);
        EXPECT_EQ(reason_of([&] { hashed_numbers::destroy(heap, "index"); }), errc::locked);
        EXPECT_EQ(index.find(1), 2U);
        EXPECT_THAT(index.check(), testing::IsEmpty());
    }
    EXPECT_TRUE(hashed_numbers::destroy(heap, "index"));
    EXPECT_THAT(heap.check(false), testing::IsEmpty());
}

/// Was: the leaves of the failed load kept all memory, because their frees needed some; so did the next open.
TEST_F(index_life, AFullHeapGetsBackWhatAFailedLoadOfTextsTook) {
    open_options options;
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    options.segment_size = std::uint64_t{2} << 20U;
    options.maximum_size = std::uint64_t{8} << 20U;
    manager heap(create_only, path_, options);
    hashed_texts index(heap, "index");
    std::vector<std::pair<std::string, std::string>> entries;
    for (int i = 0; i < 4000; ++i) {
        entries.emplace_back("key " + std::to_string(i), std::string(3000, 'v'));
    }
    hashed_numbers small(heap, "small entries");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> many;
    for (std::uint64_t i = 0; i < 600'000; ++i) {
        many.emplace_back(i, i);
    }
    const std::uint64_t before = heap.statistics().allocated_bytes;
    for (int attempt = 0; attempt < 4; ++attempt) {
        EXPECT_THROW(small.bulk_load(many.begin(), many.end()), std::bad_alloc);
        EXPECT_THROW(index.bulk_load(entries.begin(), entries.end()), std::bad_alloc);
        EXPECT_EQ(heap.statistics().allocated_bytes, before) << "attempt " << attempt;
        EXPECT_THAT(index.check(), testing::IsEmpty());
        EXPECT_TRUE(index.empty());
        small.bulk_load(many.begin(), many.begin() + 1000);
        small.clear();
    }
    index.bulk_load(entries.begin(), entries.begin() + 100);
    EXPECT_EQ(index.size(), 100U);
}

}  // namespace
}  // namespace holdfast
