#include "segment/files/heap_location.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using persist::access_mode;
using persist::posix_storage;

TEST(heap_location_test, of_a_reader_is_not_changed) {
    const heap_location reader(posix_storage(), "heap", access_mode::read_only);
    const auto refused = reader.check_writer("heap/objects", "growth");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::read_only);
    EXPECT_EQ(refused.error().path, "heap/objects");
    EXPECT_EQ(refused.error().field, "growth");
    EXPECT_TRUE(heap_location(posix_storage(), "heap", access_mode::read_write).check_writer("", "").ok());
}

TEST(heap_location_test, belongs_to_the_process_that_opened_it) {
    heap_location location(posix_storage(), "heap", access_mode::read_write);
    EXPECT_TRUE(location.check_process().ok());
    const base::process_end end = base::run_in_child([&] {
        const bool refused = location.check_process().error().code == failure_code::wrong_process;
        location.continue_in_child();
        return refused && location.check_process().ok() && location.is_scratch();
    });
    EXPECT_TRUE(end.succeeded()) << end;
    EXPECT_FALSE(location.is_scratch());
}

/// Was: a child in a namespace of its own, where it has the number of its parent, took the heap for its own.
TEST(heap_location_test, a_child_with_its_parents_number_was_taken_for_the_parent) {
    if (!base::has_process_namespaces()) {
        GTEST_SKIP() << "NOT TESTED HERE: no namespaces of processes";
    }
    const auto parent = [] {
        const heap_location location(posix_storage(), "heap", access_mode::read_write);
        const auto child = [&] {
            return ::getpid() == 1 && !location.is_mine() &&
                   location.check_process().error().code == failure_code::wrong_process;
        };
        return base::run_in_own_namespace(child) == 0 && location.is_mine();
    };
    EXPECT_TRUE(base::run_in_child([&] { return base::run_in_own_namespace(parent); }).succeeded());
}

TEST(heap_location_test, counts_the_files_of_a_heap_alone) {
    const test_directory directory;
    const heap_location location(posix_storage(), directory.path(), access_mode::read_write);
    std::ofstream(directory.path("objects")) << std::string(100, 'x');
    std::ofstream(directory.path("notes")) << std::string(1000, 'x');
    EXPECT_EQ(must(location.sizes()).apparent_bytes, 100U);
}

TEST(heap_location_test, without_nodes_gives_threads_and_segments_no_choice) {
    const heap_location location(posix_storage(), "heap", access_mode::read_write);
    EXPECT_EQ(location.nodes_of_threads(), 1U);
}

}  // namespace
}  // namespace holdfast::segment
