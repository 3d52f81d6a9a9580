// Pages that several threads write home at once.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/checksum.hpp"
#include "base/units.hpp"
#include "log/files_in_memory_test_support.hpp"
#include "segment/commit/commit_steps.hpp"
#include "segment/files/heap_paths.hpp"

namespace holdfast::segment {
namespace {

using base::page_size;

/// Was: where a second thread failed, too, the words of the first one's failure went.
TEST(page_writer, says_where_it_failed_whoever_fails_besides) {
    constexpr std::uint64_t files = 2;
    constexpr std::uint64_t pages_of_each = 4096;  // enough for two threads
    const heap_paths paths("memory");
    std::vector<std::byte> memory(log::files_in_memory::bytes_for(files, page_size));
    log::files_in_memory storage(memory.data(), files, page_size);  // whose files have no room for the pages
    const std::vector<std::byte> content(pages_of_each * page_size);
    std::vector<page_run> runs;
    for (std::uint64_t i = 0; i < files; ++i) {
        ASSERT_TRUE(storage.create(paths.file(i), "test").ok());
        runs.push_back({i, 1, pages_of_each, content.data()});
    }
    // To compare the pages takes longer than to begin a thread, so that all are there when the first one fails.
    const std::vector<std::uint64_t> checksums(files * pages_of_each,
                                               base::checksum64(std::span(content).first(page_size)));
    for (int round = 0; round < 20; ++round) {
        transaction_report report;
        const auto done = write_home(storage, paths, {runs, checksums, {}}, "test.write", "test.sync", report);
        ASSERT_FALSE(done.ok());
        EXPECT_EQ(done.error().code, base::failure_code::no_space);
        EXPECT_TRUE(done.error().path.starts_with("memory/")) << "'" << done.error().path << "', round " << round;
    }
}

}  // namespace
}  // namespace holdfast::segment
