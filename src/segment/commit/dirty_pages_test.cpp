#include "segment/commit/dirty_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/units.hpp"
#include "segment/files/address_range.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::page_size;
using method = dirty_scanner::method;

constexpr std::uint64_t page_count = 4096;
constexpr std::uint64_t huge_pages_of = 2 * base::mebibyte / page_size;

enum class memory { file_in_memory, file_on_disk, zeroed, zeroed_huge };

std::set<std::uint64_t> pages_of(const std::vector<memory_run>& runs, const std::byte* begin) {
    std::set<std::uint64_t> pages;
    const std::byte* end = nullptr;
    for (const memory_run& run : runs) {
        EXPECT_GT(run.pages, 0U);
        EXPECT_GT(run.address, end) << "runs are sorted, and neighbours merged";
        end = run.address + run.pages * page_size;
        for (std::uint64_t i = 0; i < run.pages; ++i) {
            pages.insert(static_cast<std::uint64_t>(run.address - begin) / page_size + i);
        }
    }
    return pages;
}

class dirty_pages : public testing::TestWithParam<std::tuple<method, memory>> {
protected:
    dirty_pages()
        : directory_(std::get<1>(GetParam()) == memory::file_on_disk ? place::disk : place::memory),
          range_(must(address_range::anywhere(page_count * page_size, 0, 2 * base::mebibyte))) {
        const auto how = std::get<1>(GetParam());
        if (how == memory::zeroed || how == memory::zeroed_huge) {
            must(map_zeroed(range_.begin(), range_.size(), how == memory::zeroed_huge));
            return;
        }
        const persist::descriptor file(::open(directory_.path("file").c_str(), O_RDWR | O_CREAT, 0600));
        EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(range_.size())), 0);
        const std::vector<char> text(range_.size() / 2, 'f');
        EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        must(map_file(range_.begin(), range_.size(), file.get(), 0, directory_.path("file")));
    }

    void write(std::uint64_t page) {
        auto* const target = reinterpret_cast<volatile unsigned char*>(range_.begin() + page * page_size);
        target[page % page_size] = 7;
        written_.insert(page);
    }
    void read(std::uint64_t page) {
        const auto* const target = reinterpret_cast<const volatile unsigned char*>(range_.begin() + page * page_size);
        static_cast<void>(target[page % page_size]);
        read_.insert(page);
    }
    void forget() {
        drop_private_pages(range_.begin(), range_.size());
        written_.clear();
        read_.clear();
    }

    /// A page that nobody wrote may be found for known reasons only.
    void check() {
        std::vector<memory_run> runs;
        must(scanner_.scan(range_.begin(), range_.size(), runs));
        const auto found = pages_of(runs, range_.begin());
        const auto [how, kind] = GetParam();
        for (const std::uint64_t page : written_) {
            EXPECT_TRUE(found.contains(page)) << page;
        }
        for (const std::uint64_t page : found) {
            const bool zero_page = how == method::pagemap_bits && kind == memory::zeroed && read_.contains(page);
            const bool part_of_huge = kind == memory::zeroed_huge && touched_near(page, how == method::pagemap_bits);
            EXPECT_TRUE(written_.contains(page) || zero_page || part_of_huge) << page;
        }
    }

    bool touched_near(std::uint64_t page, bool by_reading) const {
        const std::uint64_t first = page / huge_pages_of * huge_pages_of;
        const auto near = [first](const std::set<std::uint64_t>& pages) {
            const auto next = pages.lower_bound(first);
            return next != pages.end() && *next < first + huge_pages_of;
        };
        return near(written_) || (by_reading && near(read_));
    }

    test_directory directory_;
    address_range range_;
    dirty_scanner scanner_ = must(dirty_scanner::open(std::get<0>(GetParam())));
    std::set<std::uint64_t> written_;
    std::set<std::uint64_t> read_;
};

TEST_P(dirty_pages, are_none_at_first_and_after_reading) {
    check();
    std::vector<memory_run> runs;
    must(scanner_.scan(range_.begin(), range_.size(), runs));
    EXPECT_TRUE(runs.empty());
    for (std::uint64_t page = 0; page < page_count; page += 3) {
        read(page);
    }
    check();
}

TEST_P(dirty_pages, agree_with_a_model) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 30; ++round) {
        for (int i = 0; i < 100; ++i) {
            const std::uint64_t page = random() % page_count;
            if (random() % 2 == 0) {
                write(page);
            } else {
                read(page);
            }
        }
        check();
        if (round % 7 == 6) {
            forget();
            check();
        }
    }
}

TEST_P(dirty_pages, are_found_where_there_are_more_runs_than_one_answer_holds) {
    for (std::uint64_t page = 0; page < page_count; page += 2) {
        write(page);
    }
    check();
}

TEST_P(dirty_pages, are_found_within_the_range_alone) {
    for (const std::uint64_t page : {9U, 10U, 11U, 19U, 20U, 21U}) {
        write(page);
    }
    std::vector<memory_run> runs;
    must(scanner_.scan(range_.begin() + 10 * page_size, 10 * page_size, runs));
    for (const std::uint64_t page : pages_of(runs, range_.begin())) {
        EXPECT_GE(page, 10U);
        EXPECT_LT(page, 20U);
    }
    ASSERT_FALSE(runs.empty());
    EXPECT_EQ(runs.front().address, range_.begin() + 10 * page_size);
    must(scanner_.scan(range_.begin(), 0, runs));
}

std::vector<method> methods() {
    if (must(dirty_scanner::open()).used() == method::pagemap_scan) {
        return {method::pagemap_scan, method::pagemap_bits};
    }
    return {method::pagemap_bits};
}

/// Several threads share such ranges, where the machine has cores for them.
TEST(large_dirty_ranges, have_every_page_once_and_in_order) {
    constexpr std::uint64_t large = std::uint64_t{3} << 30U;
    const auto range = must(address_range::anywhere(large, 0, 2 * base::mebibyte));
    must(map_zeroed(range.begin(), large, false));
    std::set<std::uint64_t> written;
    for (const std::uint64_t parts : {2U, 3U, 4U}) {
        for (std::uint64_t part = 0; part <= parts; ++part) {
            const std::uint64_t border = large / page_size * part / parts;
            for (std::uint64_t page = border < 3 ? 0 : border - 3; page < std::min(border + 3, large / page_size);
                 ++page) {
                range.begin()[page * page_size] = std::byte{1};
                written.insert(page);
            }
        }
    }
    for (const method how : methods()) {
        auto scanner = must(dirty_scanner::open(how));
        std::vector<memory_run> runs;
        must(scanner.scan(range.begin(), large, runs));
        EXPECT_EQ(pages_of(runs, range.begin()), written);
        EXPECT_EQ(runs.size(), 7U) << "runs across the threads' borders are one";
    }
}

std::string name_of(const testing::TestParamInfo<std::tuple<method, memory>>& info) {
    const std::string how = std::get<0>(info.param) == method::pagemap_scan ? "scan" : "bits";
    switch (std::get<1>(info.param)) {
        case memory::file_in_memory: return how + "_of_a_file_in_memory";
        case memory::file_on_disk: return how + "_of_a_file_on_disk";
        case memory::zeroed: return how + "_of_zeroed_memory";
        case memory::zeroed_huge: return how + "_of_zeroed_memory_in_huge_pages";
    }
    return how;
}

INSTANTIATE_TEST_SUITE_P(, dirty_pages,
                         testing::Combine(testing::ValuesIn(methods()),
                                          testing::Values(memory::file_in_memory, memory::file_on_disk, memory::zeroed,
                                                          memory::zeroed_huge)),
                         name_of);

}  // namespace
}  // namespace holdfast::segment
