#include "segment/files/reader_table.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using missing_file = reader_table::missing_file;

class reader_tables : public testing::Test {
protected:
    reader_tables() { std::filesystem::create_directory(paths_.directory()); }

    [[nodiscard]] std::unique_ptr<reader_table> open(missing_file missing = missing_file::do_without) const {
        return must(reader_table::open(persist::posix_storage(), paths_, missing));
    }
    void damage(std::uint64_t at, const std::vector<char>& bytes) const {
        std::fstream file(paths_.readers(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<std::streamoff>(at));
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }

    test_directory directory_;
    heap_paths paths_{directory_.path("heap")};
};

TEST_F(reader_tables, are_made_by_a_writer_alone) {
    EXPECT_EQ(open(), nullptr);
    EXPECT_FALSE(std::filesystem::exists(paths_.readers()));
    ASSERT_NE(open(missing_file::make), nullptr);
    EXPECT_EQ(std::filesystem::file_size(paths_.readers()), reader_table_size);
    EXPECT_NE(open(), nullptr);
}

/// docs/format.md, "Readers".
TEST_F(reader_tables, lie_as_the_format_says) {
    const auto writer = open(missing_file::make);
    writer->begin_session(0x1122334455667788, 0x0102030405060708, 0x0807060504030201);
    writer->tell({0x21, 0x22, 0x23});
    const auto reader = open();
    ASSERT_TRUE(reader->take());
    reader->set_version(0x0a0b0c0d);
    std::ifstream file(paths_.readers(), std::ios::binary);
    std::vector<char> bytes(reader_table_size);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_EQ(static_cast<std::size_t>(file.gcount()), bytes.size());
    const auto word = [&](std::size_t at, std::size_t length) {
        std::uint64_t found = 0;
        std::memcpy(&found, bytes.data() + at, length);
        return found;
    };
    EXPECT_EQ(std::string(bytes.data(), 8), "HFREADER");
    EXPECT_EQ(word(8, 4), 1U) << "version";
    EXPECT_EQ(word(12, 4), 1024U) << "slots";
    EXPECT_EQ(word(16, 4), 2U) << "readers may come";
    EXPECT_EQ(word(20, 4), 1U) << "changes";
    EXPECT_EQ(word(24, 4), 0U) << "waiting";
    EXPECT_EQ(word(28, 4), 1U) << "used";
    EXPECT_EQ(word(32, 8), 0x1122334455667788U) << "session";
    EXPECT_EQ(word(40, 8), 0x0102030405060708U) << "durable";
    EXPECT_EQ(word(48, 8), 0x0807060504030201U) << "home";
    EXPECT_EQ(word(56, 8), static_cast<std::uint64_t>(::getpid()));
    EXPECT_EQ(word(64, 8), 0U) << "left by: nobody has taken a turn";
    EXPECT_EQ(word(72, 8), 0U) << "mark";
    EXPECT_EQ(word(80, 8), 0x21U) << "writes";
    EXPECT_EQ(word(88, 8), 0x22U) << "bytes written";
    EXPECT_EQ(word(96, 8), 0x23U) << "nanoseconds";
    EXPECT_EQ(word(4096, 8), 0x0a0b0c0dU + 2) << "holds";
    EXPECT_EQ(word(4104, 8), static_cast<std::uint64_t>(::getpid()));
    EXPECT_NE(word(4112, 8), 0U) << "open";
    EXPECT_GE(word(4120, 8), word(4112, 8)) << "refresh";
    EXPECT_TRUE(std::all_of(bytes.begin() + 4128, bytes.end(), [](char byte) { return byte == 0; }));
    EXPECT_EQ(bytes.size(), 69'632U);
}

TEST_F(reader_tables, are_seen_at_a_glance_without_a_slot) {
    const auto glance = [&] { return must(reader_table::glance(persist::posix_storage(), paths_)); };
    EXPECT_EQ(glance().writer, writer_kind::none) << "there is no file";
    std::ofstream(paths_.readers()) << "short";
    EXPECT_EQ(glance().writer, writer_kind::none);
    const auto writer = open(missing_file::make);
    writer->begin_session(7, 5, 4);
    writer->tell({11, 12, 13});
    const auto reader = open();
    ASSERT_TRUE(reader->take());
    reader->set_version(5);
    const auto opening = open();
    ASSERT_TRUE(opening->take());
    const readers_glance seen = glance();
    EXPECT_EQ(seen.writer, writer_kind::beside);
    EXPECT_EQ(seen.writer_pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_EQ(seen.durable, 5U);
    EXPECT_EQ(seen.home, 4U);
    EXPECT_EQ(seen.costs.writes, 11U);
    EXPECT_EQ(seen.costs.bytes, 12U);
    EXPECT_EQ(seen.costs.nanoseconds, 13U);
    ASSERT_EQ(seen.readers.size(), 2U);
    EXPECT_EQ(seen.readers[0].version, 5U);
    EXPECT_EQ(seen.readers[1].version, std::nullopt);
    reader->leave();
    EXPECT_EQ(glance().readers.size(), 1U);
    writer->set_writer(writer_kind::alone);
    EXPECT_EQ(glance().writer, writer_kind::alone);
    EXPECT_EQ(glance().durable, 0U) << "what is told is of an earlier session";
    damage(0, {'X'});
    EXPECT_EQ(glance().writer, writer_kind::none);
}

TEST_F(reader_tables, say_at_a_glance_nothing_of_the_dead) {
    base::child_process writer([&] {
        const auto own = open(missing_file::make);
        own->begin_session(7, 5, 5);
        const bool taken = own->take().ok();
        for (;;) {
            ::pause();
        }
        return taken;
    });
    const auto glance = [&] { return must(reader_table::glance(persist::posix_storage(), paths_)); };
    EXPECT_TRUE(writer.runs_until([&] { return glance().writer_pid != 0 && !glance().readers.empty(); }));
    writer.kill();
    const readers_glance seen = glance();
    EXPECT_EQ(seen.writer, writer_kind::none);
    EXPECT_EQ(seen.writer_pid, 0U);
    EXPECT_TRUE(seen.readers.empty());
}

/// Nothing is written to a file that somebody else has put there.
TEST_F(reader_tables, leave_other_files_as_they_are) {
    const std::string mine(100'000, 'm');
    std::ofstream(paths_.readers()) << mine;
    EXPECT_EQ(open(), nullptr);
    std::ifstream file(paths_.readers());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), mine);
}

TEST_F(reader_tables, that_are_damaged_or_short_are_none_and_made_anew) {
    ASSERT_NE(open(missing_file::make), nullptr);
    damage(0, {'X'});
    EXPECT_EQ(open(), nullptr);
    ASSERT_NE(open(missing_file::make), nullptr);
    EXPECT_NE(open(), nullptr);
    std::filesystem::resize_file(paths_.readers(), 100);
    EXPECT_EQ(open(), nullptr);
    ASSERT_NE(open(missing_file::make), nullptr);
    EXPECT_NE(open(), nullptr);
}

TEST_F(reader_tables, say_which_versions_are_in_use) {
    const auto writer = open(missing_file::make);
    writer->begin_session(7, 5, 5);
    EXPECT_FALSE(writer->any(dead_readers::do_not_count));
    EXPECT_EQ(writer->oldest(9), 9U);
    const auto one = open();
    const auto other = open();
    ASSERT_TRUE(one->take());
    EXPECT_EQ(writer->oldest(9), 0U) << "it may read anything";
    EXPECT_FALSE(writer->try_exclude());
    EXPECT_EQ(one->writer(), writer_kind::beside);
    one->set_version(6);
    ASSERT_TRUE(other->take());
    other->set_version(4);
    EXPECT_EQ(writer->oldest(9), 4U);
    {
        const reader_table::standstill all(one.get(), 6);
        EXPECT_EQ(writer->oldest(9), 0U);
    }
    other->leave();
    EXPECT_EQ(writer->oldest(9), 6U);
    one->leave();
    EXPECT_EQ(writer->oldest(9), 9U);
    EXPECT_TRUE(writer->try_exclude());
    EXPECT_EQ(one->writer(), writer_kind::excluding);
    writer->admit();
    EXPECT_EQ(one->writer(), writer_kind::beside);
}

TEST_F(reader_tables, hold_nothing_for_the_dead) {
    const auto writer = open(missing_file::make);
    writer->begin_session(7, 5, 5);
    base::child_process reader([&] {
        const auto own = open();
        const bool taken = own->take().ok();
        own->set_version(3);
        for (;;) {
            ::pause();
        }
        return taken;
    });
    ASSERT_TRUE(reader.runs_until([&] { return writer->oldest(9) == 3; }));
    EXPECT_EQ(writer->readers().size(), 1U);
    reader.kill();
    EXPECT_TRUE(writer->readers().empty());
    EXPECT_FALSE(writer->any(dead_readers::do_not_count));
    EXPECT_EQ(writer->oldest(9), 9U);
}

/// A killed writer leaves its word behind.
TEST_F(reader_tables, do_not_wait_for_a_dead_writer) {
    ASSERT_NE(open(missing_file::make), nullptr);
    base::shared_memory<std::atomic<bool>> opens;
    base::child_process writer([&] {
        const auto own = open();
        own->set_writer(writer_kind::opening);
        *opens = true;
        for (;;) {
            ::pause();
        }
    });
    ASSERT_TRUE(writer.runs_until([&] { return opens->load(); }));
    const auto reader = open();
    EXPECT_EQ(reader->writer_pid(), static_cast<std::uint64_t>(writer.id()));
    writer.kill();
    EXPECT_EQ(reader->writer(), writer_kind::opening);
    EXPECT_EQ(reader->writer_pid(), 0U);
    ASSERT_TRUE(reader->take());
    const auto start = std::chrono::steady_clock::now();
    { const reader_table::standstill all(reader.get(), 1); }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

/// Whoever may write the heap may write anything here; nobody believes more than there can be.
TEST_F(reader_tables, with_nonsense_in_them_do_no_harm) {
    const auto writer = open(missing_file::make);
    writer->begin_session(7, 5, 5);
    damage(28, {'\xff', '\xff', '\xff', '\xff'});  // used
    for (std::uint64_t slot = 0; slot < reader_slots; ++slot) {
        damage(sizeof(reader_table_on_file) + slot * sizeof(reader_slot_on_file), {'\x55', '\x55', 1});
    }
    EXPECT_FALSE(writer->any(dead_readers::do_not_count)) << "nobody has locked these slots";
    EXPECT_TRUE(writer->readers().empty());
    const auto reader = open();
    ASSERT_TRUE(reader->take());
    reader->set_version(5);
    EXPECT_EQ(writer->oldest(9), 5U);
}

TEST_F(reader_tables, have_so_many_slots) {
    const auto writer = open(missing_file::make);
    std::vector<std::unique_ptr<reader_table>> readers;
    for (std::uint32_t i = 0; i < reader_slots; ++i) {
        readers.push_back(open());
        ASSERT_TRUE(readers.back()->take()) << i;
    }
    const auto refused = open()->take();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::failure_code::limit);
    readers.pop_back();
    EXPECT_TRUE(open()->take().ok());
}

}  // namespace
}  // namespace holdfast::segment
