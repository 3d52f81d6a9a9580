// Room in the log that all lanes share.
#include <memory>

#include "lane/lane_test_support.hpp"
#include "lane/log_in_memory.hpp"

namespace holdfast::lane {
namespace {

/// What is stored is durable, and records go to a log.
class disk_in_memory : public domain {
public:
    static constexpr bool models_disks = true;
};

class lane_log_test : public lane_test {
protected:
    base::result<std::unique_ptr<segment::log_writer>> open_log() override {
        return std::unique_ptr<segment::log_writer>(std::make_unique<log_in_memory>(lanes()));
    }
    /// A log of 128 records, of which 96 are free at first.
    static lane_options log_options() {
        lane_options wanted = options();
        wanted.order = record_order::logged;
        wanted.log_lanes = 2;
        wanted.log_block_records = 32;
        return wanted;
    }
};

/// A lane that kept the room for its next calls let a fifth lane wait for ever.
TEST_F(lane_log_test, the_room_of_a_refused_group_stayed_with_its_lane) {
    constexpr std::uint64_t large = 31;
    lane_set<disk_in_memory> set({}, space_, *this, log_options());
    ASSERT_TRUE(set.open().ok());
    for (int i = 0; i < 6; ++i) {
        lane& own = *set.acquire();
        set.prepare(own, large);
        set.announce(own);
        set.cancel(own);
        ASSERT_EQ(own.log_claimed, own.sequence + 1) << "what a lane claims at once";
    }
    lane& last = *set.acquire();
    set.prepare(last, large);
    set.announce(last);
    for (std::uint64_t i = 0; i < large; ++i) {
        record_on_media record = allocation(64 * i, 1, base::granule_size);
        set.append(last, record, {&word(64 * i), nullptr, nullptr});
    }
    EXPECT_TRUE(set.fence(last));
    set.complete(last);
    EXPECT_EQ(last.log_claimed, last.sequence);
}

}  // namespace
}  // namespace holdfast::lane
