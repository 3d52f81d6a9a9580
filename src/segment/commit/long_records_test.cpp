// Records that are longer than a file of the log: parts, which become durable with the last one, in longer files.
#include <cstring>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::mebibyte;
using base::page_size;
using persist::access_mode;
using persist::posix_storage;

class long_records_test : public testing::Test {
protected:
    static constexpr std::uint64_t changed_pages = 40 * mebibyte / page_size;

    long_records_test() {
        creation_options options;
        options.segment_size = 16 * mebibyte;  // several files, which threads write at once
        options.mapping.reservation = base::gibibyte;
        files_ = must(heap_files::create(posix_storage(), path_, options));
        must(files_->grow({2 * changed_pages}));
        fill(1);
        must(files_->commit({}));
    }
    void fill(int value) const { std::memset(files_->view().base(), value, changed_pages * page_size); }
    [[nodiscard]] static std::vector<std::uint64_t> log_files_in(const std::string& path) {
        std::vector<std::uint64_t> sizes;
        for (const std::string& name : names_in(path)) {
            if (name.starts_with("log.")) {
                sizes.push_back(fs::file_size(path + "/" + name));
            }
        }
        return sizes;
    }
    /// What a crash now would leave.
    [[nodiscard]] std::string copy(const std::string& name) const {
        std::string to = directory_.path(name);
        fs::copy(path_, to, fs::copy_options::recursive);
        return to;
    }
    [[nodiscard]] static bool has_everywhere(const heap_files& files, int value) {
        const std::byte* const all = files.view().base();
        return all[0] == static_cast<std::byte>(value) && std::memcmp(all, all + 1, changed_pages * page_size - 1) == 0;
    }

    test_directory directory_{place::disk};
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
};

TEST_F(long_records_test, lie_in_few_files_and_are_replayed) {
    fill(2);
    must(files_->commit({}));
    const auto sizes = log_files_in(path_);
    EXPECT_LE(sizes.size(), 16U + 3U);
    EXPECT_GT(sizes.back(), least_log_file_size);
    std::memset(files_->view().base(), 3, page_size);  // a short one behind it, in the same files
    must(files_->commit({}));
    EXPECT_EQ(log_files_in(path_).back(), sizes.back());
    const auto found = must(heap_files::open(posix_storage(), copy("crashed"), access_mode::read_write, {}));
    EXPECT_EQ(found->view().base()[0], std::byte{3});
    std::memset(found->view().base(), 2, page_size);
    EXPECT_TRUE(has_everywhere(*found, 2));
    std::vector<base::failure> problems;
    must(files_->verify(problems, 100));
    EXPECT_TRUE(problems.empty());
}

/// What pages were is not read behind many that changed throughout, until one is seen that did not.
TEST_F(long_records_test, have_few_bytes_of_pages_that_changed_little_behind_whole_ones) {
    constexpr std::uint64_t whole = 1000;
    constexpr std::uint64_t little = 4000;
    std::byte* const base = files_->view().base();
    std::memset(base, 2, whole * page_size);
    for (std::uint64_t page = whole; page < whole + little; ++page) {
        base[page * page_size + 7] = std::byte{3};
    }
    // Home, and into the record: the whole ones, and few of the others.
    EXPECT_LT(must(files_->commit({})).written_bytes, (whole + little + whole + 300) * page_size);
    const auto found = must(heap_files::open(posix_storage(), copy("crashed"), access_mode::read_write, {}));
    EXPECT_EQ(std::memcmp(found->view().base(), base, changed_pages * page_size), 0);
    std::vector<base::failure> problems;
    must(files_->verify(problems, 100));
    EXPECT_TRUE(problems.empty());
}

/// A device may have kept later parts and not the first one.
TEST_F(long_records_test, of_which_a_loss_of_power_left_only_the_end_are_not_there) {
    const std::string before = copy("before");
    fill(2);
    must(files_->commit({}));
    const std::string left = copy("left");
    std::string first;
    for (const std::string& name : names_in(left)) {
        if (name.starts_with("segment.")) {
            fs::copy_file(before + "/" + name, left + "/" + name, fs::copy_options::overwrite_existing);
        }
        first = first.empty() && name.starts_with("log.") ? left + "/" + name : first;
    }
    ASSERT_FALSE(first.empty());
    overwrite(first, 2 * page_size, std::vector<std::byte>(page_size));
    const auto found = must(heap_files::open(posix_storage(), left, access_mode::read_write, {}));
    EXPECT_TRUE(has_everywhere(*found, 1));
}

}  // namespace
}  // namespace holdfast::segment
