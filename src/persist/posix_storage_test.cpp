#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "base/process_test_support.hpp"
#include "base/scratch_test_support.hpp"
#include "persist/descriptor.hpp"
#include "persist/posix_io.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {
namespace {

using base::failure_code;

constexpr std::uint64_t page = 4096;

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> bytes(size);
    for (auto& value : bytes) {
        value = static_cast<std::byte>(random() | 1U);
    }
    return bytes;
}

class posix_storage_test : public testing::Test {
protected:
    [[nodiscard]] std::string path(const std::string& name) const { return directory_ + "/" + name; }
    std::unique_ptr<file> create(const std::string& name) const {
        auto made = posix_storage().create(path(name), "test.create");
        EXPECT_TRUE(made.ok()) << made.error().message();
        return std::move(made).value();
    }
    static std::vector<std::byte> content(file& from) {
        std::vector<std::byte> bytes(from.size().value());
        const auto done = from.read_at(0, bytes);
        EXPECT_TRUE(done.ok()) << done.error().message();
        return bytes;
    }

    base::scratch_directory scratch_{base::disk_directory()};
    std::string directory_ = scratch_.path();
};

TEST_F(posix_storage_test, ABirthIsOfOneFileWhateverItsName) {
    const auto identity_of = [&](const std::string& name) { return posix_storage().file_identity(path(name)); };
    create("a");
    const std::uint64_t identity = identity_of("a").value();
    EXPECT_NE(identity, 0U);
    ASSERT_TRUE(posix_storage().rename(path("a"), path("b"), "test.rename").ok());
    EXPECT_EQ(identity_of("b").value(), identity);
    std::filesystem::copy(path("b"), path("a"));
    EXPECT_NE(identity_of("a").value(), identity);
    // A new file of that name may get the same inode number, so its time of creation must differ.
    const auto tick = [] {
        timespec now{};
        ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
        return std::pair{now.tv_sec, now.tv_nsec};
    };
    for (const auto made = tick(); tick() == made;) {
    }
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(posix_storage().remove(path("b"), "test.remove").ok());
        create("b");
        EXPECT_NE(identity_of("b").value(), identity);
    }
    EXPECT_EQ(identity_of("nothing").error().code, failure_code::missing);
}

TEST_F(posix_storage_test, WhatIsWrittenIsReadBack) {
    const auto data = pattern(3 * page + 17, 1);
    {
        const auto made = create("a");
        ASSERT_TRUE(made->write_at(5, data, "test.write").ok());
        ASSERT_TRUE(made->sync("test.sync").ok());
    }
    const auto opened = posix_storage().open(path("a"), access_mode::read_only);
    ASSERT_TRUE(opened.ok());
    std::vector<std::byte> back(data.size());
    ASSERT_TRUE((*opened)->read_at(5, back).ok());
    EXPECT_EQ(back, data);
    EXPECT_EQ((*opened)->size().value(), data.size() + 5);
}

TEST_F(posix_storage_test, GatherWritesMorePartsThanTheKernelTakesAtOnce) {
    const auto data = pattern(5000, 2);
    std::vector<std::span<const std::byte>> parts;
    for (std::size_t at = 0; at < data.size(); ++at) {
        parts.push_back(std::span{data}.subspan(at, 1));
        if (at % 7 == 0) {
            parts.emplace_back();
        }
    }
    const auto made = create("gather");
    ASSERT_TRUE(made->write_gather(0, parts, "test.gather").ok());
    EXPECT_EQ(content(*made), data);
}

TEST_F(posix_storage_test, GatherOfNothingWritesNothing) {
    const auto made = create("gather");
    EXPECT_TRUE(made->write_gather(100, {}, "test.gather").ok());
    const std::array<std::span<const std::byte>, 2> empty{};
    EXPECT_TRUE(made->write_gather(100, empty, "test.gather").ok());
    EXPECT_EQ(made->size().value(), 0U);
}

TEST_F(posix_storage_test, ReadPastTheEndNamesTheSizes) {
    const auto made = create("short");
    ASSERT_TRUE(made->resize(100, "test.resize").ok());
    std::array<std::byte, 64> buffer{};
    const auto answer = made->read_at(50, buffer);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, failure_code::corrupt);
    EXPECT_EQ(answer.error().path, path("short"));
    EXPECT_EQ(answer.error().field, "file size");
    EXPECT_EQ(answer.error().found, "100");
    EXPECT_EQ(answer.error().expected, "at least 114");
}

TEST_F(posix_storage_test, OpenOfAMissingFileIsMissing) {
    const auto answer = posix_storage().open(path("nowhere"), access_mode::read_write);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, failure_code::missing);
    EXPECT_EQ(answer.error().path, path("nowhere"));
    EXPECT_EQ(answer.error().os_error, ENOENT);
}

TEST_F(posix_storage_test, OpenOfSomethingElseSaysWhatItIs) {
    std::filesystem::create_directory(path("dir"));
    const auto directory = posix_storage().open(path("dir"), access_mode::read_only);
    ASSERT_FALSE(directory.ok());
    EXPECT_EQ(directory.error().found, "directory");
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    const auto pipe = posix_storage().open(path("pipe"), access_mode::read_write);
    ASSERT_FALSE(pipe.ok());
    EXPECT_EQ(pipe.error().found, "pipe");
}

TEST_F(posix_storage_test, CreateOfAnExistingFileFails) {
    create("twice");
    const auto answer = posix_storage().create(path("twice"), "test.create");
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().code, failure_code::already_exists);
}

TEST_F(posix_storage_test, WriteToAReadOnlyFileFailsAndNamesTheOperation) {
    create("ro");
    const auto opened = posix_storage().open(path("ro"), access_mode::read_only);
    ASSERT_TRUE(opened.ok());
    const auto answer = (*opened)->write_at(0, pattern(1, 1), "test.write");
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().field, "pwrite");
    EXPECT_EQ(answer.error().os_error, EBADF);
}

TEST_F(posix_storage_test, OffsetsThatNoFileReachesAreRefused) {
    const auto made = create("far");
    const auto far = ~std::uint64_t{0} - 10;
    std::array<std::byte, 64> buffer{};
    EXPECT_EQ(made->read_at(far, buffer).error().os_error, EFBIG);
    EXPECT_EQ(made->write_at(far, buffer, "test.write").error().os_error, EFBIG);
    EXPECT_EQ(made->resize(far, "test.resize").error().os_error, EFBIG);
    EXPECT_EQ(made->allocate(far, 64, "test.allocate").error().os_error, EFBIG);
    EXPECT_EQ(made->punch_hole(far, 64, "test.punch").error().os_error, EFBIG);
    EXPECT_EQ(made->size().value(), 0U);
}

TEST_F(posix_storage_test, ResizeMakesHolesAndCutsOff) {
    const auto made = create("resize");
    ASSERT_TRUE(made->write_at(0, pattern(page, 3), "test.write").ok());
    ASSERT_TRUE(made->resize(1024 * page, "test.resize").ok());
    EXPECT_LT(made->charged().value(), 64 * page);
    ASSERT_TRUE(made->resize(10, "test.resize").ok());
    ASSERT_TRUE(made->resize(20, "test.resize").ok());
    auto expected = pattern(page, 3);
    expected.resize(10);
    expected.resize(20);
    EXPECT_EQ(content(*made), expected);
}

TEST_F(posix_storage_test, AllocateReservesAndKeepsContent) {
    const auto made = create("allocate");
    const auto data = pattern(page, 4);
    ASSERT_TRUE(made->write_at(page, data, "test.write").ok());
    ASSERT_TRUE(made->allocate(0, 64 * page, "test.allocate").ok());
    EXPECT_GE(made->charged().value(), 64 * page);
    EXPECT_EQ(made->size().value(), 64 * page);
    std::vector<std::byte> expected(64 * page);
    std::copy(data.begin(), data.end(), expected.begin() + page);
    EXPECT_EQ(content(*made), expected);
}

TEST_F(posix_storage_test, ReserveByWritingKeepsContentAndFillsTheHoles) {
    const auto made = create("reserve");
    const auto data = pattern(page, 5);
    ASSERT_TRUE(made->write_at(20 * page, data, "test.write").ok());
    ASSERT_TRUE(made->write_at(3 * page + 100, std::span{data}.first(50), "test.write").ok());
    const auto before = content(*made);
    ASSERT_TRUE(reserve_by_writing(made->native_handle(), page, 63 * page, made->path()).ok());
    EXPECT_GE(made->charged().value(), 62 * page);
    auto expected = before;
    expected.resize(64 * page);
    EXPECT_EQ(content(*made), expected);
}

TEST_F(posix_storage_test, PunchedRangesReadAsZeroAndGiveSpaceBack) {
    const auto made = create("punch");
    auto data = pattern(64 * page, 6);
    ASSERT_TRUE(made->write_at(0, data, "test.write").ok());
    ASSERT_TRUE(made->sync("test.sync").ok());
    const auto before = made->charged().value();
    ASSERT_TRUE(made->punch_hole(page, 32 * page, "test.punch").ok());
    std::fill_n(data.begin() + page, 32 * page, std::byte{0});
    EXPECT_EQ(content(*made), data);
    EXPECT_LE(made->charged().value(), before - 32 * page);
}

TEST_F(posix_storage_test, ZeroDataZeroesOnlyTheRangeAndNeverExtends) {
    const auto made = create("zero");
    auto data = pattern(8 * page, 7);
    ASSERT_TRUE(made->write_at(0, data, "test.write").ok());
    ASSERT_TRUE(zero_data(made->native_handle(), 6 * page + 5, 100 * page, made->path()).ok());
    std::fill(data.begin() + 6 * page + 5, data.end(), std::byte{0});
    EXPECT_EQ(content(*made), data);
}

TEST_F(posix_storage_test, NamesComeSortedAndRemoveIsIdempotent) {
    ASSERT_TRUE(posix_storage().make_directory(path("sub"), "test.mkdir").ok());
    EXPECT_EQ(posix_storage().make_directory(path("sub"), "test.mkdir").error().code, failure_code::already_exists);
    create("b");
    create("a");
    EXPECT_EQ(posix_storage().list(directory_).value(), (std::vector<std::string>{"a", "b", "sub"}));
    ASSERT_TRUE(posix_storage().rename(path("b"), path("a"), "test.rename").ok());
    ASSERT_TRUE(posix_storage().sync_directory(directory_, "test.sync_directory").ok());
    EXPECT_TRUE(posix_storage().exists(path("a")).value());
    EXPECT_FALSE(posix_storage().exists(path("b")).value());
    EXPECT_FALSE(posix_storage().exists(path("a/below")).value());
    for (const char* name : {"a", "sub", "a", "sub", "never"}) {
        EXPECT_TRUE(posix_storage().remove(path(name), "test.remove").ok()) << name;
    }
    EXPECT_TRUE(posix_storage().list(directory_).value().empty());
    EXPECT_FALSE(posix_storage().list(path("never")).ok());
    EXPECT_FALSE(posix_storage().sync_directory(path("never"), "test.sync_directory").ok());
}

TEST_F(posix_storage_test, RemoveOfAFullDirectoryFails) {
    ASSERT_TRUE(posix_storage().make_directory(path("sub"), "test.mkdir").ok());
    create("sub/file");
    const auto answer = posix_storage().remove(path("sub"), "test.remove");
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.error().os_error, ENOTEMPTY);
}

TEST_F(posix_storage_test, CopiesAreEqualAndStaySparse) {
    const auto source = create("source");
    const auto data = pattern(3 * page, 8);
    ASSERT_TRUE(source->write_at(100 * page, data, "test.write").ok());
    ASSERT_TRUE(source->write_at(7, data, "test.write").ok());
    ASSERT_TRUE(source->resize(4096 * page, "test.resize").ok());
    const auto target = create("target");
    ASSERT_TRUE(posix_storage().copy_content(*source, *target, shared_blocks::allowed, "test.copy").ok());
    EXPECT_EQ(content(*target), content(*source));
    EXPECT_LT(target->charged().value(), 64 * page);
    const auto slow = create("slow");
    ASSERT_TRUE(copy_sparse(source->native_handle(), source->path(), slow->native_handle(), slow->path(),
                            copy_method::read_and_write)
                    .ok());
    EXPECT_EQ(content(*slow), content(*source));
    EXPECT_LT(slow->charged().value(), 64 * page);
}

TEST_F(posix_storage_test, CopyOfAnEmptyFileIsEmpty) {
    const auto source = create("source");
    const auto target = create("target");
    ASSERT_TRUE(posix_storage().copy_content(*source, *target, shared_blocks::allowed, "test.copy").ok());
    EXPECT_EQ(target->size().value(), 0U);
}

TEST_F(posix_storage_test, NoDescriptorIsInherited) {
    const auto made = create("cloexec");
    EXPECT_NE(::fcntl(made->native_handle(), F_GETFD) & FD_CLOEXEC, 0);
    const auto opened = posix_storage().open(path("cloexec"), access_mode::read_only);
    ASSERT_TRUE(opened.ok());
    EXPECT_NE(::fcntl((*opened)->native_handle(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(posix_storage_test, SpaceIsReservedBesideATimer) {
    const base::scratch_directory memory;  // tmpfs, which starts anew after each signal
    const auto made = posix_storage().create(memory.path() + "/file", "test.create");
    ASSERT_TRUE(made.ok());
    constexpr std::uint64_t size = std::uint64_t{64} << 20U;
    base::child_process child([&] {
        std::signal(SIGALRM, [](int) {});
        const itimerval often{{0, 1000}, {0, 1000}};
        return ::setitimer(ITIMER_REAL, &often, nullptr) == 0 && (*made)->allocate(page, size, "test.allocate").ok();
    });
    EXPECT_TRUE(child.ends_within(20'000'000'000));
    EXPECT_TRUE(child.kill().succeeded());
    EXPECT_EQ((*made)->size().value(), page + size);
    EXPECT_EQ((*made)->charged().value(), size);
}

TEST_F(posix_storage_test, AFailedSyncStaysFailed) {
    const auto made = create("latched");
    // A pipe stands in for a lost write: fdatasync fails on it with EINVAL.
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const descriptor reader{ends[0]};
    const descriptor writer{ends[1]};
    const descriptor good{::fcntl(made->native_handle(), F_DUPFD_CLOEXEC, 0)};
    ASSERT_TRUE(made->sync("test.sync").ok());
    ASSERT_GE(::dup3(writer.get(), made->native_handle(), O_CLOEXEC), 0);
    const auto first = made->sync("test.sync");
    ASSERT_FALSE(first.ok());
    EXPECT_EQ(first.error().field, "fdatasync");
    // The descriptor works again, as after one report of the kernel.
    ASSERT_GE(::dup3(good.get(), made->native_handle(), O_CLOEXEC), 0);
    ASSERT_EQ(::fdatasync(made->native_handle()), 0);
    const auto second = made->sync("test.sync");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().message(), first.error().message());
}

TEST_F(posix_storage_test, DescriptorMovesOwnership) {
    descriptor a{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    ASSERT_TRUE(a.valid());
    const int number = a.get();
    descriptor b{std::move(a)};
    EXPECT_EQ(b.get(), number);
    b = descriptor{};
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace holdfast::persist
