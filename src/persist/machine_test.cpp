#include "persist/machine.hpp"

#include <sys/mman.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_test_support.hpp"

namespace holdfast::persist {

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class fake_machine {
public:
    void add(const std::string& name, const std::string& cpulist) const {
        fs::create_directories(path_ / name);
        std::ofstream(path_ / name / "cpulist") << cpulist;
    }
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    base::scratch_directory scratch_;
    fs::path path_ = scratch_.path();
};

TEST(machine_topology, NodesAreThoseOfTheKernelWithTheirProcessors) {
    const fake_machine machine;
    machine.add("node0", "0-2,6\n");
    machine.add("node1", "3-5,7\n");
    const machine_topology found(machine.path());
    EXPECT_EQ(found.nodes(), 2U);
    EXPECT_THAT(found.cpus_of(0), ElementsAre(0, 1, 2, 6));
    EXPECT_THAT(found.cpus_of(1), ElementsAre(3, 4, 5, 7));
    EXPECT_EQ(found.node_of_cpu(6), 0U);
    EXPECT_EQ(found.node_of_cpu(7), 1U);
    EXPECT_EQ(found.node_of_cpu(99), 0U) << "a processor that came later";
}

TEST(machine_topology, NodesWithoutProcessorsAreNoneAndThereAreNoGaps) {
    const fake_machine machine;
    machine.add("node1", "\n");
    machine.add("node2", "4-5\n");
    machine.add("node10", "0\n");
    machine.add("node0", "1\n");
    const machine_topology found(machine.path());
    ASSERT_EQ(found.nodes(), 3U);
    EXPECT_THAT(found.cpus_of(0), ElementsAre(1));
    EXPECT_THAT(found.cpus_of(1), ElementsAre(4, 5));
    EXPECT_THAT(found.cpus_of(2), ElementsAre(0));
}

TEST(machine_topology, WhatIsNoListSaysNothing) {
    const fake_machine machine;
    machine.add("node0", "x,1-,-2,3-2,99999999999,0-99999999,7\n");
    machine.add("nodes", "0\n");
    machine.add("power", "0\n");
    const machine_topology found(machine.path());
    ASSERT_EQ(found.nodes(), 1U);
    EXPECT_THAT(found.cpus_of(0), ElementsAre(7));
}

TEST(machine_topology, AMachineThatDoesNotTellIsOneNode) {
    const machine_topology found("/nonexistent");
    EXPECT_EQ(found.nodes(), 1U);
    EXPECT_FALSE(found.cpus_of(0).empty());
    EXPECT_EQ(found.current_node(), 0U);
}

TEST(machine_topology, ThisThreadRunsOnANodeOfThisMachine) {
    const topology& here = machine_topology::here();
    ASSERT_LT(here.current_node(), here.nodes());
    for (unsigned node = 0; node < here.nodes(); ++node) {
        for (const unsigned cpu : here.cpus_of(node)) {
            EXPECT_EQ(here.node_of_cpu(cpu), node);
        }
    }
}

TEST(machine_topology, MemoryOfANodeMayBePreferredWhateverItIs) {
    const topology& here = machine_topology::here();
    constexpr std::size_t bytes = 1 << 20;
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    // Containers may forbid both. Memory and thread must stay usable.
    here.prefer_memory(here.nodes() - 1, static_cast<std::byte*>(memory), bytes);
    {
        const topology::preference preferred(here, here.nodes() - 1);
        static_cast<char*>(memory)[0] = 1;
    }
    static_cast<char*>(memory)[bytes - 1] = 1;
    ::munmap(memory, bytes);
}

TEST(made_up_topology, ThreadsRunWhereTheySay) {
    const made_up_topology four(4, 2);
    EXPECT_EQ(four.nodes(), 4U);
    EXPECT_THAT(four.cpus_of(3), ElementsAre(6, 7));
    EXPECT_EQ(four.node_of_cpu(5), 2U);
    EXPECT_EQ(four.node_of_cpu(8), 0U);
    EXPECT_EQ(four.current_node(), 0U);
    made_up_topology::move_this_thread_to(2);
    std::thread([&] { EXPECT_EQ(four.current_node(), 0U) << "a thread of its own"; }).join();
    EXPECT_EQ(four.current_node(), 2U);
    made_up_topology::move_this_thread_to(6);
    EXPECT_EQ(four.current_node(), 2U) << "there is no node 6";
    EXPECT_FALSE(four.prefer_memory(1, nullptr, 0));
    made_up_topology::move_this_thread_to(0);
}

TEST(made_up_topology, ThereIsAlwaysANode) {
    const made_up_topology none(0, 0);
    EXPECT_EQ(none.nodes(), 1U);
    EXPECT_THAT(none.cpus_of(0), ElementsAre(0));
}

}  // namespace

}  // namespace holdfast::persist
