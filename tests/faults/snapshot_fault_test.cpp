// The first open of a snapshot that was taken while extents were on their way: reserved, or withdrawn and in a cache.
// Their page entries become those of free extents, and whatever of that a dead process or a power loss keeps, the heap
// is sound.
//
// Fault model: from the n-th write on all fail, so that the open does, at every moment at which it has told the disk
// something. What it stored in the mapping until then is on media word by word or not.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>

#include "interposer.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::faults {
namespace {

using testing::IsEmpty;

constexpr std::size_t block_bytes = 40'000;
constexpr int blocks = 9;

struct way {
    durability chosen;
    open_options::domain_choice domain;
    const char* name;
    friend void PrintTo(const way& of, std::ostream* out) { *out << of.name; }
};

open_options options_of(const way& in) {
    open_options options = support::small_segments();
    options.durability = in.chosen;
    options.domain = in.domain;
    options.accept_process_crash_only = true;
    return options;
}

class first_open_of_a_snapshot : public testing::TestWithParam<way> {
protected:
    /// A snapshot of a heap with blocks behind roots, and between them extents that are reserved.
    void make_snapshot() {
        manager heap(create_only, scratch_ / "heap", options_of(GetParam()));
        std::vector<void*> passing;
        for (int i = 0; i < blocks; ++i) {
            heap.root(static_cast<std::size_t>(i)) = fill(heap.allocate(block_bytes), i);
            // Two in a row, so that what becomes one free extent were several.
            for (int k = 0; k < 2; ++k) {
                passing.push_back(GetParam().chosen == durability::atomic ? heap.reserve(block_bytes)
                                                                          : heap.allocate(block_bytes));
            }
        }
        for (void* const each : passing) {
            if (GetParam().chosen != durability::atomic) {
                heap.deallocate(each);
            }
        }
        heap.snapshot(snapshot());
    }
    static void* fill(void* block, int with) { return std::memset(block, with, block_bytes); }
    [[nodiscard]] std::string snapshot() const { return scratch_ / "snapshot"; }
    [[nodiscard]] std::string trial() const { return scratch_ / "trial"; }

    static std::vector<std::string> segments_of(const std::string& heap) {
        std::vector<std::string> names;
        for (const auto& each : std::filesystem::directory_iterator(heap)) {
            const std::string name = each.path().filename().string();
            if (name.starts_with("segment")) {
                names.push_back(name);
            }
        }
        return names;
    }
    /// The heap opens, for writing and for reading, is sound, and holds what it held.
    void expect_sound(const std::string& path, const std::string& what) const {
        SCOPED_TRACE(what);
        try {
            {
                manager heap(open_only, path, options_of(GetParam()));
                EXPECT_THAT(heap.check(false), IsEmpty());
                for (int i = 0; i < blocks; ++i) {
                    const auto* const bytes =
                        static_cast<const unsigned char*>(heap.root(static_cast<std::size_t>(i)).get());
                    ASSERT_NE(bytes, nullptr);
                    EXPECT_EQ(bytes[block_bytes - 1], i);
                }
                EXPECT_NE(heap.allocate(3 * block_bytes), nullptr);
            }
            const manager again(open_read_only, path, support::small_segments());
            EXPECT_THAT(again.check(true), IsEmpty());
        } catch (const std::exception& refused) {
            ADD_FAILURE() << refused.what();
        }
    }
    /// `left`: files as a process left them that died. Of what it had stored in the segments since the snapshot, each
    /// word alone may be on media, or none, or all but one.
    void expect_sound_after_a_power_loss(const std::string& left, const std::string& what) {
        const std::string image = scratch_ / "image";
        const auto expect_with = [&](const std::string& name, const std::vector<char>& segment, std::size_t word) {
            support::copy_directory(left, image);
            support::write_bytes(image + "/" + name, 0, segment);
            expect_sound(image, fmt::format("{}, word at {} of {}", what, word, name));
        };
        for (const std::string& name : segments_of(snapshot())) {
            const std::vector<char> before = support::read_bytes(snapshot() + "/" + name);
            const std::vector<char> after = support::read_bytes(left + "/" + name);
            ASSERT_EQ(before.size(), after.size());
            for (std::size_t word = 0; word + 8 <= before.size() && !HasFailure(); word += 8) {
                if (std::memcmp(before.data() + word, after.data() + word, 8) == 0) {
                    continue;
                }
                ++words_;
                std::vector<char> one = before;
                std::memcpy(one.data() + word, after.data() + word, 8);
                expect_with(name, one, word);
                std::vector<char> others = after;
                std::memcpy(others.data() + word, before.data() + word, 8);
                expect_with(name, others, word);
            }
        }
        support::copy_directory(left, image);
        expect_sound(image, what);
    }

    support::scratch_directory scratch_;
    int words_ = 0;
};

TEST_P(first_open_of_a_snapshot, leaves_a_sound_heap_wherever_it_ends) {
    make_snapshot();
    bool opened = false;
    for (std::uint64_t nth = 1; !opened && !HasFailure(); ++nth) {
        support::copy_directory(snapshot(), trial());
        const std::string left = scratch_ / "left";
        arm({call::pwrite, nth, true, EIO});
        try {
            const manager heap(open_only, trial(), options_of(GetParam()));
            disarm();
            opened = fired() == 0;
            support::copy_directory(trial(), left);  // as it is while the heap is open
        } catch (const std::exception&) {
            disarm();
            support::copy_directory(trial(), left);
        }
        expect_sound_after_a_power_loss(left, fmt::format("the {}th write fails", nth));
    }
    EXPECT_GT(words_, 0) << "no entry was reserved";
}

INSTANTIATE_TEST_SUITE_P(
    in, first_open_of_a_snapshot,
    testing::Values(way{durability::collect, open_options::domain_choice::page_cache, "collect"},
                    way{durability::collect, open_options::domain_choice::emulated, "collect_emulated"},
                    way{durability::atomic, open_options::domain_choice::page_cache, "atomic"},
                    way{durability::atomic, open_options::domain_choice::emulated, "atomic_emulated"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace holdfast::faults
