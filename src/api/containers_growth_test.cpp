// Containers whose elements cannot be constructed, because the heap is full or their constructor throws: what was in
// them stays.
#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "manager_test_support.hpp"

namespace holdfast {
namespace {

/// Holds a string of the heap, as elements do that lose something when they are moved from.
class fragile {
public:
    using allocator_type = allocator<char>;
    static inline bool fails = false;

    explicit fragile(const allocator_type& heap) : text_(make_text(heap)) { fail(); }
    fragile(const fragile& other, const allocator_type& heap) : text_(other.text_, heap) { fail(); }
    fragile(fragile&& other, const allocator_type& heap) : text_(std::move(other.text_), heap) {}
    fragile(const fragile& other) : text_(other.text_) { fail(); }
    fragile(fragile&& other) noexcept = default;
    fragile& operator=(const fragile& other) {
        fail();
        text_ = other.text_;
        return *this;
    }
    fragile& operator=(fragile&& other) noexcept = default;
    ~fragile() = default;
    [[nodiscard]] bool is_whole() const { return text_.size() == length; }

private:
    static constexpr std::size_t length = 100;
    static string make_text(const allocator_type& heap) { return {length, 'x', heap}; }
    static void fail() {
        if (fails) {
            throw std::bad_alloc();
        }
    }
    string text_;
};

class containers_growth_test : public manager_test {
protected:
    void SetUp() override { fragile::fails = false; }
    void TearDown() override { fragile::fails = false; }

    /// A vector that must grow for another element.
    template <class Vector>
    Vector& make_full() {
        auto& all = *heap_.construct<Vector>("all")(typename Vector::allocator_type(heap_.get_allocator<fragile>()));
        all.emplace_back();
        all.emplace_back();
        while (all.size() < all.capacity()) {
            all.emplace_back();
        }
        return all;
    }
    template <class Vector, class Change>
    void expect_unchanged_by(Vector& all, Change&& change) {
        const std::size_t size = all.size();
        fragile::fails = true;
        EXPECT_THROW(std::forward<Change>(change)(all), std::bad_alloc);
        fragile::fails = false;
        ASSERT_EQ(all.size(), size);
        for (const fragile& each : all) {
            ASSERT_TRUE(each.is_whole());
        }
    }
    template <class Vector>
    void expect_to_survive_failures() {
        const fragile one(heap_.get_allocator<char>());
        for (const bool is_full : {true, false}) {
            SCOPED_TRACE(is_full);
            Vector& all = make_full<Vector>();
            if (!is_full) {
                all.pop_back();
            }
            expect_unchanged_by(all, [&](Vector& to) { to.push_back(one); });
            expect_unchanged_by(all, [&](Vector& to) { to.push_back(to.front()); });
            expect_unchanged_by(all, [&](Vector& to) { to.emplace_back(); });
            expect_unchanged_by(all, [&](Vector& to) { to.insert(to.begin(), one); });
            expect_unchanged_by(all, [&](Vector& to) { to.emplace(to.begin() + 1); });
            expect_unchanged_by(all, [&](Vector& to) { to.insert(to.end(), 3, to.front()); });
            expect_unchanged_by(all, [&](Vector& to) { to.insert(to.end(), &one, &one + 1); });
            expect_unchanged_by(all, [&](Vector& to) { to.resize(100); });
            expect_unchanged_by(all, [&](Vector& to) { to.resize(100, to.front()); });
            heap_.destroy<Vector>("all");
        }
        EXPECT_TRUE(heap_.check(false).empty());
    }
    template <class Vector>
    void expect_to_do_what_the_standard_says() {
        const fragile one(heap_.get_allocator<char>());
        Vector& all = make_full<Vector>();
        const std::size_t before = all.size();
        all.push_back(all.front());
        all.push_back(fragile(one));
        all.insert(all.begin() + 1, 3, all.front());
        all.insert(all.begin(), &one, &one + 1);
        all.emplace(all.begin() + 2, one);
        all.insert(all.end(), fragile(one));
        all.resize(all.size() + 10, all.front());
        all.resize(all.size() + 50);
        EXPECT_EQ(all.size(), before + 68);
        EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](const fragile& each) { return each.is_whole(); }));
        all.resize(1);
        EXPECT_EQ(all.size(), 1U);
    }

    manager heap_ = create();
};

TEST_F(containers_growth_test, a_push_back_that_threw_emptied_the_elements_of_a_vector) {
    expect_to_survive_failures<vector<fragile>>();
}

TEST_F(containers_growth_test, a_push_back_that_threw_emptied_the_elements_of_a_small_vector) {
    expect_to_survive_failures<small_vector<fragile, 2>>();
}

TEST_F(containers_growth_test, elements_of_a_vector_are_all_there_after_it_grew) {
    expect_to_do_what_the_standard_says<vector<fragile>>();
}

TEST_F(containers_growth_test, elements_of_a_small_vector_are_all_there_after_it_grew) {
    expect_to_do_what_the_standard_says<small_vector<fragile, 2>>();
}

TEST_F(containers_growth_test, an_insertion_that_threw_emptied_the_elements_of_a_flat_map) {
    auto& all = *heap_.construct<flat_map<int, fragile>>("all")();
    for (int i = 0; i < 64; ++i) {
        fragile::fails = true;
        EXPECT_THROW(all.try_emplace(i), std::bad_alloc);
        fragile::fails = false;
        ASSERT_EQ(all.size(), static_cast<std::size_t>(i));
        for (const auto& [key, value] : all) {
            ASSERT_TRUE(value.is_whole()) << key;
        }
        ASSERT_TRUE(all.try_emplace(i).second);
    }
}

/// A program that goes on after a full heap, and commits.
TEST_F(containers_growth_test, a_vector_of_strings_lost_them_when_the_heap_was_full) {
    open_options limited = small_options();
    limited.maximum_size = std::uint64_t{4} << 20U;
    for (const std::size_t length : {100U, 3000U, 70'000U}) {
        SCOPED_TRACE(length);
        const std::string name = "limited " + std::to_string(length);
        manager heap(create_only, path(name), limited);
        auto& all = *heap.construct<vector<string>>("all")();
        const std::string letters(length, 'x');
        const std::string_view text = letters;
        EXPECT_THROW(
            for (;;) { all.emplace_back(text); }, std::bad_alloc);
        const std::size_t count = all.size();
        EXPECT_GT(count, 10U);
        heap.commit();
        heap.close();
        const manager again(open_only, path(name));
        const auto& kept = *again.find<vector<string>>("all").first;
        ASSERT_EQ(kept.size(), count);
        EXPECT_TRUE(std::all_of(kept.begin(), kept.end(), [&](const string& each) { return each == text; }));
    }
}

TEST_F(containers_growth_test, vectors_are_copied_moved_and_swapped_as_before) {
    const allocator<int> ours = heap_.get_allocator<int>();
    vector<int> one({1, 2, 3}, ours);
    vector<int> two(one);
    EXPECT_EQ(one, two);
    two = {4, 5};
    swap(one, two);
    EXPECT_EQ(one, vector<int>({4, 5}, ours));
    const vector<int> three(std::move(two));
    EXPECT_EQ(three, vector<int>({1, 2, 3}, ours));
    one = three;
    EXPECT_EQ(*one.insert(one.begin(), {7, 8}), 7);
    EXPECT_EQ(one, vector<int>({7, 8, 1, 2, 3}, ours));
    EXPECT_LT(three, one);
}

}  // namespace
}  // namespace holdfast
