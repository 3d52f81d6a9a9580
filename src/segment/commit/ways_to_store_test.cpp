// Whoever stores to the memory of a heap, by whatever call: the next commit has it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "persist/pinned_device_test_support.hpp"
#include "segment/commit/write_watch_test_support.hpp"
#include "segment/format/page_runs.hpp"
#include "segment/heap_files.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

namespace fs = std::filesystem;
using base::page_size;
using base::pages;
using persist::access_mode;
using persist::posix_storage;
using testing::IsEmpty;

/// Not whole pages, and whole words.
constexpr std::size_t stored_bytes = 3 * page_size - 64;

class store_way {
public:
    store_way(const char* its_name, std::function<void(std::byte* at, char value)> its_work)
        : name(its_name), store(std::move(its_work)) {}
    const char* name;
    std::function<void(std::byte* at, char value)> store;
};

class ways_to_store : public testing::TestWithParam<store_watch> {
protected:
    ways_to_store() {
        creation_options options;
        options.segment_size = minimum_segment_size;
        options.mapping.reservation = base::gibibyte;
        options.mapping.watch = GetParam();
        files_ = must(heap_files::create(posix_storage(), path_, options));
        must(files_->grow({4 * region_pages}));
        ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    }
    [[nodiscard]] std::byte* at(std::uint64_t page) const { return files_->view().base() + page * page_size; }

    /// A file of `value`.
    [[nodiscard]] persist::descriptor source(char value, int flags = 0) const {
        const std::string name = directory_.path("source");
        const std::string content(4 * page_size, value);
        persist::descriptor made(::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        EXPECT_EQ(::write(made.get(), content.data(), content.size()), static_cast<ssize_t>(content.size()));
        return persist::descriptor(::open(name.c_str(), O_RDONLY | O_CLOEXEC | flags));
    }
    [[nodiscard]] std::vector<store_way> ways() const;
    [[nodiscard]] std::vector<store_way> ways_of_others() const;

    /// A crash right now leaves what is in memory.
    void expect_after_a_crash(const std::string& what) const {
        const std::string copy = directory_.path("crashed");
        fs::remove_all(copy);
        fs::copy(path_, copy, fs::copy_options::recursive);
        auto left = must(heap_files::open(posix_storage(), copy, access_mode::read_only, {}));
        for (std::uint64_t page = 0; page < files_->frontier().value; ++page) {
            ASSERT_EQ(std::memcmp(left->view().base() + page * page_size, at(page), page_size), 0)
                << what << ": page " << page << " is lost";
        }
        std::vector<base::failure> problems;
        must(left->verify(problems, 100));
        EXPECT_THAT(problems, IsEmpty());
    }

    test_directory directory_{place::disk};
    std::string path_ = directory_.path("heap");
    std::unique_ptr<heap_files> files_;
};

std::vector<store_way> ways_to_store::ways() const {
    std::vector<store_way> all;
    all.emplace_back("stores", [](std::byte* at, char value) { std::memset(at, value, stored_bytes); });
    all.emplace_back("read", [this](std::byte* at, char value) {
        EXPECT_EQ(::read(source(value).get(), at, stored_bytes), static_cast<ssize_t>(stored_bytes));
    });
    all.emplace_back("a read past the page cache", [this](std::byte* at, char value) {
        EXPECT_EQ(::pread(source(value, O_DIRECT).get(), at, 2 * page_size, 0), static_cast<ssize_t>(2 * page_size));
    });
    all.emplace_back("readv", [this](std::byte* at, char value) {
        const std::array<iovec, 2> parts{{{at, 1}, {at + page_size, page_size}}};
        EXPECT_EQ(::readv(source(value).get(), parts.data(), 2), static_cast<ssize_t>(page_size + 1));
    });
    all.emplace_back("recvmsg", [](std::byte* at, char value) {
        std::array<int, 2> sockets{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
        std::string content(stored_bytes, value);
        EXPECT_EQ(::write(sockets[0], content.data(), content.size()), static_cast<ssize_t>(content.size()));
        iovec part{at, stored_bytes};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        EXPECT_EQ(::recvmsg(sockets[1], &message, MSG_WAITALL), static_cast<ssize_t>(stored_bytes));
        ::close(sockets[0]);
        ::close(sockets[1]);
    });
    all.emplace_back("getrandom", [](std::byte* at, char /*value*/) { EXPECT_EQ(::getrandom(at, 256, 0), 256); });
    all.emplace_back("a thread", [](std::byte* at, char value) {
        std::thread([=] { std::memset(at, value, stored_bytes); }).join();
    });
    all.emplace_back("pages taken in advance, and a store", [](std::byte* at, char value) {
        populate(at, 3 * page_size);
        at[page_size] = static_cast<std::byte>(value);
    });
    return all;
}

/// Devices, other processes and debuggers.
std::vector<store_way> ways_to_store::ways_of_others() const {
    std::vector<store_way> all;
    all.emplace_back("io_uring", [this](std::byte* at, char value) {
        persist::pinned_device(directory_.path("ring"), at, stored_bytes, false).store_by_addresses(value);
    });
    all.emplace_back("io_uring with a registered buffer", [this](std::byte* at, char value) {
        persist::pinned_device(directory_.path("ring"), at, stored_bytes).store(value);
    });
    all.emplace_back("process_vm_writev of a child", [](std::byte* at, char value) {
        const pid_t parent = ::getpid();
        const auto done = base::run_in_child([=] {
            std::string content(stored_bytes, value);
            const iovec from{content.data(), content.size()};
            const iovec to{at, stored_bytes};
            return ::process_vm_writev(parent, &from, 1, &to, 1, 0) == static_cast<ssize_t>(stored_bytes);
        });
        EXPECT_TRUE(done.succeeded()) << done;
    });
    all.emplace_back("/proc/self/mem", [](std::byte* at, char value) {
        const persist::descriptor memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
        const std::string content(stored_bytes, value);
        EXPECT_EQ(::pwrite(memory.get(), content.data(), content.size(),
                           static_cast<off_t>(reinterpret_cast<std::uintptr_t>(at))),
                  static_cast<ssize_t>(stored_bytes));
    });
    all.emplace_back("a debugger", [](std::byte* at, char value) {
        const pid_t parent = ::getpid();
        const auto done = base::run_in_child([=] {
            if (::ptrace(PTRACE_ATTACH, parent, nullptr, nullptr) != 0 ||
                ::waitpid(parent, nullptr, __WALL) != parent) {
                return false;
            }
            const bool stored = ::ptrace(PTRACE_POKEDATA, parent, at + page_size, static_cast<long>(value)) == 0;
            return ::ptrace(PTRACE_DETACH, parent, nullptr, nullptr) == 0 && stored;
        });
        EXPECT_TRUE(done.succeeded()) << done;
    });
    return all;
}

/// Pages that are new, that were read, and that were stored to before: by turns also with a commit that fails or
/// nothing between.
TEST_P(ways_to_store, are_all_committed) {
    std::vector<store_way> all = ways();
    std::ranges::move(ways_of_others(), std::back_inserter(all));
    const std::uint64_t apart = 8;
    char value = 1;
    for (int round = 0; round < 5; ++round) {
        for (std::size_t i = 0; i < all.size(); ++i, ++value) {
            std::byte* const to = at(i * apart + 1 + (round == 4 ? 3 : 0));
            if (round == 2) {
                static_cast<void>(*const_cast<volatile std::byte*>(to));
            }
            all[i].store(to, value);
            EXPECT_FALSE(must(files_->unchanged({}))) << all[i].name;
            if (i % 3 == 0) {
                must(files_->commit({}));
                expect_after_a_crash(all[i].name);
            }
        }
        must(files_->commit({}));
        expect_after_a_crash("round " + std::to_string(round));
        EXPECT_TRUE(must(files_->unchanged({})));
        EXPECT_EQ(files_->commits().watched_bytes() != 0, GetParam() != store_watch::never);
    }
}

TEST_P(ways_to_store, of_a_child_stay_in_the_child) {
    must(files_->commit({}));
    at(5)[1] = std::byte{1};
    must(files_->commit({}));
    at(6)[1] = std::byte{2};
    EXPECT_TRUE(base::run_in_child([this] {
                    std::memset(at(0), 9, 20 * page_size);
                    return at(6)[2] == std::byte{9};
                }).succeeded());
    at(7)[1] = std::byte{3};
    EXPECT_EQ(must(files_->commit({})).dirty_pages, 2U);
    EXPECT_EQ(at(5)[2], std::byte{});
    expect_after_a_crash("a child");
    at(8)[1] = std::byte{4};
    must(files_->commit({}));
    expect_after_a_crash("after a child");
}

/// Its descriptors mean the parent's memory: a scan would make the kernel forget the parent's stores.
TEST_P(ways_to_store, are_not_forgotten_by_a_child_that_commits) {
    must(files_->commit({}));
    must(files_->commit({}));
    at(6)[1] = std::byte{2};
    EXPECT_TRUE(base::run_in_child([this] {
                    const auto is_refused = [](const auto& outcome) {
                        return !outcome && outcome.error().code == base::failure_code::wrong_process;
                    };
                    return is_refused(files_->unchanged({})) && is_refused(files_->commit({}));
                }).succeeded());
    EXPECT_FALSE(must(files_->unchanged({})));
    EXPECT_EQ(must(files_->commit({})).dirty_pages, 1U);
    expect_after_a_crash("a child that commits");
}

TEST_P(ways_to_store, are_committed_over_growth_guards_and_segments) {
    must(files_->commit({}));
    for (char value = 1; value < 12; ++value) {
        std::memset(at(static_cast<std::uint64_t>(value)), value, (2 * region_pages + 5) * page_size);
        if (value % 3 == 0) {
            must(files_->grow({region_pages}));
            std::memset(at(files_->frontier().value - 3), value, 3 * page_size);
        }
        must(files_->commit({}));
        at(42)[3] = static_cast<std::byte>(value + 10);  // is dropped, not committed
        must(files_->mapping().protect({40}, {4}, page_access::rights::none));
        at(44)[3] = static_cast<std::byte>(value + 20);
        must(files_->commit({}));
        must(files_->mapping().unprotect({40}, {4}));
        at(41)[3] = static_cast<std::byte>(value + 40);
        must(files_->commit({}));
        ASSERT_NO_FATAL_FAILURE(expect_after_a_crash("value " + std::to_string(value)));
    }
}

std::string found_by(const testing::TestParamInfo<store_watch>& info) {
    return info.param == store_watch::never ? "in_private_pages" : "in_watched_memory";
}

INSTANTIATE_TEST_SUITE_P(, ways_to_store, testing::ValuesIn(ways_to_find()), found_by);

}  // namespace
}  // namespace holdfast::segment
