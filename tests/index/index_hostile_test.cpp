// Words of an index that no index writes: each is found by the call that reads it, or by check(), and named.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <holdfast/check_indexes.hpp>

#include "index/index_test_support.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;

template <class Key, class Value>
stored_index<Key, Value> stored_as(const ordered_index<Key, Value>* of);
template <class Key, class Value>
stored_hash_index<Key, Value> stored_as(const hash_index<Key, Value>* of);

template <class Index>
class hostile_index {
public:
    explicit hostile_index(const std::string& path)
        : path_(path), heap_(std::make_unique<manager>(create_only, path, options())) {
        test::fix_seed(*heap_, "index", static_cast<const Index*>(nullptr));
        Index made(*heap_, "index");
        for (std::uint64_t i = 0; i < 400; ++i) {
            made.insert(made_from<typename Index::key_type>(i), made_from<typename Index::mapped_type>(i));
        }
    }
    [[nodiscard]] detail::index_head_on_media& head() {
        return *heap_->find<decltype(stored_as(static_cast<Index*>(nullptr)))>("index").first;
    }
    [[nodiscard]] std::uint64_t* first_leaf() { return follow(&head().first); }
    [[nodiscard]] static std::uint64_t* follow(std::uint64_t* place) {
        return reinterpret_cast<std::uint64_t*>(detail::target_of_word(place, *place));
    }
    /// Changes something in a heap that is closed and opened then: what an open, a look at everything and check() say.
    std::string say_after(const std::function<void()>& change) {
        change();
        heap_->close();
        {
            manager reader(open_read_only, path_);
            said_of_all_ = check_indexes(reader);
        }
        heap_ = std::make_unique<manager>(open_only, path_, options());
        try {
            Index opened(*heap_, "index");
            const auto problems = opened.check();
            if (!problems.empty()) {
                return problems.front();
            }
            static_cast<void>(opened.size());
        } catch (const error& thrown) {
            EXPECT_EQ(thrown.reason(), errc::corrupt);
            return thrown.what();
        }
        return "nothing";
    }
    /// What check_indexes() has said of the heap, opened read-only.
    [[nodiscard]] const std::vector<std::string>& said_of_all() const noexcept { return said_of_all_; }

private:
    [[nodiscard]] static open_options options() { return options_of({durability::commit, {}}); }

    std::string path_;
    std::unique_ptr<manager> heap_;
    std::vector<std::string> said_of_all_;
};

using numbers = ordered_index<std::uint64_t, std::uint64_t>;
using texts = ordered_index<std::string_view, std::string_view>;
using hashed = hash_index<std::uint64_t, std::uint64_t>;
using layout = detail::leaf_layout<1, 1, 1>;

class index_hostile_test : public testing::Test {
protected:
    segment::test_directory directory_;
    std::string path_ = directory_.path("heap");
    unsigned damaged_ = 0;
};

TEST_F(index_hostile_test, heads_of_another_kind_are_refused) {
    hostile_index<numbers> tested(path_);
    EXPECT_EQ(tested.say_after([] {}), "nothing");
    EXPECT_THAT(tested.said_of_all(), testing::IsEmpty());
    const auto shape = tested.head().shape;
    EXPECT_THAT(tested.say_after([&] { tested.head().shape = 3; }), HasSubstr("shape of the head"));
    EXPECT_THAT(tested.say_after([&] {
        tested.head().shape = shape;
        tested.head().magic ^= 1;
    }),
                HasSubstr("magic of the head"));
    EXPECT_THAT(tested.said_of_all(), testing::ElementsAre(HasSubstr("index index: ")));
}

TEST_F(index_hostile_test, a_head_without_leaves_is_found) {
    hostile_index<numbers> tested(path_);
    EXPECT_THAT(tested.say_after([&] { tested.head().first = 0; }), HasSubstr("IDX-1, the first leaf"));
}

TEST_F(index_hostile_test, a_chain_that_leads_back_is_no_chain) {
    hostile_index<numbers> tested(path_);
    EXPECT_THAT(tested.say_after([&] {
        std::uint64_t* const first = tested.first_leaf();
        std::uint64_t* const second = tested.follow(first + detail::leaf_next);
        second[detail::leaf_next] = detail::word_of_target(second + detail::leaf_next, first);
    }),
                HasSubstr("IDX-1, the low key of a leaf"));
}

/// An open frees these lists, so it would free what the index has.
TEST_F(index_hostile_test, lists_to_be_freed_that_lead_to_the_chain_are_found) {
    const auto say_of = [this](std::uint64_t detail::index_head_on_media::*list, bool in_circle) {
        hostile_index<numbers> tested(directory_.path("list" + std::to_string(++damaged_)));
        const std::string said = tested.say_after([&] {
            std::uint64_t* const first = tested.first_leaf();
            std::uint64_t* const second = tested.follow(first + detail::leaf_next);
            if (in_circle) {  // the second leaf leaves the chain
                std::uint64_t* const third = tested.follow(second + detail::leaf_next);
                first[detail::leaf_next] = detail::word_of_target(first + detail::leaf_next, third);
                second[detail::leaf_next] = detail::word_of_target(second + detail::leaf_next, second);
            }
            tested.head().*list = detail::word_of_target(&(tested.head().*list), second);
        });
        EXPECT_THAT(tested.said_of_all(), testing::ElementsAre(HasSubstr("IDX-9")));
        return said;
    };
    for (const bool in_circle : {false, true}) {
        EXPECT_THAT(say_of(&detail::index_head_on_media::retired, in_circle), HasSubstr("IDX-9"));
        EXPECT_THAT(say_of(&detail::index_head_on_media::cleared, in_circle), HasSubstr("IDX-9"));
    }
}

TEST_F(index_hostile_test, a_pointer_out_of_the_heap_is_found) {
    hostile_index<numbers> tested(path_);
    EXPECT_THAT(tested.say_after([&] { tested.first_leaf()[detail::leaf_next] += std::uint64_t{1} << 40U; }),
                HasSubstr("IDX-1, a pointer to a leaf"));
}

TEST_F(index_hostile_test, cells_that_contradict_themselves_are_found) {
    const std::size_t header = layout::header_of(0);
    const auto damage = [&](const std::function<void(std::uint64_t*)>& change) {
        hostile_index<numbers> tested(path_ + std::to_string(damaged_++));
        return tested.say_after([&] { change(tested.follow(tested.first_leaf() + detail::leaf_next)); });
    };
    EXPECT_THAT(damage([&](std::uint64_t* leaf) { leaf[header] |= 8; }), HasSubstr("IDX-2, a cell"));
    EXPECT_THAT(damage([&](std::uint64_t* leaf) { leaf[layout::word_of(0, 0)] = 0; }), HasSubstr("IDX-3"));
    EXPECT_THAT(damage([&](std::uint64_t* leaf) { leaf[header] ^= 0x100; }), HasSubstr("IDX-4"));
    EXPECT_THAT(damage([&](std::uint64_t* leaf) {
                    leaf[layout::word_of(1, 0)] = leaf[layout::word_of(0, 0)];
                    leaf[header] = detail::with_entry(leaf[header], 1, detail::print_of(leaf[header], 0));
                }),
                HasSubstr("IDX-5"));
}

TEST_F(index_hostile_test, hashes_that_do_not_fit_their_leaves_are_found) {
    const auto damage = [&](const std::function<void(hostile_index<hashed>&)>& change) {
        hostile_index<hashed> tested(path_ + std::to_string(damaged_++));
        return tested.say_after([&] { change(tested); });
    };
    const auto second = [](hostile_index<hashed>& of) { return of.follow(of.first_leaf() + detail::leaf_next); };
    EXPECT_EQ(damage([](hostile_index<hashed>& /*of*/) {}), "nothing");
    EXPECT_THAT(damage([&](hostile_index<hashed>& of) { second(of)[layout::word_of(0, 0)] += 1; }),
                testing::AnyOf(HasSubstr("IDX-3"), HasSubstr("IDX-4")));
    EXPECT_THAT(damage([&](hostile_index<hashed>& of) { second(of)[detail::leaf_low] = 0; }), HasSubstr("IDX-"));
    EXPECT_THAT(damage([&](hostile_index<hashed>& of) {
                    std::uint64_t* const from = second(of);
                    from[detail::leaf_next] = detail::word_of_target(from + detail::leaf_next, of.first_leaf());
                }),
                HasSubstr("IDX-1, the low key of a leaf"));
    EXPECT_THAT(damage([](hostile_index<hashed>& of) { of.head().seed ^= 1; }), HasSubstr("shape of the head"));
    EXPECT_THAT(damage([](hostile_index<hashed>& of) { of.head().shape ^= std::uint64_t{1} << 34U; }),
                HasSubstr("shape of the head"));
}

TEST_F(index_hostile_test, pointers_to_no_text_are_found) {
    const auto damage = [&](const std::function<void(std::uint64_t*)>& change) {
        hostile_index<texts> tested(path_ + std::to_string(damaged_++));
        return tested.say_after([&] { change(tested.first_leaf()); });
    };
    EXPECT_THAT(damage([](std::uint64_t* leaf) { leaf[layout::word_of(0, 0)] += 8; }), HasSubstr("IDX-6"));
    EXPECT_THAT(damage([](std::uint64_t* leaf) { leaf[layout::word_of(0, 1)] = 0; }), HasSubstr("IDX-6"));
    EXPECT_THAT(damage([](std::uint64_t* leaf) {
                    std::uint64_t* const place = leaf + layout::word_of(0, 0);
                    *reinterpret_cast<std::uint64_t*>(detail::target_of_word(place, *place)) = 1U << 20U;  // a length
                }),
                HasSubstr("IDX-6"));
}

}  // namespace
}  // namespace holdfast
