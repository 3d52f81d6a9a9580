// What tests of full disks share: file systems as full as a test wants them, and what files take of them.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "powerloss/mounts.hpp"

namespace holdfast::test {

inline constexpr std::uint64_t mebibyte = 1U << 20U;

/// Bytes that the files of a directory take of their file system.
inline std::uint64_t charged(const std::string& directory) {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        struct stat status {};
        EXPECT_EQ(::stat(entry.path().c_str(), &status), 0);
        bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
}

inline std::set<std::string> everything_in(const std::string& directory) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        names.insert(entry.path().string());
    }
    return names;
}

/// A file that takes what is left of a file system, but for so many bytes.
class ballast {
public:
    ballast(const std::string& directory, std::uint64_t leave) : path_(directory + "/ballast") {
        const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_GE(file, 0);
        std::uint64_t size = 0;
        for (std::uint64_t step = 64 * mebibyte; step >= 4096;) {
            if (free_bytes(directory) < leave + step ||
                ::fallocate(file, 0, static_cast<off_t>(size), static_cast<off_t>(step)) != 0) {
                step /= 2;
            } else {
                size += step;
            }
        }
        if (leave == 0) {
            // Where to reserve space takes some itself, a block at a time gets nearer to none.
            const std::vector<char> block(4096, 'b');
            while (::pwrite(file, block.data(), block.size(), static_cast<off_t>(size)) ==
                       static_cast<ssize_t>(block.size()) &&
                   ::fdatasync(file) == 0) {
                size += block.size();
            }
        }
        ::close(file);
    }
    ballast(const ballast&) = delete;
    ballast& operator=(const ballast&) = delete;
    ~ballast() { ::unlink(path_.c_str()); }

private:
    static std::uint64_t free_bytes(const std::string& directory) {
        struct statvfs numbers {};
        EXPECT_EQ(::statvfs(directory.c_str(), &numbers), 0);
        return numbers.f_bavail * numbers.f_frsize;
    }
    std::string path_;
};

/// A block of a heap, and its content: one byte throughout.
struct block {
    std::byte* at;
    std::size_t size;
    int seed;
};

inline void fill(const block& filled) { std::memset(filled.at, filled.seed, filled.size); }

inline bool intact(const block& filled) {
    const auto* const bytes = filled.at;
    return std::all_of(bytes, bytes + filled.size,
                       [&](std::byte b) { return b == static_cast<std::byte>(filled.seed); });
}

/// tmpfs or ext4, which differ in where a lack of space shows, of so many MiB; and a place with room for copies.
template <class Parameter>
class on_small_disk : public ::testing::TestWithParam<Parameter> {
protected:
    void mount(const std::string& kind, unsigned tmpfs, unsigned ext4) {
        if (!mounts_unavailable().empty()) {
            report_unavailable(mounts_unavailable());
            GTEST_SKIP() << mounts_unavailable();
        }
        if (kind == "tmpfs") {
            memory_ = std::make_unique<memory_file_system>("size=" + std::to_string(tmpfs) + "m");
            directory_ = memory_->path();
        } else {
            image_ = std::make_unique<image_file_system>(file_system_kind::ext4, ext4 * mebibyte);
            directory_ = image_->path();
        }
        room_ = std::make_unique<memory_file_system>("mode=700");
        path_ = directory_ + "/heap";
    }

    std::unique_ptr<memory_file_system> memory_;
    std::unique_ptr<image_file_system> image_;
    std::unique_ptr<memory_file_system> room_;
    std::string directory_;
    std::string path_;
};

}  // namespace holdfast::test
