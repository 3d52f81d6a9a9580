// Random programs of transactions over containers and names, compared with std:: containers: after each abort, each
// commit and each reopening both are equal, no block is lost, and the allocator is sound.
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "manager_test_support.hpp"

namespace holdfast::of_transact_model {
namespace {

using testing::IsEmpty;

struct given_up : std::runtime_error {
    given_up() : std::runtime_error("given up") {}
};

struct std_world {
    std::vector<int> list;
    std::map<std::string, std::vector<int>> table;
    std::unordered_map<int, std::string> hashed;
    std::deque<std::string> queue;
    std::string text;
    std::map<std::string, std::string> named;
    bool operator==(const std_world&) const = default;
};

class heap_world {
public:
    explicit heap_world(manager& heap) : heap_(heap) {}

    [[nodiscard]] auto& list() const { return *heap_.find_or_construct<vector<int>>("list")(heap_.get_allocator<>()); }
    [[nodiscard]] auto& table() const {
        return *heap_.find_or_construct<map<string, vector<int>>>("table")(heap_.get_allocator<>());
    }
    [[nodiscard]] auto& hashed() const {
        return *heap_.find_or_construct<unordered_map<int, string>>("hashed")(heap_.get_allocator<>());
    }
    [[nodiscard]] auto& queue() const {
        return *heap_.find_or_construct<deque<string>>("queue")(heap_.get_allocator<>());
    }
    [[nodiscard]] auto& text() const { return *heap_.find_or_construct<string>("text")(heap_.get_allocator<>()); }
    [[nodiscard]] string make(const std::string& from) const {
        return {from.data(), from.size(), heap_.get_allocator<char>()};
    }
    [[nodiscard]] static std::string name_of(const std::string& key) { return "named." + key; }

    [[nodiscard]] std_world content() const {
        std_world found;
        found.list.assign(list().begin(), list().end());
        for (const auto& [key, values] : table()) {
            found.table[std::string(key)].assign(values.begin(), values.end());
        }
        for (const auto& [key, value] : hashed()) {
            found.hashed[key] = std::string(value);
        }
        for (const string& each : queue()) {
            found.queue.emplace_back(each);
        }
        found.text = std::string(text());
        for (auto each = heap_.named_begin(); each != heap_.named_end(); ++each) {
            if (each->name().starts_with("named.")) {
                found.named[each->name().substr(6)] = std::string(*static_cast<const string*>(each->value()));
            }
        }
        return found;
    }

private:
    manager& heap_;
};

class program {
public:
    program(manager& heap, std::uint64_t seed) : heap_(heap), random_(seed) {}

    std_world& model() { return model_; }

    /// Steps of which any may give up, with parts that may be dropped alone.
    void run(unsigned depth, bool may_give_up) {
        const unsigned steps = 1 + draw(30);
        for (unsigned i = 0; i < steps; ++i) {
            if (may_give_up && draw(60) == 0) {
                throw given_up();
            }
            if (depth != 0 && draw(12) == 0) {
                const std_world before = model_;
                try {
                    heap_.transact([&] { run(depth - 1, true); });
                } catch (const given_up&) {
                    model_ = before;
                }
                continue;
            }
            step();
        }
    }
    unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

private:
    std::string random_text() {
        const unsigned kind = draw(20);
        const unsigned length = kind == 0 ? 20'000 + draw(300'000) : kind < 5 ? draw(3000) : draw(30);
        return std::string(length, static_cast<char>('a' + draw(26)));
    }
    std::string random_key() { return "key " + std::to_string(draw(40)); }

    void step() {
        switch (draw(6)) {
            case 0: change_list(); break;
            case 1: change_table(); break;
            case 2: change_hashed(); break;
            case 3: change_queue(); break;
            case 4: change_text(); break;
            default: change_named(); break;
        }
    }
    void change_list() {
        const int value = static_cast<int>(draw(1000));
        switch (draw(5)) {
            case 0: {
                const unsigned more = draw(4) == 0 ? draw(60'000) : draw(30);
                world_.list().insert(world_.list().end(), more, value);
                model_.list.insert(model_.list.end(), more, value);
                break;
            }
            case 1:
                world_.list().clear();
                world_.list().shrink_to_fit();
                model_.list.clear();
                break;
            case 2:
                if (!model_.list.empty()) {
                    const unsigned at = draw(static_cast<unsigned>(model_.list.size()));
                    world_.list()[at] = value;
                    model_.list[at] = value;
                }
                break;
            default:
                world_.list().push_back(value);
                model_.list.push_back(value);
                break;
        }
    }
    void change_table() {
        const std::string key = random_key();
        if (draw(3) == 0) {
            world_.table().erase(world_.make(key));
            model_.table.erase(key);
            return;
        }
        const unsigned some = draw(20);
        auto& values = world_.table()[world_.make(key)];
        values.insert(values.end(), some, 5);
        auto& expected = model_.table[key];
        expected.insert(expected.end(), some, 5);
    }
    void change_hashed() {
        const int key = static_cast<int>(draw(200));
        if (draw(3) == 0) {
            world_.hashed().erase(key);
            model_.hashed.erase(key);
            return;
        }
        const std::string value = random_text();
        world_.hashed()[key] = world_.make(value);
        model_.hashed[key] = value;
    }
    void change_queue() {
        if (draw(3) == 0 && !model_.queue.empty()) {
            world_.queue().pop_front();
            model_.queue.pop_front();
            return;
        }
        const std::string value = random_text();
        world_.queue().push_back(world_.make(value));
        model_.queue.push_back(value);
    }
    void change_text() {
        const std::string value = random_text();
        if (draw(2) == 0 || model_.text.size() > 1'000'000) {
            world_.text().assign(value.data(), value.size());
            world_.text().shrink_to_fit();
            model_.text = value;
        } else {
            world_.text().append(value.data(), value.size());
            model_.text += value;
        }
    }
    void change_named() {
        const std::string key = random_key();
        if (model_.named.contains(key)) {
            EXPECT_TRUE(heap_.destroy<string>(heap_world::name_of(key)));
            model_.named.erase(key);
            return;
        }
        const std::string value = random_text();
        static_cast<void>(heap_.construct<string>(heap_world::name_of(key))(world_.make(value)));
        model_.named[key] = value;
    }

    manager& heap_;
    std::mt19937_64 random_;
    heap_world world_{heap_};
    std_world model_;
};

class transact_model_test : public testing::TestWithParam<std::uint64_t> {};

TEST_P(transact_model_test, is_equal_after_each_abort_and_each_reopening) {
    const segment::test_directory directory;
    open_options options = small_options();
    options.hardened = GetParam() % 4 == 3;
    manager heap(create_only, directory.path("heap"), options);
    program one(heap, GetParam());
    std_world durable;
    const auto expect_equal = [&](const char* when) {
        ASSERT_TRUE(heap_world(heap).content() == one.model()) << when;
        ASSERT_THAT(heap.check(false), IsEmpty()) << when;
    };
    static_cast<void>(heap_world(heap).content());  // its objects
    heap.commit();
    for (int round = 0; round < 60; ++round) {
        const std_world before = one.model();
        const usage used = usage_of(heap);
        try {
            heap.transact([&] { one.run(2, true); });
            durable = one.model();
            ASSERT_NO_FATAL_FAILURE(expect_equal("after a transaction"));
        } catch (const given_up&) {
            one.model() = before;
            ASSERT_NO_FATAL_FAILURE(expect_equal("after an abort"));
            ASSERT_EQ(usage_of(heap), used);
        }
        if (one.draw(5) == 0) {
            one.run(0, false);  // outside of transactions
        }
        if (one.draw(8) == 0) {
            heap.commit();
            durable = one.model();
        }
        if (one.draw(10) == 0) {
            heap.close(false);
            heap = manager(open_only, directory.path("heap"), options);
            one.model() = durable;
            ASSERT_NO_FATAL_FAILURE(expect_equal("after a crash"));
            ASSERT_THAT(heap.check(true), IsEmpty());
        }
    }
}

/// Until the kernel notes stores to the heap's memory.
void watch(manager& heap) {
    constexpr int most = 5000;
    auto& word = *heap.find_or_construct<std::uint64_t>("word")(0U);
    for (int i = 0; heap.statistics().watched_bytes == 0; ++i) {
        if (i == most) {
            std::fprintf(stderr, "NOT TESTED HERE: watched memory\n");
            return;
        }
        heap.transact([&] { ++word; });
    }
}

/// There a transaction knows by the count of faults what was stored to.
TEST(transact_model_in_watched_memory, is_equal) {
    const segment::test_directory directory;
    std::string path = directory.path("heap");
    manager heap(create_only, path, small_options());
    program one(heap, 1);
    static_cast<void>(heap_world(heap).content());
    for (int opening = 0; opening < 6; ++opening) {
        watch(heap);
        for (int round = 0; round < 60; ++round) {
            const std_world before = one.model();
            try {
                heap.transact([&] { one.run(2, true); });
            } catch (const given_up&) {
                one.model() = before;
            }
            if (round % 8 == 7) {
                ASSERT_TRUE(heap_world(heap).content() == one.model()) << "round " << round;
            }
        }
        // What a crash would leave: pages of small commits are not home.
        const std::string crashed = directory.path("crashed" + std::to_string(opening));
        std::filesystem::copy(path, crashed, std::filesystem::copy_options::recursive);
        heap.close(false);
        path = opening % 2 == 0 ? path : crashed;
        heap = manager(open_only, path);
        ASSERT_TRUE(heap_world(heap).content() == one.model()) << "opening " << opening;
        ASSERT_THAT(heap.check(true), IsEmpty());
    }
}

INSTANTIATE_TEST_SUITE_P(seeds, transact_model_test, testing::Range(std::uint64_t{1}, std::uint64_t{13}));

}  // namespace
}  // namespace holdfast::of_transact_model
