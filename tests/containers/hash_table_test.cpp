// holdfast::unordered_map and its relatives beyond what containers_test.cpp asks of all containers: node handles,
// buckets, order, exceptions, what stays valid.
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>

#include "arena.hpp"

namespace holdfast::test {
namespace {

using numbers = unordered_map<int, int>;
using many_numbers = unordered_multimap<int, int>;

/// Few hashes, so that chains are long and different keys share a hash.
struct poor_hash {
    std::size_t operator()(int key) const noexcept { return static_cast<std::size_t>(key) % 13; }
};

using elements = std::multiset<std::pair<int, int>>;

template <class Table>
elements content(const Table& table) {
    return {table.begin(), table.end()};
}

/// Every element is found in its bucket, and no bucket has more.
template <class Table>
void expect_sound(const Table& table) {
    std::size_t in_buckets = 0;
    for (std::size_t i = 0; i < table.bucket_count(); ++i) {
        in_buckets += table.bucket_size(i);
        for (auto one = table.cbegin(i); one != table.cend(i); ++one) {
            ASSERT_EQ(table.bucket(one->first), i);
        }
    }
    ASSERT_EQ(in_buckets, table.size());
    ASSERT_EQ(static_cast<std::size_t>(std::distance(table.begin(), table.end())), table.size());
    ASSERT_LE(table.load_factor(), table.max_load_factor());
}

template <class T>
class hash_tables : public ::testing::Test {};
using table_types = ::testing::Types<numbers, unordered_map<int, int, poor_hash>, many_numbers,
                                     unordered_multimap<int, int, poor_hash>>;
TYPED_TEST_SUITE(hash_tables, table_types);

template <class Table>
class table_and_model {
public:
    static constexpr bool is_multi = Table::traits::is_multi;

    explicit table_and_model(arena& heap) : heap_(heap), table_(heap, heap.get_allocator<std::byte>()) {}

    void step(std::mt19937_64& random) {
        const int key = static_cast<int>(random() % 300);
        const int value = static_cast<int>(random() % 1000);
        switch (random() % 12) {
            case 0: erase_one(key); break;
            case 1: erase_range(random() % 4); break;
            case 2: rename(key, value % 300); break;
            case 3: merge(key, value); break;
            case 4: table_->rehash(random() % 2000); break;
            case 5:
                table_->max_load_factor(0.25F + static_cast<float>(random() % 16) / 4);
                table_->rehash(0);  // a limit that was lowered counts from here on
                break;
            case 6: table_->reserve(random() % 500); break;
            default: add(key, value);
        }
    }
    void compare() const {
        ASSERT_NO_FATAL_FAILURE(expect_sound(*table_));
        ASSERT_EQ(content(*table_), content(model_));
        for (int key = 0; key < 300; key += 7) {
            const auto [first, last] = std::as_const(*table_).equal_range(key);
            ASSERT_EQ(static_cast<std::size_t>(std::distance(first, last)), model_.count(key));
        }
    }

private:
    void add(int key, int value) {
        if (is_multi || !model_.contains(key)) {
            model_.emplace(key, value);
        }
        table_->emplace(key, value);
    }
    void erase_one(int key) {
        if (const auto found = table_->find(key); found != table_->end()) {
            const int value = found->second;
            forget(key, value);
            table_->erase(found);
        }
    }
    void erase_range(std::size_t count) {
        auto last = table_->begin();
        for (; count > 0 && last != table_->end(); --count, ++last) {
            forget(last->first, last->second);
        }
        EXPECT_EQ(table_->erase(table_->begin(), last), last);
    }
    /// By a node handle; the element is not copied.
    void rename(int key, int other) {
        auto handle = table_->extract(key);
        ASSERT_EQ(handle.empty(), !model_.contains(key));
        if (handle.empty()) {
            return;
        }
        const auto* const address = &handle.mapped();
        forget(key, handle.mapped());
        handle.key() = other;
        const bool fits = is_multi || !model_.contains(other);
        const int value = handle.mapped();
        if constexpr (is_multi) {
            EXPECT_EQ(&table_->insert(std::move(handle))->second, address);
        } else {
            const auto told = table_->insert(std::move(handle));
            EXPECT_EQ(told.inserted, fits);
            EXPECT_EQ(told.node.empty(), fits);
            EXPECT_EQ(told.position->first, other);
        }
        if (fits) {
            model_.emplace(other, value);
        }
    }
    void merge(int key, int value) {
        Table other(table_->get_allocator());
        for (int i = 0; i < 10; ++i) {
            other.emplace(key + i, value + i);
        }
        for (const auto& [k, v] : content(other)) {
            if (is_multi || !model_.contains(k)) {
                model_.emplace(k, v);
            }
        }
        const std::size_t all = other.size() + table_->size();
        table_->merge(other);
        EXPECT_EQ(other.size() + table_->size(), all);
        for (const auto& element : other) {
            EXPECT_TRUE(table_->contains(element.first));
        }
        ASSERT_NO_FATAL_FAILURE(expect_sound(other));
    }
    void forget(int key, int value) {
        auto [first, last] = model_.equal_range(key);
        while (first != last && first->second != value) {
            ++first;
        }
        ASSERT_NE(first, last);
        model_.erase(first);
    }

    arena& heap_;
    resident<Table> table_;
    std::multimap<int, int> model_;
};

TYPED_TEST(hash_tables, hold_what_a_model_holds_while_memory_moves) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        arena heap;
        table_and_model<TypeParam> both(heap);
        for (int step = 0; step < 1500; ++step) {
            ASSERT_NO_FATAL_FAILURE(both.step(random));
            if (step % 11 == 0) {
                heap.relocate();
                ASSERT_NO_FATAL_FAILURE(both.compare());
            }
        }
        ASSERT_NO_FATAL_FAILURE(both.compare());
    }
}

TEST(hash_table, elements_and_iterators_in_the_heap_outlive_growth_and_relocation) {
    struct bookmarks {
        explicit bookmarks(const arena& heap) : table(heap.get_allocator<std::byte>()) {}
        numbers table;
        ptr<int> element;
        numbers::iterator place;
    };
    arena heap;
    resident<bookmarks> kept(heap, heap);
    kept->table.emplace(1, 10);
    kept->element = &kept->table.at(1);
    for (int i = 2; i < 5000; ++i) {
        kept->table.emplace(i, i);
    }
    kept->place = kept->table.find(77);
    heap.relocate();
    EXPECT_EQ(*kept->element, 10);
    EXPECT_EQ(&kept->table.at(1), kept->element.get());
    EXPECT_EQ(kept->place->second, 77);
    EXPECT_EQ(kept->place, kept->table.find(77));
    static_assert(!is_persistable_v<numbers::local_iterator>);
    static_assert(is_persistable_v<numbers::iterator>);
}

TEST(hash_table, elements_with_equal_keys_stay_together_and_keep_their_order_when_rehashed) {
    arena heap;
    unordered_multimap<int, int, poor_hash> table(heap.get_allocator<std::byte>());
    for (int i = 0; i < 400; ++i) {
        table.emplace(i % 40, i);
    }
    const auto values_of = [&](int key) {
        std::vector<int> values;
        for (auto [i, last] = table.equal_range(key); i != last; ++i) {
            EXPECT_EQ(i->first, key);
            values.push_back(i->second);
        }
        EXPECT_EQ(values.size(), 10U);
        return values;
    };
    std::vector<std::vector<int>> before;
    for (int key = 0; key < 40; ++key) {
        before.push_back(values_of(key));
    }
    for (const std::size_t buckets : {4096U, 512U, 1024U}) {
        table.rehash(buckets);
        ASSERT_EQ(table.bucket_count(), buckets);
        for (int key = 0; key < 40; ++key) {
            EXPECT_EQ(values_of(key), before[static_cast<std::size_t>(key)]);
        }
    }
}

TEST(hash_table, erasing_the_first_element_again_and_again_is_linear) {
    // Quadratic, this takes minutes.
    constexpr int count = 1 << 18;
    arena heap;
    numbers table(heap.get_allocator<std::byte>());
    for (int i = 0; i < count; ++i) {
        table.emplace(i, i);
    }
    for (int i = 0; i < count / 2; ++i) {
        table.erase(table.begin());
    }
    while (!table.empty()) {
        table.erase(table.begin()->first);
    }
    EXPECT_EQ(table.begin(), table.end());
    table.emplace(1, 1);
    EXPECT_EQ(table.begin()->first, 1);
}

TEST(hash_table, a_key_of_the_table_itself_may_say_what_to_erase) {
    arena heap;
    unordered_multiset<string> table(heap.get_allocator<std::byte>());
    for (int i = 0; i < 5; ++i) {
        table.emplace("a string that lies in a block of its own", heap.get_allocator<char>());
        table.emplace("another one that lies in a block of its own", heap.get_allocator<char>());
    }
    EXPECT_EQ(table.erase(*table.begin()), 5U);
    EXPECT_EQ(table.erase(*table.begin()), 5U);
    EXPECT_TRUE(table.empty());
}

// --- exceptions

struct fault : std::runtime_error {
    fault() : std::runtime_error("fault") {}
};
/// Counts down in copies, hashes and comparisons; throws at zero.
int faults_after = -1;
void may_throw() {
    if (faults_after > 0 && --faults_after == 0) {
        throw fault{};
    }
}
struct touchy {
    touchy(int wanted) : value(wanted) {}  // NOLINT(google-explicit-constructor): for brevity
    touchy(const touchy& other) : value(other.value) { may_throw(); }
    touchy(touchy&& other) : value(other.value) { may_throw(); }  // NOLINT(performance-noexcept-move-constructor)
    touchy& operator=(const touchy&) = default;
    ~touchy() = default;
    friend bool operator==(const touchy& a, const touchy& b) {
        may_throw();
        return a.value == b.value;
    }
    int value;
};
struct touchy_hash {
    std::size_t operator()(const touchy& key) const {
        may_throw();
        return static_cast<std::size_t>(key.value);
    }
};
using touchy_set = unordered_set<touchy, touchy_hash>;

TEST(hash_table, a_failing_insertion_changes_nothing_and_leaks_nothing) {
    arena heap;
    int thrown = 0;
    {
        touchy_set table(heap.get_allocator<std::byte>());
        for (int key = 0; key < 200; ++key) {
            for (int after = 1;; ++after) {
                faults_after = after;
                const touchy element(key);
                try {
                    table.insert(element);
                    faults_after = -1;
                    break;
                } catch (const fault&) {
                    faults_after = -1;
                    ++thrown;
                    ASSERT_EQ(table.size(), static_cast<std::size_t>(key));
                    ASSERT_FALSE(table.contains(key));
                    ASSERT_EQ(heap.blocks(), table.size() + (table.bucket_count() != 0 ? 1 : 0));
                }
            }
        }
        EXPECT_GE(thrown, 400);  // at least the hash and the copy of each
        faults_after = 100;
        EXPECT_THROW(touchy_set copy(table), fault);
        faults_after = -1;
        EXPECT_EQ(heap.blocks(), table.size() + 1);
    }
    EXPECT_EQ(heap.blocks(), 0U);
}

TEST(hash_table, memory_that_is_not_there_leaves_the_table_as_it_was) {
    arena heap;
    numbers table({{1, 2}, {3, 4}}, heap.get_allocator<std::byte>());
    EXPECT_THROW(table.reserve(arena::size), std::bad_alloc);
    EXPECT_THROW(table.rehash(std::size_t{1} << 62U), std::bad_alloc);
    EXPECT_THROW(table.rehash(~std::size_t{0}), std::bad_alloc);  // was: one bucket, and links beside it
    EXPECT_THROW(table.reserve(~std::size_t{0}), std::bad_alloc);
    EXPECT_EQ(content(table), (elements{{1, 2}, {3, 4}}));
    EXPECT_THROW(static_cast<void>(table.at(2)), std::out_of_range);
}

/// Was: the node was destroyed, because it had left the other table or its handle before the table grew.
TEST(hash_table, a_node_that_finds_no_room_stays_where_it_was) {
    arena heap;
    const auto memory = heap.get_allocator<std::byte>();
    const elements all{{1, 2}, {3, 4}};
    numbers from({{1, 2}, {3, 4}}, memory);
    numbers to(memory);
    to.max_load_factor(1e-9F);  // so the buckets for one element do not fit into the heap
    EXPECT_THROW(to.merge(from), std::bad_alloc);
    EXPECT_EQ(content(from), all);
    auto node = from.extract(1);
    EXPECT_THROW(to.insert(std::move(node)), std::bad_alloc);
    ASSERT_FALSE(node.empty());  // NOLINT(bugprone-use-after-move): promised
    EXPECT_TRUE(from.insert(std::move(node)).inserted);
    EXPECT_EQ(content(from), all);
    EXPECT_TRUE(to.empty());
}

/// Was: the elements of the first one were lost.
TEST(hash_table, a_swap_between_two_heaps_that_throws_leaves_both_as_they_were) {
    arena one;
    arena two;
    numbers a({{1, 2}, {3, 4}}, one.get_allocator<std::byte>());
    numbers b({{5, 6}}, two.get_allocator<std::byte>());
    b.max_load_factor(1e-9F);
    EXPECT_THROW(a.swap(b), std::bad_alloc);
    EXPECT_EQ(content(a), (elements{{1, 2}, {3, 4}}));
    EXPECT_TRUE(one.contains(&a.at(1)));
    EXPECT_EQ(content(b), (elements{{5, 6}}));
}

// --- the rest of the standard's interface

TEST(hash_table, has_the_interface_of_the_standard_one) {
    arena heap;
    const auto memory = heap.get_allocator<std::byte>();
    numbers one(10, numbers::hasher{}, numbers::key_equal{}, memory);
    EXPECT_EQ(one.bucket_count(), 16U);
    EXPECT_TRUE(one.insert({1, 10}).second);
    EXPECT_FALSE(one.insert(std::pair{1, 11}).second);
    EXPECT_EQ(one.insert_or_assign(1, 12).first->second, 12);
    EXPECT_EQ(one.try_emplace(one.end(), 2, 20)->second, 20);
    EXPECT_EQ(one.emplace_hint(one.end(), 3, 30)->second, 30);
    one[4] = 40;
    numbers two(one, memory);
    EXPECT_EQ(one, two);
    two.at(4) = 41;
    EXPECT_NE(one, two);
    EXPECT_EQ(erase_if(two, [](const auto& element) { return element.first > 2; }), 2U);
    EXPECT_EQ(content(two), (elements{{1, 12}, {2, 20}}));
    swap(one, two);
    EXPECT_EQ(one.size(), 2U);
    one = std::move(two);
    EXPECT_EQ(one.size(), 4U);
    EXPECT_TRUE(two.empty());  // NOLINT(bugprone-use-after-move): promised
    one = {{7, 70}};
    EXPECT_EQ(content(one), (elements{{7, 70}}));
    one.clear();
    EXPECT_EQ(one.begin(), one.end());
    one.rehash(0);
    EXPECT_EQ(one.bucket_count(), 0U);
    EXPECT_EQ(one.find(1), one.end());
    EXPECT_EQ(one.erase(1), 0U);
    static_assert(std::forward_iterator<numbers::iterator>);
    static_assert(std::forward_iterator<numbers::const_local_iterator>);
    static_assert(std::is_same_v<unordered_set<int>::reference, int&>);
    static_assert(std::is_same_v<std::iter_reference_t<unordered_set<int>::iterator>, const int&>);
}

TEST(hash_table, works_with_the_default_allocator) {
    unordered_map<std::string, int, hash<std::string>, equal_to<std::string>,
                  std::allocator<std::pair<const std::string, int>>>
        table;
    ++table["a"];
    ++table["a"];
    EXPECT_EQ(table.at("a"), 2);
    EXPECT_TRUE(table.contains(std::string_view("a")));
    EXPECT_EQ(table.erase(std::string_view("a")), 1U);
}

TEST(hash_table, between_two_heaps_elements_are_moved_and_none_merged) {
    arena one;
    arena two;
    numbers from({{1, 2}, {3, 4}}, one.get_allocator<std::byte>());
    numbers to({{5, 6}}, two.get_allocator<std::byte>());
    to.merge(from);
    EXPECT_EQ(to.size(), 1U);
    from.swap(to);
    EXPECT_EQ(content(to), (elements{{1, 2}, {3, 4}}));
    EXPECT_TRUE(two.contains(&to.at(1)));
    EXPECT_TRUE(one.contains(&from.at(5)));
    to = std::move(from);
    EXPECT_EQ(content(to), (elements{{5, 6}}));
    EXPECT_TRUE(two.contains(&to.at(5)));
}

}  // namespace
}  // namespace holdfast::test
