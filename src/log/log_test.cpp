#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "log/log_test_support.hpp"

namespace holdfast::log {
namespace {

TEST_F(log_test, records_come_back_in_their_order) {
    std::vector<std::string> written;
    {
        const auto opened = open();
        ASSERT_TRUE(opened.ok()) << opened.error().message();
        EXPECT_TRUE(seen.empty());
        for (std::uint64_t size : {0UL, 1UL, 7UL, 8UL, 4048UL, 4096UL, 9000UL, (*opened)->largest_payload(), 3UL}) {
            written.emplace_back(size, static_cast<char>('a' + written.size()));
            put(**opened, written.back(), static_cast<std::uint16_t>(written.size()));
        }
    }
    ASSERT_TRUE(open().ok());
    ASSERT_EQ(seen.size(), written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
        EXPECT_EQ(seen[i].payload, written[i]);
        EXPECT_EQ(seen[i].kind, i + 1);
        EXPECT_EQ(seen[i].sequence, i + 1);
    }
}

TEST_F(log_test, counts_the_writes_that_threads_waited_for) {
    const auto opened = open();
    const log_counts before = (*opened)->counts();
    put(**opened, "one");
    static_cast<void>((*opened)->append(0, bytes_of(std::string("two"))).value());
    put(**opened, "three");
    const log_counts after = (*opened)->counts();
    EXPECT_EQ(after.writes, before.writes + 2) << "the second covers two records";
    EXPECT_EQ(after.bytes, before.bytes + 2 * base::page_size);
    EXPECT_GT(after.nanoseconds, before.nanoseconds);
}

TEST_F(log_test, parts_are_one_payload) {
    {
        const auto opened = open();
        const std::string first = "first, ";
        const std::string second;
        const std::string third = "third";
        const std::array parts{bytes_of(first), bytes_of(second), bytes_of(third)};
        ASSERT_TRUE((*opened)->wait((*opened)->append(0, parts).value().sequence).ok());
    }
    ASSERT_TRUE(open().ok());
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen.front().payload, "first, third");
}

TEST_F(log_test, a_record_that_does_not_fit_begins_the_next_file) {
    const auto opened = open();
    const std::string large(file_size / 2 - header_size, 'x');
    put(**opened, large);
    EXPECT_EQ(put(**opened, large).position, file_size) << "two halves fill the file";
    const mark third = put(**opened, "x");
    EXPECT_EQ(third.position, file_size + space_of(1));
    ASSERT_TRUE(open().ok());
    EXPECT_EQ(seen.size(), 3U);
}

TEST_F(log_test, a_larger_record_than_a_file_is_refused_and_the_log_goes_on) {
    const auto opened = open();
    const auto refused = (*opened)->append(0, bytes_of(std::string((*opened)->largest_payload() + 1, 'x')));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, base::failure_code::limit);
    put(**opened, "x");
}

TEST_F(log_test, files_that_are_released_are_used_again) {
    const auto opened = open();
    const std::string text(3000, 'x');
    mark last;
    for (int i = 0; i < 200; ++i) {
        last = put(**opened, text);
        (*opened)->release(last);
        EXPECT_LE(numbers().size(), 4U);
    }
    EXPECT_GT(last.position / file_size, 30U);
    put(**opened, "behind the mark");
    ASSERT_TRUE(open(last).ok());
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen.front().payload, "behind the mark");
}

TEST_F(log_test, what_is_not_released_stays) {
    const auto opened = open();
    const std::string text(3000, 'x');
    const mark first = put(**opened, text);
    for (int i = 0; i < 60; ++i) {
        put(**opened, text);
        (*opened)->release(first);
    }
    ASSERT_TRUE(open(first).ok());
    EXPECT_EQ(seen.size(), 60U);
}

// Two writers have the log by turns, durably; each finds files that the other has made, renamed or removed.
TEST_F(log_test, writers_that_take_turns_go_on_behind_one_another) {
    std::mt19937 random(1);
    std::array<std::unique_ptr<log>, 2> writers;
    std::vector<std::pair<mark, std::string>> written{{mark(), ""}};  // from the begin on, which is the first
    mark end;
    unsigned kept = 0;
    unsigned opened_anew = 0;
    for (unsigned turn = 0; turn < 600; ++turn) {
        std::unique_ptr<log>& mine = writers.at(random() % 2);
        const mark begin = written.front().first;
        if (mine != nullptr && mine->go_on_behind(end, begin.position, false)) {
            ++kept;
        } else {
            log_options chosen = options();
            chosen.oldest = begin.position;
            mine = log::open(persist::posix_storage(), chosen, end, [](const record&) {
                       return base::result<void>(base::failure{});
                   }).value();
            ++opened_anew;
        }
        for (unsigned i = random() % 4; i > 0; --i) {
            const std::string text(1 + random() % 900, static_cast<char>('a' + turn % 26));
            written.emplace_back(put(*mine, text), text);
        }
        end = mine->end();
        if (random() % 4 == 0) {
            written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(random() % written.size()));
            mine->release(written.front().first);
            EXPECT_LE(numbers().size(), (end.position - written.front().first.position) / file_size + 8);
        }
        if (random() % 16 == 0) {
            ASSERT_TRUE(mine->reserve(1 + random() % 4, 0).ok());
        }
    }
    EXPECT_GT(kept, 3 * opened_anew);
    EXPECT_GT(end.position, 20 * file_size);
    ASSERT_TRUE(open(written.front().first).ok());
    ASSERT_EQ(seen.size(), written.size() - 1);
    for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_EQ(seen[i].payload, written[i + 1].second);
        EXPECT_EQ(seen[i].end, written[i + 1].first);
    }
}

TEST_F(log_test, a_writer_does_not_go_on_behind_what_it_cannot_tell) {
    const auto opened = open();
    const mark first = put(**opened, "first");
    const mark second = put(**opened, "second");
    EXPECT_FALSE((*opened)->go_on_behind(first, 0, false));
    EXPECT_FALSE((*opened)->go_on_behind({second.position + file_size, 3, 3}, 0, false));
    EXPECT_FALSE((*opened)->go_on_behind({file_size, 3, 3}, 0, false));
    EXPECT_TRUE((*opened)->go_on_behind(second, 0, false));
    static_cast<void>((*opened)->append(0, bytes_of(std::string("third"))).value());
    EXPECT_FALSE((*opened)->go_on_behind((*opened)->end(), 0, false)) << "nobody waited for the last one";
    put(**opened, "fourth");
    ASSERT_TRUE(open().ok());
    EXPECT_EQ(seen.size(), 4U);
}

TEST_F(log_test, a_later_opening_goes_on_behind_the_last_record) {
    for (unsigned i = 0; i < 20; ++i) {
        const auto opened = open();
        ASSERT_TRUE(opened.ok()) << opened.error().message();
        ASSERT_EQ(seen.size(), i);
        put(**opened, std::string(500 * i, 'x'));
    }
}

TEST_F(log_test, a_record_of_which_a_byte_is_wrong_ends_the_log) {
    for (const std::uint64_t wrong : {0UL, 8UL, 16UL, 24UL, 32UL, 40UL, 44UL, 48UL, 52UL}) {
        mark second;
        {
            const auto opened = open();
            put(**opened, "first");
            second = put(**opened, "second");
            put(**opened, "third");
        }
        flip(second.position - space_of(6) + wrong);
        ASSERT_TRUE(open().ok());
        EXPECT_EQ(seen.size(), 1U) << wrong;
        std::error_code ignored;
        std::filesystem::remove(path_of(0), ignored);
    }
}

/// A retry writes the same bytes, so no checksum of content tells the two writers apart.
TEST_F(log_test, a_record_behind_a_hole_does_not_follow_the_next_writers_record) {
    mark second;
    {
        const auto opened = open();
        put(**opened, "first");
        second = put(**opened, "second");
        put(**opened, "third");
    }
    flip(second.position - 8);
    {
        const auto opened = open();
        ASSERT_EQ(seen.size(), 1U);
        EXPECT_EQ(put(**opened, "second").position, second.position);
    }
    ASSERT_TRUE(open().ok());
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen.back().payload, "second");
}

TEST_F(log_test, records_of_another_log_do_not_count) {
    put(**open(), "x");
    log_options other = options();
    ++other.key;
    unsigned visited = 0;
    const auto opened = log::open(persist::posix_storage(), other, {}, [&](const record& /*each*/) {
        ++visited;
        return base::result<void>();
    });
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(visited, 0U);
}

TEST_F(log_test, a_log_whose_first_file_is_missing_is_refused) {
    const mark first = put(**open(), "x");
    ASSERT_TRUE(std::filesystem::remove(path_of(0)));
    const auto opened = open(first);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().path, path_of(0));
}

TEST_F(log_test, what_a_visitor_refuses_the_opening_refuses) {
    put(**open(), "x");
    const auto opened = log::open(persist::posix_storage(), options(), {}, [](const record& /*each*/) {
        base::failure what;
        what.code = base::failure_code::corrupt;
        what.field = "payload";
        return base::result<void>(what);
    });
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().field, "payload");
}

TEST_F(log_test, other_names_are_no_files_of_the_log) {
    for (const char* name : {"log.00000", "log.0000001", "log.000000x", "log.", "other.000000"}) {
        ASSERT_TRUE(persist::posix_storage().create(options().place.directory + "/" + name, "test.create").ok());
    }
    EXPECT_TRUE(numbers().empty());
    put(**open(), "x");
    EXPECT_EQ(numbers(), std::vector<std::uint64_t>{0});
}

TEST_F(log_test, reserved_files_are_all_that_is_needed_until_they_are_full) {
    constexpr std::uint64_t files = 5;
    const std::string text(file_size / 2, 'x');  // one in each file
    mark begin;
    for (const std::uint64_t empty : {files, files - 1}) {  // the second time, the first file is in use
        const auto opened = open(begin);
        ASSERT_TRUE(opened.ok());
        for (int again = 0; again < 2; ++again) {
            ASSERT_TRUE((*opened)->reserve(files, 0).ok());
            EXPECT_EQ(numbers().size(), files);
        }
        for (std::uint64_t i = 0; i < empty; ++i) {
            begin = put(**opened, text);
            EXPECT_EQ(numbers().size(), files) << i;
        }
        (*opened)->release(begin);
        EXPECT_GE(numbers().size(), files) << "they stay";
    }
}

TEST_F(log_test, files_that_are_reserved_for_later_are_written_when_they_are_used) {
    const auto bytes_written_in = [this](unsigned number) {
        const int file = ::open(path_of(number).c_str(), O_RDONLY | O_CLOEXEC);
        const off_t begin = ::lseek(file, 0, SEEK_DATA);
        const off_t end = begin < 0 ? begin : ::lseek(file, begin, SEEK_HOLE);
        ::close(file);
        return static_cast<std::uint64_t>(end - begin);
    };
    const auto opened = open();
    ASSERT_TRUE((*opened)->reserve(4, 0, file_content::later).ok());
    EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{0, 1, 2, 3}));
    for (unsigned number = 1; number < 4; ++number) {
        EXPECT_EQ(file(number)->size().value(), file_size);
        EXPECT_EQ(bytes_written_in(number), 0U) << "of file " << number;
    }
    const std::string text(file_size * 2 / 5, 'x');  // two in each file
    mark end;
    for (int i = 0; i < 3; ++i) {
        end = put(**opened, text);
    }
    EXPECT_EQ(bytes_written_in(1), file_size) << "a later record changes no metadata of the file system";
    EXPECT_EQ(bytes_written_in(2), 0U);
    (*opened)->release(end);
    static_cast<void>(put(**opened, text));
    static_cast<void>(put(**opened, text));
    EXPECT_EQ(numbers().size(), 4U);
    EXPECT_EQ(bytes_written_in(2), file_size);
}

TEST_F(log_test, a_reader_follows_the_writer) {
    const auto opened = open();
    const log_files files(persist::posix_storage(), options().place);
    log_reader reader(files, options().key, {});
    record found;
    EXPECT_FALSE(reader.next(found).value());
    for (int i = 0; i < 40; ++i) {
        const std::string text(static_cast<std::size_t>(i) * 100, static_cast<char>('a' + i % 26));
        const mark written = put(**opened, text);
        ASSERT_TRUE(reader.next(found).value()) << i;
        EXPECT_EQ(text_of(found.payload), text);
        EXPECT_EQ(reader.end(), written);
        EXPECT_FALSE(reader.next(found).value());
    }
}

TEST_F(log_test, a_reader_that_knows_of_more_records_than_there_are_says_so) {
    const auto opened = open();
    const mark first = put(**opened, "x");
    const log_files files(persist::posix_storage(), options().place);
    log_reader reader(files, options().key, {});
    record found;
    EXPECT_TRUE(reader.require(first.sequence, found).ok());
    EXPECT_TRUE(reader.require(first.sequence, found).ok()) << "no further one is asked for";
    const auto missing = reader.require(first.sequence + 1, found);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, base::failure_code::corrupt);
    EXPECT_EQ(missing.error().found, "1");
}

TEST_F(log_test, records_that_were_written_out_are_durable_with_the_next_that_is) {
    mark last;
    {
        const auto opened = open();
        const std::string text(5000, 'x');
        for (unsigned i = 1; i <= 7; ++i) {  // over several files
            last = (*opened)->append_part(1, bytes_of(text)).value();
            ASSERT_TRUE((*opened)->write_out(last.sequence).ok());
            EXPECT_FALSE((*opened)->is_durable(last.sequence));
            const log_files files(persist::posix_storage(), options().place);
            log_reader reader(files, options().key, {});
            record found;
            for (unsigned there = 1; there <= i; ++there) {
                EXPECT_TRUE(reader.next(found).value()) << there << " of " << i;
            }
        }
        EXPECT_EQ((*opened)->counts().writes, 0U);
        last = put(**opened, "the end");
        EXPECT_TRUE((*opened)->is_durable(last.sequence));
        EXPECT_EQ((*opened)->counts().writes, 1U);
    }
    ASSERT_TRUE(open().ok());
    ASSERT_EQ(seen.size(), 8U);
    EXPECT_EQ(seen.back().payload, "the end");
}

/// What follows the last record, by a reader that has read all that count.
class log_tail_test : public log_test {
protected:
    struct tail {
        bool is_torn = false;
        bool is_followed = false;
    };
    [[nodiscard]] tail look() const {
        const log_files files(persist::posix_storage(), options().place);
        log_reader reader(files, options().key, {});
        record found;
        while (reader.next(found).value()) {
        }
        return {reader.is_torn().value(), reader.is_followed().value()};
    }
};

TEST_F(log_tail_test, of_a_log_that_was_written_whole_has_nothing) {
    const auto opened = open();
    EXPECT_FALSE(look().is_torn);
    mark last;
    for (std::size_t size = 1; last.position < 6 * file_size; size += 61) {  // ends of files and pages are met
        last = put(**opened, std::string(size % 4000, 'x'));
        EXPECT_FALSE(look().is_torn) << size;
        (*opened)->release(last);  // files are used again
    }
    while (last.position % base::page_size != 0) {
        last = put(**opened, std::string((base::page_size - last.position % base::page_size + 4000) % 4096 + 8, 'x'));
        EXPECT_FALSE(look().is_torn);
    }
}

TEST_F(log_tail_test, tells_a_damaged_record_from_a_torn_one) {
    mark second;
    {
        const auto opened = open();
        put(**opened, "one");
        second = put(**opened, "two");
        put(**opened, "three");
    }
    EXPECT_FALSE(look().is_torn);
    flip(second.position + header_size);
    EXPECT_TRUE(look().is_torn);
    EXPECT_FALSE(look().is_followed);
    flip(second.position + header_size);
    flip(second.position - record_alignment);
    EXPECT_TRUE(look().is_torn);
    EXPECT_TRUE(look().is_followed);
}

/// A device writes the sectors of one write in any order.
TEST_F(log_tail_test, takes_a_record_that_a_loss_of_power_tore_in_a_group_for_torn) {
    mark first;
    mark fourth;
    {
        const auto opened = open();
        first = put(**opened, "one");
        for (const char* const text : {"two", "three", "four"}) {
            const auto bytes = std::as_bytes(std::span{text, std::strlen(text)});
            ASSERT_TRUE((*opened)->append(0, bytes).ok());
        }
        fourth = (*opened)->end();
        ASSERT_TRUE((*opened)->wait(fourth.sequence).ok());
        put(**opened, "five");
    }
    flip(first.position + header_size);
    EXPECT_TRUE(look().is_torn);
    EXPECT_TRUE(look().is_followed) << "the fifth one was made when the second one was durable";
    flip(fourth.position + 2 * sizeof(std::uint64_t));
    EXPECT_TRUE(look().is_torn);
    EXPECT_FALSE(look().is_followed) << "a power cut may leave the fourth one and not the second";
}

TEST_F(log_test, that_is_settled_is_as_one_that_is_opened_and_makes_no_file) {
    mark last;
    {
        const auto opened = open();
        put(**opened, "one");
        last = put(**opened, "two");
    }
    const auto names = numbers();
    const auto ignore = [](const record&) { return base::result<void>(); };
    EXPECT_EQ(log::decide_end(persist::posix_storage(), options(), {}, ignore).value(), last);
    EXPECT_EQ(numbers(), names);
    mark behind = last;
    behind.position = file_size;
    EXPECT_EQ(log::decide_end(persist::posix_storage(), options(), behind, ignore).value(), behind);
    EXPECT_EQ(numbers(), names);
}

TEST_F(log_test, threads_that_wait_are_served_together) {
    constexpr std::uint16_t threads = 8;
    constexpr unsigned records = 50;
    {
        const auto opened = open();
        std::vector<std::jthread> all;
        for (std::uint16_t thread = 0; thread < threads; ++thread) {
            all.emplace_back([&, thread] {
                for (unsigned i = 0; i < records; ++i) {
                    const mark appended = put(**opened, fmt::format("{} {}", thread, i), thread);
                    EXPECT_TRUE((*opened)->is_durable(appended.sequence));
                }
            });
        }
    }
    ASSERT_TRUE(open().ok());
    ASSERT_EQ(seen.size(), threads * records);
    std::array<unsigned, threads> next{};
    for (const seen_record& each : seen) {
        EXPECT_EQ(each.payload, fmt::format("{} {}", each.kind, next.at(each.kind)++));
    }
}

}  // namespace
}  // namespace holdfast::log
