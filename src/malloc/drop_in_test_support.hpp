// For tests of the drop-in malloc: each runs in a process of its own, because a process has one such heap.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include <boost/container/static_vector.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "heap/heap.hpp"
#include "malloc/drop_in.hpp"
#include "segment/test_support.hpp"

namespace holdfast::drop_in {

struct outcome {
    bool passed = false;
    std::string said;  ///< on the standard error
};

/// A failed expectation throws in that process.
inline outcome in_process(const std::function<void()>& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) {
        return {};
    }
    base::child_process child([&] {
        ::dup2(ends[1], STDERR_FILENO);
        ::close(ends[0]);
        ::close(ends[1]);
        testing::GTEST_FLAG(throw_on_failure) = true;
        work();
    });
    ::close(ends[1]);
    outcome done;
    std::array<char, 4096> text{};
    for (ssize_t got = 0; (got = ::read(ends[0], text.data(), text.size())) > 0;) {
        done.said.append(text.data(), static_cast<std::size_t>(got));
    }
    ::close(ends[0]);
    done.passed = child.wait().succeeded();
    return done;
}

class drop_in_test : public testing::TestWithParam<bool> {
protected:
    /// The parameter says whether the heap has a path.
    [[nodiscard]] settings wanted() const { return {GetParam() ? directory_.path("heap") : std::string(), 0, false}; }
    void run(const std::function<void()>& work) const {
        const outcome done = in_process([&] {
            ASSERT_TRUE(open(wanted()));
            work();
            close();
        });
        EXPECT_TRUE(done.passed) << done.said;
        if (GetParam()) {
            const auto heap =
                segment::must(heap::engine::open(directory_.path("heap"), persist::access_mode::read_only, {}));
            EXPECT_FALSE(heap->files().recovered()) << "it was closed";
            EXPECT_THAT(heap->check(false), testing::IsEmpty());
        }
    }
    segment::test_directory directory_;
};

/// Expects the content of its blocks to stay. Calls no other malloc: the one of a sanitizer has locks that a fork at
/// the wrong moment leaves taken in the child.
inline void work_for_a_while(unsigned seed, int rounds) {
    std::mt19937 random(seed);
    struct held {
        unsigned char* block;
        std::size_t bytes;
        unsigned char with;
    };
    boost::container::static_vector<held, 64> all;
    for (int i = 0; i < rounds; ++i) {
        if (all.size() > 60 || (!all.empty() && random() % 3 == 0)) {
            std::swap(all[random() % all.size()], all.back());
            const held last = all.back();
            all.pop_back();
            ASSERT_EQ(last.block[0], last.with);
            ASSERT_EQ(last.block[last.bytes - 1], last.with);
            free(last.block);
        } else {
            const std::size_t bytes = random() % 20 == 0 ? 10'000 + random() % 200'000 : 1 + random() % 500;
            const auto with = static_cast<unsigned char>(random());
            auto* block = static_cast<unsigned char*>(allocate(bytes / 2 + 1));
            ASSERT_NE(block, nullptr);
            std::memset(block, with, bytes / 2 + 1);
            block = static_cast<unsigned char*>(reallocate(block, bytes));
            ASSERT_NE(block, nullptr);
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % malloc_alignment, 0U);
            ASSERT_EQ(block[0], with);
            std::memset(block, with, bytes);
            all.push_back({block, bytes, with});
        }
    }
    for (const held& one : all) {
        free(one.block);
    }
}

/// Some hundred blocks are always live, each with its own number in it.
inline void allocate_and_free_small(unsigned rounds) {
    std::array<unsigned*, 300> live{};
    for (unsigned i = 0; i < rounds; ++i) {
        unsigned*& one = live[i % live.size()];
        if (one != nullptr) {
            ASSERT_EQ(*one, i - live.size());
            free(one);
        }
        one = static_cast<unsigned*>(allocate(48));
        ASSERT_NE(one, nullptr);
        *one = i;
    }
    for (unsigned* const one : live) {
        free(one);
    }
}

}  // namespace holdfast::drop_in
