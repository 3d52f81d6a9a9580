// What a scanner finds, against a model: a page that is stored to and not found is lost silently. The commit is made of
// a write to the file and a drop of what was found.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/commit/dirty_pages.hpp"
#include "segment/commit/write_watch_test_support.hpp"
#include "segment/files/address_range.hpp"
#include "segment/test_support.hpp"

// Since Linux 5.4.
#if !defined(MADV_PAGEOUT)
#define MADV_PAGEOUT 21
#endif

namespace holdfast::segment {
namespace {

using base::page_size;
using memory_of = dirty_scanner::memory_of;

/// Each segment is a mapping of its own.
constexpr std::uint64_t segment_pages = 512;
constexpr std::uint64_t segments = 5;
constexpr std::uint64_t pages_in_all = segments * segment_pages;

enum class pages_are { in_memory, on_disk, small, huge };

class watched_memory : public testing::TestWithParam<std::tuple<store_watch, pages_are>> {
protected:
    watched_memory()
        : directory_(std::get<1>(GetParam()) == pages_are::in_memory ? place::memory : place::disk),
          range_(must(address_range::anywhere(pages_in_all * page_size, 0, 2 * base::mebibyte))),
          scanner_(must(dirty_scanner::open(&watch_, std::get<0>(GetParam())))),
          file_(::open(directory_.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
          committed_(pages_in_all),
          now_(pages_in_all) {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(range_.size())), 0);
        for (std::uint64_t page = 0; page < pages_in_all / 2; ++page) {
            committed_[page] = now_[page] = page + 1;
            EXPECT_EQ(::pwrite(file_.get(), &now_[page], sizeof now_[page], place_in_file(page)), 8);
        }
        for (std::uint64_t segment = 0; segment < segments; ++segment) {
            map(segment);
        }
    }
    ~watched_memory() override { range_ = {}; }  // goes before watch_

    void map(std::uint64_t segment) {
        const std::uint64_t at = segment * segment_pages * page_size;
        const std::uint64_t bytes = segment_pages * page_size;
        must(map_file(range_.begin() + at, bytes, file_.get(), at, "file"));
        if (std::get<1>(GetParam()) == pages_are::small) {
            keep_pages_small(range_.begin() + at, bytes);
        } else if (std::get<1>(GetParam()) == pages_are::huge) {
            choose_pages(range_.begin() + at, bytes, huge_pages::advise, false);
        }
    }

    static off_t place_in_file(std::uint64_t page) {
        return static_cast<off_t>(page * page_size + page % (page_size / 8) * 8);
    }
    std::uint64_t* word(std::uint64_t page) {
        return reinterpret_cast<std::uint64_t*>(range_.begin() + place_in_file(page));
    }
    [[nodiscard]] std::uint64_t read(std::uint64_t page) { return *const_cast<volatile std::uint64_t*>(word(page)); }

    /// By the program, or by a call of the kernel.
    void store(std::uint64_t page, std::uint64_t value) {
        now_[page] = value;
        iovec from{&value, sizeof value};
        iovec to{word(page), sizeof value};
        switch (value % 8) {
            case 0: EXPECT_EQ(::process_vm_writev(::getpid(), &from, 1, &to, 1, 0), 8); break;
            case 1: {
                std::array<int, 2> pipe{};
                EXPECT_EQ(::pipe(pipe.data()), 0);
                EXPECT_EQ(::write(pipe[1], &value, sizeof value), 8);
                EXPECT_EQ(::read(pipe[0], word(page), sizeof value), 8);
                ::close(pipe[0]);
                ::close(pipe[1]);
                break;
            }
            default: *const_cast<volatile std::uint64_t*>(word(page)) = value;
        }
    }

    /// Whatever differs from the last commit is found.
    std::vector<memory_run> find() {
        std::vector<memory_run> runs;
        must(scanner_.scan(range_.begin(), scanned_ * page_size, runs, memory_of::user));
        std::set<std::uint64_t> found;
        for (const memory_run& run : runs) {
            for (std::uint64_t i = 0; i < run.pages; ++i) {
                found.insert(static_cast<std::uint64_t>(run.address - range_.begin()) / page_size + i);
            }
        }
        for (std::uint64_t page = 0; page < scanned_; ++page) {
            EXPECT_TRUE(now_[page] == committed_[page] || found.contains(page)) << "page " << page << " is lost";
        }
        return runs;
    }
    void commit() {
        scanner_.begin_commit();
        const auto runs = find();
        for (const memory_run& run : runs) {
            const auto bytes = static_cast<ssize_t>(run.pages * page_size);
            EXPECT_EQ(::pwrite(file_.get(), run.address, run.pages * page_size, run.address - range_.begin()), bytes);
            drop_private_pages(run.address, run.pages * page_size);
        }
        scanner_.end_commit();
        std::copy_n(now_.begin(), scanned_, committed_.begin());
    }
    void commit_that_fails() {
        scanner_.begin_commit();
        find();
    }
    /// Memory and file are what they should be.
    void check() {
        for (std::uint64_t page = 0; page < pages_in_all; ++page) {
            ASSERT_EQ(read(page), now_[page]) << page;
            std::uint64_t there = 0;
            ASSERT_EQ(::pread(file_.get(), &there, sizeof there, place_in_file(page)), 8);
            ASSERT_EQ(there, committed_[page]) << page;
        }
    }
    [[nodiscard]] bool is_changed(std::uint64_t first, std::uint64_t end) const {
        return !std::equal(now_.begin() + static_cast<std::ptrdiff_t>(first),
                           now_.begin() + static_cast<std::ptrdiff_t>(end),
                           committed_.begin() + static_cast<std::ptrdiff_t>(first));
    }
    void do_something_else(std::mt19937_64& random);

    write_watch watch_;
    test_directory directory_;
    address_range range_;
    dirty_scanner scanner_;
    persist::descriptor file_;
    std::uint64_t scanned_ = pages_in_all / 2;
    std::vector<std::uint64_t> committed_;
    std::vector<std::uint64_t> now_;
};

void watched_memory::do_something_else(std::mt19937_64& random) {
    const std::uint64_t first = random() % pages_in_all;
    const std::uint64_t pages = 1 + random() % std::min<std::uint64_t>(200, pages_in_all - first);
    std::byte* const at = range_.begin() + first * page_size;
    switch (random() % 7) {
        case 0: static_cast<void>(::madvise(at, pages * page_size, MADV_PAGEOUT)); break;
        case 1: EXPECT_TRUE(base::run_in_child([at] { std::memset(at, 0xee, page_size); }).succeeded()); break;
        case 2: {
            const std::uint64_t segment = random() % segments;
            if (!is_changed(segment * segment_pages, (segment + 1) * segment_pages)) {
                map(segment);
            }
            break;
        }
        case 3:
            if (!is_changed(first, first + pages)) {
                must(try_to_drop_private_pages(at, pages * page_size));
                must(set_rights(at, pages * page_size, page_rights::none));
                must(set_rights(at, pages * page_size, page_rights::read_write));
            }
            break;
        case 4:
            if (!is_changed(first, first + pages)) {
                drop_private_pages(at, pages * page_size);
                EXPECT_EQ(::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      static_cast<off_t>(first * page_size), static_cast<off_t>(pages * page_size)),
                          0);
                std::fill_n(now_.begin() + static_cast<std::ptrdiff_t>(first), pages, 0);
                std::fill_n(committed_.begin() + static_cast<std::ptrdiff_t>(first), pages, 0);
            }
            break;
        case 5: scanned_ = std::clamp<std::uint64_t>(first, 1, pages_in_all); break;
        default: scanner_.keep(random() % 2 == 0 ? std::vector<memory_run>{} : std::vector<memory_run>{{at, pages}});
    }
}

TEST_P(watched_memory, loses_no_store) {
    std::mt19937_64 random(7);
    std::uint64_t value = pages_in_all;
    for (int round = 0; round < 400; ++round) {
        if (round == 350) {
            watch_.set_guarded();
        }
        const std::uint64_t stores = random() % 4 == 0 ? random() % 600 : random() % 20;
        const std::uint64_t around = random() % scanned_;
        for (std::uint64_t i = 0; i < stores; ++i) {
            store(random() % 3 == 0 ? (around + i) % scanned_ : random() % scanned_, ++value);
        }
        for (std::uint64_t i = random() % 200; i > 0; --i) {
            static_cast<void>(read(random() % pages_in_all));
        }
        switch (random() % 8) {
            case 0: find(); break;
            case 1: commit_that_fails(); break;
            case 2: do_something_else(random); break;
            default: commit();
        }
        if (round % 16 == 15) {
            check();
        }
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
}

/// Else a commit would write what nobody stored to, and a close would commit.
TEST_P(watched_memory, finds_nothing_where_nothing_was_stored) {
    scanned_ = pages_in_all;
    for (int round = 0; round < 3; ++round) {
        for (std::uint64_t page = 0; page < pages_in_all; page += 3) {
            store(page, page * 8 + 3);
        }
        find();
        commit();
        check();  // reads all
        EXPECT_TRUE(find().empty());
        commit();
        EXPECT_TRUE(find().empty());
    }
}

TEST_P(watched_memory, finds_again_what_a_commit_that_failed_found) {
    scanned_ = pages_in_all;
    commit();
    for (const std::uint64_t page : {0U, 1U, 700U}) {
        store(page, page * 8 + 3);
    }
    commit_that_fails();
    commit_that_fails();
    store(900, 3);
    find();
    commit_that_fails();
    commit();
    check();
    EXPECT_TRUE(find().empty());
}

std::string name_of_parameters(const testing::TestParamInfo<std::tuple<store_watch, pages_are>>& info) {
    const std::string how = std::get<0>(info.param) == store_watch::never ? "private_pages" : "noted_stores";
    switch (std::get<1>(info.param)) {
        case pages_are::in_memory: return how + "_of_a_file_in_memory";
        case pages_are::on_disk: return how + "_of_a_file_on_disk";
        case pages_are::small: return how + "_of_small_pages";
        case pages_are::huge: return how + "_of_huge_pages";
    }
    return how;
}

INSTANTIATE_TEST_SUITE_P(, watched_memory,
                         testing::Combine(testing::ValuesIn(ways_to_find()),
                                          testing::Values(pages_are::in_memory, pages_are::on_disk, pages_are::small,
                                                          pages_are::huge)),
                         name_of_parameters);

}  // namespace
}  // namespace holdfast::segment
