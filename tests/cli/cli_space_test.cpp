// What `holdfast info` says of a heap's space, for heaps with known allocations.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <holdfast/manager.hpp>
#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "program.hpp"
#include "support/counted_heap.hpp"
#include "support/scratch.hpp"

namespace holdfast::support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kibibyte = 1024;
using base::mebibyte;

class cli_space : public ::testing::Test {
protected:
    [[nodiscard]] const std::string& heap() const { return heap_; }
    [[nodiscard]] nlohmann::json space() const { return run_holdfast({"info", heap_, "--json"}).json()["space"]; }
    [[nodiscard]] std::string text() const { return run_holdfast({"info", heap_}).out; }

    static std::uint64_t number(const nlohmann::json& from) { return from.get<std::uint64_t>(); }

    scratch_directory scratch_;
    std::string heap_ = scratch_ / "test.hf";
};

TEST_F(cli_space, classes_prints_the_sizes_that_heaps_have) {
    const nlohmann::json classes = run_holdfast({"classes", "--json"}).json()["classes"];
    ASSERT_GT(classes.size(), 30U);
    EXPECT_EQ(classes.front()["block_size"], 8);
    EXPECT_EQ(classes.back()["block_size"], 16 * kibibyte);
    manager made(create_only, heap(), small_segments());
    std::uint64_t next = 1;
    for (const nlohmann::json& one : classes) {
        const std::uint64_t size = number(one["block_size"]);
        EXPECT_EQ(number(one["smallest_request"]), next);
        EXPECT_EQ(number(one["worst_waste"]), size - next);
        EXPECT_LE(size > 64 ? (size - next) * 5 : size - next, size > 64 ? size : 7U) << "20 %, or 7 bytes";
        EXPECT_EQ(number(one["blocks_a_slab"]), 64 * kibibyte / size);
        for (const std::uint64_t bytes : {next, size}) {
            void* const block = made.allocate_aligned(bytes, 8);
            EXPECT_EQ(made.usable_size(block), size) << bytes;
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % number(one["alignment"]), 0U);
        }
        next = size + 1;
    }
    const std::string text = run_holdfast({"classes"}).out;
    EXPECT_EQ(std::ranges::count(text, '\n'), static_cast<std::ptrdiff_t>(classes.size() + 1));
}

TEST_F(cli_space, info_counts_extents_by_kind) {
    manager made(create_only, heap(), small_segments());
    for (int i = 0; i < 100; ++i) {
        static_cast<void>(made.allocate(64));
    }
    static_cast<void>(made.allocate(100 * kibibyte));
    void* const between = made.allocate(200 * kibibyte);
    static_cast<void>(made.allocate(100 * kibibyte));
    static_cast<void>(made.allocate(16 * mebibyte));
    static_cast<void>(made.allocate(16 * mebibyte + 1));
    made.deallocate(between);
    const std::uint64_t user = made.get_size();
    made.close(true);

    const nlohmann::json info = run_holdfast({"info", heap(), "--json"}).json();
    EXPECT_EQ(info["segment_size"], 2 * mebibyte);
    const nlohmann::json& extents = info["space"]["extents"];
    EXPECT_EQ(extents["roots"]["extents"], 1);
    EXPECT_EQ(extents["roots"]["bytes"], 64 * kibibyte);
    EXPECT_EQ(extents["slab"]["extents"], 1);
    EXPECT_EQ(extents["slab"]["bytes"], 64 * kibibyte);
    EXPECT_EQ(extents["big"]["extents"], 3) << "16 MiB is big";
    EXPECT_EQ(extents["big"]["bytes"], 200 * kibibyte + 16 * mebibyte);
    EXPECT_EQ(extents["huge"]["extents"], 1) << "and a byte more is huge";
    EXPECT_EQ(extents["huge"]["bytes"], 16 * mebibyte + 4 * kibibyte);
    EXPECT_EQ(extents["reserved"]["extents"], 0);
    std::uint64_t all = 0;
    for (const auto& kind : extents) {
        all += number(kind["bytes"]);
        EXPECT_LE(number(kind["backed"]), number(kind["bytes"]));
    }
    EXPECT_EQ(all, user) << "extents tile the space";
    EXPECT_EQ(info["space"]["slab_live_bytes"], 6400);
    EXPECT_EQ(info["space"]["damaged_slabs"], 0);
    EXPECT_THAT(text(), AllOf(HasSubstr("extents, slab       1: 65536 B (64.0 KiB), on disk "),
                              HasSubstr("extents, big        3: "), HasSubstr("extents, huge       1: "),
                              HasSubstr("extents, roots      1: "), HasSubstr("live in slabs       6400 B (6.2 KiB)\n"),
                              Not(HasSubstr("reserved")), Not(HasSubstr("damaged"))));
}

TEST_F(cli_space, info_measures_fragmentation) {
    manager made(create_only, heap(), small_segments());
    for (int i = 0; i < 256; ++i) {
        static_cast<void>(made.allocate(64));  // a quarter of a slab
    }
    void* const hole = made.allocate(100 * kibibyte);
    static_cast<void>(made.allocate(50 * kibibyte));
    made.deallocate(hole);
    made.close(true);

    const nlohmann::json found = space();
    ASSERT_EQ(found["extents"]["free"]["extents"], 2);
    const std::uint64_t free = number(found["extents"]["free"]["bytes"]);
    EXPECT_EQ(found["largest_free_extent"], free - 100 * kibibyte);
    const double external = static_cast<double>(100 * kibibyte) / static_cast<double>(free);
    EXPECT_NEAR(found["fragmentation"]["external"].get<double>(), external, 1e-9);
    EXPECT_NEAR(found["fragmentation"]["slabs"].get<double>(), 0.75, 1e-9);
    EXPECT_THAT(
        text(),
        AllOf(HasSubstr(fmt::format("fragmentation       {:.1f} % external, 75.0 % of the slabs\n", 100 * external)),
              HasSubstr(fmt::format("largest free extent {} B", free - 100 * kibibyte))));
}

TEST_F(cli_space, nothing_is_no_fragmentation) {
    manager made(create_only, heap(), small_segments());
    static_cast<void>(made.allocate(2 * mebibyte - 64 * kibibyte));
    made.close(true);
    const nlohmann::json found = space();
    ASSERT_EQ(found["extents"]["free"]["extents"], 0);
    EXPECT_EQ(found["largest_free_extent"], 0);
    EXPECT_EQ(found["fragmentation"]["external"], 0.0);
    EXPECT_EQ(found["fragmentation"]["slabs"], 0.0);
}

TEST_F(cli_space, files_are_charged_what_the_file_system_says) {
    make_heap(heap(), 3);
    std::uint64_t apparent = 0;
    std::uint64_t charged = 0;
    for (const auto& file : std::filesystem::directory_iterator(heap())) {
        struct stat status {};
        ASSERT_EQ(::stat(file.path().c_str(), &status), 0);
        apparent += static_cast<std::uint64_t>(status.st_size);
        charged += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    const nlohmann::json info = run_holdfast({"info", heap(), "--json"}).json();
    EXPECT_EQ(info["bytes"]["apparent"], apparent);
    EXPECT_EQ(info["bytes"]["on_disk"], charged);
}

}  // namespace
}  // namespace holdfast::support
