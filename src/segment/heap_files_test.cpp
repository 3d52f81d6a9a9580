#include "segment/heap_files.hpp"

#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "base/under_qemu.hpp"
#include "segment/format/heap_format.hpp"
#include "segment/format/superblock.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::failure_code;
using base::page_size;
using base::pages;
using persist::access_mode;
using persist::posix_storage;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

creation_options small_segments() {
    creation_options options;
    options.segment_size = minimum_segment_size;
    options.mapping.reservation = base::gibibyte;
    return options;
}

class heap_files_test : public testing::Test {
protected:
    [[nodiscard]] std::unique_ptr<heap_files> create(const creation_options& options = small_segments()) const {
        auto files = must(heap_files::create(posix_storage(), path_, options));
        must(files->grow({1}));
        must(files->commit({}));
        return files;
    }
    [[nodiscard]] std::unique_ptr<heap_files> open(access_mode mode = access_mode::read_write) const {
        return must(heap_files::open(posix_storage(), path_, mode, {}));
    }
    static void fill(heap_files& files, std::uint64_t page, int value) {
        std::memset(files.view().base() + page * page_size, value, page_size);
    }
    static int first_byte(const heap_files& files, std::uint64_t page) {
        return static_cast<int>(files.view().base()[page * page_size]);
    }
    static std::vector<base::failure> problems_of(const heap_files& files) {
        std::vector<base::failure> problems;
        must(files.verify(problems, 100));
        return problems;
    }
    [[nodiscard]] std::string crash(const std::string& name) const {
        fs::copy(path_, directory_.path(name), fs::copy_options::recursive);
        return directory_.path(name);
    }

    test_directory directory_;
    std::string path_ = directory_.path("heap");
};

TEST_F(heap_files_test, that_are_copies_say_so_until_they_have_their_space) {
    must(create()->close_cleanly());
    EXPECT_FALSE(open()->copies().is_copied());
    EXPECT_FALSE(open(access_mode::read_only)->copies().is_copied());
    fs::rename(path_, directory_.path("renamed"));
    path_ = directory_.path("renamed");
    EXPECT_FALSE(open()->copies().is_copied());
    path_ = crash("copy");
    EXPECT_TRUE(open(access_mode::read_only)->copies().is_copied());
    EXPECT_TRUE(open()->copies().is_copied());
    {
        auto files = open();
        EXPECT_TRUE(files->copies().is_copied()) << "to open one is not enough";
        must(files->copies().reserve({{{0}, {region_pages}}}, {{{16}, {16}}}));
        EXPECT_FALSE(files->copies().is_copied());
    }
    EXPECT_FALSE(open()->copies().is_copied());
    // A crash before the first commit of a session is one of that heap, and not of what it was copied from.
    path_ = crash("copy of the copy");
    auto files = open();
    EXPECT_TRUE(files->copies().is_copied());
    must(files->grow({1}));
    must(files->commit({}));
    files.reset();
    EXPECT_TRUE(open()->copies().is_copied()) << "a commit alone reserves nothing of before";
}

TEST_F(heap_files_test, that_were_never_committed_leave_nothing_behind) {
    {
        auto files = must(heap_files::create(posix_storage(), path_, small_segments()));
        must(files->grow({1000}));
        must(files->grow_objects(1));
        EXPECT_THAT(names_in(path_), Not(Contains("superblock")));
    }
    EXPECT_FALSE(fs::exists(path_));
}

TEST_F(heap_files_test, are_refused_where_something_is) {
    fs::create_directory(path_);
    std::ofstream(path_ + "/notes.txt") << "mine";
    auto refused = heap_files::create(posix_storage(), path_, small_segments());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::already_exists);
    EXPECT_THAT(names_in(path_), ElementsAre("notes.txt"));
    fs::remove(path_ + "/notes.txt");
    std::ofstream(path_ + "/segment.000003") << "remains of a creation that was cut off";
    EXPECT_TRUE(heap_files::create(posix_storage(), path_, small_segments()).ok());
}

TEST_F(heap_files_test, grow_by_whole_regions_into_accessible_memory) {
    const auto files = create();
    EXPECT_EQ(files->frontier().value, region_pages);
    const pages added = must(files->grow({region_pages + 1}));
    EXPECT_EQ(added.value, 2 * region_pages);
    EXPECT_EQ(files->frontier().value, 3 * region_pages);
    for (std::uint64_t page = 0; page < 3 * region_pages; ++page) {
        EXPECT_EQ(files->view().page_entry_word({page}), 0U);
        fill(*files, page, 1);
    }
    EXPECT_THAT(names_in(path_), ElementsAre("lock", "log.000000", "log.000001", "objects", "segment.000000",
                                             "segment.000001", "segment.000002", "superblock"));
    EXPECT_EQ(fs::file_size(path_ + "/segment.000002"), files->view().shape().file_size());
}

TEST_F(heap_files_test, reserve_what_they_grow_by_on_disk) {
    const test_directory disk(place::disk);
    auto files = must(heap_files::create(posix_storage(), disk.path("heap"), small_segments()));
    must(files->grow({4 * region_pages}));
    EXPECT_GE(must(files->statistics()).charged_bytes, 4 * region_size);
    EXPECT_EQ(must(files->statistics()).segments, 4U);
}

TEST_F(heap_files_test, are_as_they_were_after_growth_was_refused) {
    creation_options options = small_segments();
    options.mapping.capacity = 3 * region_size + 5;
    const auto files = create(options);
    fill(*files, 0, 7);
    const auto names = names_in(path_);
    for (const std::uint64_t wanted : {3 * region_pages, 1000 * region_pages, ~std::uint64_t{0} / page_size}) {
        const auto refused = files->grow({wanted});
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::no_space);
        EXPECT_EQ(refused.error().field, "maximum size");
        EXPECT_EQ(files->frontier().value, region_pages);
        EXPECT_EQ(names_in(path_), names);
    }
    EXPECT_EQ(must(files->grow({2 * region_pages})).value, 2 * region_pages) << "as much as fits is given";
    EXPECT_FALSE(files->grow({1}).ok());
    must(files->commit({}));
    EXPECT_EQ(first_byte(*files, 0), 7);
}

TEST_F(heap_files_test, keep_their_frontier_where_a_segment_cannot_be_made) {
    const auto files = create();
    fs::create_directories(path_ + "/segment.000002/in the way");
    const auto refused = files->grow({2 * region_pages});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(files->frontier().value, region_pages);
    EXPECT_FALSE(fs::exists(path_ + "/segment.000001")) << "what was reserved before is given back";
    fs::remove_all(path_ + "/segment.000002");
    must(files->grow({2 * region_pages}));
    fill(*files, 3 * region_pages - 1, 3);
    must(files->commit({}));
    EXPECT_THAT(problems_of(*files), IsEmpty());
}

TEST_F(heap_files_test, do_not_write_free_pages) {
    auto files = create();
    fill(*files, 10, 1);
    fill(*files, 20, 1);
    must(files->commit({}));
    must(files->grow({region_pages}));
    for (const std::uint64_t page : {10U, 20U, 600U, 601U, 602U}) {
        fill(*files, page, 2);
    }
    const free_runs free{{{20}, {1}}, {{601}, {1}}, {{700}, {100}}};
    const auto numbers = must(files->commit(free));
    // Fresh: pages 600 and 602, other pages of their huge page that are not free, and the new segment's checksum page.
    // Logged: page 10 and the old segment's checksum page.
    EXPECT_GE(numbers.fresh_pages, 3U);
    EXPECT_LE(numbers.fresh_pages, region_pages - 101 + 1);
    EXPECT_EQ(numbers.logged_pages, 2U);
    const auto byte_in_file = [&](std::uint64_t page) {
        return content_of(fmt::format("{}/segment.{:06}", path_, page / region_pages))[page % region_pages * page_size];
    };
    EXPECT_EQ(byte_in_file(10), std::byte{2});
    EXPECT_EQ(byte_in_file(20), std::byte{1});
    EXPECT_EQ(byte_in_file(600), std::byte{2});
    EXPECT_EQ(byte_in_file(601), std::byte{0});
    EXPECT_EQ(byte_in_file(602), std::byte{2});
    EXPECT_TRUE(must(files->unchanged(free)));
    EXPECT_TRUE(must(files->unchanged({})));
    EXPECT_THAT(problems_of(*files), IsEmpty());
}

TEST_F(heap_files_test, are_sound_when_pages_of_a_refused_commit_are_freed) {
    auto files = create();
    fill(*files, 10, 1);
    fill(*files, 11, 1);
    must(files->commit({}));
    must(files->grow({region_pages}));
    for (const std::uint64_t page : {10U, 11U, 600U}) {
        fill(*files, page, 2);
    }
    must(files->grow_objects(1));
    fs::rename(path_ + "/superblock", path_ + "/superblock.away");
    EXPECT_FALSE(files->commit({}).ok());
    fs::rename(path_ + "/superblock.away", path_ + "/superblock");
    must(files->commit({{{10}, {1}}, {{600}, {1}}}));
    EXPECT_EQ(first_byte(*files, 11), 2);
    for (const base::failure& problem : problems_of(*files)) {
        ADD_FAILURE() << problem.message();
    }
}

TEST_F(heap_files_test, lose_what_was_not_committed) {
    auto files = create();
    fill(*files, 3, 1);
    must(files->commit({}));
    fill(*files, 3, 2);
    must(files->grow({5 * region_pages}));
    files.reset();
    EXPECT_THAT(names_in(path_), Contains("segment.000005"));
    files = open();
    EXPECT_TRUE(files->recovered());
    EXPECT_EQ(files->replayed().commits, 1U) << "no checkpoint has come since";
    EXPECT_EQ(first_byte(*files, 3), 1);
    EXPECT_EQ(files->frontier().value, region_pages);
    EXPECT_THAT(names_in(path_), ElementsAre("lock", "objects", "segment.000000", "superblock"));
}

TEST_F(heap_files_test, forget_what_a_crash_left_beyond_the_frontier) {
    creation_options options = small_segments();
    options.segment_size = 2 * minimum_segment_size;
    auto files = create(options);
    files.reset();
    overwrite(path_ + "/segment.000000", (region_pages + 1) * page_size,
              std::vector<std::byte>(page_size, std::byte{9}));
    fs::resize_file(path_ + "/objects", 10 * page_size);
    std::ofstream(path_ + "/superblock.new") << "half";
    files = open();
    EXPECT_THAT(names_in(path_), Not(Contains("superblock.new")));
    EXPECT_EQ(fs::file_size(path_ + "/objects"), 0U);
    must(files->grow({region_pages}));
    must(files->commit({}));
    EXPECT_EQ(first_byte(*files, region_pages + 1), 0) << "fresh space that was not written reads as zero";
}

TEST_F(heap_files_test, of_a_log_look_the_same_to_readers_and_to_recovery) {
    auto files = create();
    must(files->grow({2 * region_pages}));
    must(files->grow_objects(1));
    must(files->commit({}));
    const std::string before = crash("crashed");
    std::mt19937_64 random(3);
    for (int i = 0; i < 50; ++i) {
        fill(*files, random() % (3 * region_pages), 1 + i);
    }
    std::memset(files->objects() + 5 * page_size, 5, 100);
    files->view().page_entry_word({700}) = 42;
    must(files->commit({}));
    const std::vector<std::byte> expected(files->view().base(), files->view().base() + 3 * region_size);
    for (const std::string& name : names_in(path_)) {
        if (name.starts_with("log.")) {
            fs::copy_file(path_ + "/" + name, before + "/" + name, fs::copy_options::overwrite_existing);
        }
    }
    const auto files_before = content_of(before + "/segment.000001");

    const auto check = [&](const heap_files& opened) {
        EXPECT_TRUE(opened.recovered());
        EXPECT_GT(opened.replayed().commits, 0U);
        EXPECT_EQ(opened.superblock().sequence, files->superblock().sequence);
        EXPECT_EQ(std::memcmp(opened.view().base(), expected.data(), expected.size()), 0);
        EXPECT_EQ(opened.view().page_entry_word({700}), 42U);
        EXPECT_EQ(std::memcmp(opened.objects(), files->objects(), files->objects_size()), 0);
    };
    {
        const auto reader = must(heap_files::open(posix_storage(), before, access_mode::read_only, {}));
        check(*reader);
        const auto second = must(heap_files::open(posix_storage(), before, access_mode::read_only, {}));
        check(*second);
    }
    EXPECT_EQ(content_of(before + "/segment.000001"), files_before) << "readers change nothing";
    mapping_options watched;
    watched.on_replay.interval = {};
    watched.on_replay.tell = [](std::uint64_t, std::uint64_t) { throw std::runtime_error("no more"); };
    EXPECT_THROW(static_cast<void>(heap_files::open(posix_storage(), before, access_mode::read_write, watched)),
                 std::runtime_error);
    std::vector<std::uint64_t> told;
    watched.on_replay.tell = [&told](std::uint64_t done, std::uint64_t all) {
        EXPECT_LE(done, all);
        told.push_back(all - done);
    };
    const auto writer = must(heap_files::open(posix_storage(), before, access_mode::read_write, watched));
    check(*writer);
    ASSERT_GT(told.size(), 1U);
    EXPECT_TRUE(std::ranges::is_sorted(told, std::greater<>()));
    EXPECT_EQ(told.back(), 0U);
    EXPECT_THAT(problems_of(*writer), IsEmpty());
}

TEST_F(heap_files_test, are_read_only_where_opened_so) {
    create().reset();
    const auto superblock = content_of(path_ + "/superblock");
    const auto reader = open(access_mode::read_only);
    fill(*reader, 1, 9);
    for (const failure_code code :
         {reader->grow({1}).error().code, reader->grow_objects(1).error().code, reader->commit({}).error().code}) {
        EXPECT_EQ(code, failure_code::read_only);
    }
    EXPECT_EQ(content_of(path_ + "/superblock"), superblock);
    EXPECT_EQ(first_byte(*open(access_mode::read_only), 1), 0);
}

TEST_F(heap_files_test, are_clean_after_a_clean_close_and_running_from_the_first_change) {
    auto files = create();
    must(files->commit({}));
    must(files->close_cleanly());
    EXPECT_THAT(names_in(path_), ElementsAre("lock", "objects", "segment.000000", "superblock"));
    files.reset();
    files = open();
    EXPECT_FALSE(files->recovered());
    EXPECT_TRUE(must(files->unchanged({})));
    EXPECT_EQ(files->superblock().state, heap_state::clean);
    must(files->grow({1}));
    EXPECT_FALSE(must(files->unchanged({})));
    files.reset();
    EXPECT_TRUE(open(access_mode::read_only)->recovered());
}

TEST_F(heap_files_test, keep_a_checksum_of_every_page_where_the_format_says) {
    auto files = create();
    must(files->grow_objects(1));
    fill(*files, 77, 5);
    files->view().page_entry_word({8}) = 99;
    files->objects()[3 * page_size] = std::byte{1};
    must(files->commit({}));
    const geometry shape = files->view().shape();
    const auto segment = content_of(path_ + "/segment.000000");
    const auto entry = [&](std::uint64_t page) {
        std::uint32_t checksum = 0;
        std::memcpy(&checksum, segment.data() + shape.segment_size + shape.checksums_at() + page * checksum_entry_size,
                    sizeof checksum);
        return checksum;
    };
    const auto page = [&](std::uint64_t index) { return std::span(segment).subspan(index * page_size, page_size); };
    EXPECT_EQ(entry(77), base::page_checksum(page(77)));
    EXPECT_EQ(entry(78), 0U) << "never written";
    const std::uint64_t entries_page = shape.pages() + shape.page_entries_at() / page_size;
    EXPECT_EQ(entry(entries_page), base::page_checksum(page(entries_page)));
    EXPECT_EQ(entry(checksums_per_page), base::page_checksum(std::span(segment).subspan(
                                             shape.segment_size + shape.checksums_at(), page_size - 4)));
    const auto objects = content_of(path_ + "/objects");
    std::uint64_t checksum = 0;
    std::memcpy(&checksum, objects.data() + 3 * sizeof checksum, sizeof checksum);
    EXPECT_EQ(checksum, base::checksum64(std::span(objects).subspan(3 * page_size, page_size)));
    std::memcpy(&checksum, objects.data(), sizeof checksum);
    EXPECT_EQ(checksum, base::checksum64(std::span(objects).subspan(sizeof checksum, page_size - sizeof checksum)));
}

TEST_F(heap_files_test, with_one_wrong_page_are_found_out) {
    auto files = create();
    must(files->grow({region_pages}));
    must(files->grow_objects(600 * page_size));
    for (const std::uint64_t page : {0U, 511U, 512U, 1023U}) {
        fill(*files, page, 1);
        files->view().page_entry_word({page}) = 5;
        files->view().live_bitmap(base::granule_of(pages{page}))[3] = 6;
    }
    files->view().slab_header({1}).block_size = 64;
    for (const std::uint64_t page : {1U, 511U, 513U, 599U}) {
        std::memset(files->objects() + page * page_size, 3, page_size);
    }
    must(files->commit({}));
    must(files->close_cleanly());
    const geometry shape = files->view().shape();
    files.reset();

    const std::uint64_t metadata = shape.pages();
    const std::uint64_t checksums = metadata + shape.checksums_at() / page_size;
    const std::vector<std::pair<std::string, std::uint64_t>> places{{"segment.000000", 0},
                                                                    {"segment.000000", 511},
                                                                    {"segment.000001", 0},
                                                                    {"segment.000001", 511},
                                                                    {"segment.000000", metadata},
                                                                    {"segment.000000", metadata + 1},
                                                                    {"segment.000001", metadata + 1},
                                                                    {"segment.000000", metadata + 2},
                                                                    {"segment.000001", checksums},
                                                                    {"segment.000000", checksums},
                                                                    {"objects", 0},
                                                                    {"objects", 1},
                                                                    {"objects", 511},
                                                                    {"objects", 512},
                                                                    {"objects", 513},
                                                                    {"objects", 599}};
    const superblock_on_media superblock = open(access_mode::read_only)->superblock();
    for (const auto& [name, page] : places) {
        SCOPED_TRACE(fmt::format("{} page {}", name, page));
        const std::string path = path_ + "/" + name;
        const auto byte = content_of(path)[page * page_size + 17];
        overwrite(path, page * page_size + 17, {byte ^ std::byte{1}});
        std::vector<base::failure> problems;
        must(verify_pages(posix_storage(), heap_paths(path_), superblock, problems, 100));
        ASSERT_FALSE(problems.empty());
        EXPECT_EQ(problems.front().code, failure_code::corrupt);
        EXPECT_EQ(problems.front().path, path);
        EXPECT_THAT(problems.front().field, HasSubstr(fmt::format("page {}", page)));
        mapping_options verifying;
        verifying.verify = true;
        EXPECT_FALSE(heap_files::open(posix_storage(), path_, access_mode::read_only, verifying).ok());
        const auto opened = heap_files::open(posix_storage(), path_, access_mode::read_only, {});
        const bool is_bitmap = name != "objects" && page == metadata + 2;
        EXPECT_EQ(opened.ok(), name == "objects" || page < metadata || is_bitmap) << "tables are verified at open";
        if (is_bitmap) {
            EXPECT_FALSE(opened.value()->bitmaps().admit({3}).ok()) << "bitmaps when they are first used";
            EXPECT_TRUE(opened.value()->bitmaps().admit({4}).ok());
            EXPECT_FALSE(opened.value()->bitmaps().admit_all().ok());
        }
        overwrite(path, page * page_size + 17, {byte});
    }
    EXPECT_THAT(problems_of(*open()), IsEmpty());
}

/// What a heap's memory holds, page by page, as far as it is known.
class memory_model {
public:
    using page_content = std::vector<std::byte>;

    /// Some bytes of a random page, sometimes the whole.
    void scribble(heap_files& files, std::mt19937_64& random) {
        const std::uint64_t user = files.frontier().value;
        const std::uint64_t of_metadata = files.view().shape().checksums_at() / page_size;
        const std::uint64_t segments = base::divide_up(user, files.view().shape().pages());
        const std::uint64_t metadata = segments * of_metadata;
        const std::uint64_t objects = files.objects_size() / page_size;
        std::uint64_t place = random() % (user + metadata + objects);
        if (place < user) {
            write(files, {0, place}, random);
        } else if (place - user < metadata) {
            write(files, {1, place - user}, random);
        } else if ((place - user - metadata) % objects_group_pages != 0) {
            write(files, {2, place - user - metadata}, random);
        }
    }
    /// After a commit.
    void forget(const free_runs& free) {
        for (const auto& [first, length] : free) {
            for (std::uint64_t i = 0; i < length.value; ++i) {
                content_.erase({0, first.value + i});
            }
        }
    }
    void expect_equal(const heap_files& files) const {
        for (const auto& [position, content] : content_) {
            EXPECT_EQ(std::memcmp(address(files, position), content.data(), page_size), 0)
                << "area " << position.first << " page " << position.second;
        }
    }

private:
    using where = std::pair<int, std::uint64_t>;

    static std::byte* address(const heap_files& files, where place) {
        const auto [area, page] = place;
        const std::uint64_t of_metadata = files.view().shape().checksums_at() / page_size;
        switch (area) {
            case 0: return files.view().base() + page * page_size;
            case 1: return files.view().metadata_of(page / of_metadata) + page % of_metadata * page_size;
            default: return files.objects() + page * page_size;
        }
    }
    void write(heap_files& files, where place, std::mt19937_64& random) {
        std::byte* const target = address(files, place);
        const std::uint64_t from = random() % 4 == 0 ? 0 : random() % page_size;
        const std::uint64_t to = random() % 4 == 0 ? page_size : from + random() % (page_size - from) + 1;
        std::memset(target + from, static_cast<int>(random() % 256), to - from);
        content_[place] = page_content(target, target + page_size);
    }

    std::map<where, page_content> content_;
};

free_runs random_free(std::uint64_t frontier, std::mt19937_64& random) {
    free_runs free;
    for (std::uint64_t page = random() % 200; page < frontier;) {
        const std::uint64_t length = std::min(1 + random() % 40, frontier - page);
        free.emplace_back(pages{page}, pages{length});
        page += length + 1 + random() % 500;
    }
    return free;
}

TEST_F(heap_files_test, equal_a_model_over_growth_commits_and_reopening) {
    std::mt19937_64 random(5);
    auto files = create();
    must(files->grow_objects(1));
    memory_model present;
    memory_model committed;
    for (int round = 0; round < 120; ++round) {
        const std::uint64_t writes = random() % 60;
        for (std::uint64_t i = 0; i < writes; ++i) {
            present.scribble(*files, random);
        }
        if (random() % 8 == 0 && files->frontier().value < 24 * region_pages) {
            must(files->grow({1 + random() % (3 * region_pages)}));
        }
        if (random() % 10 == 0) {
            must(files->grow_objects(random() % (200 * page_size)));
        }
        if (random() % 3 != 0) {
            const free_runs free = random() % 2 == 0 ? free_runs{} : random_free(files->frontier().value, random);
            const bool clean = random() % 4 == 0;
            present.forget(free);
            must(random() % 2 == 0 ? files->commit(free) : files->commit(free, {free, {}}));
            if (clean) {
                must(files->close_cleanly());
            }
            committed = present;
            EXPECT_TRUE(must(files->unchanged(free)));
        }
        if (random() % 5 == 0) {
            files.reset();
            files = open();
            present = committed;
        }
        present.expect_equal(*files);
        if (round % 20 == 19) {
            EXPECT_THAT(problems_of(*files), IsEmpty());
        }
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
}

TEST_F(heap_files_test, a_slab_that_is_loaded_keeps_its_holes_and_one_that_is_made_is_mapped) {
    must(create()->close_cleanly());
    mapping_options mapping;
    mapping.shared = true;
    auto files = must(heap_files::open(posix_storage(), path_, access_mode::read_write, mapping));
    const base::granule slab{2};
    const auto charged = [&] { return must(files->statistics()).charged_bytes; };
    must(files->bitmaps().back(slab, bitmap_verifier::slab_is::loaded));
    must(files->space().give_back(base::first_page(slab), {base::pages_per_granule}));
    const std::uint64_t before = charged();
    must(files->bitmaps().back(slab, bitmap_verifier::slab_is::loaded));
    EXPECT_EQ(charged(), before);
    must(files->bitmaps().back(slab, bitmap_verifier::slab_is::made));
    if (base::under_qemu) {
        GTEST_SKIP() << "qemu-user accepts MADV_POPULATE_WRITE and does nothing";
    }
    EXPECT_EQ(charged(), before + base::granule_size);
}

/// Callers grow both under different locks, and both write the superblock.
TEST_F(heap_files_test, shared_space_and_objects_grow_at_once) {
    must(create()->close_cleanly());
    mapping_options mapping;
    mapping.shared = true;
    mapping.reservation = base::gibibyte;
    auto files = must(heap_files::open(posix_storage(), path_, access_mode::read_write, mapping));
    must(files->session().begin_incarnation(64, 1));
    for (int round = 0; round < 12; ++round) {  // by no more than 128 MiB each
        {
            const std::jthread other([&files] { must(files->grow_objects(page_size)); });
            must(files->grow({1}));
        }
        const std::vector<std::byte> media = content_of(path_ + "/superblock");
        for (const std::size_t copy : {std::size_t{0}, superblock_size}) {
            superblock_on_media found{};
            std::memcpy(&found, media.data() + copy, sizeof found);
            ASSERT_EQ(found.frontier, base::to_bytes(files->frontier())) << "round " << round;
            ASSERT_EQ(found.objects_size, files->objects_size()) << "round " << round;
        }
    }
}

}  // namespace
}  // namespace holdfast::segment
