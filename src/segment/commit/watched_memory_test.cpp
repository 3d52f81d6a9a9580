// What a scanner finds, against a model: a page that is stored to and not found is lost silently. The commit is made of
// a write to the file, and a drop of what was found and does not stay warm.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <system_error>
#include <tuple>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/commit/committer.hpp"
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
          saved_(pages_in_all),
          now_(pages_in_all) {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(range_.size())), 0);
        for (std::uint64_t page = 0; page < pages_in_all / 2; ++page) {
            committed_[page] = saved_[page] = now_[page] = page + 1;
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

    /// Whatever differs from the last commit is found. `noted`: perhaps of find_noted().
    std::vector<memory_run> find(const noted_pages& noted = {}) {
        std::vector<memory_run> runs;
        must(scanner_.scan(range_.begin(), scanned_ * page_size, runs, noted));
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
    void write(std::byte* begin, std::uint64_t pages) {
        const auto bytes = static_cast<ssize_t>(pages * page_size);
        EXPECT_EQ(::pwrite(file_.get(), begin, pages * page_size, begin - range_.begin()), bytes);
    }
    /// `own`: a page that the commit itself stores to behind its scan.
    void commit(commit_of what = commit_of::everything, std::optional<std::uint64_t> own = {}) {
        constexpr std::uint64_t few = 30;
        scanner_.begin_commit();
        const noted_pages noted = what == commit_of::transaction ? scanner_.find_noted() : noted_pages();
        times_known_ += noted ? 1U : 0U;
        std::vector<memory_run> runs = find(noted);
        if (own) {
            now_[*own] += pages_in_all;
            *const_cast<volatile std::uint64_t*>(word(*own)) = now_[*own];
            runs.push_back({range_.begin() + *own * page_size, 1});
            scanner_.note_own_stores(runs.back().address, 1);
        }
        for (const memory_run& run : runs) {
            write(run.address, run.pages);
            for (std::uint64_t i = 0; i < run.pages; ++i) {
                std::byte* const page = run.address + i * page_size;
                if (run.pages > few || !scanner_.keep_warm(page)) {
                    drop_private_pages(page, page_size);
                }
            }
        }
        if (!noted && scanner_.warm().is_full()) {
            scanner_.warm().shrink([](std::byte* page) { drop_private_pages(page, page_size); });
        }
        scanner_.end_commit();
        scanned_last_ = scanned_;
        std::copy_n(now_.begin(), scanned_, committed_.begin());
        std::copy_n(now_.begin(), scanned_, saved_.begin());
    }
    /// Whatever differs from the last savepoint, or the last commit where that came later, is found.
    void find_since_savepoint(const noted_pages& noted) {
        std::vector<memory_run> runs;
        must(scanner_.scan(range_.begin(), scanned_ * page_size, runs, noted, dirty_scanner::memory_of::user,
                           stores_since::savepoint));
        std::uint64_t page = 0;
        for (const memory_run& run : runs) {
            const auto first = static_cast<std::uint64_t>(run.address - range_.begin()) / page_size;
            for (; page < first; ++page) {
                EXPECT_EQ(now_[page], saved_[page]) << "page " << page << " is lost";
            }
            page = first + run.pages;
        }
        for (; page < scanned_; ++page) {
            EXPECT_EQ(now_[page], saved_[page]) << "page " << page << " is lost";
        }
    }
    void savepoint() {
        scanner_.begin_savepoint();
        find_since_savepoint(scanner_.find_noted());
        scanner_.end_savepoint();
        scanned_last_ = scanned_;
        std::copy_n(now_.begin(), scanned_, saved_.begin());
    }
    void savepoint_that_fails(bool scans) {
        scanner_.begin_savepoint();
        const noted_pages noted = scanner_.find_noted();
        if (scans) {
            find_since_savepoint(noted);
        }
        scanner_.give_up();
    }
    /// Memory goes back to the last commit.
    void abort() {
        for (const memory_run& run : find(scanner_.find_noted())) {
            drop_private_pages(run.address, run.pages * page_size);
        }
        std::copy_n(committed_.begin(), scanned_, now_.begin());
        std::copy_n(committed_.begin(), scanned_, saved_.begin());
    }
    void commit_that_fails() {
        scanner_.begin_commit();
        find();
    }
    /// Where it says that nobody has stored, nobody has since the last commit or savepoint.
    void expect_stores_where_it_says_so() {
        if (scanner_.is_untouched()) {
            ++times_untouched_;
            const auto end = static_cast<std::ptrdiff_t>(std::min(scanned_, scanned_last_));
            EXPECT_TRUE(std::equal(now_.begin(), now_.begin() + end, saved_.begin()));
        }
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
    std::vector<std::uint64_t> saved_;  ///< at the last savepoint or commit
    std::vector<std::uint64_t> now_;
    std::uint64_t times_known_ = 0;   ///< commits that did not look at all memory
    std::uint64_t scanned_last_ = 0;  ///< by the last commit or savepoint
    std::uint64_t times_untouched_ = 0;
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
                std::fill_n(saved_.begin() + static_cast<std::ptrdiff_t>(first), pages, 0);
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
        const std::optional<std::uint64_t> own =
            random() % 2 == 0 ? std::optional<std::uint64_t>() : random() % scanned_;
        expect_stores_where_it_says_so();
        switch (random() % 16) {
            case 0: find(); break;
            case 1: commit_that_fails(); break;
            case 2: do_something_else(random); break;
            case 3: find(scanner_.find_noted()); break;
            case 4: abort(); break;
            case 5:
            case 6: commit(commit_of::everything, own); break;
            case 7:
            case 8:
            case 9: savepoint(); break;
            case 10: find_since_savepoint(scanner_.find_noted()); break;
            case 11: savepoint_that_fails(round % 2 == 0); break;
            default: commit(commit_of::transaction, own);
        }
        if (round % 16 == 15) {
            check();
        }
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
}

TEST_P(watched_memory, knows_that_nobody_has_stored) {
    scanned_ = pages_in_all;
    for (std::uint64_t round = 0; round < 200; ++round) {
        if (round % 3 != 0) {
            store(round * 13 % pages_in_all, (pages_in_all + round) * 8 + 1 + round % 7);
        }
        expect_stores_where_it_says_so();
        if (round % 4 == 3) {
            savepoint();
        } else {
            commit(commit_of::transaction);
        }
        expect_stores_where_it_says_so();
    }
    if (std::get<0>(GetParam()) == store_watch::everywhere) {
        EXPECT_GT(times_untouched_, 50U);
    }
}

TEST_P(watched_memory, has_at_a_savepoint_what_came_since_the_last_one) {
    scanned_ = pages_in_all;
    commit();
    const auto found = [&](stores_since since) {
        std::vector<memory_run> runs;
        must(scanner_.scan(range_.begin(), scanned_ * page_size, runs, {}, dirty_scanner::memory_of::user, since));
        std::uint64_t pages = 0;
        for (const memory_run& run : runs) {
            pages += run.pages;
        }
        return pages;
    };
    constexpr std::uint64_t step = 40;
    for (std::uint64_t i = 0; i < 10; ++i) {
        store(i * step, pages_in_all + 10 * i + 2);
        if (std::get<0>(GetParam()) == store_watch::everywhere) {
            EXPECT_EQ(found(stores_since::savepoint), 1U);
        }
        EXPECT_GE(found(stores_since::commit), i + 1);
        savepoint();
    }
    commit(commit_of::transaction);
    check();
}

/// A program that stores to the same pages again and again, and at times to others.
TEST_P(watched_memory, is_not_searched_where_faults_tell_all) {
    std::mt19937_64 random(11);
    scanned_ = pages_in_all;
    commit();
    constexpr int rounds = 400;
    std::uint64_t value = pages_in_all;
    for (int round = 0; round < rounds; ++round) {
        const std::uint64_t first = round % 100 < 90 ? 700 : random() % (pages_in_all - 40);
        for (int i = 0; i < 10; ++i) {
            store(first + random() % 40, ++value * 8 + 1 + static_cast<std::uint64_t>(i % 7));
        }
        if (round % 5 == 4) {
            abort();
        } else {
            commit(commit_of::transaction, round % 3 == 0 ? std::optional<std::uint64_t>(20) : std::nullopt);
        }
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
    check();
    if (std::get<0>(GetParam()) == store_watch::everywhere) {
        EXPECT_GT(times_known_, rounds / 4);
    }
}

/// Was: what the search had protected was lost where the commit ended before it scanned the page's memory.
TEST_P(watched_memory, loses_no_store_of_a_commit_that_was_given_up) {
    std::mt19937_64 random(13);
    scanned_ = pages_in_all;
    commit();
    std::uint64_t value = pages_in_all;
    for (int round = 0; round < 100; ++round) {
        for (int i = 0; i < 5; ++i) {
            store(700 + random() % 40, ++value * 8 + 1);
        }
        if (round % 4 == 3) {
            scanner_.begin_commit();
            static_cast<void>(scanner_.find_noted());
            scanner_.give_up();
            find();
        }
        commit(commit_of::transaction);
        ASSERT_FALSE(HasFailure()) << "round " << round;
    }
    check();
}

/// A process that stores to another one's memory when it is told to.
class other_process {
public:
    other_process() {
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // needed under Yama, which refuses otherwise
        const pid_t parent = ::getpid();
        if (::pipe(told_.data()) != 0 || ::pipe(done_.data()) != 0) {
            throw std::system_error(errno, std::generic_category(), "pipe");
        }
        process_.emplace([parent, told = told_[0], done = done_[1]] {
            for (wish now{}; ::read(told, &now, sizeof now) == sizeof now;) {
                iovec from{&now.value, sizeof now.value};
                iovec to{now.place, sizeof now.value};
                const bool stored = ::process_vm_writev(parent, &from, 1, &to, 1, 0) == sizeof now.value;
                static_cast<void>(::write(done, &stored, 1));
            }
        });
    }
    other_process(const other_process&) = delete;
    other_process& operator=(const other_process&) = delete;
    ~other_process() {
        process_.reset();
        for (const int each : {told_[0], told_[1], done_[0], done_[1]}) {
            ::close(each);
        }
    }
    void store(std::uint64_t* place, std::uint64_t value) {
        const wish now{place, value};
        bool stored = false;
        EXPECT_EQ(::write(told_[1], &now, sizeof now), static_cast<ssize_t>(sizeof now));
        EXPECT_EQ(::read(done_[0], &stored, 1), 1);
        EXPECT_TRUE(stored);
    }

private:
    struct wish {
        std::uint64_t* place;
        std::uint64_t value;
    };
    std::array<int, 2> told_{};
    std::array<int, 2> done_{};
    std::optional<base::child_process> process_;
};

/// The other process shares memory with this one, which has a fault at the first store to each page.
void touch(std::uint64_t& word) { const_cast<volatile std::uint64_t&>(word) = word; }

/// A count of faults does not have what another process stored, which must not be taken for a store of this one.
TEST_P(watched_memory, loses_no_store_beside_another_process) {
    scanned_ = pages_in_all;
    commit();
    other_process other;
    std::uint64_t value = pages_in_all;
    for (const std::uint64_t page_of_other : {702U, 900U, 702U}) {
        for (int round = 0; round < 40; ++round) {
            for (std::uint64_t page = 700; page < 705; ++page) {
                store(page, ++value * 8 + 3);
            }
            std::ranges::for_each(now_, [](std::uint64_t& each) { touch(each); });
            commit(commit_of::transaction);
        }
        // At the first store to a page that is not in memory there are two faults.
        for (const std::uint64_t page : {page_of_other, page_of_other + 1}) {
            other.store(word(page), ++value * 8);
        }
        static_cast<void>(scanner_.find_noted());
        store(1500, ++value * 8 + 3);
        commit(commit_of::transaction);
        for (const std::uint64_t page : {page_of_other, page_of_other + 1}) {
            now_[page] = read(page);
            EXPECT_EQ(::pread(file_.get(), &committed_[page], sizeof committed_[page], place_in_file(page)), 8);
        }
        commit();
        check();
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
