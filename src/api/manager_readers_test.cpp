// Readers beside the writer: each sees one version as a whole, goes on when it wants to, and nobody waits for it.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"
#include "base/process_test_support.hpp"

namespace holdfast {
namespace {

class manager_readers_test : public manager_test {
protected:
    using numbers = vector<int>;
    using texts = map<int, string>;

    static numbers& fill(manager& heap, int count, int value) {
        auto& all = *heap.find_or_construct<numbers>("numbers")(heap.get_allocator<int>());
        all.assign(static_cast<std::size_t>(count), value);
        return all;
    }
    static void expect_filled(const manager& heap, std::size_t count, int value) {
        const auto* const all = heap.find<numbers>("numbers").first;
        ASSERT_NE(all, nullptr);
        ASSERT_EQ(all->size(), count);
        EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(*all, value)), count);
    }
};

TEST_F(manager_readers_test, a_reader_opens_beside_the_writer_and_goes_on) {
    manager writer = create();
    fill(writer, 100'000, 1);
    writer.commit();
    manager reader(open_read_only, path());
    expect_filled(reader, 100'000, 1);
    EXPECT_EQ(reader.version(), writer.version());
    for (int value = 2; value < 20; ++value) {
        fill(writer, 100'000, value);
        expect_filled(reader, 100'000, value - 1);
        writer.commit();
        expect_filled(reader, 100'000, value - 1);
        const refresh_report done = reader.refresh();
        EXPECT_EQ(done.version, writer.version());
        EXPECT_EQ(done.commits, 1U);
        EXPECT_GE(done.pages, 97U);
        expect_filled(reader, 100'000, value);
    }
    EXPECT_EQ(reader.refresh().commits, 0U);
}

TEST_F(manager_readers_test, a_writer_opens_beside_a_reader) {
    {
        manager heap = create();
        fill(heap, 1000, 1);
    }
    manager reader(open_read_only, path());
    manager writer = open();
    fill(writer, 1000, 2);
    writer.commit();
    expect_filled(reader, 1000, 1);
    reader.refresh();
    expect_filled(reader, 1000, 2);
}

TEST_F(manager_readers_test, readers_of_several_versions_read_side_by_side) {
    manager writer = create();
    std::vector<manager> readers;
    for (int value = 0; value < 10; ++value) {
        fill(writer, 5000 + value * 1000, value);
        writer.commit();
        readers.emplace_back(open_read_only, path());
    }
    for (int round = 0; round < 3; ++round) {
        for (int value = 0; value < 10; ++value) {
            expect_filled(readers[static_cast<std::size_t>(value)], static_cast<std::size_t>(5000 + value * 1000),
                          value);
        }
        writer.construct<int>(std::to_string(round).c_str())(round);
        writer.commit();
    }
    for (manager& reader : readers) {
        reader.refresh();
        expect_filled(reader, 14'000, 9);
        EXPECT_EQ(*reader.find<int>("2").first, 2);
        EXPECT_THAT(reader.check(true), testing::IsEmpty());
    }
    EXPECT_THAT(writer.check(true), testing::IsEmpty());
}

TEST_F(manager_readers_test, a_reader_sees_new_objects_and_a_heap_that_grew) {
    manager writer = create();
    writer.commit();
    manager reader(open_read_only, path());
    for (int i = 0; i < 20; ++i) {
        auto* const made = writer.construct<numbers>(std::to_string(i).c_str())(writer.get_allocator<int>());
        made->assign(300'000, i);
        writer.commit();
        reader.refresh();
        for (int k = 0; k <= i; ++k) {
            const auto* const found = reader.find<numbers>(std::to_string(k).c_str()).first;
            ASSERT_NE(found, nullptr) << k;
            ASSERT_EQ(std::ranges::count(*found, k), 300'000);
        }
    }
    EXPECT_THAT(reader.check(true), testing::IsEmpty());
}

/// A block that is freed and used again is written to its place before the record: nothing of its earlier use may lie
/// over it.
TEST_F(manager_readers_test, blocks_that_are_freed_and_used_again_show_their_new_content) {
    manager writer = create();
    manager reader(open_read_only, path());
    for (int round = 1; round < 30; ++round) {
        auto* const made = writer.construct<numbers>("block")(writer.get_allocator<int>());
        made->assign(100'000, round);
        writer.commit();
        if (round % 3 == 0) {
            reader.refresh();
            ASSERT_EQ(std::ranges::count(*reader.find<numbers>("block").first, round), 100'000);
        }
        made->back() = -round;
        writer.commit();
        if (round % 2 == 0) {
            reader.refresh();
            ASSERT_EQ(reader.find<numbers>("block").first->back(), -round);
        }
        writer.destroy<numbers>("block");
        if (round % 5 == 0) {
            writer.commit();
            reader.refresh();
            EXPECT_EQ(reader.find<numbers>("block").first, nullptr);
        }
    }
    writer.commit();
    reader.refresh();
    EXPECT_THAT(reader.check(true), testing::IsEmpty());
    EXPECT_THAT(writer.check(true), testing::IsEmpty());
}

/// Was: a reader opened beside an extent that was freed and kept in a cache joined it with its neighbours in its own
/// memory, and laid the few bytes that the next version had changed over that.
TEST_F(manager_readers_test, a_reader_that_opened_beside_cached_extents_shows_the_next_versions) {
    create().close();
    for (const bool shared : {false, true}) {
        manager writer = shared ? share() : open();
        void* block = nullptr;
        writer.transact([&] { block = writer.allocate(65536); });
        writer.transact([&] { writer.deallocate(block); });
        manager reader(open_read_only, path());
        writer.transact([&] { block = writer.allocate(65536); });
        reader.refresh();
        const manager fresh(open_read_only, path());
        EXPECT_EQ(reader.statistics().allocated_bytes, fresh.statistics().allocated_bytes);
        writer.transact([&] { writer.deallocate(block); });
        manager other(open_read_only, path());
        for (std::size_t i = 0; i < 40; ++i) {
            writer.transact([&] { static_cast<void>(writer.allocate(16 + 16 * i)); });
            other.refresh();
            EXPECT_EQ(other.statistics().allocated_bytes, writer.statistics().allocated_bytes);
            EXPECT_THAT(other.check(true), testing::IsEmpty());
        }
    }
}

TEST_F(manager_readers_test, a_writer_that_closes_and_comes_again_does_not_disturb_a_reader) {
    manager reader = [&] {
        manager writer = create();
        fill(writer, 50'000, 1);
        writer.commit();
        return manager(open_read_only, path());
    }();
    for (int value = 2; value < 12; ++value) {
        {
            manager writer = open();
            fill(writer, 50'000, value);
            writer.commit();
            fill(writer, 50'000, 100 + value);
        }
        if (value % 3 == 0) {
            reader.refresh();
            expect_filled(reader, 50'000, 100 + value);
        } else {
            expect_filled(reader, 50'000, value < 3 ? 1 : 100 + value - value % 3);
        }
    }
}

TEST_F(manager_readers_test, a_transaction_that_is_aborted_beside_readers_leaves_the_last_version) {
    manager writer = create();
    auto& all = *writer.construct<texts>("texts")(writer.get_allocator<std::pair<const int, string>>());
    manager reader(open_read_only, path());
    for (int i = 0; i < 200; ++i) {
        writer.transact([&] { all.emplace(i, string(std::to_string(i).c_str(), writer.get_allocator<char>())); });
        try {
            writer.transact([&] {
                all.emplace(1000 + i, string("never", writer.get_allocator<char>()));
                throw std::runtime_error("aborted");
            });
            FAIL();
        } catch (const std::runtime_error&) {
            EXPECT_EQ(all.size(), static_cast<std::size_t>(i) + 1);
        }
        if (i % 7 == 0) {
            reader.refresh();
            const auto& seen = *reader.find<texts>("texts").first;
            ASSERT_EQ(seen.size(), static_cast<std::size_t>(i) + 1);
            EXPECT_EQ(seen.at(i), std::to_string(i).c_str());
        }
    }
    EXPECT_THAT(writer.check(true), testing::IsEmpty());
}

TEST_F(manager_readers_test, what_others_may_not_do_beside_a_reader_is_refused) {
    { manager heap = create(); }
    const manager reader(open_read_only, path());
    EXPECT_EQ(reason_of([&] {
                  const manager heap(open_only, path(),
                                     {.durability = durability::atomic, .accept_process_crash_only = true});
              }),
              errc::locked);
    EXPECT_EQ(reason_of([&] { manager::remove(path()); }), errc::locked);
}

TEST_F(manager_readers_test, a_writer_alone_lets_nobody_read) {
    { manager heap = create(); }
    { manager heap = open(); }  // makes the file of readers
    const manager writer(open_only, path(), {.durability = durability::atomic, .accept_process_crash_only = true});
    EXPECT_EQ(reason_of([&] { const manager reader(open_read_only, path()); }), errc::locked);
}

TEST_F(manager_readers_test, an_open_that_verifies_is_one_beside_a_writer) {
    manager writer = create();
    for (int value = 1; value < 8; ++value) {
        fill(writer, 50'000, value);
        writer.commit();
        const manager reader(open_read_only, path(), {.verify = true});
        fill(writer, 50'000, -value);
        writer.commit();
        expect_filled(reader, 50'000, value);
        EXPECT_THAT(reader.check(true), testing::IsEmpty());
    }
}

/// What the file of readers says is of another heap, or of before: files were restored from a copy beside it.
TEST_F(manager_readers_test, a_reader_believes_no_word_of_an_earlier_writer) {
    {
        manager heap = create();
        fill(heap, 1000, 1);
    }
    std::filesystem::copy(path(), path("kept"), std::filesystem::copy_options::recursive);
    {
        manager heap = open();
        for (int value = 2; value < 10; ++value) {
            fill(heap, 1000, value);
            heap.commit();
        }
    }
    for (const char* name : {"superblock", "segment.000000", "objects"}) {
        std::filesystem::copy_file(path("kept") + "/" + name, path() + "/" + name,
                                   std::filesystem::copy_options::overwrite_existing);
    }
    manager reader(open_read_only, path());
    expect_filled(reader, 1000, 1);
    EXPECT_FALSE(reader.wait_for_change(std::chrono::milliseconds(1)));
    EXPECT_EQ(reader.refresh().commits, 0U);
    expect_filled(reader, 1000, 1);
    manager writer = open();
    fill(writer, 1000, 50);
    writer.commit();
    EXPECT_TRUE(reader.wait_for_change(std::chrono::seconds(20)));
    EXPECT_EQ(reader.refresh().version, writer.version());
    expect_filled(reader, 1000, 50);
}

/// Was: the log had begun anew, within the writer's session, and the reader's heap was closed.
TEST_F(manager_readers_test, a_writer_that_shrinks_its_heap_does_not_disturb) {
    manager writer = create();
    manager reader(open_read_only, path());
    for (int value = 1; value < 6; ++value) {
        fill(writer, 100'000, value);
        writer.commit();
        reader.refresh();
        writer.shrink();
        fill(writer, 50'000, value + 100);
        writer.commit();
        expect_filled(reader, 100'000, value);
        reader.refresh();
        expect_filled(reader, 50'000, value + 100);
    }
    EXPECT_THAT(reader.check(true), testing::IsEmpty());
}

/// Was: the pages kept what they had, because memory that is locked cannot be dropped.
TEST_F(manager_readers_test, a_reader_that_has_locked_its_memory_goes_on) {
    manager writer = create();
    static_cast<void>(writer.allocate(1'000'000));  // space that nobody has stored to
    writer.commit();
    manager reader(open_read_only, path());
    ASSERT_EQ(::mlock(reader.get_address(), reader.statistics().user_bytes), 0);
    for (int value = 1; value < 6; ++value) {
        fill(writer, 100'000 * value, value);
        writer.commit();
        reader.refresh();
        expect_filled(reader, static_cast<std::size_t>(100'000 * value), value);
    }
}

TEST_F(manager_readers_test, a_writer_shows_its_last_commit_anyway) {
    manager writer = create();
    fill(writer, 10, 1);
    writer.commit();
    const refresh_report same = writer.refresh();
    EXPECT_EQ(same.version, writer.version());
    EXPECT_EQ(same.commits, 0U);
}

TEST_F(manager_readers_test, a_child_of_fork_does_not_refresh) {
    const manager writer = create();
    manager reader(open_read_only, path());
    EXPECT_TRUE(
        holdfast::base::succeeds_in_child([&] { return reason_of([&] { reader.refresh(); }) == errc::wrong_process; }));
    EXPECT_EQ(reader.refresh().commits, 0U);
}

TEST_F(manager_readers_test, a_directory_that_is_renamed_or_removed_does_not_disturb) {
    manager writer = create();
    fill(writer, 50'000, 1);
    writer.commit();
    manager reader(open_read_only, path());
    std::filesystem::rename(path(), path("elsewhere"));
    fill(writer, 60'000, 2);
    writer.commit();
    reader.refresh();
    expect_filled(reader, 60'000, 2);
    writer.close();
    std::filesystem::remove_all(path("elsewhere"));
    expect_filled(reader, 60'000, 2);
    EXPECT_EQ(reader.refresh().commits, 0U);
}

/// Was: it waited for five seconds, as if the reader kept it out.
TEST_F(manager_readers_test, a_second_writer_is_refused_at_once_beside_readers) {
    const manager writer = create();
    const manager reader(open_read_only, path());
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(reason_of([&] { open(); }), errc::locked);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST_F(manager_readers_test, a_reader_waits_for_a_change) {
    manager writer = create();
    manager reader(open_read_only, path());
    EXPECT_FALSE(reader.wait_for_change(std::chrono::milliseconds(1)));
    std::thread commits([&] {
        fill(writer, 10, 1);
        writer.commit();
    });
    EXPECT_TRUE(reader.wait_for_change(std::chrono::seconds(20)));
    commits.join();
    reader.refresh();
    expect_filled(reader, 10, 1);
    EXPECT_FALSE(reader.wait_for_change(std::chrono::milliseconds(1)));
}

TEST_F(manager_readers_test, a_copy_beside_the_writer_is_one_version) {
    manager writer = create();
    fill(writer, 100'000, 1);
    writer.commit();
    manager reader(open_read_only, path());
    fill(writer, 100'000, 2);
    writer.commit();
    reader.snapshot(path("old"));
    manager::copy(path(), path("new"));
    fill(writer, 100'000, 3);
    writer.commit();
    writer.snapshot(path("newest"));
    expect_filled(manager(open_read_only, path("old")), 100'000, 1);
    expect_filled(manager(open_read_only, path("new")), 100'000, 2);
    expect_filled(manager(open_read_only, path("newest"), {.verify = true}), 100'000, 3);
}

// What home has is told to readers, which let their own copies go by that word.
TEST_F(manager_readers_test, home_that_stays_behind_for_a_damaged_log_is_not_told_to_be_further) {
    constexpr int many = 600'000;
    manager writer = create();
    fill(writer, many, 1);
    writer.commit();
    std::optional<manager> keeps_home(std::in_place, open_read_only, path());
    manager reader(open_read_only, path());
    const auto commit = [&](int value) {
        std::ranges::fill(*writer.find<numbers>("numbers").first, value);
        writer.commit();
    };
    commit(2);
    commit(3);
    reader.refresh();
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
        if (entry.path().filename().string().starts_with("log.")) {
            segment::overwrite(entry.path().string(), 0, std::vector<std::byte>(entry.file_size()));
        }
    }
    commit(4);
    keeps_home.reset();
    EXPECT_EQ(reason_of([&] { commit(5); }), errc::corrupt);
    reader.refresh();
    expect_filled(reader, many, 4);
}

}  // namespace
}  // namespace holdfast
