// What a hash_index has of its own: what it costs, keys without an order, keys of one hash, and its directory.
#include <array>
#include <bit>
#include <set>
#include <string>
#include <string_view>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;
using hashed_numbers = hash_index<std::uint64_t, std::uint64_t>;
using hashed_texts = hash_index<std::string_view, std::uint64_t>;

class hash_index_test : public testing::Test {
protected:
    segment::test_directory directory_;
    manager heap_{create_only, directory_.path("heap"),
                  options_of({durability::atomic, open_options::domain_choice::emulated})};
};

TEST_F(hash_index_test, an_entry_of_16_bytes_is_one_record_and_one_fence) {
    hashed_numbers tested(heap_, "numbers");
    const protocol_counters before = heap_.counters();
    std::uint64_t changes = 0;
    for (std::uint64_t i = 0; i < 100; ++i) {
        changes += tested.insert(i, i) ? 1U : 0U;
        changes += tested.update(i, i + 1) ? 1U : 0U;
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
        changes += tested.remove(i) ? 1U : 0U;
    }
    EXPECT_EQ(changes, 220U);
    EXPECT_EQ(heap_.counters().durable_records - before.durable_records, changes);
    EXPECT_EQ(heap_.counters().fences - before.fences, changes);
}

TEST_F(hash_index_test, grows_and_shrinks_with_its_directory) {
    constexpr std::uint64_t count = 20'000;
    hashed_numbers tested(heap_, "numbers");
    const protocol_counters before = heap_.counters();
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(tested.insert(i * i, i));
    }
    EXPECT_LT(heap_.counters().durable_records - before.durable_records, count * 11 / 10);
    const index_statistics full = tested.statistics();
    EXPECT_GT(full.leaves, count / 108);
    EXPECT_LT(full.leaves, count / 40);
    EXPECT_LT(full.dram_bytes, count * 16);
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(tested.find(i * i), i);
        ASSERT_FALSE(tested.contains(i * i + 3 * count * count));
    }
    EXPECT_THAT(tested.check(), IsEmpty());
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(tested.remove(i * i));
    }
    EXPECT_TRUE(tested.empty());
    EXPECT_LT(tested.statistics().leaves, full.leaves / 10);
    EXPECT_THAT(tested.check(), IsEmpty());
}

TEST_F(hash_index_test, entries_may_be_changed_while_they_are_visited) {
    constexpr std::uint64_t count = 3000;
    hashed_numbers tested(heap_, "numbers");
    for (std::uint64_t i = 0; i < count; ++i) {
        tested.insert(i, i);
    }
    std::set<std::uint64_t> seen;
    const std::size_t given = tested.for_each([&](std::uint64_t key, std::uint64_t value) {
        EXPECT_EQ(value, key);
        EXPECT_TRUE(seen.insert(key).second) << key;
        return key % 2 == 0 ? tested.remove(key) : tested.update(key, key + 1);
    });
    EXPECT_EQ(given, count);
    EXPECT_EQ(tested.size(), count / 2);
    EXPECT_EQ(tested.for_each([](std::uint64_t /*key*/, std::uint64_t /*value*/) { return false; }), 1U);
}

/// Was: a merge put entries that were still to be visited beside some that had been, which came once more.
TEST_F(hash_index_test, entries_are_visited_once_though_leaves_are_united_meanwhile) {
    hashed_numbers tested(heap_, "numbers");
    for (std::uint64_t i = 0; i < 3'000; ++i) {
        tested.insert(i, i);
    }
    for (std::uint64_t i = 0; i < 3'000; ++i) {
        if (i % 4 != 0) {
            tested.remove(i);  // all leaves have few entries
        }
    }
    const std::uint64_t leaves = tested.statistics().leaves;
    std::multiset<std::uint64_t> visited;
    tested.for_each([&](std::uint64_t key, std::uint64_t /*value*/) {
        visited.insert(key);
        if (key % 8 != 0) {
            tested.remove(key);
        }
        return true;
    });
    EXPECT_LT(tested.statistics().leaves, leaves);
    for (std::uint64_t i = 0; i < 3'000; i += 4) {
        ASSERT_EQ(visited.count(i), 1U) << i;
    }
    EXPECT_EQ(tested.size(), 375U);
    EXPECT_THAT(tested.check(), IsEmpty());
}

TEST_F(hash_index_test, keys_need_no_order) {
    struct place {
        std::uint32_t row;
        std::uint32_t column;
    };
    hash_index<place, std::uint16_t> tested(heap_, "places");
    for (std::uint32_t i = 0; i < 300; ++i) {
        EXPECT_TRUE(tested.insert({i, i / 2}, static_cast<std::uint16_t>(i)));
    }
    EXPECT_FALSE(tested.insert({7, 3}, 1));
    EXPECT_EQ(tested.find({7, 3}), 7);
    EXPECT_EQ(tested.find({7, 4}), std::nullopt);
    EXPECT_THAT(tested.check(), IsEmpty());
}

/// Keys of one hash, for an index whose hash has no secret: the hash multiplies by what the first word leaves of its
/// constant, and that is nothing.
std::string crafted_key(std::uint64_t i) {
    const std::uint64_t words[] = {detail::hash_first, i};
    return {std::bit_cast<std::array<char, sizeof words>>(words).data(), sizeof words};
}

/// Was: error(limit), for who chose the keys knew the hash.
TEST_F(hash_index_test, keys_that_were_made_to_have_one_hash_were_refused) {
    using order = detail::order_of_hashes<std::string_view>;
    ASSERT_EQ(order().bound_of(crafted_key(1)), order().bound_of(crafted_key(2)));
    constexpr std::uint64_t count = 2000;
    {
        hashed_texts tested(heap_, "texts");
        for (std::uint64_t i = 0; i < count; ++i) {
            ASSERT_TRUE(tested.insert(crafted_key(i), i));
        }
        EXPECT_THAT(tested.check(), IsEmpty());
    }
    const hashed_texts again(heap_, "texts");
    for (std::uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(again.find(crafted_key(i)), i);
    }
    const auto seed_of = [this](const char* name) {
        return heap_.find<stored_hash_index<std::string_view, std::uint64_t>>(name).first->seed;
    };
    const hashed_texts other(heap_, "other");
    EXPECT_NE(seed_of("texts"), seed_of("other"));
}

/// One whose hash has no secret, as those that were made before there was one.
void make_without_secret(manager& heap) {
    { const hashed_texts made(heap, "texts"); }
    auto& head = *heap.find<stored_hash_index<std::string_view, std::uint64_t>>("texts").first;
    heap.transact([&](transaction& tx) {
        tx.store(head.seed, 0);
        tx.store(head.shape, head.shape & ~(std::uint64_t{0x1ffffff} << 35U));
    });
}

TEST_F(hash_index_test, keys_of_one_hash_are_refused_when_a_leaf_is_full_of_them) {
    make_without_secret(heap_);
    hashed_texts tested(heap_, "texts");
    for (std::uint64_t i = 0; i < 50; ++i) {
        EXPECT_TRUE(tested.insert(fmt::format("{}", i), i));
    }
    std::uint64_t fitted = 0;
    EXPECT_EQ(reason_of([&] {
                  for (; fitted < 1000; ++fitted) {
                      tested.insert(crafted_key(fitted), fitted);
                  }
              }),
              errc::limit);
    EXPECT_EQ(fitted, tested.statistics().slots / tested.statistics().leaves);
    EXPECT_EQ(tested.size(), 50 + fitted);
    EXPECT_THAT(tested.check(), IsEmpty());
    EXPECT_TRUE(tested.insert("another", 1));
    EXPECT_TRUE(tested.remove(crafted_key(0)));
    EXPECT_TRUE(tested.insert(crafted_key(1000), 1));
}

/// Runs of keys of one hash, beside others: leaves end before or behind a run. One key more than a leaf holds is
/// refused.
TEST_F(hash_index_test, a_load_keeps_keys_of_one_hash_together) {
    make_without_secret(heap_);
    hashed_texts tested(heap_, "texts");
    const std::uint64_t slots = tested.statistics().slots;
    std::vector<std::pair<std::string, std::uint64_t>> entries;
    for (std::uint64_t i = 0; i < slots; ++i) {
        entries.emplace_back(crafted_key(i), i);
    }
    entries.emplace_back(crafted_key(slots), 0);
    EXPECT_EQ(reason_of([&] { tested.bulk_load(entries.begin(), entries.end()); }), errc::limit);
    entries.back().first = crafted_key(0);
    EXPECT_EQ(reason_of([&] { tested.bulk_load(entries.begin(), entries.end()); }), errc::invalid_argument);
    entries.pop_back();
    for (std::uint64_t others = 0; others < 700; others += 7) {
        for (std::uint64_t i = 0; i < 7; ++i) {
            entries.emplace_back(fmt::format("{}", others + i), others + i);
        }
        tested.bulk_load(entries.rbegin(), entries.rend());
        ASSERT_THAT(tested.check(), IsEmpty());
        ASSERT_EQ(tested.size(), entries.size());
        for (const auto& [key, value] : entries) {
            ASSERT_EQ(tested.find(key), value);
        }
        tested.clear();
    }
}

TEST_F(hash_index_test, a_load_fills_its_leaves) {
    constexpr std::uint64_t count = 200'000;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> entries;
    for (std::uint64_t i = 0; i < count; ++i) {
        entries.emplace_back(i * i, i);
    }
    hashed_numbers tested(heap_, "numbers");
    tested.bulk_load(entries.begin(), entries.end());
    const index_statistics full = tested.statistics();
    EXPECT_LT(full.slots, count * 100 / 86);
    EXPECT_EQ(tested.size(), count);
    EXPECT_THAT(tested.check(), IsEmpty());
    for (const auto& [key, value] : entries) {
        ASSERT_EQ(tested.find(key), value);
    }
}

}  // namespace
}  // namespace holdfast
