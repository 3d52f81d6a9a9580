#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "base/sparse_table.hpp"
#include "lane/lane_set.hpp"
#include "lane/replay.hpp"

namespace holdfast::lane {

using domain = persist::flushing_domain<persist::domain_kind::emulated>;

inline constexpr std::uint64_t key = 0x1234'5678'9abc'def0;
inline constexpr std::uint64_t slots = 64;
inline constexpr std::uint64_t user_bytes = 2 * base::mebibyte;

class lane_test : public testing::Test, public segment::lane_area {
protected:
    lane_test()
        : user_(must(base::sparse_memory::map(user_bytes, "user"))),
          metadata_(must(base::sparse_memory::map(segment::geometry{user_bytes}.metadata_size(), "metadata"))),
          lanes_(must(base::sparse_memory::map(lanes_file_size(8, slots), "lanes"))),
          space_(static_cast<std::byte*>(user_.address()), static_cast<std::byte*>(metadata_.address()),
                 segment::geometry{user_bytes}, user_bytes) {}

    std::byte* lanes() const noexcept override { return static_cast<std::byte*>(lanes_.address()); }
    std::uint64_t lanes_size() const noexcept override { return size_; }
    base::result<void> grow_lanes(std::uint64_t bytes) override {
        if (bytes > lanes_file_size(8, slots)) {
            base::failure what;
            what.code = base::failure_code::no_space;
            return what;
        }
        size_ = std::max(size_, bytes);
        return {};
    }

    static lane_options options() {
        lane_options wanted;
        wanted.heap_key = key;
        wanted.incarnation = 1;
        wanted.slots = slots;
        wanted.lanes_for_ahead = 3;
        return wanted;
    }
    [[nodiscard]] replay_source source(std::uint64_t incarnation = 1) {
        return {space_, {lanes(), size_}, slots, record_order::clock, key, incarnation, user_bytes, false, {}};
    }
    [[nodiscard]] lanes_head_on_media& head() const noexcept {
        return *reinterpret_cast<lanes_head_on_media*>(lanes());
    }
    void expect_corrupt(const std::string& field, const std::string& found, const std::string& expected) {
        const auto plan = make_replay(source());
        ASSERT_FALSE(plan.ok()) << field;
        EXPECT_EQ(plan.error().code, base::failure_code::corrupt);
        EXPECT_EQ(plan.error().field, field);
        EXPECT_EQ(plan.error().found, found);
        EXPECT_EQ(plan.error().expected, expected);
    }
    [[nodiscard]] std::uint64_t& word(std::uint64_t offset) const {
        return *reinterpret_cast<std::uint64_t*>(space_.address({offset}));
    }
    [[nodiscard]] static record_on_media allocation(std::uint64_t destination, std::uint16_t stamp,
                                                    std::uint64_t block) {
        return {0, 0, 0, encode_destination(destination, stamp), block, encode({block_kind::small, 64, 0}), nowhere, 0};
    }
    [[nodiscard]] bool is_live(std::uint64_t block) const {
        const std::uint64_t index = block % base::granule_size / 64;
        return (space_.live_bitmap(base::granule_of(base::heap_offset{block}))[index / 64] >> (index % 64) & 1) != 0;
    }
    void append_only(lane_set<domain>& set, lane& own, record_on_media record) {
        set.prepare(own, 1);
        set.announce(own);
        set.append(own, record, {&word(destination_offset(record.destination)), nullptr, nullptr});
        EXPECT_TRUE(set.fence(own));
    }
    void call(lane_set<domain>& set, lane& own, const record_on_media& record) {
        append_only(set, own, record);
        set.effects().carry_out(record);
        set.complete(own);
    }
    void replay() {
        const replay_source from = source();
        const auto plan = make_replay(from);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        domain to;
        apply(plan.value(), from, to);
    }

    template <class T>
    static T must(base::result<T> outcome) {
        if (!outcome) {
            throw std::runtime_error(outcome.error().message());
        }
        return std::move(outcome).value();
    }

    base::sparse_memory user_;
    base::sparse_memory metadata_;
    base::sparse_memory lanes_;
    std::uint64_t size_ = 0;
    segment::space_view space_;
};

}  // namespace holdfast::lane
