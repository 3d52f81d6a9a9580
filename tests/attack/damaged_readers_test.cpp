// The file `readers` beside heaps that are open: whatever its words say, calls end, nobody dies, and media have every
// transaction that was acknowledged. A reader may be told of no version, and refuses; it shows no mixture of two.
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/transaction.hpp>

#include "attack/attacked.hpp"
#include "segment/files/reader_table.hpp"
#include "support/scratch.hpp"

namespace holdfast::attack {
namespace {

namespace fs = std::filesystem;

using numbers = map<int, int>;
using damage = std::function<std::uint64_t(std::uint64_t)>;

struct word {
    std::string name;
    std::uint64_t at;
    std::size_t size;
};

/// All that are in use, and one that is not; of the slots, those of this test's readers.
std::vector<word> words_of_readers() {
    using head = segment::reader_table_on_file;
    using slot = segment::reader_slot_on_file;
    std::vector<word> all{
        {"magic", offsetof(head, magic), 8},
        {"version", offsetof(head, version), 4},
        {"slots", offsetof(head, slots), 4},
        {"writer", offsetof(head, writer), 4},
        {"changes", offsetof(head, changes), 4},
        {"waiting", offsetof(head, waiting), 4},
        {"used", offsetof(head, used), 4},
        {"session", offsetof(head, session), 8},
        {"durable", offsetof(head, durable), 8},
        {"home", offsetof(head, home), 8},
        {"writer_pid", offsetof(head, writer_pid), 8},
        {"left_by", offsetof(head, left_by), 8},
        {"left_mark", offsetof(head, left_mark), 8},
        {"log_writes", offsetof(head, log_writes), 8},
        {"home_mark", offsetof(head, home_mark), 8},
        {"reserved", offsetof(head, reserved), 8},
    };
    for (std::uint64_t i = 0; i < 4; ++i) {
        const std::uint64_t begin = sizeof(head) + i * sizeof(slot);
        const std::string of = " of slot " + std::to_string(i);
        all.push_back({"holds" + of, begin + offsetof(slot, holds), 8});
        all.push_back({"pid" + of, begin + offsetof(slot, pid), 8});
    }
    return all;
}

const std::vector<std::pair<std::string, damage>>& damages() {
    static const std::vector<std::pair<std::string, damage>> all{
        {"0", [](std::uint64_t) { return std::uint64_t{0}; }},
        {"1", [](std::uint64_t) { return std::uint64_t{1}; }},
        {"all ones", [](std::uint64_t) { return ~std::uint64_t{0}; }},
        {"one more", [](std::uint64_t old) { return old + 1; }},
        {"one less", [](std::uint64_t old) { return old - 1; }},
        {"two less", [](std::uint64_t old) { return old - 2; }},
        {"noise", [](std::uint64_t) { return std::uint64_t{0x5a17'93c4'0d6b'e281}; }},
    };
    return all;
}

class damaged_readers : public testing::Test {
protected:
    static open_options shared_options() {
        open_options options = options_for(durability::commit);
        options.shared = true;
        return options;
    }
    void change(const word& where, const damage& how) const {
        const std::vector<char> before = support::read_bytes(path_ + "/readers", where.at, where.size);
        std::uint64_t value = 0;
        std::memcpy(&value, before.data(), where.size);
        value = how(value);
        std::vector<char> after(where.size);
        std::memcpy(after.data(), &value, where.size);
        support::write_bytes(path_ + "/readers", where.at, after);
    }
    /// Refused or not.
    template <class Call>
    static bool returns(Call&& call) {
        try {
            call();
            return true;
        } catch (const error& refused) {
            EXPECT_FALSE(std::string(refused.what()).empty());
            return false;
        }
    }
    static numbers& numbers_of(const manager& heap) { return *heap.find<numbers>("numbers").first; }
    static int& count_of(const manager& heap) { return *heap.find<int>("count").first; }
    void add(manager& heap) {
        const int key = next_++;
        if (returns([&] {
                heap.transact([&] {
                    numbers_of(heap).emplace(key, 3 * key);
                    ++count_of(heap);
                });
            })) {
            acknowledged_.insert(key);
        }
    }
    static void expect_whole(const manager& heap, const std::string& what) {
        const numbers& all = numbers_of(heap);
        EXPECT_EQ(all.size(), static_cast<std::size_t>(count_of(heap))) << what;
        std::size_t seen = 0;
        for (const auto& [key, value] : all) {
            EXPECT_EQ(value, 3 * key) << what;
            ++seen;
        }
        EXPECT_EQ(seen, all.size()) << what;
    }
    void expect_acknowledged() const {
        const manager heap(open_only, path_, options_for(durability::commit));
        EXPECT_THAT(heap.check(true), testing::IsEmpty());
        expect_whole(heap, "the heap in the end");
        for (const int key : acknowledged_) {
            EXPECT_TRUE(numbers_of(heap).contains(key)) << "transaction " << key << " was acknowledged";
        }
    }
    void make() {
        fs::remove_all(path_);
        acknowledged_.clear();
        next_ = 0;
        manager heap(create_only, path_, options_for(durability::commit));
        heap.construct<numbers>("numbers")(heap.get_allocator<std::pair<const int, int>>());
        heap.construct<int>("count")(0);
        heap.commit();
        heap.close();
    }
    void look(manager& reader) {
        if (returns([&] { static_cast<void>(reader.refresh()); })) {
            expect_whole(reader, "the reader");
        }
    }

    /// Lives with a heap in a process of its own, for each word and damage, and looks at the heap in the end.
    void damage_in(const std::function<void(const word& where, const std::string& name, const damage& how)>& life) {
        std::vector<std::string> wrong;  // a child has the failures that its parent had
        for (const word& where : words_of_readers()) {
            for (const auto& one : damages()) {
                make();
                const bool held = ends_within(20, [&] {
                    life(where, one.first, one.second);
                    expect_acknowledged();
                    if (testing::Test::HasFailure()) {
                        throw std::runtime_error("see above");
                    }
                });
                if (!held) {
                    wrong.push_back(where.name + ": " + one.first);
                }
            }
        }
        EXPECT_THAT(wrong, testing::IsEmpty());
    }

    support::scratch_directory scratch_;
    std::string path_ = scratch_ / "heap";
    std::set<int> acknowledged_;
    int next_ = 0;
};

TEST_F(damaged_readers, lose_nothing_of_a_heap_that_is_shared_by_turns) {
    damage_in([this](const word& where, const std::string& /*name*/, const damage& how) {
        manager one(open_only, path_, shared_options());
        manager other(open_only, path_, shared_options());
        manager reader(open_read_only, path_, options_for(durability::commit));
        add(one);
        add(other);
        add(one);
        look(reader);
        add(one);
        change(where, how);
        add(other);
        look(reader);
        add(one);
        change(where, how);
        add(one);
        look(reader);
        add(other);
        static_cast<void>(returns([&] {
            const manager late(open_read_only, path_, options_for(durability::commit));
            expect_whole(late, "a late reader");
        }));
        change(where, how);
        static_cast<void>(returns([&] {
            manager late(open_only, path_, shared_options());
            add(late);
        }));
        static_cast<void>(returns([&] { static_cast<void>(one.refresh()); }));
    });
}

TEST_F(damaged_readers, lose_nothing_of_a_writer_with_readers) {
    damage_in([this](const word& where, const std::string& name, const damage& how) {
        manager writer(open_only, path_, options_for(durability::commit));
        manager reader(open_read_only, path_, options_for(durability::commit));
        add(writer);
        look(reader);
        add(writer);
        change(where, how);
        look(reader);
        add(writer);
        change(where, how);
        // It waits five seconds for a writer that seems to open or close the heap.
        if (where.name != "writer" || name == "one more") {
            static_cast<void>(returns([&] {
                const manager late(open_read_only, path_, options_for(durability::commit));
                expect_whole(late, "a late reader");
            }));
        }
        for (int i = 0; i < 20; ++i) {
            add(writer);
        }
        look(reader);
        static_cast<void>(returns([&] { writer.commit(); }));
        change(where, how);
        look(reader);
    });
}

}  // namespace
}  // namespace holdfast::attack
