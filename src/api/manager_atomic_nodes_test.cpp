// Durability `atomic` in a heap with several directories, whose process is killed.
#include <barrier>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "api/manager_atomic_fixture.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class manager_atomic_nodes_test : public manager_atomic_test {
protected:
    static constexpr std::size_t threads = 6;

    /// A heap of two nodes whose process was killed while its threads lived: each has made what its root points to.
    void make_crashed_heap() const {
        open_options wanted = options();
        wanted.node_directories = {"", ""};
        manager(create_only, path(), wanted).close();
        run_and_kill([](manager& heap) {
            std::barrier all(threads + 1);
            std::vector<std::thread> running;
            for (std::size_t i = 0; i < threads; ++i) {
                running.emplace_back([&, i] {
                    heap.make_persistent<node>(root(heap, i), i);
                    all.arrive_and_wait();
                    all.arrive_and_wait();  // for ever
                });
            }
            all.arrive_and_wait();
            ::raise(SIGKILL);
        });
    }
    static ptr<node>& root(manager& heap, std::size_t index) { return reinterpret_cast<ptr<node>&>(heap.root(index)); }
    static void expect_all(manager& heap) {
        for (std::size_t i = 0; i < threads; ++i) {
            ASSERT_TRUE(root(heap, i)) << i;
            EXPECT_EQ(root(heap, i)->value, i);
        }
        EXPECT_EQ(count_blocks(heap), threads);
        EXPECT_THAT(heap.check(false), IsEmpty());
    }
    [[nodiscard]] std::string lanes_of(int number) const {
        return path() + "/node." + std::to_string(number) + "/lanes";
    }
};

TEST_P(manager_atomic_nodes_test, recovers_the_records_of_all_directories) {
    make_crashed_heap();
    EXPECT_TRUE(std::filesystem::exists(lanes_of(0)));
    EXPECT_TRUE(std::filesystem::exists(lanes_of(1)));
    EXPECT_FALSE(std::filesystem::exists(path() + "/lanes"));
    const lane_information found = manager::lanes(path());
    EXPECT_TRUE(found.pending);
    EXPECT_GE(found.lanes, threads + 1);
    manager::copy(path(), path("copy"));
    {
        manager heap = open_atomic();
        expect_all(heap);
        EXPECT_GT(heap.last_recovery().lanes, threads);
        heap.close();
    }
    EXPECT_FALSE(manager::lanes(path()).pending);
    EXPECT_GE(manager::lanes(path()).lanes, threads + 1);
    manager copy(open_only, path("copy"), options());
    expect_all(copy);
    copy.close();
    EXPECT_TRUE(manager::remove(path()));
    EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_P(manager_atomic_nodes_test, refuses_a_crashed_heap_without_the_lanes_of_a_node) {
    make_crashed_heap();
    const auto refused = [&](errc reason, const std::string& said) {
        for (const bool read_only : {true, false}) {
            try {
                const manager heap = read_only ? manager(open_read_only, path()) : open_atomic();
                ADD_FAILURE() << "opened: " << said;
            } catch (const error& thrown) {
                EXPECT_EQ(thrown.reason(), reason) << thrown.what();
                EXPECT_THAT(thrown.what(), HasSubstr(said));
            }
        }
    };
    const std::string kept = path("kept");
    std::filesystem::rename(lanes_of(1), kept);
    refused(errc::missing, lanes_of(1));
    std::filesystem::copy_file(lanes_of(0), lanes_of(1));
    refused(errc::corrupt, lanes_of(1));
    std::filesystem::copy_file(kept, lanes_of(1), std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(lanes_of(1), 4096);
    refused(errc::corrupt, "size of the lanes");
    std::filesystem::rename(kept, lanes_of(1));
    {
        const manager reader(open_read_only, path());
        EXPECT_TRUE(reader.root(0));
    }
    manager heap = open_atomic();
    expect_all(heap);
}

INSTANTIATE_TEST_SUITE_P(domains, manager_atomic_nodes_test,
                         testing::Values(domain_choice::emulated, domain_choice::page_cache), [](const auto& instance) {
                             return instance.param == domain_choice::emulated ? "emulated" : "page_cache";
                         });

}  // namespace
}  // namespace holdfast
