// Pages of 2 MiB under a heap, as the kernel counts them, on file systems that are mounted for the test.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "base/process_test_support.hpp"
#include "base/under_qemu.hpp"
#include "base/units.hpp"
#include "segment/test_support.hpp"

namespace holdfast {
namespace {

using page_choice = open_options::page_choice;
using base::mebibyte;

/// KiB that files in memory have mapped by huge pages in this process; nothing where the kernel does not say.
long huge_kibibytes() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string word; file >> word;) {
        long number = 0;
        if (word == "ShmemPmdMapped:" && file >> number) {
            return number;
        }
    }
    return -1;
}

open_options atomic_with(page_choice pages) {
    open_options options;
    options.durability = durability::atomic;
    options.accept_process_crash_only = true;
    options.huge_pages = pages;
    return options;
}

constexpr const char* not_passed_on = "NOT TESTED: qemu-user does not tell the kernel about huge pages (madvise)";

enum outcome { small_pages = 10, huge_pages, no_mount, not_told };

/// In a child, which mounts a tmpfs: what a block of 32 MiB lies in, touched when it is new and after the heap was
/// opened again.
int look(const std::string& where, const char* mount_option, page_choice pages) {
    const base::process_end end = base::run_in_child([&]() -> int {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("holdfast", where.c_str(), "tmpfs", 0, mount_option) != 0) {
            return no_mount;
        }
        if (huge_kibibytes() < 0) {
            return not_told;
        }
        bool huge = true;
        bool small = true;
        manager heap(create_only, where + "/heap", atomic_with(pages));
        for (int i = 0; i < 2; ++i) {
            auto* const block = static_cast<char*>(heap.allocate(32 * mebibyte));
            for (std::size_t at = 0; at < 32 * mebibyte; at += 4096) {
                block[at] = 1;
            }
            const long found = huge_kibibytes();
            huge = huge && found >= 28 * 1024;
            small = small && found < 4 * 1024;  // the first tables of a heap may lie in one
        }
        const bool sound = heap.check(false).empty();
        heap.close();
        return !sound || huge == small ? 1 : huge ? huge_pages : small_pages;
    });
    return end.exit_status();
}

class manager_huge_pages : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0) {
            GTEST_SKIP() << "NOT TESTED: only root can mount a file system";
        }
        std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        std::string policy;
        if (!std::getline(file, policy) || policy.find("[deny]") != std::string::npos) {
            GTEST_SKIP() << "NOT TESTED: this kernel has no huge pages for files in memory";
        }
        const int first = look(directory_.path(), "huge=always", page_choice::advise);
        if (first == no_mount || first == not_told) {
            GTEST_SKIP() << "NOT TESTED: tmpfs cannot be mounted with huge=always here, or the kernel counts no pages";
        }
        EXPECT_EQ(first, huge_pages) << "is there no memory in one piece?";
    }
    segment::test_directory directory_{segment::place::disk};
};

TEST_F(manager_huge_pages, LieUnderAHeapOnAFileSystemThatHasThem) {
    EXPECT_EQ(look(directory_.path(), "huge=within_size", page_choice::advise), huge_pages);
    EXPECT_EQ(look(directory_.path(), "huge=never", page_choice::advise), small_pages);
}

TEST_F(manager_huge_pages, AreNotMappedWhereTheyAreNotWanted) {
    if (base::under_qemu) {
        GTEST_SKIP() << not_passed_on;
    }
    EXPECT_EQ(look(directory_.path(), "huge=always", page_choice::none), small_pages);
}

TEST_F(manager_huge_pages, ArePutTogetherAtOnceOnAnyFileSystemInMemory) {
    if (base::under_qemu) {
        GTEST_SKIP() << not_passed_on;
    }
    std::FILE* const version = std::fopen("/proc/sys/kernel/osrelease", "r");
    int major = 0;
    int minor = 0;
    ASSERT_EQ(std::fscanf(version, "%d.%d", &major, &minor), 2);
    std::fclose(version);
    if (major < 6 || (major == 6 && minor < 1)) {
        GTEST_SKIP() << "NOT TESTED: MADV_COLLAPSE came with Linux 6.1";
    }
    // Where free memory is in small pieces, the kernel refuses to collapse pages, and may do it a moment later.
    constexpr int tries = 5;
    int found = look(directory_.path(), "huge=never", page_choice::at_once);
    for (int tried = 1; tried < tries && found != huge_pages; ++tried) {
        found = look(directory_.path(), "huge=never", page_choice::at_once);
    }
    EXPECT_EQ(found, huge_pages);
}

TEST(manager_pages, EveryChoiceIsAChoiceInEveryDurability) {
    const segment::test_directory directory;
    for (const auto promise : {durability::commit, durability::atomic}) {
        for (const auto pages : {page_choice::advise, page_choice::none, page_choice::at_once}) {
            const std::string path = directory.path("heap");
            open_options options = atomic_with(pages);
            options.durability = promise;
            manager heap(create_only, path, options);
            *static_cast<char*>(heap.allocate(5 * mebibyte)) = 1;
            heap.commit();
            static_cast<void>(heap.allocate(5 * mebibyte));
            EXPECT_TRUE(heap.check(promise == durability::commit).empty());
            heap.close();
            EXPECT_TRUE(manager::remove(path));
        }
    }
}

}  // namespace
}  // namespace holdfast
