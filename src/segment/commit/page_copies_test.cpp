// Pages that are stored to while a commit writes them.
#include "segment/commit/page_copies.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using base::page_size;

class stored_pages : public testing::Test {
protected:
    static constexpr std::uint64_t count = page_copies::most + 3;

    stored_pages() : content_(count * page_size, std::byte{1}), planned_(content_) {
        for (std::uint64_t i = 0; i < count; ++i) {
            checksums_.push_back(base::checksum64(std::span(content_).subspan(i * page_size, page_size)));
        }
        must(persist::posix_storage().make_directory(paths_.directory(), "test.directory"));
        auto made = must(persist::posix_storage().create(paths_.segment(0), "test.create"));
        must(made->resize(count * page_size, "test.resize"));
    }
    base::result<void> write(std::optional<page_copies::replacement> elsewhere) {
        const page_run run{0, 0, count, content_.data()};
        transaction_report report;
        return write_home(persist::posix_storage(), paths_, {{&run, 1}, checksums_, elsewhere}, "test.write",
                          "test.sync", report);
    }

    test_directory directory_;
    heap_paths paths_{directory_.path("heap")};
    std::vector<std::byte> content_;
    std::vector<std::byte> planned_;
    std::vector<std::uint64_t> checksums_;
};

TEST_F(stored_pages, refuse_a_write_by_their_place_before_the_commit_point) {
    content_[(count - 1) * page_size + 5] = std::byte{2};
    const auto refused = write({});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::concurrent_modification);
    EXPECT_EQ(refused.error().path, paths_.segment(0));
    EXPECT_EQ(refused.error().field, "page " + std::to_string(count - 1));
}

TEST_F(stored_pages, come_from_elsewhere_after_it) {
    std::vector<std::uint64_t> asked;
    for (const std::uint64_t page : {std::uint64_t{7}, count - 1}) {
        content_[page * page_size] = std::byte{2};
    }
    const auto record = [&](std::uint64_t index, std::span<std::byte> page) {
        asked.push_back(index);
        std::ranges::fill(page, std::byte{1});
        return base::result<void>();
    };
    must(write(page_copies::replacement(record)));
    EXPECT_EQ(asked, (std::vector<std::uint64_t>{7, count - 1}));
    EXPECT_EQ(content_of(paths_.segment(0)), planned_);
}

}  // namespace
}  // namespace holdfast::segment
