// Which lane a thread gets where lanes lie in several files, each in memory of one node of the machine.
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sparse_table.hpp"
#include "lane/lane_set.hpp"

namespace holdfast::lane {
namespace {

class lane_nodes_test : public testing::Test, public segment::lane_area {
protected:
    using emulated = persist::flushing_domain<persist::domain_kind::emulated>;
    static constexpr std::uint64_t heap_key = 0x1234'5678'9abc'def0;
    static constexpr std::uint64_t slots = minimum_slots;
    static constexpr std::uint64_t user_bytes = 2 * base::mebibyte;

    static base::sparse_memory map(std::uint64_t bytes, const char* what) {
        auto mapped = base::sparse_memory::map(bytes, what);
        if (!mapped) {
            throw std::runtime_error(mapped.error().message());
        }
        return std::move(mapped).value();
    }

    std::byte* lanes() const noexcept override { return static_cast<std::byte*>(lanes_.address()); }
    std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override {
        if (bytes > lanes_file_size(room_, slots)) {
            base::failure what;
            what.code = base::failure_code::no_space;
            return what;
        }
        size_ = std::max(size_, bytes);
        return {};
    }
    [[nodiscard]] lane_set<emulated>& open(unsigned files, unsigned machine_nodes) {
        lane_options wanted;
        wanted.heap_key = heap_key;
        wanted.incarnation = 1;
        wanted.slots = slots;
        wanted.files = files;
        wanted.machine_nodes = machine_nodes;
        set_ = std::make_unique<lane_set<emulated>>(emulated{}, space_, *this, wanted);
        EXPECT_TRUE(set_->open().ok());
        return *set_;
    }
    [[nodiscard]] std::uint64_t acquire(unsigned node) const {
        const lane* const found = set_->acquire(node);
        return found == nullptr ? none : found->index;
    }
    [[nodiscard]] std::uint64_t sealed_lanes() const {
        return read_lane_count({lanes(), size_}, size_, slots, record_order::clock, heap_key).value();
    }

    static constexpr std::uint64_t none = ~std::uint64_t{0};
    std::uint64_t room_ = 16;
    base::sparse_memory user_ = map(user_bytes, "user");
    base::sparse_memory metadata_ = map(segment::geometry{user_bytes}.metadata_size(), "metadata");
    base::sparse_memory lanes_ = map(lanes_file_size(maximum_lanes, slots), "lanes");
    std::uint64_t size_ = 0;
    segment::space_view space_{static_cast<std::byte*>(user_.address()), static_cast<std::byte*>(metadata_.address()),
                               segment::geometry{user_bytes}, user_bytes};
    std::unique_ptr<lane_set<emulated>> set_;
};

TEST_F(lane_nodes_test, a_thread_gets_a_lane_of_its_own_node_and_others_get_those_in_between) {
    lane_set<emulated>& set = open(3, 3);
    EXPECT_EQ(acquire(2), 2U);
    EXPECT_EQ(sealed_lanes(), 3U);
    EXPECT_EQ(size_, lanes_file_size(3, slots)) << "no more than that";
    EXPECT_EQ(set.statistics().lanes, 3U);
    EXPECT_EQ(acquire(2), 5U) << "a lane of another node is free, and one of its own is better";
    EXPECT_EQ(sealed_lanes(), 6U);
    EXPECT_EQ(acquire(1), 4U);
    EXPECT_EQ(acquire(1), 1U);
    EXPECT_EQ(acquire(0), 3U) << "lane 0 is the shared one";
    EXPECT_EQ(acquire(0), 6U);
    EXPECT_EQ(acquire(0), 9U);
}

TEST_F(lane_nodes_test, a_lane_that_was_given_back_serves_its_node_first) {
    lane_set<emulated>& set = open(2, 2);
    lane& of_one = *set.acquire(1);
    lane& of_zero = *set.acquire(0);
    set.release(of_one);
    set.release(of_zero);
    EXPECT_EQ(acquire(0), of_zero.index);
    EXPECT_EQ(acquire(1), of_one.index);
}

TEST_F(lane_nodes_test, where_there_is_no_room_for_an_own_lane_any_serves) {
    room_ = 4;
    static_cast<void>(open(2, 2));
    EXPECT_EQ(acquire(1), 1U);
    EXPECT_EQ(acquire(1), 3U);
    EXPECT_EQ(acquire(1), 2U);
    EXPECT_EQ(acquire(1), none);
    room_ = 5;  // for a lane of node 0 alone
    EXPECT_EQ(acquire(1), 4U);
    EXPECT_EQ(acquire(0), none);
}

TEST_F(lane_nodes_test, all_lanes_are_used_by_threads_of_one_node) {
    room_ = maximum_lanes;
    static_cast<void>(open(4, 4));
    std::set<std::uint64_t> given;
    for (std::uint64_t i = 1; i < maximum_lanes; ++i) {
        const std::uint64_t found = acquire(1);
        EXPECT_EQ(found % 4 == 1, i <= maximum_lanes / 4) << i;
        EXPECT_TRUE(given.insert(found).second);
    }
    EXPECT_EQ(given.size(), maximum_lanes - 1);
    EXPECT_LT(*given.rbegin(), maximum_lanes);
    EXPECT_EQ(acquire(1), none);
}

TEST_F(lane_nodes_test, files_and_nodes_of_the_machine_may_differ) {
    static_cast<void>(open(4, 2));  // files 1 and 3 belong to node 1
    EXPECT_EQ(acquire(1), 1U);
    EXPECT_EQ(acquire(1), 3U);
    EXPECT_EQ(acquire(0), 2U);
    static_cast<void>(open(2, 4));  // threads of node 3 use what belongs to node 1
    EXPECT_EQ(acquire(3), 1U);
    EXPECT_EQ(acquire(2), 2U);
    static_cast<void>(open(3, 1));  // nobody has a node
    EXPECT_EQ(acquire(0), 1U);
    EXPECT_EQ(acquire(0), 2U);
    EXPECT_EQ(acquire(0), 3U);
    static_cast<void>(open(1, 4));  // all lanes in one file
    EXPECT_EQ(acquire(3), 1U);
    EXPECT_EQ(acquire(0), 2U);
}

TEST_F(lane_nodes_test, a_thread_that_moved_to_another_node_moves_to_a_lane_there) {
    lane_set<emulated>& set = open(2, 2);
    lane& first = *set.acquire(0);
    EXPECT_EQ(set.move(first, 0), &first);
    lane* const second = set.move(first, 1);
    EXPECT_EQ(second->index % 2, 1U);
    EXPECT_EQ(set.acquire(0), &first) << "for another thread";
    room_ = 0;
    EXPECT_EQ(set.move(*second, 0), second) << "there is no other";
}

}  // namespace
}  // namespace holdfast::lane
