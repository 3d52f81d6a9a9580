// The maps of examples/maps against std::map, and the queue against std::deque: every rule of each structure, while it
// grows and shrinks.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <maps/open_map.hpp>
#include <maps/ring_queue.hpp>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

using model = std::map<std::uint64_t, std::uint64_t>;

class maps_test : public testing::Test {
protected:
    [[nodiscard]] open_options options(durability wanted) const {
        open_options chosen =
            options_of({wanted, wanted == durability::commit ? open_options::domain_choice::detect
                                                             : open_options::domain_choice::emulated});
        chosen.check_transactions = true;
        return chosen;
    }
    static void expect_equal(const maps::checked_map& map, const model& expected) {
        ASSERT_EQ(map.problem(), "");
        model found;
        std::vector<std::uint64_t> order;
        map.for_each([&](std::uint64_t key, std::uint64_t value) {
            order.push_back(key);
            return found.emplace(key, value).second;
        });
        ASSERT_EQ(found, expected);
        ASSERT_EQ(map.count(), expected.size());
        ASSERT_EQ(map.is_empty(), expected.empty());
    }
    /// One random call of both; `removes` of a hundred take a key away.
    static void step(maps::map& map, model& expected, std::mt19937_64& random, std::uint64_t keys, unsigned removes) {
        const std::uint64_t key = random() % keys;
        const auto known = expected.find(key);
        const std::optional<std::uint64_t> value =
            known == expected.end() ? std::nullopt : std::optional(known->second);
        ASSERT_EQ(map.look_up(key), value);
        if (random() % 100 < removes) {
            ASSERT_EQ(map.remove(key), value);
            expected.erase(key);
        } else {
            const std::uint64_t made = random();
            ASSERT_EQ(map.insert(key, made), !value);
            expected[key] = made;
        }
    }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(maps_test, agree_with_a_map_while_they_grow_and_shrink_in_each_durability) {
    for (const durability wanted : {durability::atomic, durability::commit, durability::collect}) {
        manager heap(create_only, path_, options(wanted));
        for (const std::string_view kind : maps::map_names()) {
            SCOPED_TRACE(kind);
            const auto map = maps::open_map(heap, kind);
            const std::uint64_t before = heap.statistics().allocated_blocks;
            model expected;
            std::mt19937_64 random(5);
            for (const unsigned removes : {10U, 90U, 30U, 50U, 95U}) {
                for (int i = 1; i <= 800; ++i) {
                    step(*map, expected, random, 300, removes);
                    if (i % 10 == 0) {
                        ASSERT_EQ(map->problem(), "");
                    }
                    ASSERT_FALSE(HasFailure());
                }
                expect_equal(*map, expected);
                ASSERT_EQ(heap.statistics().allocated_blocks, before + map->block_count());
            }
            expect_equal(*maps::open_map(heap, kind), expected);  // what is there, not what the object knows
        }
        heap.close();
        manager::remove(path_);
    }
}

TEST_F(maps_test, take_keys_in_order_and_give_back_every_block) {
    manager heap(create_only, path_, options(durability::atomic));
    for (const std::string_view kind : maps::map_names()) {
        SCOPED_TRACE(kind);
        const auto map = maps::open_map(heap, kind);
        EXPECT_FALSE(map->remove(1));
        EXPECT_FALSE(map->look_up(1));
        const std::uint64_t before = heap.statistics().allocated_blocks + (kind == "hash" ? 1 : 0);  // its table stays
        model expected;
        constexpr std::uint64_t last = 400;
        for (std::uint64_t i = 1; i <= last; ++i) {
            map->insert(i, i * i);
            map->insert(2 * last + 1 - i, i);
            expected[i] = i * i;
            expected[2 * last + 1 - i] = i;
        }
        expect_equal(*map, expected);
        for (std::uint64_t i = last; i >= 1; --i) {  // from the middle to both ends
            ASSERT_EQ(map->remove(i), i * i);
            ASSERT_EQ(map->remove(2 * last + 1 - i), i);
            ASSERT_EQ(map->problem(), "");
        }
        EXPECT_TRUE(map->is_empty());
        EXPECT_EQ(heap.statistics().allocated_blocks, before);
    }
}

TEST_F(maps_test, queue_gives_texts_in_their_order_and_says_when_it_is_full) {
    manager heap(create_only, path_, options(durability::atomic));
    maps::ring_queue queue(heap, "queue", 3);
    EXPECT_FALSE(queue.dequeue());
    std::deque<std::string> expected;
    std::mt19937_64 random(5);
    for (int i = 0; i < 500; ++i) {
        if (random() % 2 == 0) {
            const std::string text(random() % 1000, static_cast<char>('a' + i % 26));
            ASSERT_EQ(queue.enqueue(text), expected.size() < 8);
            if (expected.size() < 8) {
                expected.push_back(text);
            }
        } else {
            const auto text = queue.dequeue();
            ASSERT_EQ(text, expected.empty() ? std::nullopt : std::optional(expected.front()));
            if (text) {
                expected.pop_front();
            }
        }
        ASSERT_EQ(queue.count(), expected.size());
    }
    std::deque<std::string> found;
    maps::ring_queue(heap, "queue").for_each([&](std::string_view text) {
        found.emplace_back(text);
        return true;
    });
    EXPECT_EQ(found, expected);
    EXPECT_EQ(heap.statistics().allocated_blocks, 2 + expected.size()) << "the head, the ring, and the texts";
}

}  // namespace
}  // namespace holdfast
