// Heaps and stores that an earlier version wrote, as they are on disk: this version opens each of them, those whose
// process was killed too, and finds what was promised. The archives beside this file are never made anew: a version
// that changes a format adds one for each kind, and goes on to open the old ones, or says in the CHANGELOG that it does
// not.
//     formats_test --make DIRECTORY     makes what this version would archive
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/hash_index.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/ordered_index.hpp>
#include <holdfast/store.hpp>
#include <holdfast/store_in_heap.hpp>
#include <holdfast/transaction.hpp>

#include "base/process_test_support.hpp"
#include "base/scratch_test_support.hpp"

namespace holdfast::formats {
namespace {

namespace fs = std::filesystem;

using numbers = vector<std::uint64_t>;
using names = map<std::uint64_t, string>;
constexpr std::uint64_t segment_bytes = std::uint64_t{2} << 20U;
constexpr std::uint64_t last_step = 6;
constexpr std::size_t large_block = 300'000;
constexpr std::uint64_t pairs_a_step = 150;

std::uint64_t square(std::uint64_t of) { return of * of + 1; }
std::string name_of(std::uint64_t key) { return std::string(1 + key % 90, static_cast<char>('a' + key % 26)); }

open_options options_of(durability how) {
    open_options options;
    options.durability = how;
    options.segment_size = segment_bytes;
    options.reservation = std::uint64_t{1} << 30U;
    options.commit_on_close = false;
    options.accept_machine_restart = true;
    if (how == durability::collect) {
        options.accept_process_crash_only = true;
    }
    return options;
}

// --- durability commit: containers, names, a store, large blocks that come and go ---

void change_containers(manager& heap, std::uint64_t step) {
    auto& squares = *heap.find_or_construct<numbers>("squares")(heap.get_allocator<std::uint64_t>());
    auto& called = *heap.find_or_construct<names>("names")(heap.get_allocator<names::value_type>());
    for (std::uint64_t i = 0; i < 200; ++i) {
        squares.push_back(square(squares.size()));
    }
    for (std::uint64_t i = 0; i < 30; ++i) {
        const std::uint64_t key = 30 * step + i;
        called.emplace(key, string(name_of(key).c_str(), heap.get_allocator<char>()));
    }
    if (step > 1) {
        called.erase(30 * (step - 2));
    }
    ptr<void>& large = heap.root(0);
    heap.deallocate(large.get());
    large = heap.allocate(large_block);
    std::memset(large.get(), static_cast<int>(step), large_block);
    heap_store goods(heap, "goods");
    auto change = goods.write();
    change.put(fmt::format("step {}", step), name_of(step));
    change.commit();
}

void check_containers(const manager& heap, std::uint64_t step) {
    const auto* const squares = heap.find<numbers>("squares").first;
    const auto* const called = heap.find<names>("names").first;
    ASSERT_NE(squares, nullptr);
    ASSERT_NE(called, nullptr);
    ASSERT_EQ(squares->size(), 200 * (step + 1));
    for (std::uint64_t i = 0; i < squares->size(); ++i) {
        ASSERT_EQ((*squares)[i], square(i));
    }
    ASSERT_EQ(called->size(), 30 * (step + 1) - (step - 1));
    for (const auto& [key, name] : *called) {
        ASSERT_EQ(std::string_view(name.data(), name.size()), name_of(key));
    }
    const auto* const large = static_cast<const unsigned char*>(heap.root(0).get());
    ASSERT_NE(large, nullptr);
    for (std::size_t i = 0; i < large_block; ++i) {
        ASSERT_EQ(large[i], step);
    }
}

void check_goods(manager& heap, std::uint64_t step) {
    const heap_store goods(heap, "goods");
    const auto view = goods.read();
    std::uint64_t found = 0;
    for (const auto& [key, value] : view.all()) {
        ASSERT_EQ(key, fmt::format("step {}", found));
        ASSERT_EQ(value, name_of(found));
        ++found;
    }
    ASSERT_EQ(found, step + 1);
}

void make_with_commits(const std::string& path) {
    manager heap(create_only, path, options_of(durability::commit));
    heap.set_description("of the formats' tests");
    for (std::uint64_t step = 0; step <= last_step; ++step) {
        change_containers(heap, step);
        heap.commit();
    }
}

void make_killed_between_commits(const std::string& path) {
    make_with_commits(path);
    manager heap(open_only, path, options_of(durability::commit));
    change_containers(heap, last_step + 1);
    heap.commit();
    change_containers(heap, last_step + 2);
    ::kill(::getpid(), SIGKILL);
}

void check_commits(const std::string& path, std::uint64_t step) {
    {
        manager heap(open_read_only, path);
        check_containers(heap, step);
        EXPECT_EQ(heap.check(true), std::vector<std::string>());
    }
    {
        manager heap(open_only, path);
        EXPECT_EQ(heap.get_description(), "of the formats' tests");
        check_containers(heap, step);
        check_goods(heap, step);
        change_containers(heap, step + 1);
    }
    manager heap(open_only, path);
    check_containers(heap, step + 1);
    check_goods(heap, step + 1);
}

// --- durability atomic: transactions and indexes, by records ---

struct account {
    std::uint64_t balance;
    std::uint64_t changes;
};

void change_indexes(manager& heap, std::uint64_t step) {
    auto& book = *heap.find_or_construct<account>("account")();
    ordered_index<std::uint64_t, std::uint64_t> ordered(heap, "ordered");
    hash_index<std::string_view, std::string_view> hashed(heap, "hashed");
    for (std::uint64_t i = step * pairs_a_step; i < (step + 1) * pairs_a_step; ++i) {
        ordered.insert(i, square(i));
        hashed.insert(fmt::format("key {}", i), name_of(i));
        heap.transact([&](transaction& tx) {
            account& open = tx.open(book);
            open.balance += i;
            ++open.changes;
        });
        if (i % 3 == 0) {
            ordered.remove(i);
            hashed.remove(fmt::format("key {}", i));
        }
    }
}

void check_indexes(manager& heap, std::uint64_t step) {
    const std::uint64_t end = (step + 1) * pairs_a_step;
    const auto* const book = heap.find<account>("account").first;
    ASSERT_NE(book, nullptr);
    EXPECT_EQ(book->changes, end);
    EXPECT_EQ(book->balance, end * (end - 1) / 2);
    const ordered_index<std::uint64_t, std::uint64_t> ordered(heap, "ordered");
    const hash_index<std::string_view, std::string_view> hashed(heap, "hashed");
    for (std::uint64_t i = 0; i < end; ++i) {
        const auto number = ordered.find(i);
        const auto name = hashed.find(fmt::format("key {}", i));
        ASSERT_EQ(number.has_value(), i % 3 != 0) << i;
        ASSERT_EQ(name.has_value(), i % 3 != 0) << i;
        if (i % 3 != 0) {
            ASSERT_EQ(*number, square(i));
            ASSERT_EQ(*name, name_of(i));
        }
    }
}

void make_with_records(const std::string& path) {
    manager heap(create_only, path, options_of(durability::atomic));
    for (std::uint64_t step = 0; step < 2; ++step) {
        change_indexes(heap, step);
    }
    ::kill(::getpid(), SIGKILL);
}

void check_records(const std::string& path) {
    {
        manager heap(open_only, path, options_of(durability::atomic));
        check_indexes(heap, 1);
        EXPECT_EQ(heap.check(true), std::vector<std::string>());
        change_indexes(heap, 2);
    }
    manager heap(open_only, path, options_of(durability::commit));
    check_indexes(heap, 2);
}

// --- durability collect: what the roots reach ---

struct node {
    std::uint64_t number;
    ptr<node> next;
};

void make_with_garbage(const std::string& path) {
    manager heap(create_only, path, options_of(durability::collect));
    auto& first = *heap.construct<ptr<node>>("first")();
    for (std::uint64_t i = 0; i < 500; ++i) {
        static_cast<void>(heap.allocate(40));  // nothing leads there
        auto* const made = static_cast<node*>(heap.allocate(sizeof(node)));
        ::new (made) node{square(i), first};
        first = made;
    }
    ::kill(::getpid(), SIGKILL);
}

void check_list(manager& heap) {
    const auto* const first = heap.find<ptr<node>>("first").first;
    ASSERT_NE(first, nullptr);
    std::uint64_t left = 500;
    for (const node* each = first->get(); each != nullptr; each = each->next.get()) {
        ASSERT_GT(left, 0U);
        ASSERT_EQ(each->number, square(--left));
    }
    EXPECT_EQ(left, 0U);
}

void check_collected(const std::string& path) {
    manager heap(open_only, path, options_of(durability::collect));
    check_list(heap);
    EXPECT_EQ(heap.statistics().allocated_blocks, 501U) << "the list, and the object";
}

// --- the store in a file ---

void fill(store& goods, std::uint64_t from, std::uint64_t to) {
    auto change = goods.write();
    for (std::uint64_t i = from; i < to; ++i) {
        change.put(fmt::format("{:06}", i), name_of(i));
        if (i % 5 == 0) {
            change.erase(fmt::format("{:06}", i / 2));
        }
    }
    change.commit();
}

void make_store(const std::string& path) {
    store goods(path);
    fill(goods, 0, 2000);
    fill(goods, 2000, 2100);
}

void make_killed_store(const std::string& path) {
    make_store(path);
    store goods(path);
    fill(goods, 2100, 2200);
    fill(goods, 2200, 2210);
    ::kill(::getpid(), SIGKILL);
}

void check_store(const std::string& path, std::uint64_t end) {
    std::map<std::string, std::string> expected;
    for (std::uint64_t i = 0; i < end; ++i) {
        expected[fmt::format("{:06}", i)] = name_of(i);
        if (i % 5 == 0) {
            expected.erase(fmt::format("{:06}", i / 2));
        }
    }
    store goods(path);
    std::map<std::string, std::string> found;
    {
        const auto view = goods.read();
        for (const auto& [key, value] : view.all()) {
            found.emplace(key, value);
        }
    }
    EXPECT_EQ(found, expected);
    fill(goods, end, end + 10);
    EXPECT_EQ(goods.read().get(fmt::format("{:06}", end + 9)), name_of(end + 9));
}

// --- the archives ---

struct kind {
    std::string name;
    std::function<void(const std::string&)> make;
    std::function<void(const std::string&)> check;
};

const std::vector<kind>& kinds() {
    static const std::vector<kind> all{
        {"commit", make_with_commits, [](const std::string& path) { check_commits(path, last_step); }},
        {"commit-killed", make_killed_between_commits,
         [](const std::string& path) { check_commits(path, last_step + 1); }},
        {"atomic-killed", make_with_records, check_records},
        {"collect-killed", make_with_garbage, check_collected},
        {"store", make_store, [](const std::string& path) { check_store(path, 2100); }},
        {"store-killed", make_killed_store, [](const std::string& path) { check_store(path, 2210); }},
    };
    return all;
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

class formats : public testing::TestWithParam<fs::path> {};

TEST_P(formats, of_an_earlier_version_are_read) {
    const base::scratch_directory directory;
    const std::string command =
        "tar -xzf " + quoted(GetParam().string()) + " --no-same-owner -C " + quoted(directory.path());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;    // NOLINT(cert-env33-c): no other program is meant
    const std::string file = GetParam().filename().string();  // KIND.VERSION.tar.gz
    for (const kind& each : kinds()) {
        if (file.starts_with(each.name + ".")) {
            each.check(directory.path() + "/" + each.name + "/data");
            return;
        }
    }
    FAIL() << "of no kind that this test knows";
}

std::vector<fs::path> archives() {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(HOLDFAST_FORMATS)) {
        if (entry.path().extension() == ".gz") {
            found.push_back(entry.path());
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string test_name(const testing::TestParamInfo<fs::path>& of) {
    std::string name = of.param.filename().string();
    name.resize(name.size() - std::string_view(".tar.gz").size());
    for (char& each : name) {
        each = std::isalnum(static_cast<unsigned char>(each)) != 0 ? each : '_';
    }
    return name;
}

INSTANTIATE_TEST_SUITE_P(all, formats, testing::ValuesIn(archives()), test_name);

TEST(formats_kinds, each_has_an_archive) {
    for (const kind& each : kinds()) {
        const auto all = archives();
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const fs::path& path) {
            return path.filename().string().starts_with(each.name + ".");
        })) << each.name;
    }
}

/// Each in a process of its own, which some kinds kill.
int make_all(const std::string& directory) {
    for (const kind& each : kinds()) {
        fs::create_directory(directory + "/" + each.name);
        const base::process_end end = base::run_in_child([&] { each.make(directory + "/" + each.name + "/data"); });
        if (each.name.ends_with("-killed") ? !end.was_killed() : !end.succeeded()) {
            fmt::print(stderr, "{}: {}\n", each.name, end.text());
            return 1;
        }
    }
    return 0;
}

}  // namespace
}  // namespace holdfast::formats

int main(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "--make") {
        return holdfast::formats::make_all(argv[2]);
    }
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
