// glance_at(): what the files of a heap say without a lock.
#include <filesystem>

#include <gtest/gtest.h>
#include <holdfast/heap_glance.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

#include "api/manager_test_support.hpp"

namespace holdfast {
namespace {

using heap_glance_test = manager_test;

TEST_F(heap_glance_test, tells_closed_from_open_and_counts_commits) {
    manager writer = create();
    heap_glance seen = glance_at(path());
    EXPECT_EQ(seen.use, heap_use::open);
    EXPECT_EQ(seen.uuid, writer.get_uuid());
    EXPECT_EQ(seen.format, 2U);
    EXPECT_EQ(seen.lanes.last_durability, "commit");
    EXPECT_EQ(seen.neighbours.writer, static_cast<std::uint64_t>(::getpid()));
    for (int i = 0; i < 5; ++i) {
        static_cast<void>(writer.allocate(1000));
        writer.commit();
        seen = glance_at(path());
        EXPECT_EQ(seen.commits, writer.version());
        EXPECT_EQ(seen.user_bytes, writer.statistics().user_bytes);
        EXPECT_EQ(seen.charged_bytes, writer.statistics().charged_bytes);
        EXPECT_EQ(seen.apparent_bytes, writer.statistics().apparent_bytes);
    }
    EXPECT_GT(seen.log_writes, 0U);
    EXPECT_GT(seen.log_bytes, 0U);
    EXPECT_LT(seen.log_bytes, seen.charged_bytes);
    const heap_statistics last = writer.statistics();
    writer.close();
    seen = glance_at(path());
    EXPECT_EQ(seen.use, heap_use::closed);
    EXPECT_EQ(seen.commits, last.commit_sequence);
    EXPECT_GE(seen.last_commit_ns, last.last_commit_ns);
    EXPECT_EQ(seen.created_ns, last.created_ns);
    EXPECT_EQ(seen.neighbours.writer, 0U);
    EXPECT_EQ(seen.log_writes, 0U);
}

TEST_F(heap_glance_test, tells_the_durability_of_the_last_writer) {
    open_options options = small_options();
    options.accept_process_crash_only = true;
    options.durability = durability::collect;
    {
        const manager writer(create_only, path(), options);
        EXPECT_EQ(glance_at(path()).lanes.last_durability, "collect");
        EXPECT_EQ(glance_at(path()).use, heap_use::open);
    }
    EXPECT_EQ(glance_at(path()).lanes.last_durability, "collect");
    options.durability = durability::commit;
    manager(open_only, path(), options).commit();
    options.durability = durability::atomic;
    {
        const manager writer(open_only, path(), options);
        EXPECT_EQ(glance_at(path()).lanes.last_durability, "atomic");
        EXPECT_TRUE(glance_at(path()).lanes.writer.has_value());
    }
    EXPECT_EQ(glance_at(path()).lanes.last_durability, "atomic");
}

TEST_F(heap_glance_test, calls_a_heap_open_between_turns) {
    open_options options = small_options();
    options.shared = true;
    {
        manager heap(create_only, path(), options);
        std::uint64_t version = 0;
        for (int i = 0; i < 3; ++i) {
            heap.transact([&] { heap.root(0) = heap.allocate(1000); });
            version = heap.version();
            const heap_glance seen = glance_at(path());
            EXPECT_EQ(seen.use, heap_use::open) << i;
            EXPECT_EQ(seen.commits, version) << i;
            EXPECT_FALSE(manager(open_read_only, path()).statistics().recovered) << i;
        }
    }
    EXPECT_EQ(glance_at(path()).use, heap_use::closed);
}

TEST_F(heap_glance_test, counts_the_files_of_every_directory) {
    open_options options = small_options();
    for (const char* const node : {"a", "b"}) {
        options.node_directories.push_back(path(node));
        std::filesystem::create_directory(path(node));
    }
    manager writer(create_only, path(), options);
    static_cast<void>(writer.allocate(std::size_t{5} << 20));
    writer.commit();
    const heap_glance seen = glance_at(path());
    constexpr std::uint64_t markers = std::uint64_t{2} * 4096;  // of the nodes, which statistics() leaves out
    EXPECT_EQ(seen.charged_bytes, writer.statistics().charged_bytes + markers);
    EXPECT_EQ(seen.apparent_bytes, writer.statistics().apparent_bytes + markers);
}

TEST_F(heap_glance_test, fails_as_an_open_does) {
    EXPECT_EQ(reason_of([&] { static_cast<void>(glance_at(path())); }), errc::not_found);
    std::filesystem::create_directory(path());
    EXPECT_EQ(reason_of([&] { static_cast<void>(glance_at(path())); }), errc::not_a_heap);
}

}  // namespace
}  // namespace holdfast
