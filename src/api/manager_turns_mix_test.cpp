// Random changes of a heap by two processes in turn, with a reader beside them. Two managers of one process are as two
// processes: each has its own files open.
//
// Oracle: a model of each version. Whoever rests shows the version of its last turn, and a reader that of its last
// refresh; each turn begins with the newest. An allocator that a process has kept is as one of a heap opened anew.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

class turns_mix {
public:
    turns_mix(const std::string& path, unsigned seed) : path_(path), random_(seed) {
        {
            open_options options = small_options();
            options.segment_size <<= 2 * (seed % 2);
            manager heap(create_only, path, options);
            heap.transact([&] { *heap.construct<numbers>("numbers")() = {}; });
        }
        one_.emplace(open_only, path, shared_options());
        other_.emplace(open_only, path, shared_options());
        reader_.emplace(open_read_only, path);
        for (const manager* each : {&*one_, &*other_, &*reader_}) {
            remember(*each);
        }
    }
    turns_mix(const turns_mix&) = delete;
    turns_mix& operator=(const turns_mix&) = delete;
    ~turns_mix() = default;

    void run(unsigned turns) {
        for (unsigned turn = 0; turn < turns && !testing::Test::HasFailure(); ++turn) {
            SCOPED_TRACE("turn " + std::to_string(turn));
            take_turn(below(2) == 0 ? *one_ : *other_);
            if (below(4) == 0) {
                reader_->refresh();
                remember(*reader_);
            }
            for (const manager* each : {&*one_, &*other_, &*reader_}) {
                expect_model(*each, shown_.at(each));
            }
            if (below(16) == 0) {
                compare_with_one_opened_anew();
            }
        }
    }
    /// Turns behind which a process had kept what it knew, though another one had committed.
    [[nodiscard]] unsigned kept() const noexcept { return kept_; }
    [[nodiscard]] unsigned read_anew() const noexcept { return read_anew_; }

private:
    static constexpr std::size_t cells = 3000;  // several pages
    static constexpr std::size_t slots = 48;
    struct numbers {
        std::uint64_t cell[cells];
    };
    struct block {
        std::size_t bytes = 0;
        unsigned char fill = 0;
    };
    struct model {
        std::map<std::size_t, std::uint64_t> cell;
        std::map<std::size_t, block> blocks;  ///< by root
        std::map<std::string, std::pair<std::size_t, int>> objects;
        std::string description;
    };
    struct taken_back {};

    [[nodiscard]] unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
    static std::string name_of(unsigned number) { return "object " + std::to_string(number); }
    static unsigned char* block_at(const manager& heap, std::size_t slot) {
        return static_cast<unsigned char*>(std::as_const(heap).root(slot).get());
    }

    void remember(const manager& heap) { shown_[&heap] = now_; }

    /// Changes that touch no table come in turns of their own, else each turn would have some that does.
    void take_turn(manager& heap) {
        const bool has_seen = shown_version_[&heap] == version_;
        const bool knows = heap.last_comparison().compared != 0;
        const unsigned kind = below(10);
        if (kind == 0) {
            heap.refresh();
        } else if (kind == 1) {
            heap.commit();
        } else {
            transact(heap, kind);
        }
        if (!has_seen && knows) {
            ++(heap.last_comparison().compared != 0 ? kept_ : read_anew_);
        }
        version_ = heap.version();
        shown_version_[&heap] = version_;
        remember(heap);
        expect_model(heap, now_);
        const std::vector<std::string> problems = heap.check(true);
        EXPECT_TRUE(problems.empty()) << problems.front();
    }

    void transact(manager& heap, unsigned kind) {
        model next = now_;
        const bool aborts = kind == 2 || kind == 3;
        const bool in_place = kind >= 6;
        const unsigned changes = kind == 4 ? 0 : 1 + below(6);
        try {
            heap.transact([&] {
                expect_model(heap, now_);
                for (unsigned i = 0; i < changes; ++i) {
                    in_place ? store(heap, next) : change_anything(heap, next);
                }
                if (aborts) {
                    throw taken_back();
                }
            });
            now_ = std::move(next);
        } catch (const taken_back&) {
            EXPECT_TRUE(aborts);
        }
    }

    void store(manager& heap, model& next) {
        if (const unsigned slot = below(slots); below(3) == 0 && next.blocks.contains(slot)) {
            block& there = next.blocks[slot];
            there.fill = static_cast<unsigned char>(below(256));
            std::fill_n(block_at(heap, slot), there.bytes, there.fill);
            return;
        }
        const unsigned cell = below(cells);
        next.cell[cell] = heap.find<numbers>("numbers").first->cell[cell] = random_();
    }

    void change_anything(manager& heap, model& next) {
        switch (below(8)) {
            case 0:
            case 1: store(heap, next); return;
            case 2: change_object(heap, next); return;
            case 3:
                next.description = "number " + std::to_string(below(1000));
                heap.set_description(next.description);
                return;
            default: change_block(heap, next, below(slots)); return;
        }
    }

    void change_object(manager& heap, model& next) {
        const std::string name = name_of(below(12));
        if (next.objects.contains(name)) {
            EXPECT_TRUE(heap.destroy<int>(name.c_str()));
            next.objects.erase(name);
            return;
        }
        const std::size_t length = 1 + below(600);
        const int value = static_cast<int>(below(1'000'000));
        heap.construct<int>(name.c_str())[length](value);
        next.objects[name] = {length, value};
    }

    /// A few are so large that the heap grows.
    void change_block(manager& heap, model& next, std::size_t slot) {
        if (next.blocks.contains(slot)) {
            heap.deallocate(block_at(heap, slot));
            heap.root(slot) = nullptr;
            next.blocks.erase(slot);
            return;
        }
        const unsigned kind = below(20);
        const std::size_t bytes = kind == 0 ? 1'000'000 + below(2'000'000) : 1 + below(kind < 5 ? 100'000 : 2000);
        const auto fill = static_cast<unsigned char>(below(256));
        heap.root(slot) = heap.allocate(bytes);
        std::fill_n(block_at(heap, slot), bytes, fill);
        next.blocks[slot] = {bytes, fill};
    }

    static void expect_model(const manager& heap, const model& expected) {
        const numbers& all = *heap.find<numbers>("numbers").first;
        for (std::size_t i = 0; i < cells; ++i) {
            const auto known = expected.cell.find(i);
            ASSERT_EQ(all.cell[i], known == expected.cell.end() ? 0 : known->second) << "cell " << i;
        }
        for (std::size_t slot = 0; slot < slots; ++slot) {
            const auto known = expected.blocks.find(slot);
            const unsigned char* const there = block_at(heap, slot);
            ASSERT_EQ(there == nullptr, known == expected.blocks.end()) << "root " << slot;
            if (there != nullptr) {
                const block& of = known->second;
                ASSERT_EQ(std::count(there, there + of.bytes, of.fill), static_cast<std::ptrdiff_t>(of.bytes));
            }
        }
        for (unsigned i = 0; i < 12; ++i) {
            const auto known = expected.objects.find(name_of(i));
            const auto [there, length] = heap.find<int>(name_of(i).c_str());
            ASSERT_EQ(there == nullptr, known == expected.objects.end()) << name_of(i);
            if (there != nullptr) {
                ASSERT_EQ(length, known->second.first);
                ASSERT_EQ(std::count(there, there + length, known->second.second), static_cast<std::ptrdiff_t>(length));
            }
        }
        ASSERT_EQ(heap.get_description(), expected.description);
    }

    using blocks_of_heap = std::set<std::pair<std::uint64_t, std::uint64_t>>;
    static blocks_of_heap blocks_of(const manager& heap) {
        blocks_of_heap all;
        heap.for_each_block([&](const block_info& each) {
            all.emplace(static_cast<const std::byte*>(each.address) - static_cast<const std::byte*>(heap.get_address()),
                        each.size);
        });
        return all;
    }
    /// Without a turn of one of ours between: who opens the heap reads all of it.
    void compare_with_one_opened_anew() {
        for (manager* const each : {&*one_, &*other_}) {
            each->refresh();
            shown_version_[each] = each->version();
            remember(*each);
        }
        const manager anew(open_only, path_, shared_options());
        expect_model(anew, now_);
        const usage expected = usage_of(anew);
        const blocks_of_heap blocks = blocks_of(anew);
        for (const manager* const each : {&*one_, &*other_}) {
            EXPECT_EQ(usage_of(*each), expected);
            EXPECT_EQ(blocks_of(*each), blocks);
        }
    }

    std::string path_;
    std::mt19937_64 random_;
    std::optional<manager> one_;
    std::optional<manager> other_;
    std::optional<manager> reader_;
    model now_;
    std::uint64_t version_ = 0;
    std::map<const manager*, model> shown_;
    std::map<const manager*, std::uint64_t> shown_version_;
    unsigned kept_ = 0;
    unsigned read_anew_ = 0;
};

class manager_turns_mix_test : public manager_test, public testing::WithParamInterface<unsigned> {};

TEST_P(manager_turns_mix_test, each_turn_begins_with_the_newest_and_leaves_a_sound_heap) {
    turns_mix mix(path(), GetParam());
    mix.run(150);
    if (!HasFailure()) {
        EXPECT_GT(mix.kept(), 10U);
        EXPECT_GT(mix.read_anew(), 10U);
    }
}

INSTANTIATE_TEST_SUITE_P(seeds, manager_turns_mix_test, testing::Range(1U, 5U));

class manager_kept_turns_test : public manager_test {
protected:
    /// Each engine forgets it when it goes.
    static bool knows_its_last_check(const manager& heap) { return heap.last_comparison().compared != 0; }
};

TEST_F(manager_kept_turns_test, the_allocator_stays_where_another_turn_changed_no_table) {
    create().transact([] {});
    manager one = share();
    manager other = share();
    one.transact([&] { one.construct<int>("number")(0); });
    other.refresh();
    EXPECT_TRUE(one.check(true).empty());
    ASSERT_TRUE(knows_its_last_check(one));
    other.transact([&] { *other.find<int>("number").first = 1; });
    one.transact([&] { EXPECT_EQ(++*one.find<int>("number").first, 2); });
    EXPECT_TRUE(knows_its_last_check(one));
    other.transact([&] { EXPECT_EQ(++*other.find<int>("number").first, 3); });
    other.transact([&] { other.construct<int>("another")(0); });
    one.refresh();
    EXPECT_FALSE(knows_its_last_check(one));
    EXPECT_NE(one.find<int>("another").first, nullptr);
}

// The slab of the transaction that is aborted lies in a hole of the second 2 MiB, the other one's in one of the first 2
// MiB: their headers are neighbours, and their page entries are not.
TEST_F(manager_kept_turns_test, tables_of_an_aborted_transaction_do_not_stay_beside_those_of_another_turn) {
    constexpr std::ptrdiff_t granule = 65536;
    constexpr std::size_t half = std::size_t{2} << 20;
    open_options options = shared_options();
    options.segment_size = 4 * half;
    std::array<std::vector<std::ptrdiff_t>, 2> blocks;
    const auto block_in = [](const manager& heap, std::ptrdiff_t offset) {
        return static_cast<std::byte*>(heap.get_address()) + offset;
    };
    {
        manager heap(create_only, path(), options);
        heap.transact([&] {
            for (int i = 0; i < 90; ++i) {
                auto* const block =
                    static_cast<std::byte*>(heap.allocate_aligned(std::size_t{granule}, std::size_t{granule}));
                const std::ptrdiff_t offset = block - block_in(heap, 0);
                if (const std::size_t in = static_cast<std::size_t>(offset) / half; in < blocks.size()) {
                    blocks.at(in).push_back(offset);
                }
            }
        });
        heap.transact([&] { heap.deallocate(block_in(heap, blocks[1].at(10))); });
    }
    manager one(open_only, path(), options);
    manager other(open_only, path(), options);
    EXPECT_THROW(one.transact([&] {
        auto* const block = static_cast<std::byte*>(one.allocate(48));
        EXPECT_EQ((block - block_in(one, 0)) / granule, blocks[1].at(10) / granule);
        throw std::runtime_error("no");
    }),
                 std::runtime_error);
    other.transact([&] { other.deallocate(block_in(other, blocks[0].at(10))); });
    other.transact([&] {
        auto* const block = static_cast<std::byte*>(other.allocate(96));
        EXPECT_EQ((block - block_in(other, 0)) / granule, blocks[0].at(10) / granule);
    });
    one.transact([&] { one.root(0) = one.allocate(48); });
    const std::vector<std::string> problems = one.check(true);
    EXPECT_TRUE(problems.empty()) << problems.front();
    EXPECT_EQ(one.statistics().slabs, manager(open_only, path(), options).statistics().slabs);
}

}  // namespace
}  // namespace holdfast
