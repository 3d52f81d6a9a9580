// The engine of the Python package without Python: a dict against std::map, transactions, and what is held.
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "session.hpp"
#include "support/scratch.hpp"

namespace holdfast::python {

namespace {

using values::dict;
using values::dict_entry;
using values::sequence;

document text(const std::string& of) {
    document made;
    made.what = kind::text;
    made.bytes = of;
    return made;
}

document integer(std::uint64_t number) {
    document made;
    made.what = kind::integer;
    made.number = number;
    return made;
}

document container(kind what, std::vector<document> parts) {
    document made;
    made.what = what;
    made.parts = std::move(parts);
    return made;
}

class values_test : public testing::TestWithParam<durability> {
protected:
    [[nodiscard]] std::shared_ptr<session> open(
        open_options::domain_choice domain = open_options::domain_choice::detect) const {
        session_options options;
        options.heap.durability = GetParam();
        options.heap.domain = domain;
        options.heap.accept_process_crash_only = true;
        options.heap.commit_on_close = false;
        options.heap.reservation = std::uint64_t{1} << 30;
        return std::make_shared<session>(scratch_.path() + "/heap.hf", options);
    }
    static dict& entries(session& of) { return *of.reading().space.object_of<dict>(of.entries()); }
    static void put(session& of, const document& key, const document& content) {
        dict& in = entries(of);
        of.write([&](contents& within) { within.put(in, key, within.build(content), of.root()); });
    }
    static bool erase(session& of, const document& key) {
        bool was_there = false;
        dict& in = entries(of);
        of.write([&](contents& within) { was_there = within.erase(in, key, of.root()); });
        return was_there;
    }
    template <class Container>
    static Container& find(session& of, const std::string& key) {
        contents& from = of.reading();
        return *from.space.object_of<Container>(from.find(entries(of), text(key)).value());
    }
    /// An error with this code.
    template <class Call>
    static void expect_error(errc code, Call&& call) {
        try {
            std::forward<Call>(call)();
            ADD_FAILURE() << "no error";
        } catch (const error& failure) {
            EXPECT_EQ(failure.reason(), code) << failure.what();
        }
    }
    static std::map<std::string, std::uint64_t> all(session& of) {
        std::map<std::string, std::uint64_t> found;
        contents& from = of.reading();
        from.for_each_entry(entries(of), [&](const dict_entry& entry, const dict_entry*) {
            found[from.read(entry.key, true).bytes] = entry.content.number;
        });
        EXPECT_EQ(found.size(), from.space.look(entries(of)).size);
        return found;
    }

private:
    support::scratch_directory scratch_;
};

TEST_P(values_test, a_dict_does_what_a_map_does) {
    std::mt19937_64 chance(11);  // NOLINT(cert-msc51-cpp): the same in each run
    std::map<std::string, std::uint64_t> model;
    for (int round = 0; round < 3; ++round) {
        const auto heap = open();
        ASSERT_EQ(all(*heap), model);
        for (int i = 0; i < 300; ++i) {
            const std::string key = "key " + std::to_string(chance() % 150);
            if (chance() % 3 != 0) {
                put(*heap, text(key), integer(static_cast<std::uint64_t>(i)));
                model[key] = static_cast<std::uint64_t>(i);
            } else {
                EXPECT_EQ(erase(*heap, text(key)), model.erase(key) != 0);
            }
        }
        ASSERT_EQ(all(*heap), model);
        for (const auto& [key, number] : model) {
            const auto found = heap->reading().find(entries(*heap), text(key));
            ASSERT_TRUE(found.has_value());
            EXPECT_EQ(found->number, number);
        }
        EXPECT_TRUE(heap->heap().check(false).empty());
        heap->close(true);
    }
}

TEST_P(values_test, an_aborted_transaction_leaves_neither_entries_nor_blocks) {
    const auto heap = open();
    for (std::uint64_t i = 0; i < 20; ++i) {
        put(*heap, text(std::to_string(i)), integer(i));
    }
    const auto before = all(*heap);
    const std::size_t free = heap->heap().get_free_memory();
    heap->begin();
    for (std::uint64_t i = 10; i < 60; ++i) {
        put(*heap, text(std::to_string(i)),
            container(kind::list, {text("a"), container(kind::dict, {integer(i), {}})}));
    }
    EXPECT_TRUE(erase(*heap, text("3")));
    heap->end(1, false, false);
    EXPECT_EQ(all(*heap), before);
    EXPECT_EQ(heap->heap().get_free_memory(), free);
}

/// Of the two, one unmaps the heap. Was: both could, at once.
TEST_P(values_test, the_last_array_may_go_while_the_heap_closes) {
    for (int round = 0; round < 20; ++round) {
        const auto heap = open();
        auto held = std::make_unique<held_object>(heap, &entries(*heap), kind::array, nullptr);
        std::thread other([&held] { held.reset(); });
        {
            const std::lock_guard under(heap->lock());
            heap->close(true);
        }
        other.join();
        EXPECT_EQ(heap->arrays_held(), 0U);
    }
}

TEST_P(values_test, what_is_held_stays_until_it_is_let_go) {
    const auto heap = open();
    put(*heap, text("x"), container(kind::list, {container(kind::list, {integer(1), text("a text of some length")})}));
    const std::size_t before = heap->heap().get_free_memory();
    const auto outer = heap->reading().find(entries(*heap), text("x"));
    auto& list = *heap->reading().space.object_of<sequence>(*outer);
    const value inner = heap->reading().at(list, 0);
    auto held = std::make_unique<held_object>(heap, inner.object.get(), kind::list, nullptr);
    EXPECT_TRUE(erase(*heap, text("x")));
    EXPECT_EQ(heap->reading().space.object_of<sequence>(heap->root().detached)->size, 1U);
    auto& still_there = held->as<sequence>();
    EXPECT_EQ(heap->reading().read(heap->reading().at(still_there, 1), true).bytes, "a text of some length");
    held.reset();
    heap->commit();
    EXPECT_EQ(heap->reading().space.object_of<sequence>(heap->root().detached)->size, 0U);
    EXPECT_GT(heap->heap().get_free_memory(), before);
}

TEST_P(values_test, a_list_is_spliced_at_any_place) {
    const auto heap = open();
    put(*heap, text("x"), container(kind::list, {}));
    auto& list = *heap->reading().space.object_of<sequence>(*heap->reading().find(entries(*heap), text("x")));
    std::vector<std::uint64_t> model;
    std::mt19937_64 chance(5);  // NOLINT(cert-msc51-cpp): the same in each run
    for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t begin = chance() % (model.size() + 1);
        const std::uint64_t removed = std::min<std::uint64_t>(chance() % 4, model.size() - begin);
        std::vector<value> added(chance() % 5);
        for (value& each : added) {
            each.what = kind::integer;
            each.number = i;
        }
        heap->write([&](contents& within) { within.splice(list, begin, removed, added, heap->root()); });
        const auto at = model.begin() + static_cast<std::ptrdiff_t>(begin);
        model.insert(model.erase(at, at + static_cast<std::ptrdiff_t>(removed)), added.size(), i);
        ASSERT_EQ(list.size, model.size());
    }
    for (std::size_t i = 0; i < model.size(); ++i) {
        EXPECT_EQ(heap->reading().at(list, i).number, model[i]);
    }
}

/// Was: a block that the transaction had made was taken to be as long as a damaged list or array says.
TEST_P(values_test, a_new_block_is_as_long_as_it_was_made) {
    const auto heap = open();
    put(*heap, text("x"), container(kind::list, {integer(1), integer(2)}));
    auto& list = find<sequence>(*heap, "x");
    heap->begin();
    heap->write([&](contents& within) {
        sequence& header = within.space.change(list);
        header.elements = static_cast<value*>(within.space.make_block(2 * sizeof(value), alignof(value), true));
        EXPECT_EQ(within.at(list, 1).what, kind::none);
        header.size = header.capacity = 1'000'000;
        expect_error(errc::corrupt, [&] { static_cast<void>(within.at(list, 1)); });
    });
    heap->end(1, false, false);
}

/// Was: read without an end, for each of 60 lists has the next one twice.
TEST_P(values_test, what_has_two_owners_is_read_once) {
    const auto heap = open();
    document nested = container(kind::tuple, {integer(1), integer(2)});
    for (std::uint64_t level = 0; level < 60; ++level) {
        nested = container(kind::tuple, {nested, integer(level)});
    }
    put(*heap, text("x"), nested);
    heap->write([&](contents& within) {
        for (auto* at = &find<sequence>(*heap, "x"); within.at(*at, 0).object != nullptr;) {
            within.space.change(const_cast<value&>(within.at(*at, 1))) = within.at(*at, 0);
            at = within.space.object_of<sequence>(within.at(*at, 0));
        }
    });
    for (const bool deep : {false, true}) {
        expect_error(errc::corrupt, [&] {
            static_cast<void>(heap->reading().read(*heap->reading().find(entries(*heap), text("x")), deep));
        });
    }
}

/// Was: without an end, where the dict says that it has so many entries.
TEST_P(values_test, a_circle_of_entries_is_no_endless_loop) {
    const auto heap = open();
    put(*heap, text("x"), container(kind::dict, {integer(1), integer(1), integer(2), integer(2)}));
    auto& inner = find<dict>(*heap, "x");
    heap->write([&](contents& within) {
        dict& header = within.space.change(inner);
        header.size = std::uint64_t{1} << 60;
        within.space.change(*header.last).following = header.first.get();
    });
    const contents& from = heap->reading();
    expect_error(errc::corrupt, [&] { static_cast<void>(from.find(inner, integer(3))); });
    expect_error(errc::corrupt, [&] { from.for_each_entry(inner, [](const dict_entry&, const dict_entry*) {}); });
    expect_error(errc::corrupt, [&] { erase(*heap, text("x")); });
}

class values_in_atomic : public values_test {};

/// Was: error(limit), in `atomic` on persistent memory, by each commit(), close() and open for writing from then on.
TEST_P(values_in_atomic, what_was_removed_in_use_is_freed_however_much_it_is) {
    constexpr int entries_of_it = 4500;  // one transaction frees up to 4,095 blocks there
    const auto domain = open_options::domain_choice::emulated;
    for (const bool reopened : {false, true}) {
        auto heap = open(domain);
        const std::size_t before = heap->heap().get_free_memory();
        put(*heap, text("x"), container(kind::list, {container(kind::dict, {}), integer(1)}));
        auto& list = find<sequence>(*heap, "x");
        auto& inner = *heap->reading().space.object_of<dict>(heap->reading().at(list, 0));
        for (int i = 0; i < entries_of_it;) {
            heap->begin();
            for (int end = i + 900; i < end; ++i) {
                heap->write([&](contents& within) {
                    within.put(inner, integer(static_cast<std::uint64_t>(i)), within.build(text("a text")),
                               heap->root());
                });
            }
            heap->end(1, true, false);
        }
        auto held = std::make_unique<held_object>(heap, &inner, kind::dict, nullptr);
        EXPECT_TRUE(erase(*heap, text("x")));
        if (reopened) {
            heap->close(true);
            held.reset();
            heap = open(domain);
        } else {
            held.reset();
            heap->commit();
        }
        EXPECT_EQ(heap->reading().space.object_of<sequence>(heap->root().detached)->size, 0U);
        EXPECT_GT(heap->heap().get_free_memory() + 20'000, before);
        EXPECT_TRUE(heap->heap().check(false).empty());
        heap->close(true);
    }
}

INSTANTIATE_TEST_SUITE_P(one_durability, values_in_atomic, testing::Values(durability::atomic));
INSTANTIATE_TEST_SUITE_P(every_durability, values_test,
                         testing::Values(durability::commit, durability::atomic, durability::collect));

}  // namespace

}  // namespace holdfast::python
