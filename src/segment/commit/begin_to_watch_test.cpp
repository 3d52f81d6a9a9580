// When a scanner watches memory, and what it does where the kernel refuses.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "segment/commit/dirty_pages.hpp"
#include "segment/commit/write_watch_test_support.hpp"
#include "segment/files/address_range.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::mebibyte;
using base::page_size;
using testing::HasSubstr;

class begin_to_watch : public testing::Test {
protected:
    explicit begin_to_watch(std::uint64_t bytes = 32 * mebibyte)
        : file_(::open(directory_.path("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
          range_(must(address_range::anywhere(bytes, 0, 2 * mebibyte))) {
        EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
        must(map_file(range_.begin(), bytes, file_.get(), 0, "file"));
    }
    ~begin_to_watch() override { range_ = {}; }  // goes before watch_

    [[nodiscard]] dirty_scanner scanner(store_watch when) { return must(dirty_scanner::open(&watch_, when)); }
    void store(std::uint64_t page) { range_.begin()[page * page_size] = std::byte{1}; }
    void map_all() {
        for (std::uint64_t page = 0; page < range_.size() / page_size; ++page) {
            static_cast<void>(*const_cast<volatile std::byte*>(range_.begin() + page * page_size));
        }
    }
    /// Returns the numbers of the pages that were found.
    std::vector<std::uint64_t> commit(dirty_scanner& by) {
        std::vector<memory_run> runs;
        by.begin_commit();
        must(by.scan(range_.begin(), range_.size(), runs));
        std::vector<std::uint64_t> found;
        for (const memory_run& run : runs) {
            for (std::uint64_t i = 0; i < run.pages; ++i) {
                found.push_back(static_cast<std::uint64_t>(run.address - range_.begin()) / page_size + i);
            }
            drop_private_pages(run.address, run.pages * page_size);
        }
        by.end_commit();
        return found;
    }
    void expect_found(dirty_scanner& by) {
        for (const std::uint64_t page : {1U, 2U, 77U}) {
            store(page);
        }
        EXPECT_EQ(commit(by), (std::vector<std::uint64_t>{1, 2, 77}));
    }
    static bool is_there() { return ways_to_find().size() > 1; }

    test_directory directory_;
    write_watch watch_;
    persist::descriptor file_;
    address_range range_;
};

TEST_F(begin_to_watch, when_looking_has_taken_as_long) {
    map_all();
    auto by = scanner(store_watch::where_it_pays);
    for (int i = 0; i < 3; ++i) {
        expect_found(by);
        EXPECT_EQ(by.watched_bytes(), 0U);
    }
    constexpr int most = 20'000;
    for (int i = 0; is_there() && by.watched_bytes() == 0 && i < most; ++i) {
        expect_found(by);
    }
    EXPECT_EQ(by.watched_bytes(), is_there() ? range_.size() : 0);
    for (int i = 0; i < 3; ++i) {
        expect_found(by);
        EXPECT_TRUE(commit(by).empty());
    }
}

/// As small commits have that must take their pages home each time.
TEST_F(begin_to_watch, when_pages_that_may_not_stay_have_cost_as_much) {
    using namespace std::chrono_literals;
    map_all();
    auto by = scanner(store_watch::where_it_pays);
    by.note_loss(range_.begin(), 1h);  // it knows of no memory yet
    expect_found(by);
    by.note_loss(range_.begin() + 77 * page_size, 1us);
    expect_found(by);
    EXPECT_EQ(by.watched_bytes(), 0U);
    by.note_loss(range_.begin() + 77 * page_size, 500ns * (range_.size() / page_size));
    expect_found(by);
    EXPECT_EQ(by.watched_bytes(), is_there() ? range_.size() : 0);
    EXPECT_TRUE(commit(by).empty());
}

/// A look at memory of which no page is mapped costs nothing.
TEST_F(begin_to_watch, not_where_scans_would_take_longer_then) {
    using namespace std::chrono_literals;
    auto by = scanner(store_watch::where_it_pays);
    for (int i = 0; i < 500; ++i) {
        expect_found(by);
        by.note_loss(range_.begin(), 5us);
    }
    EXPECT_EQ(by.watched_bytes(), 0U);
}

TEST_F(begin_to_watch, at_once_where_a_page_that_may_not_stay_has_cost_much) {
    using namespace std::chrono_literals;
    auto by = scanner(store_watch::where_it_pays);
    expect_found(by);
    by.note_loss(range_.begin(), 1s);
    expect_found(by);
    EXPECT_EQ(by.watched_bytes(), is_there() ? range_.size() : 0);
    expect_found(by);
    EXPECT_TRUE(commit(by).empty());
}

/// A bulk load would be slower.
TEST_F(begin_to_watch, not_where_all_that_is_looked_at_was_stored) {
    auto by = scanner(store_watch::where_it_pays);
    for (int i = 0; i < 20; ++i) {
        for (std::uint64_t page = 0; page < range_.size() / page_size; ++page) {
            store(page);
        }
        EXPECT_EQ(commit(by).size(), range_.size() / page_size);
    }
    EXPECT_EQ(by.watched_bytes(), 0U);
}

/// As a container's filter, vm.unprivileged_userfaultfd in older kernels, or a kernel without it.
TEST_F(begin_to_watch, not_where_it_is_refused) {
    const auto ended = base::run_in_child([this] {
        std::array<sock_filter, 4> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
                                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
        const sock_fprog filter{program.size(), program.data()};
        ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
        EXPECT_THAT(dirty_scanner::describe(), testing::AnyOf(HasSubstr("userfaultfd"), HasSubstr("pagemap")));
        auto by = scanner(store_watch::everywhere);
        for (int i = 0; i < 3; ++i) {
            expect_found(by);
            EXPECT_EQ(by.watched_bytes(), 0U);
        }
    });
    EXPECT_TRUE(ended.succeeded()) << ended;
}

TEST_F(begin_to_watch, later_where_there_is_no_descriptor) {
    const auto ended = base::run_in_child([this] {
        auto by = scanner(store_watch::everywhere);
        rlimit before{};
        ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
        const rlimit none{0, before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
        expect_found(by);
        EXPECT_EQ(by.watched_bytes(), 0U);
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        expect_found(by);
        EXPECT_EQ(by.watched_bytes(), is_there() ? range_.size() : 0);
        expect_found(by);
    });
    EXPECT_TRUE(ended.succeeded()) << ended;
}

/// From the middle on pages cannot be protected again, as where the kernel has no memory for it. Pages that nobody
/// stored to may be found as well.
TEST_F(begin_to_watch, loses_no_store_where_pages_are_not_protected_again) {
    const auto ended = base::run_in_child([this] {
        auto by = scanner(store_watch::everywhere);
        const auto commit_with_own_store = [&](std::uint64_t page, std::uint64_t own, std::uint64_t next) {
            store(page);
            by.begin_commit();
            std::vector<memory_run> runs;
            must(by.scan(range_.begin(), range_.size(), runs, by.find_noted()));
            EXPECT_TRUE(std::ranges::any_of(runs, [&](const memory_run& run) {
                const std::byte* const at = range_.begin() + page * page_size;
                return run.address <= at && at < end_of(run);
            })) << page;
            store(own);
            by.note_own_stores(range_.begin() + own * page_size, 1);
            for (const std::uint64_t each : {page, own}) {
                std::byte* const at = range_.begin() + each * page_size;
                if (!by.keep_warm(at)) {
                    drop_private_pages(at, page_size);
                }
            }
            // So there is one fault at the store to it, and that one commit's own page might be taken for it.
            static_cast<void>(*const_cast<volatile std::byte*>(range_.begin() + next * page_size));
            by.end_commit();
        };
        for (std::uint64_t i = 0; i < 20; ++i) {
            commit_with_own_store(100 + i % 3, 300, 1000);
        }
        std::array<sock_filter, 6> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                                            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
                                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UFFDIO_WRITEPROTECT, 0, 1),
                                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
                                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
        const sock_fprog filter{program.size(), program.data()};
        ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
        for (std::uint64_t i = 0; i < 20; ++i) {
            commit_with_own_store(1000 + i * 100, 300, 1100 + i * 100);
        }
    });
    EXPECT_TRUE(ended.succeeded()) << ended;
}

class begin_to_watch_much : public begin_to_watch {
protected:
    begin_to_watch_much() : begin_to_watch(600 * mebibyte) {}
};

TEST_F(begin_to_watch_much, in_zones_that_leave_no_page_out) {
    auto by = scanner(store_watch::everywhere);
    const std::uint64_t last = range_.size() / page_size - 1;
    const std::vector<std::uint64_t> pages{0, 65'535, 65'536, 100'000, 131'071, 131'072, last};
    for (int i = 0; i < 3; ++i) {
        for (const std::uint64_t page : pages) {
            store(page);
        }
        EXPECT_EQ(commit(by), pages);
        EXPECT_TRUE(commit(by).empty());
    }
    EXPECT_EQ(by.watched_bytes(), is_there() ? range_.size() : 0);
}

}  // namespace
}  // namespace holdfast::segment
