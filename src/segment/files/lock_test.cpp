#include "segment/files/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "persist/descriptor.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {
namespace {

using base::failure_code;
using persist::access_mode;
using testing::HasSubstr;

class holder {
public:
    holder(const std::string& path, access_mode mode)
        : process_([this, &path, mode] {
              const auto lock = heap_lock::acquire(persist::posix_storage(), path, mode);
              *answer_ = lock.ok() ? 'y' : 'n';
              for (;;) {
                  ::pause();
              }
          }) {
        EXPECT_TRUE(process_.runs_until([this] { return *answer_ != 0; }));
    }

    [[nodiscard]] bool took() const noexcept { return *answer_ == 'y'; }
    [[nodiscard]] pid_t pid() const noexcept { return process_.id(); }
    void end(int signal) {
        process_.send(signal);
        process_.wait();
    }

private:
    base::shared_memory<std::atomic<char>> answer_;
    base::child_process process_;
};

class locks : public testing::Test {
protected:
    locks() { static_cast<void>(must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write))); }

    void expect_locked(access_mode mode, const std::string& by) {
        const auto lock = heap_lock::acquire(persist::posix_storage(), path_, mode);
        ASSERT_FALSE(lock.ok());
        EXPECT_EQ(lock.error().code, failure_code::locked);
        EXPECT_EQ(lock.error().path, path_ + "/lock");
        EXPECT_THAT(lock.error().found, HasSubstr(by));
        EXPECT_THAT(lock.error().expected, mode == access_mode::read_write ? "nobody" : "no writer");
    }

    test_directory directory_;
    std::string path_ = directory_.path(".");
};

TEST_F(locks, of_a_writer_keep_everybody_out_and_name_it) {
    const holder writer(path_, access_mode::read_write);
    ASSERT_TRUE(writer.took());
    const std::string by = fmt::format("writer, process {}", writer.pid());
    expect_locked(access_mode::read_write, by);
    expect_locked(access_mode::read_only, by);
    EXPECT_FALSE(holder(path_, access_mode::read_only).took());
}

TEST_F(locks, of_readers_are_shared_and_keep_writers_out) {
    const holder reader(path_, access_mode::read_only);
    const auto here = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_only));
    EXPECT_TRUE(holder(path_, access_mode::read_only).took());
    expect_locked(access_mode::read_write, fmt::format("reader, process {}", reader.pid()));
}

TEST_F(locks, of_dead_owners_are_none) {
    for (const int signal : {SIGKILL, SIGTERM, SIGSEGV}) {
        holder writer(path_, access_mode::read_write);
        ASSERT_TRUE(writer.took());
        writer.end(signal);
        EXPECT_TRUE(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write).ok());
    }
}

TEST_F(locks, of_one_process_conflict_too) {
    {
        const auto writer = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write));
        expect_locked(access_mode::read_write, fmt::format("process {}", ::getpid()));
        expect_locked(access_mode::read_only, fmt::format("process {}", ::getpid()));
    }
    auto reader =
        std::make_unique<heap_lock>(must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_only)));
    const auto other = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_only));
    reader.reset();
    expect_locked(access_mode::read_write, fmt::format("reader, process {}", ::getpid()));
}

TEST_F(locks, move) {
    auto first = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write));
    const heap_lock second(std::move(first));
    expect_locked(access_mode::read_write, fmt::format("process {}", ::getpid()));
}

TEST_F(locks, are_not_kept_by_a_child_that_its_owner_left_behind) {
    auto writer =
        std::make_unique<heap_lock>(must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write)));
    const holder child(path_, access_mode::read_write);  // inherits the descriptor
    EXPECT_FALSE(child.took());
    writer.reset();
    EXPECT_TRUE(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write).ok());
}

/// Regression: a reader was refused where the file was missing.
TEST_F(locks, without_a_file_are_those_of_the_directory) {
    const std::string file = path_ + "/lock";
    std::filesystem::remove(file);
    {
        const auto reader = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_only));
        EXPECT_FALSE(std::filesystem::exists(file));
        expect_locked(access_mode::read_write, fmt::format("reader, process {}", ::getpid()));
    }
    {
        const auto writer = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write,
                                                    heap_lock::missing_file::do_without));
        EXPECT_FALSE(std::filesystem::exists(file));
        expect_locked(access_mode::read_only, fmt::format("writer, process {}", ::getpid()));
    }
    const auto writer = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write));
    EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(locks, are_signed_when_they_are_told_to) {
    auto writer = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write));
    EXPECT_EQ(std::filesystem::file_size(path_ + "/lock"), 0U);
    writer.sign();
    EXPECT_EQ(std::filesystem::file_size(path_ + "/lock"), std::to_string(::getpid()).size());
}

/// Network file systems know locks of files alone.
TEST_F(locks, of_the_file_alone_count) {
    const persist::descriptor file(::open((path_ + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
    expect_locked(access_mode::read_write, fmt::format("writer, process {}", ::getpid()));
    expect_locked(access_mode::read_only, fmt::format("writer, process {}", ::getpid()));
}

/// Was: a child in a namespace of its own, where it has the number of its parent, let go of its parent's lock.
TEST_F(locks, a_child_with_its_parents_number_let_go_of_the_lock) {
    if (!base::has_process_namespaces()) {
        GTEST_SKIP() << "NOT TESTED HERE: no namespaces of processes";
    }
    const auto parent = [&] {
        auto lock = std::make_unique<heap_lock>(
            must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write)));
        const auto child = [&] {
            lock.reset();
            return ::getpid() == 1;
        };
        return base::run_in_own_namespace(child) == 0 &&
               !heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_only).ok();
    };
    EXPECT_TRUE(base::run_in_child([&] { return base::run_in_own_namespace(parent); }).succeeded());
}

TEST_F(locks, say_whether_a_writer_has_signed_wherever_it_runs) {
    EXPECT_FALSE(heap_lock::is_signed(persist::posix_storage(), path_));
    {
        const auto lock = must(heap_lock::acquire(persist::posix_storage(), path_, access_mode::read_write));
        EXPECT_FALSE(heap_lock::is_signed(persist::posix_storage(), path_));
        lock.sign();
        EXPECT_TRUE(heap_lock::is_signed(persist::posix_storage(), path_));
        EXPECT_TRUE(base::succeeds_in_child([&] { return heap_lock::is_signed(persist::posix_storage(), path_); }));
    }
    EXPECT_FALSE(heap_lock::is_signed(persist::posix_storage(), path_));
}

}  // namespace
}  // namespace holdfast::segment
