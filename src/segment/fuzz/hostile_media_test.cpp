// Cases that fuzzers found: media with good checksums and a content that no heap writes.
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/commit/log_content.hpp"
#include "segment/format/superblock.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class hostile_log_test : public testing::Test {
protected:
    hostile_log_test() {
        block_.sequence = 1;
        block_.heap_key = 1;
        block_.segment_size = minimum_segment_size;
        block_.frontier = region_size;
        block_.state = heap_state::running;
        block_.flags = flag_log;
        seal(block_);
        must(posix_storage().make_directory(paths_.directory(), "test"));
    }

    /// Records of a log that begins here.
    base::result<log_content> write_and_read(const std::vector<std::pair<std::uint16_t, std::vector<std::byte>>>& all) {
        {
            const auto none = [](const log::record&) { return base::result<void>(); };
            const auto log = must(log::log::open(posix_storage(), log_options_of(paths_, block_), {}, none));
            for (const auto& [kind, payload] : all) {
                must(log->wait(must(log->append(kind, payload)).sequence));
            }
        }
        return log_content::read(posix_storage(), paths_, block_);
    }
    [[nodiscard]] static std::vector<std::byte> commit_of(
        superblock_on_media said, const std::function<base::result<void>(record_writer&)>& entries) {
        const auto refuse = [](std::span<const std::byte>) { return base::result<void>(); };
        record_writer writer(2 * page_size + 1024, refuse);
        must(entries(writer));
        seal(said);
        return writer.finish(said);
    }
    [[nodiscard]] static std::vector<std::byte> commit_of(std::uint64_t place, const superblock_on_media& said) {
        return commit_of(said, [place](record_writer& writer) {
            return writer.pages(place, std::vector<std::byte>(page_size, std::byte{5}));
        });
    }
    [[nodiscard]] superblock_on_media next() const {
        superblock_on_media said = block_;
        ++said.sequence;
        return said;
    }

    test_directory directory_;
    heap_paths paths_{directory_.path("heap")};
    superblock_on_media block_ = blank_superblock();
};

TEST_F(hostile_log_test, whose_commit_is_sound_counts) {
    const log_content content = must(write_and_read({{record_commit, commit_of(place_of(0, 3), next())}}));
    EXPECT_EQ(content.commits(), 1U);
    EXPECT_EQ(content.patches().size(), 1U);
    EXPECT_FALSE(content.is_torn());
}

TEST_F(hostile_log_test, with_a_page_beyond_the_heap_is_refused) {
    for (const std::uint64_t place : {place_of(1, 0), place_of(0, 100'000), place_of(objects_file_id, 0)}) {
        const auto refused = write_and_read({{record_commit, commit_of(place, next())}});
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().field, "entry");
        std::filesystem::remove_all(paths_.directory() + "/log.000000");
    }
}

TEST_F(hostile_log_test, with_more_pages_at_home_than_the_heap_has_is_refused) {
    const auto refused =
        write_and_read({{record_commit, commit_of(next(), [](record_writer& writer) {
                             return writer.home(place_of(0, 0), std::numeric_limits<std::uint32_t>::max());
                         })}});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().field, "entry");
}

// Ranges of pages at home overlap, and each ends what earlier commits said of its pages.
TEST_F(hostile_log_test, with_pages_that_went_home_has_of_them_what_came_later) {
    const auto home = [](std::uint64_t first, std::uint64_t count) {
        return [=](record_writer& writer) { return writer.home(place_of(0, first), count); };
    };
    const auto page = [](std::uint64_t number, std::uint8_t value) {
        return [=](record_writer& writer) {
            return writer.pages(place_of(0, number), std::vector<std::byte>(page_size, std::byte{value}));
        };
    };
    const std::vector<std::function<base::result<void>(record_writer&)>> commits{
        page(2, 1), page(9, 1), home(1, 4), page(2, 2), page(3, 3), home(3, 9), home(0, 2), page(10, 4)};
    std::vector<std::pair<std::uint16_t, std::vector<std::byte>>> records;
    superblock_on_media said = block_;
    for (const auto& commit : commits) {
        ++said.sequence;
        records.emplace_back(record_commit, commit_of(said, commit));
    }
    const log_content content = must(write_and_read(records));
    std::vector<std::pair<std::uint64_t, std::uint32_t>> left;
    for (const log_content::patch& patch : content.patches()) {
        left.emplace_back(patch.place, patch.commit);
    }
    EXPECT_THAT(left, ElementsAre(Pair(place_of(0, 2), 3), Pair(place_of(0, 10), 7)));
}

TEST_F(hostile_log_test, of_another_heap_or_commit_is_refused) {
    superblock_on_media other = next();
    other.uuid[5] ^= 1;
    superblock_on_media later = next();
    ++later.sequence;
    superblock_on_media keyed = next();  // was: a writer read the log anew with this key, and found no record
    ++keyed.heap_key;
    for (const auto& [said, field] :
         {std::pair{other, "uuid"}, std::pair{later, "sequence"}, std::pair{keyed, "key"}}) {
        const auto refused = write_and_read({{record_commit, commit_of(place_of(0, 3), said)}});
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::corrupt);
        EXPECT_THAT(refused.error().field, HasSubstr(field));
        EXPECT_EQ(refused.error().path, paths_.directory() + "/log.000000");
        std::filesystem::remove_all(paths_.directory() + "/log.000000");
    }
}

TEST_F(hostile_log_test, with_payloads_that_no_commit_has_is_refused) {
    const std::vector<std::byte> good = commit_of(place_of(0, 3), next());
    const auto changed = [&](std::size_t at, std::uint8_t value) {
        std::vector<std::byte> payload = good;
        payload.at(at) = std::byte{value};
        return payload;
    };
    const std::size_t entry = 8 + superblock_used;
    const std::vector<std::pair<std::uint16_t, std::vector<std::byte>>> records{
        {3, good},
        {record_commit, {}},
        {record_commit, {good.begin(), good.begin() + 100}},
        {record_commit, {good.begin(), good.end() - 8}},
        {record_commit, changed(0, 1)},           // size of the superblock
        {record_commit, changed(4, 1)},           // parts
        {record_commit, changed(8, 1)},           // magic
        {record_commit, changed(entry + 8, 9)},   // kind
        {record_commit, changed(entry + 8, 1)},   // ranges
        {record_commit, changed(entry + 12, 0)},  // none
        {record_part, good},
    };
    for (const auto& record : records) {
        const auto refused = write_and_read({record});
        ASSERT_FALSE(refused.ok()) << record.first << ", " << record.second.size();
        EXPECT_NE(refused.error().code, failure_code::none);
        std::filesystem::remove_all(paths_.directory() + "/log.000000");
    }
}

class hostile_heap_test : public testing::Test {
protected:
    hostile_heap_test() {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        const auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->commit({}));
        must(files->close_cleanly());
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(hostile_heap_test, with_a_file_whose_number_is_too_large_opens) {
    for (const char* name : {"segment.99999999999999999999999", "segment.0000007"}) {
        std::ofstream(path_ + "/" + name) << "not ours";
        EXPECT_TRUE(heap_files::open(posix_storage(), path_, access_mode::read_write, {}).ok()) << name;
        EXPECT_THAT(names_in(path_), Contains(name));
    }
}

TEST_F(hostile_heap_test, at_the_last_number_refuses_commits_and_stays) {
    superblock_on_media block{};
    std::memcpy(&block, content_of(path_ + "/superblock").data(), sizeof block);
    block.sequence = std::numeric_limits<std::uint64_t>::max();
    seal(block);
    const auto file = must(posix_storage().open(path_ + "/superblock", access_mode::read_write));
    must(write_superblocks(*file, block));
    {
        const auto files = must(heap_files::open(posix_storage(), path_, access_mode::read_write, {}));
        files->view().base()[0] = std::byte{1};
        const auto refused = files->commit({});
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::limit);
    }
    EXPECT_TRUE(heap_files::open(posix_storage(), path_, access_mode::read_write, {}).ok());
}

TEST(hostile_address_test, null_begins_no_range) {
    const auto range = address_range::exactly(nullptr, region_size);
    ASSERT_FALSE(range.ok());
    EXPECT_EQ(range.error().code, failure_code::address_taken);
}

}  // namespace
}  // namespace holdfast::segment
