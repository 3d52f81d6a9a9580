// Sparse slabs, beside a model, by threads, and on several nodes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slab/nodes/node_heap_test_support.hpp"
#include "slab/supply/sparse_slabs_test_support.hpp"

namespace holdfast::slab {
namespace {

using ::testing::IsEmpty;

class sparse_slabs_threads_test : public sparse_slabs_test {};

TEST_F(sparse_slabs_threads_test, while_threads_free_and_allocate) {
    constexpr unsigned threads = 3;
    constexpr std::size_t sizes[] = {48, 112, 208, 1024, 3072};
    constexpr std::size_t phase = 2 * base::granule_size;
    std::array<std::atomic<std::byte*>, 2048> exchange{};
    std::atomic<std::uint64_t> wrong{0};
    const auto work = [&](unsigned number, int round) {
        std::mt19937_64 random(number * 1000 + static_cast<unsigned>(round));
        const std::size_t size = sizes[(static_cast<unsigned>(round) + number) % std::size(sizes)];
        for (std::size_t i = 0; i < phase / size; ++i) {
            auto* const block = static_cast<std::byte*>(heap_.blocks().allocate(size, 1));
            if (block == nullptr || !is_backed(block, size) ||
                !heap_.swap_in(exchange[random() % exchange.size()], block, size)) {
                ++wrong;
                return;
            }
        }
        for (int i = 0; i < 8; ++i) {
            const base::granule slab{1 + random() % 40};
            static_cast<void>(heap_.blocks().morph(slab, class_for(sizes[random() % std::size(sizes)], 1), 95));
        }
        heap_.blocks().small().flush_this_thread();
    };
    std::uint64_t holes = 0;
    for (int round = 0; round < 40; ++round) {
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back(work, i, round);
        }
        for (std::thread& each : running) {
            each.join();
        }
        for (auto& each : exchange) {
            if (&each - exchange.data() > 200 && each != nullptr) {
                free(each.exchange(nullptr));
            }
        }
        holes += pages_in(commit(round % 4 != 0).holes);
        ASSERT_THAT(heap_.problems(), IsEmpty()) << round;
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_GT(holes, 100U);
}

/// Frees by another node count after a merge, which a commit does.
TEST(sparse_slabs_nodes_test, slabs_of_several_nodes_become_sparse_and_are_repopulated) {
    node_heap heap(2);
    const auto granule_of = [&](const void* block) { return base::granule_of(heap.space().view().offset(block)); };
    std::vector<void*> blocks(2 * 512);  // of 128 bytes: two slabs
    on_node(1, [&] {
        std::generate(blocks.begin(), blocks.end(), [&] { return heap.blocks().allocate(128, 8); });
        heap.blocks().small().flush_this_thread();
    });
    on_node(0, [&] {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
            EXPECT_TRUE(i % 512 == 40 || heap.blocks().try_free(blocks[i]));
        }
    });
    const sparse_pages going = heap.blocks().slabs().make_sparse(true);
    heap.blocks().slabs().write_bitmaps();
    std::uint64_t pages = 0;
    for (const auto& [start, length] : going.holes) {
        pages += length.value;
        std::memset(heap.space().view().address(base::offset_of(start)), 0xee, base::to_bytes(length));
    }
    EXPECT_EQ(pages, 2 * (all_pages - 1));
    heap.blocks().slabs().sparse().note_holes(going.holes);
    EXPECT_THAT(heap.problems(), IsEmpty());
    on_node(0, [&] { EXPECT_TRUE(heap.blocks().try_free(blocks[40])); });
    on_node(1, [&] {
        void* const block = heap.blocks().allocate(128, 8);
        EXPECT_EQ(granule_of(block), granule_of(blocks[512 + 40]));
        EXPECT_TRUE(heap.blocks().try_free(block));
        EXPECT_TRUE(heap.blocks().try_free(blocks[512 + 40]));
    });
    heap.blocks().small().release_unused();
    EXPECT_TRUE(heap.blocks().inspect().all_free());
    EXPECT_THAT(heap.problems(), IsEmpty());
}

class sparse_slabs_model_test : public sparse_slabs_test, public ::testing::WithParamInterface<unsigned> {
protected:
    struct model_block {
        std::size_t bytes;
        unsigned char pattern;
    };
    using model = std::map<std::byte*, model_block>;

    void put(std::size_t bytes) {
        std::byte* const block = try_allocate(bytes);
        if (block == nullptr) {
            ++refused_;
            return;
        }
        const auto pattern = static_cast<unsigned char>(random_());
        std::memset(block, pattern, bytes);
        ASSERT_TRUE(live_.emplace(block, model_block{bytes, pattern}).second);
    }
    void expect_kept(model::const_iterator at) const {
        const auto& [block, what] = *at;
        EXPECT_TRUE(is_backed(block, what.bytes));
        EXPECT_EQ(std::count(block, block + what.bytes, static_cast<std::byte>(what.pattern)),
                  static_cast<std::ptrdiff_t>(what.bytes));
    }
    void drop(model::iterator at) {
        expect_kept(at);
        free(at->first);
        live_.erase(at);
    }
    void drop_some(std::size_t count) {
        for (; count != 0 && !live_.empty(); --count) {
            auto at = live_.lower_bound(live_.begin()->first + random_() % (8 * base::mebibyte));
            drop(at == live_.end() ? live_.begin() : at);
        }
    }
    void inspect_all() const {
        ASSERT_THAT(heap_.problems(), IsEmpty());
        for (auto at = live_.begin(); at != live_.end(); ++at) {
            expect_kept(at);
        }
    }
    void disturb() {
        switch (random_() % 8) {
            case 0:
                holes_ += pages_in(commit(true).holes);
                ASSERT_TRUE(heap_.reopen().ok());
                heap_.blocks().slabs().set_traced(random_() % 2 == 0);
                break;
            case 1: heap_.space().set_disk(heap_.space().on_disk() + random_() % 40); break;
            case 2: heap_.space().set_disk(~std::uint64_t{0}); break;
            case 3: heap_.blocks().small().release_unused(); break;
            default: holes_ += pages_in(commit(random_() % 2 == 0).holes); break;
        }
    }

    std::mt19937_64 random_{GetParam()};
    model live_;
    std::uint64_t refused_ = 0;
    std::uint64_t holes_ = 0;
};

TEST_P(sparse_slabs_model_test, agrees) {
    constexpr std::size_t sizes[] = {8, 16, 48, 100, 130, 250, 1000, 3000, 9000};
    for (int round = 0; round < 200 && !HasFailure(); ++round) {
        const std::size_t size = sizes[random_() % std::size(sizes)];
        for (int i = 0; i < 300; ++i) {
            put(size);
        }
        drop_some(live_.size() * (random_() % 2 == 0 ? 9 : 5) / 10);
        if (random_() % 2 == 0) {
            heap_.blocks().small().flush_this_thread();
        }
        disturb();
        if (round % 4 == 0) {
            inspect_all();
        }
    }
    heap_.space().set_disk(~std::uint64_t{0});
    inspect_all();
    EXPECT_GT(holes_, 100U);
    drop_some(live_.size());
    heap_.blocks().small().release_unused();
    EXPECT_EQ(heap_.blocks().inspect().statistics().slabs, 0U);
    EXPECT_THAT(heap_.problems(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(seeds, sparse_slabs_model_test, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace holdfast::slab
