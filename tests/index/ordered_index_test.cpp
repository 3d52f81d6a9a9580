// Ordered and hash indexes against std::map, in every durability and for every kind of key and value.
#include <algorithm>
#include <numeric>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

using testing::IsEmpty;

enum class small_enum : std::uint16_t {};

template <class Index>
class index_types_test : public testing::Test {
protected:
    using index = Index;

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
};
using index_types =
    testing::Types<ordered_index<std::uint64_t, std::uint64_t>, ordered_index<std::int32_t, std::uint8_t>,
                   ordered_index<wide_key, wide_value>, ordered_index<std::string_view, std::string_view>,
                   ordered_index<std::string_view, std::uint64_t>, ordered_index<small_enum, std::string_view>,
                   hash_index<std::uint64_t, std::uint64_t>, hash_index<wide_key, wide_value>,
                   hash_index<std::string_view, std::string_view>>;
TYPED_TEST_SUITE(index_types_test, index_types);

TYPED_TEST(index_types_test, agrees_with_a_map_and_is_there_again_in_each_durability) {
    index_and_model<typename TestFixture::index> both;
    std::mt19937_64 random(7);
    const std::vector<test_configuration> configurations{{durability::commit, open_options::domain_choice::detect},
                                                         {durability::collect, open_options::domain_choice::emulated},
                                                         {durability::atomic, open_options::domain_choice::page_cache},
                                                         {durability::atomic, open_options::domain_choice::emulated}};
    std::uint64_t keys = 3000;
    for (const test_configuration& each : configurations) {
        manager heap(open_or_create, this->path_, options_of(each));
        {
            typename TestFixture::index tested(heap, "index");
            both.compare(tested);
            for (unsigned i = 0; i < 1500 && !this->HasFatalFailure(); ++i) {
                both.step(tested, random, keys);
            }
            both.compare(tested);
        }
        EXPECT_THAT(heap.check(false), IsEmpty());
        heap.close();
        keys = keys == 3000 ? 400 : 3000;  // the tree grows and shrinks
    }
    const manager heap(open_read_only, this->path_);
}

TYPED_TEST(index_types_test, loads_entries_and_frees_everything) {
    using key = typename TestFixture::index::key_type;
    using value = typename TestFixture::index::mapped_type;
    index_and_model<typename TestFixture::index> both;
    manager heap(create_only, this->path_, options_of({durability::atomic, open_options::domain_choice::page_cache}));
    for (std::uint64_t i = 0; i < 2000; ++i) {
        both.contents()[made_from<key>(3 * i)] = made_from<value>(i);
    }
    typename TestFixture::index(heap, "index").insert(made_from<key>(1), made_from<value>(1));
    {
        typename TestFixture::index tested(heap, "index");
        EXPECT_EQ(reason_of([&] { tested.bulk_load(both.contents().begin(), both.contents().end()); }),
                  errc::invalid_argument);
        tested.clear();
        EXPECT_TRUE(tested.empty());
        EXPECT_EQ(heap.statistics().allocated_blocks, 2U);  // head and first leaf
        std::vector twice(both.contents().begin(), both.contents().end());
        twice.push_back(twice.back());
        EXPECT_EQ(reason_of([&] { tested.bulk_load(twice.begin(), twice.end()); }), errc::invalid_argument);
        EXPECT_TRUE(tested.empty());
        EXPECT_EQ(heap.statistics().allocated_blocks, 2U);
        tested.bulk_load(both.contents().begin(), both.contents().end());
        both.compare(tested);
        std::mt19937_64 random(3);
        for (unsigned i = 0; i < 500 && !this->HasFatalFailure(); ++i) {
            both.step(tested, random, 6000);
        }
    }
    {
        typename TestFixture::index tested(heap, "index");
        both.compare(tested);
    }
    EXPECT_TRUE(TestFixture::index::destroy(heap, "index"));
    EXPECT_FALSE(TestFixture::index::destroy(heap, "index"));
    EXPECT_EQ(heap.statistics().allocated_blocks, 0U);
    EXPECT_THAT(heap.check(false), IsEmpty());
}

using numbers = ordered_index<std::uint64_t, std::uint64_t>;
using texts = ordered_index<std::string_view, std::string_view>;

class index_test : public testing::Test {
protected:
    [[nodiscard]] manager create(durability wanted, open_options::domain_choice domain) const {
        return {create_only, path_, options_of({wanted, domain})};
    }
    /// A heap that can count records and fences.
    [[nodiscard]] manager create_counting() const {
        return create(durability::atomic, open_options::domain_choice::emulated);
    }

    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(index_test, an_entry_of_16_bytes_is_one_record_and_one_fence) {
    manager heap = create_counting();
    numbers tested(heap, "numbers");
    const auto key = [](std::uint64_t i) { return i * 7919 % 1000; };
    std::uint64_t changes = 0;
    const protocol_counters before = heap.counters();
    for (std::uint64_t i = 0; i < 100; ++i) {  // a leaf has room for 108: every place in a cell
        changes += tested.insert(key(i), i) ? 1U : 0U;
        changes += tested.update(key(i), i + 1) ? 1U : 0U;
    }
    for (std::uint64_t i = 0; i < 20; ++i) {
        changes += tested.remove(key(i)) ? 1U : 0U;
    }
    EXPECT_EQ(changes, 220U);
    EXPECT_EQ(heap.counters().durable_records - before.durable_records, changes);
    EXPECT_EQ(heap.counters().fences - before.fences, changes);
    EXPECT_FALSE(tested.insert(key(20), 1) || tested.remove(0) || tested.update(0, 1));
    EXPECT_EQ(heap.counters().fences - before.fences, changes) << "a call that changes nothing writes nothing";
}

TEST_F(index_test, a_short_text_is_one_group_and_one_fence) {
    manager heap = create_counting();
    texts tested(heap, "texts");
    tested.insert("first", "makes the slabs");
    const std::uint64_t before = heap.counters().fences;
    EXPECT_TRUE(tested.insert("key", "value"));
    EXPECT_TRUE(tested.update("key", "other"));
    EXPECT_TRUE(tested.remove("key"));
    EXPECT_EQ(heap.counters().fences - before, 3U);
}

TEST_F(index_test, splits_cost_less_than_a_record_for_ten_insertions) {
    manager heap = create_counting();
    numbers tested(heap, "numbers");
    const protocol_counters before = heap.counters();
    std::mt19937_64 random(1);
    for (std::uint64_t i = 0; i < 5000; ++i) {
        tested.insert(random(), i);
    }
    EXPECT_LT(heap.counters().durable_records - before.durable_records, 5500U);
    EXPECT_LT(heap.counters().fences - before.fences, 5500U);
    const index_statistics found = tested.statistics();
    EXPECT_LT(found.leaf_bytes, 28U * 5000U + 4U * 2048U) << "bytes for each entry";
}

TEST_F(index_test, ascending_keys_fill_their_leaves) {
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    numbers tested(heap, "numbers");
    for (std::uint64_t i = 0; i < 3000; ++i) {
        tested.insert(i, i);
    }
    EXPECT_LE(tested.statistics().leaves, 3000U / 108 + 1);
    EXPECT_THAT(tested.check(), IsEmpty());
}

// A queue: keys come at one end and go at the other. Leaves, inner nodes and texts must not pile up.
template <class Index>
void run_queue(manager& heap, std::uint64_t steps) {
    using key = typename Index::key_type;
    constexpr std::uint64_t length = 300;
    Index tested(heap, "queue");
    for (std::uint64_t i = 0; i < steps; ++i) {
        const auto fresh = made_from<key>(10'000 + i);
        ASSERT_TRUE(tested.insert(fresh, i));
        if (i >= length) {
            const auto old = made_from<key>(10'000 + i - length);
            ASSERT_TRUE(tested.remove(old));
        }
    }
    const index_statistics found = tested.statistics();
    EXPECT_LT(found.leaves + found.retired_leaves, 16U);
    EXPECT_LT(found.inner_nodes, 8U);
    EXPECT_EQ(tested.size(), length);
    EXPECT_THAT(tested.check(), IsEmpty());
}
TEST_F(index_test, a_queue_of_numbers_stays_small) {
    manager heap = create(durability::atomic, open_options::domain_choice::page_cache);
    run_queue<numbers>(heap, 20'000);
}
TEST_F(index_test, a_queue_of_texts_stays_small) {
    manager heap = create(durability::atomic, open_options::domain_choice::page_cache);
    run_queue<ordered_index<std::string_view, std::uint64_t>>(heap, 8'000);
}

TEST_F(index_test, leaves_that_lose_their_entries_are_united) {
    manager heap = create(durability::collect, open_options::domain_choice::page_cache);
    numbers tested(heap, "numbers");
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        tested.insert(i * 7919 % 20'000, i);
    }
    const std::uint64_t before = tested.statistics().leaves;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        if (i % 40 != 0) {
            tested.remove(i * 7919 % 20'000);
        }
    }
    EXPECT_EQ(tested.size(), 500U);
    EXPECT_LT(tested.statistics().leaves * 6, before);
    EXPECT_THAT(tested.check(), IsEmpty());
    for (std::uint64_t i = 0; i < 20'000; ++i) {
        tested.insert(i, i);
    }
    EXPECT_EQ(tested.size(), 20'000U);
    EXPECT_THAT(tested.check(), IsEmpty());
}

TEST_F(index_test, bytes_of_a_text_are_compared_as_unsigned_and_may_be_none) {
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    texts tested(heap, "texts");
    const std::vector<std::string> keys{"",      std::string(1, '\0'),   "a",   "a\x7f",
                                        "a\xff", std::string(5000, 'b'), "\xff"};
    for (const std::string& each : keys) {
        EXPECT_TRUE(tested.insert(each, each));
    }
    std::vector<std::string> found;
    tested.scan([&](std::string_view key, std::string_view value) {
        EXPECT_EQ(key, value);
        found.emplace_back(key);
        return true;
    });
    EXPECT_EQ(found, keys);
    EXPECT_EQ(tested.find(""), "");
}

TEST_F(index_test, scans_begin_and_end_where_they_are_told) {
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    numbers tested(heap, "numbers");
    EXPECT_FALSE(tested.first() || tested.last() || tested.lower_bound(0) || tested.last_not_above(~0U));
    for (std::uint64_t i = 0; i < 1000; ++i) {
        tested.insert(i * 10, i);
    }
    std::vector<std::uint64_t> found;
    const auto take = [&](std::size_t most) {
        return [&found, most](std::uint64_t key, std::uint64_t /*value*/) {
            found.push_back(key);
            return found.size() < most;
        };
    };
    EXPECT_EQ(tested.scan(995, take(400)), 400U);
    EXPECT_EQ(found.front(), 1000U);
    EXPECT_EQ(found.back(), 4990U);
    found.clear();
    EXPECT_EQ(tested.scan_backward(4990, take(400)), 400U);
    EXPECT_EQ(found.front(), 4990U);
    EXPECT_EQ(found.back(), 1000U);
    EXPECT_EQ(tested.scan(9991, take(1)), 0U);
    EXPECT_EQ(tested.first()->first, 0U);
    EXPECT_EQ(tested.last()->first, 9990U);
    // What is called may change the index.
    tested.scan([&](std::uint64_t key, std::uint64_t /*value*/) { return tested.remove(key); });
    EXPECT_TRUE(tested.empty());
}

TEST_F(index_test, says_what_it_refuses) {
    manager heap = create(durability::atomic, open_options::domain_choice::page_cache);
    {
        const numbers tested(heap, "numbers");
        EXPECT_EQ(reason_of([&] { numbers(heap, "numbers"); }), errc::locked);
    }
    EXPECT_EQ(reason_of([&] { texts(heap, "numbers"); }), errc::type_mismatch);
    EXPECT_EQ(
        heap.object_at(heap.find<stored_index<std::uint64_t, std::uint64_t>>("numbers").first).readable_type_name(),
        "holdfast::stored_index<unsigned long, unsigned long>");
    heap.close();
    manager reader(open_read_only, path_);
    EXPECT_EQ(reason_of([&] { texts(reader, "none"); }), errc::not_found);
    numbers tested(reader, "numbers");
    EXPECT_EQ(reason_of([&] { tested.insert(1, 1); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { tested.remove(1); }), errc::read_only);
    EXPECT_EQ(reason_of([&] { tested.clear(); }), errc::read_only);
    EXPECT_EQ(tested.size(), 0U);
}

/// Was: the texts of a pair that the iterator gives by value were read when they were gone.
template <class Index>
void load_texts_that_the_iterator_makes(manager& heap) {
    const auto key_of = [](std::uint64_t number) { return fmt::format("a key that needs memory {:06}", number); };
    const auto value_of = [](std::uint64_t number) { return fmt::format("a value that needs memory {:06}", number); };
    const auto made = std::views::iota(std::uint64_t{0}, std::uint64_t{300}) |
                      std::views::transform([&](std::uint64_t i) { return std::pair(key_of(i), value_of(i)); });
    Index tested(heap, "texts");
    tested.bulk_load(made.begin(), made.end());
    EXPECT_THAT(tested.check(), IsEmpty());
    EXPECT_EQ(tested.size(), 300U);
    for (std::uint64_t i = 0; i < 300; ++i) {
        ASSERT_EQ(tested.find(key_of(i)), value_of(i));
    }
}
TEST_F(index_test, a_bulk_load_takes_texts_that_its_iterator_makes) {
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    load_texts_that_the_iterator_makes<texts>(heap);
    EXPECT_TRUE(texts::destroy(heap, "texts"));
    load_texts_that_the_iterator_makes<hash_index<std::string_view, std::string_view>>(heap);
}

TEST_F(index_test, a_bulk_load_refuses_keys_that_descend) {
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    numbers tested(heap, "numbers");
    const std::vector<std::pair<std::uint64_t, std::uint64_t>> descending{{2, 0}, {1, 0}};
    EXPECT_EQ(reason_of([&] { tested.bulk_load(descending.begin(), descending.end()); }), errc::invalid_argument);
    EXPECT_TRUE(tested.empty());
    tested.bulk_load(descending.rbegin(), descending.rend());
    EXPECT_EQ(tested.size(), 2U);
}

TEST_F(index_test, an_open_of_many_leaves_walks_from_both_ends) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> all(600'000);
    for (std::uint64_t i = 0; i < all.size(); ++i) {
        all[i] = {2 * i, i};
    }
    manager heap = create(durability::commit, open_options::domain_choice::detect);
    numbers(heap, "numbers").bulk_load(all.begin(), all.end());
    numbers tested(heap, "numbers");
    EXPECT_EQ(tested.statistics().leaves, (all.size() + 96) / 97);
    EXPECT_EQ(tested.size(), all.size());
    EXPECT_EQ(tested.find(600'000), 300'000U);
    std::uint64_t next = 0;
    tested.scan([&](std::uint64_t key, std::uint64_t value) { return key == 2 * next && value == next++; });
    EXPECT_EQ(next, all.size());
}

}  // namespace
}  // namespace holdfast
