#include "segment/files/kernel_limits.hpp"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/units.hpp"
#include "segment/test_support.hpp"

namespace holdfast::segment {

namespace {

using base::mebibyte;

class available_memory_test : public testing::Test {
protected:
    void write(const std::string& name, const std::string& text) const {
        const std::filesystem::path path = place_.path(name);
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    void write(const std::string& name, std::uint64_t number) const { write(name, std::to_string(number) + "\n"); }
    void machine(std::uint64_t available, std::uint64_t swap) const {
        write("meminfo", "MemTotal: 999999999 kB\nMemAvailable:   " + std::to_string(available / 1024) +
                             " kB\nSwapTotal: 1 kB\nSwapFree:  " + std::to_string(swap / 1024) + " kB\n");
    }
    [[nodiscard]] std::uint64_t now() const {
        return available_memory({place_.path("meminfo"), place_.path("groups"), place_.path("mounts")});
    }

    test_directory place_;
};

TEST_F(available_memory_test, is_all_ones_where_the_kernel_says_nothing) {
    EXPECT_EQ(now(), std::numeric_limits<std::uint64_t>::max());
}

TEST_F(available_memory_test, is_that_of_the_machine_and_its_swap) {
    machine(700 * mebibyte, 50 * mebibyte);
    EXPECT_EQ(now(), 750 * mebibyte);
}

TEST_F(available_memory_test, is_that_of_the_smallest_group_of_version_2) {
    machine(700 * mebibyte, 50 * mebibyte);
    write("groups", "0::/outer/inner\n");
    write("mounts", "22 1 0:20 / /proc rw - proc proc rw\n30 1 0:25 / " + place_.path("unified") +
                        " rw,relatime shared:4 - cgroup2 cgroup2 rw\n");
    write("unified/outer/memory.max", "max\n");
    write("unified/outer/inner/memory.max", 300 * mebibyte);
    write("unified/outer/inner/memory.current", 250 * mebibyte);
    write("unified/outer/inner/memory.stat",
          "file 1\nactive_file " + std::to_string(20 * mebibyte) + "\ninactive_file " + std::to_string(30 * mebibyte));
    write("unified/outer/inner/memory.swap.max", 10 * mebibyte);
    write("unified/outer/inner/memory.swap.current", 4 * mebibyte);
    EXPECT_EQ(now(), 106 * mebibyte);
    write("unified/outer/memory.max", 400 * mebibyte);
    write("unified/outer/memory.current", 390 * mebibyte);
    write("unified/outer/memory.swap.max", 0);
    EXPECT_EQ(now(), 10 * mebibyte) << "the outer one has less";
    write("unified/outer/inner/memory.current", 600 * mebibyte);
    write("unified/outer/memory.max", 100 * mebibyte);
    EXPECT_EQ(now(), 0U) << "more than the limit is in use";
}

TEST_F(available_memory_test, is_that_of_the_group_of_version_1) {
    machine(700 * mebibyte, 50 * mebibyte);
    write("groups", "9:cpu:/elsewhere\n4:memory:/here\n0::/\n");
    write("mounts", "31 30 0:27 / " + place_.path("cpu") + " rw - cgroup cgroup rw,cpu\n32 30 0:28 / " +
                        place_.path("memory") + " rw,relatime - cgroup cgroup rw,memory\n");
    write("memory/memory.limit_in_bytes", std::uint64_t{9223372036854771712U});
    write("memory/here/memory.limit_in_bytes", 300 * mebibyte);
    write("memory/here/memory.usage_in_bytes", 280 * mebibyte);
    write("memory/here/memory.stat",
          "total_inactive_file " + std::to_string(5 * mebibyte) + "\ntotal_active_file 0\ninactive_file 1\n");
    EXPECT_EQ(now(), 75 * mebibyte);
    write("memory/here/memory.memsw.limit_in_bytes", 310 * mebibyte);
    write("memory/here/memory.memsw.usage_in_bytes", 280 * mebibyte);
    EXPECT_EQ(now(), 35 * mebibyte) << "with so much swap at most";
}

TEST_F(available_memory_test, is_that_of_the_mount_where_a_container_sees_its_own_group_alone) {
    machine(700 * mebibyte, 0);
    write("groups", "0::/docker/one\n");
    write("mounts", "30 1 0:25 /docker/one " + place_.path("unified") + " rw - cgroup2 cgroup2 rw\n");
    write("unified/memory.max", 200 * mebibyte);
    write("unified/memory.current", 150 * mebibyte);
    EXPECT_EQ(now(), 50 * mebibyte);
}

/// Was: such a mount counted as none.
TEST_F(available_memory_test, is_that_of_a_mount_whose_path_has_spaces_and_backslashes) {
    machine(700 * mebibyte, 0);
    write("groups", "0::/a group\\one/inner\n");
    write("mounts", "30 1 0:25 /a\\040group\\134one " + place_.path("a") + "\\040mount\\0 rw - cgroup2 cgroup2 rw\n");
    write("a mount\\0/inner/memory.max", 200 * mebibyte);
    write("a mount\\0/inner/memory.current", 150 * mebibyte);
    EXPECT_EQ(now(), 50 * mebibyte);
}

/// Was: taken for a group below the mount's, and the walk up to it ended the process.
TEST_F(available_memory_test, knows_nothing_of_a_group_beside_the_one_that_the_mount_shows) {
    machine(700 * mebibyte, 0);
    write("mounts", "30 1 0:25 /docker/one " + place_.path("unified") + " rw - cgroup2 cgroup2 rw\n");
    write("unified/memory.max", 200 * mebibyte);
    write("unified/memory.current", 150 * mebibyte);
    for (const char* const group : {"0::/docker/one-more\n", "0::/docker/one2/inner\n", "0::/\n", "0::/dock\n",
                                    "0::docker\n", "0::\n", "0::/../beside\n", "0"}) {
        write("groups", group);
        EXPECT_EQ(now(), 50 * mebibyte) << group;
    }
}

TEST_F(available_memory_test, bears_whatever_the_files_say) {
    const std::string most = std::to_string(std::numeric_limits<std::uint64_t>::max());
    write("groups", "0::nothing/there\n4:memory:relative/path\n:::\n\n");
    write("mounts", "30 1 0:25 / " + place_.path("unified") +
                        " rw - cgroup2 cgroup2 rw\n - cgroup2\n1 - cgroup x memory\n" + "31 30 0:27 / " +
                        place_.path("memory") + " rw - cgroup cgroup rw,memory\n");
    write("memory/memory.limit_in_bytes", 100 * mebibyte);
    write("memory/memory.stat", "total_active_file " + most + "\ntotal_inactive_file " + most + "\n");
    write("meminfo", "MemAvailable: " + most + " kB\nSwapFree: " + most + " kB\n");
    EXPECT_GE(now(), 100 * mebibyte) << "a checksum that wraps around would refuse all memory";
    write("meminfo", "MemAvailable\nSwapFree: -1 kB\nMemAvailable: 0x10 kB");
    EXPECT_GE(now(), 100 * mebibyte);
}

}  // namespace

}  // namespace holdfast::segment
