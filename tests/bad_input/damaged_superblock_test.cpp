// Superblocks: newer, truncated, flipped, missing. One good copy suffices.
#include <csignal>
#include <cstring>
#include <filesystem>

#include <holdfast/holdfast.h>

#include "base/process_test_support.hpp"
#include "refusal.hpp"
#include "segment/format/superblock.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

namespace fs = std::filesystem;

using segment::superblock_on_media;
using segment::superblock_size;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class damaged_superblock : public ::testing::Test {
protected:
    damaged_superblock() { make_heap(heap_, 3); }

    /// Changes copies [first, last] and gives them the checksum that they then should have.
    void edit(std::size_t first, std::size_t last, const std::function<void(superblock_on_media&)>& change) const {
        for (std::size_t copy = first; copy <= last; ++copy) {
            std::vector<char> bytes = read_bytes(file_, copy * superblock_size, superblock_size);
            superblock_on_media block{};
            std::memcpy(&block, bytes.data(), sizeof block);
            change(block);
            segment::seal(block);
            std::memcpy(bytes.data(), &block, sizeof block);
            write_bytes(file_, copy * superblock_size, bytes);
        }
    }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "heap";
    std::string file_ = heap_ + "/superblock";
};

TEST_F(damaged_superblock, a_newer_format_version_is_refused_by_number) {
    const auto newer = [](superblock_on_media& block) { block.version = 3; };
    const refusal wanted{errc::version_unsupported, file_, "version", "3", "2"};
    edit(0, 1, newer);
    expect_no_open(heap_, wanted);
    expect_refusal(heap_, wanted, [&] { manager::copy(heap_, scratch_ / "copy"); });
    EXPECT_FALSE(fs::exists(scratch_ / "copy"));
}

TEST_F(damaged_superblock, one_copy_of_a_newer_version_is_no_damage_to_work_around) {
    edit(1, 1, [](superblock_on_media& block) { block.version = 7; });
    expect_no_open(heap_, {errc::version_unsupported, file_, "version", "7", "2"});
}

TEST_F(damaged_superblock, a_newer_version_is_refused_before_its_checksum_is_looked_at) {
    edit(0, 1, [](superblock_on_media& block) { block.version = 3; });
    flip_bit(file_, 2000, 1);
    flip_bit(file_, superblock_size + 2000, 1);
    expect_no_open(heap_, {errc::version_unsupported, file_, "version", "3", "2"});
}

TEST_F(damaged_superblock, a_bit_flipped_in_the_version_or_magic_of_one_copy_is_damage_not_a_newer_version) {
    for (const std::uint64_t byte : {std::uint64_t{1}, std::uint64_t{8}, superblock_size + 1, superblock_size + 9}) {
        flip_bit(file_, byte, 1);
        {
            const manager opened(open_read_only, heap_, small_segments());
            EXPECT_THAT(opened.check(true), ::testing::SizeIs(1));
        }
        expect_heap_goes_on(heap_);
    }
}

TEST_F(damaged_superblock, one_good_copy_suffices_and_the_next_commit_heals_the_other) {
    for (const std::uint64_t byte : {0UL, 20UL, 100UL, 4095UL, superblock_size, superblock_size + 72, 8191UL}) {
        const std::uint64_t step = step_when_opened(heap_);
        flip_bit(file_, byte, 5);
        {
            const manager opened(open_read_only, heap_, small_segments());
            EXPECT_EQ(step_of(opened), step);
            const auto problems = opened.check(true);
            ASSERT_EQ(problems.size(), 1U);
            EXPECT_THAT(problems[0], HasSubstr(byte < superblock_size ? "copy 0" : "copy 1"));
        }
        expect_heap_goes_on(heap_);
    }
}

TEST_F(damaged_superblock, two_bad_copies_are_an_error_that_names_both) {
    flip_bit(file_, 500, 0);
    flip_bit(file_, superblock_size + 500, 0);
    expect_no_open(heap_, {errc::corrupt, file_, "checksum", "0x", "0x"});
    const auto thrown = expect_refusal(heap_, {errc::corrupt, file_, "checksum", "0x", "0x"},
                                       [&] { const manager opened(open_only, heap_, small_segments()); });
    ASSERT_TRUE(thrown.has_value());
    EXPECT_THAT(thrown->what(), HasSubstr("copy 0"));
    EXPECT_THAT(thrown->what(), HasSubstr("copy 1"));
}

TEST_F(damaged_superblock, truncated_to_one_copy_it_serves) {
    fs::resize_file(file_, superblock_size);
    {
        const manager opened(open_read_only, heap_, small_segments());
        EXPECT_EQ(step_of(opened), 3U);
        EXPECT_THAT(opened.check(false), Not(IsEmpty()));
    }
    expect_heap_goes_on(heap_);
    EXPECT_EQ(fs::file_size(file_), 2 * superblock_size);
}

TEST_F(damaged_superblock, truncated_below_one_copy_it_is_an_error) {
    for (const std::uint64_t size : {4095UL, 100UL, 0UL}) {
        fs::resize_file(file_, size);
        expect_no_open(heap_, {errc::corrupt, file_, "file size", std::to_string(size), "8192"});
    }
}

TEST_F(damaged_superblock, of_a_session_that_the_machine_ended_is_refused_unless_that_is_accepted) {
    fs::remove_all(heap_);
    open_options on_the_page_cache = small_segments();
    on_the_page_cache.durability = durability::collect;
    on_the_page_cache.domain = open_options::domain_choice::page_cache;
    on_the_page_cache.accept_process_crash_only = true;
    const base::child_process dies([&] {
        manager heap(create_only, heap_, on_the_page_cache);
        heap.construct<int>("seven")(7);
        ::raise(SIGKILL);
    });
    ASSERT_TRUE(dies.ends_within(60'000'000'000));
    edit(0, 1, [](superblock_on_media& block) { block.boot ^= 2; });

    expect_no_open(heap_, {errc::promise_unavailable, heap_, "boot of the machine", "the machine was restarted",
                           "the boot in which that session began"});
    hf_options in_c = HF_OPTIONS_INIT;
    hf_heap* examined = nullptr;
    EXPECT_EQ(hf_open_read_only(heap_.c_str(), &in_c, &examined), HF_PROMISE_UNAVAILABLE);
    in_c.accept_machine_restart = 1;
    EXPECT_EQ(hf_open_read_only(heap_.c_str(), &in_c, &examined), HF_OK);
    hf_discard(examined);

    on_the_page_cache.accept_machine_restart = true;
    for (int session = 0; session < 2; ++session) {
        manager heap(open_only, heap_, on_the_page_cache);
        EXPECT_EQ(*heap.find<int>("seven").first, 7);
    }
    on_the_page_cache.accept_machine_restart = false;
    const manager closed_since(open_only, heap_, on_the_page_cache);
}

TEST_F(damaged_superblock, missing_it_is_named) {
    fs::remove(file_);
    expect_no_open(heap_, {errc::missing, file_, "file", "nothing", "the heap's superblock"});
}

TEST_F(damaged_superblock, another_kind_of_file_in_its_place_is_no_heap) {
    write_bytes(file_, 0, std::vector<char>(2 * superblock_size, 'x'));
    expect_no_open(heap_, {errc::not_a_heap, file_, "magic", "7878787878787878", "HOLDFAST"});
}

TEST_F(damaged_superblock, sealed_nonsense_in_any_field_is_refused_by_its_name) {
    struct nonsense {
        const char* field;
        std::function<void(superblock_on_media&)> change;
    };
    const std::vector<nonsense> all{
        {"segment size", [](superblock_on_media& block) { block.segment_size = 3 << 20; }},
        {"segment size", [](superblock_on_media& block) { block.segment_size = 0; }},
        {"frontier", [](superblock_on_media& block) { block.frontier = 0; }},
        {"frontier", [](superblock_on_media& block) { block.frontier = UINT64_MAX; }},
        {"objects size", [](superblock_on_media& block) { block.objects_size = 4097; }},
        {"objects size", [](superblock_on_media& block) { block.objects_size = UINT64_MAX - 4095; }},
        {"reservation", [](superblock_on_media& block) { block.reservation = 12345; }},
        {"state", [](superblock_on_media& block) { block.state = static_cast<segment::heap_state>(9); }},
        {"flags", [](superblock_on_media& block) { block.flags = 0x80; }},
        {"heap key", [](superblock_on_media& block) { block.heap_key = 0; }},
        {"sequence", [](superblock_on_media& block) { block.sequence = 0; }},
        {"checkpoint clock",
         [](superblock_on_media& block) { block.checkpoint_clock = (std::uint64_t{1} << 63U) + 1; }},
        {"base address", [](superblock_on_media& block) { block.base_address = 4096; }},
    };
    const std::vector<char> good = read_bytes(file_);
    for (const nonsense& one : all) {
        SCOPED_TRACE(one.field);
        edit(0, 1, one.change);
        expect_no_open(heap_, {errc::corrupt, file_, one.field, "", ""});
        write_bytes(file_, 0, good);
    }
    expect_heap_goes_on(heap_);
}

TEST_F(damaged_superblock, a_frontier_beyond_the_files_is_refused_without_touching_them) {
    edit(0, 1, [](superblock_on_media& block) { block.frontier = 64UL << 20U; });
    expect_no_open(heap_, {errc::missing, heap_ + "/segment.000001", "", "", ""});
}

}  // namespace
}  // namespace holdfast::support
