// The engine: lookup by key, refused commits, check().
#include "heap/heap.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heap/registry.hpp"
#include "segment/test_support.hpp"

namespace holdfast::heap {
namespace {

using base::failure_code;
using persist::access_mode;
using segment::must;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

engine_options small_heap() {
    engine_options options;
    options.files.segment_size = segment::minimum_segment_size;
    options.files.mapping.reservation = base::gibibyte;
    return options;
}

class heap_test : public testing::Test {
protected:
    [[nodiscard]] std::unique_ptr<engine> create(const std::string& name = "heap") const {
        return must(engine::create(directory_.path(name), small_heap()));
    }
    [[nodiscard]] std::unique_ptr<engine> open(const std::string& name = "heap",
                                               access_mode mode = access_mode::read_write) const {
        return must(engine::open(directory_.path(name), mode, {}));
    }
    static void insert(engine& heap, const std::string& name, void* block, std::uint64_t bytes) {
        object_entry entry;
        entry.name = name;
        entry.type = "c";
        entry.offset = heap.files().view().offset(block).value;
        entry.count = bytes;
        entry.type_size = 1;
        must(heap.objects().insert(entry));
    }

    segment::test_directory directory_;
};

// --- commits that are refused ---

/// A commit of damaged metadata would make the heap unreadable.
class damaged_tables : public heap_test {
protected:
    damaged_tables() : heap_(create()) {
        small_ = heap_->blocks().allocate(100, 1);
        large_ = heap_->blocks().allocate(5 * base::page_size, 1);
        insert(*heap_, "kept", large_, 5 * base::page_size);
        must(heap_->commit());
    }
    /// The commit is refused with these words. The heap on media stays sound, also after `mend` and another commit.
    void expect_refusal(const std::string& field, const std::string& expected, base::function_ref<void()> mend,
                        const std::string& file = "segment.000000") {
        const auto refused = heap_->commit();
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, failure_code::corrupt);
        EXPECT_THAT(refused.error().path, HasSubstr(file));
        EXPECT_THAT(refused.error().field, HasSubstr(field));
        EXPECT_THAT(refused.error().expected, HasSubstr(expected));
        EXPECT_THAT(refused.error().hint, HasSubstr("another thread"));  // nobody can tell which it was
        EXPECT_THAT(refused.error().hint, HasSubstr("wrong address"));
        std::filesystem::copy(directory_.path("heap"), directory_.path("crashed"));
        expect_kept("crashed");
        mend();
        must(heap_->commit());
        must(heap_->close(true));
        heap_.reset();
        expect_kept("heap");
    }
    [[nodiscard]] const segment::space_view& view() const { return heap_->files().view(); }
    [[nodiscard]] base::pages page_of(const void* block) const { return base::page_of(view().offset(block)); }

    std::unique_ptr<engine> heap_;
    void* small_ = nullptr;
    void* large_ = nullptr;

private:
    void expect_kept(const std::string& name) const {
        const auto opened = open(name, access_mode::read_only);
        EXPECT_TRUE(must(opened->objects().find(object_kind::named, "kept")));
        EXPECT_THAT(opened->check(true), IsEmpty());
    }
};

TEST_F(damaged_tables, that_say_of_an_extent_that_it_is_none_are_not_committed) {
    std::uint64_t& word = view().page_entry_word(page_of(large_));
    const std::uint64_t before = std::exchange(word, 0);
    expect_refusal(fmt::format("page entry {}", page_of(large_).value), "EXT-1", [&] { word = before; });
}

TEST_F(damaged_tables, whose_extents_overlap_are_not_committed) {
    std::uint64_t& word = view().page_entry_word(page_of(large_));
    segment::page_entry longer = segment::decode_page_entry(word);
    longer.length = longer.length + base::pages{1};
    const std::uint64_t before = std::exchange(word, segment::encode(longer));
    expect_refusal(fmt::format("page entry {}", page_of(large_).value), "EXT-7", [&] { word = before; });
}

TEST_F(damaged_tables, with_a_block_inside_of_another_are_not_committed) {
    std::uint64_t& word = view().page_entry_word(page_of(large_) + base::pages{2});
    const std::uint64_t before =
        std::exchange(word, segment::encode(segment::page_entry{segment::extent_kind::used, {1}}));
    expect_refusal(fmt::format("page entry {}", page_of(large_).value + 2), "EXT-6", [&] { word = before; });
}

TEST_F(damaged_tables, whose_slab_header_is_overwritten_are_not_committed) {
    segment::slab_header_on_media& header = view().slab_header(base::granule_of(view().offset(small_)));
    const segment::slab_header_on_media before = header;
    header.block_size = 77;
    expect_refusal("slab header", "SLAB-1", [&] { header = before; });
}

TEST_F(damaged_tables, whose_slab_is_of_another_class_are_not_committed) {
    segment::slab_header_on_media& header = view().slab_header(base::granule_of(view().offset(small_)));
    const segment::slab_header_on_media before = header;
    header.block_size = 4096;
    header.block_count = static_cast<std::uint32_t>(base::granule_size / 4096);
    expect_refusal("slab header", fmt::format("{} bytes", before.block_size), [&] { header = before; });
}

TEST_F(damaged_tables, whose_bitmap_lost_a_block_are_not_committed) {
    void* of_ended_thread = nullptr;  // a slab that no thread allocates from, so that the commit does not write it anew
    std::thread([&] { of_ended_thread = heap_->blocks().allocate(1000, 1); }).join();
    must(heap_->commit());
    std::uint64_t& word = view().live_bitmap(base::granule_of(view().offset(of_ended_thread)))[0];
    const std::uint64_t before = std::exchange(word, 0);
    ASSERT_NE(before, 0U);
    expect_refusal("live bitmap", "SLAB-5", [&] { word = before; });
}

TEST_F(damaged_tables, whose_directory_lost_an_object_are_not_committed) {
    std::byte* const record = heap_->files().objects() + base::page_size;
    std::array<std::byte, 2 * cell_size> before{};
    std::memcpy(before.data(), record, before.size());
    std::memset(record, 0, before.size());
    expect_refusal(
        "cells", "up to what is free", [&] { std::memcpy(record, before.data(), before.size()); }, "objects");
}

TEST_F(damaged_tables, whose_directory_has_a_changed_name_are_not_committed) {
    std::byte& letter = heap_->files().objects()[base::page_size + cell_size];
    letter ^= std::byte{1};
    expect_refusal(
        "checksum", "0x", [&] { letter ^= std::byte{1}; }, "objects");
}

// --- registry ---

TEST_F(heap_test, is_found_by_its_key_while_it_is_open) {
    auto heap = create();
    const std::uint64_t key = heap->key();
    EXPECT_EQ(find_engine(key), heap.get());
    EXPECT_EQ(find_engine(key), heap.get()) << "as the thread remembers it";
    EXPECT_EQ(find_engine(key + 1), nullptr);
    EXPECT_EQ(find_engine(0), nullptr);
    heap.reset();
    EXPECT_EQ(find_engine(key), nullptr);
    heap = open();
    EXPECT_EQ(find_engine(key), heap.get());
}

TEST_F(heap_test, opened_read_only_is_not_found) {
    auto heap = create();
    const std::uint64_t key = heap->key();
    heap.reset();
    const auto first = open("heap", access_mode::read_only);
    const auto second = open("heap", access_mode::read_only);
    EXPECT_EQ(find_engine(key), nullptr);
}

TEST_F(heap_test, and_its_copy_are_not_open_for_writing_in_one_process) {
    auto heap = create();
    must(heap->snapshot(directory_.path("copy")));
    const auto refused = engine::open(directory_.path("copy"), access_mode::read_write, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, failure_code::locked);
    EXPECT_EQ(refused.error().field, "heap key");
    EXPECT_THAT(refused.error().found, HasSubstr(directory_.path("heap")));
    EXPECT_EQ(find_engine(heap->key()), heap.get()) << "the refused copy took nothing away";
    EXPECT_TRUE(engine::open(directory_.path("copy"), access_mode::read_only, {}).ok());
    const std::uint64_t key = heap->key();
    heap.reset();
    const auto copy = open("copy");
    EXPECT_EQ(find_engine(key), copy.get());
}

TEST_F(heap_test, is_found_by_all_threads_while_others_come_and_go) {
    const auto kept = create("kept");
    std::atomic<bool> stop = false;
    std::atomic<std::uint64_t> wrong = 0;
    std::vector<std::thread> finders;
    for (int i = 0; i < 3; ++i) {
        finders.emplace_back([&] {
            while (!stop.load()) {
                wrong += find_engine(kept->key()) != kept.get() ? 1 : 0;
            }
        });
    }
    for (int i = 0; i < 10; ++i) {
        const auto other = create(fmt::format("other {}", i));
        EXPECT_EQ(find_engine(other->key()), other.get());
        EXPECT_EQ(find_engine(kept->key()), kept.get());
    }
    stop = true;
    for (std::thread& finder : finders) {
        finder.join();
    }
    EXPECT_EQ(wrong, 0U);
}

// --- check ---

TEST_F(heap_test, that_is_sound_has_no_problems) {
    auto heap = create();
    EXPECT_THAT(heap->check(true), IsEmpty());
    std::vector<void*> blocks;
    for (std::uint64_t bytes = 1; bytes < 8 * base::mebibyte; bytes = bytes * 3 + 1) {
        blocks.push_back(heap->allocate(bytes, 8));
        ASSERT_NE(blocks.back(), nullptr);
        insert(*heap, fmt::format("{} bytes", bytes), blocks.back(), bytes);
    }
    EXPECT_THAT(heap->check(true), IsEmpty());
    must(heap->close(true));
    heap.reset();
    heap = open();
    EXPECT_THAT(heap->check(true), IsEmpty());
}

TEST_F(heap_test, finds_a_page_entry_that_is_wrong) {
    const auto heap = create();
    void* const block = heap->allocate(base::mebibyte, 8);
    const base::pages page = base::page_of(heap->files().view().offset(block));
    std::uint64_t& entry = heap->files().view().page_entry_word(page);
    const std::uint64_t right = entry;
    for (const std::uint64_t wrong : {std::uint64_t{0}, right + 1, right - 1, right | std::uint64_t{8} << 40}) {
        entry = wrong;
        EXPECT_THAT(heap->check(false), Contains(HasSubstr("EXT-"))) << wrong;
    }
    entry = right;
    heap->files().view().page_entry_word(page + base::pages{1}) = right;
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("EXT-6"))) << "an entry inside an extent";
    heap->files().view().page_entry_word(page + base::pages{1}) = 0;
    EXPECT_THAT(heap->check(false), IsEmpty());
}

TEST_F(heap_test, finds_a_slab_that_is_wrong) {
    const auto heap = create();
    void* const block = heap->allocate(64, 8);
    const segment::space_view& view = heap->files().view();
    const base::granule slab = base::granule_of(view.offset(block));
    segment::slab_header_on_media& header = view.slab_header(slab);
    const segment::slab_header_on_media right = header;
    header.block_count += 1;
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("SLAB-")));
    header = right;
    header.block_size = 63;
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("SLAB-")));
    header = right;
    view.live_bitmap(slab)[127] |= std::uint64_t{1} << 63;
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("SLAB-"))) << "a bit beyond the last block";
    view.live_bitmap(slab)[127] = 0;
    EXPECT_THAT(heap->check(false), IsEmpty());
}

TEST_F(heap_test, finds_an_object_without_its_block) {
    const auto heap = create();
    void* const block = heap->allocate(100, 8);
    insert(*heap, "there", block, 100);
    EXPECT_THAT(heap->check(false), IsEmpty());
    must(heap->deallocate(block));
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("OBJ-3")));
    object_entry nowhere;
    nowhere.name = "beyond the heap";
    nowhere.type = "c";
    nowhere.offset = std::uint64_t{1} << 45;
    nowhere.count = nowhere.type_size = 1;
    must(heap->objects().insert(nowhere));
    EXPECT_THAT(heap->check(false), Contains(HasSubstr("bytes of user space")));
}

TEST_F(heap_test, finds_a_damaged_page_and_a_damaged_superblock_copy) {
    auto heap = create();
    auto* const block = static_cast<std::byte*>(heap->allocate(base::mebibyte, 8));
    std::memset(block, 7, base::mebibyte);
    const std::uint64_t offset = heap->files().view().offset(block).value;
    must(heap->close(true));
    heap.reset();
    segment::overwrite(directory_.path("heap/segment.000000"), offset + 5, {std::byte{8}});
    segment::overwrite(directory_.path("heap/superblock"), 20, {std::byte{8}});
    heap = open("heap", access_mode::read_only);
    const auto shallow = heap->check(false);
    EXPECT_THAT(shallow, Contains(HasSubstr("superblock")));
    const auto deep = heap->check(true);
    EXPECT_THAT(deep, Contains(testing::AllOf(HasSubstr("SEG-2"), HasSubstr("segment.000000"))));
}

// --- life ---

TEST_F(heap_test, that_cannot_be_created_leaves_nothing_behind) {
    engine_options options = small_heap();
    options.durability = durability_kind::collect;
    EXPECT_EQ(engine::create(directory_.path("heap"), options).error().code, failure_code::promise_unavailable);
    options = small_heap();
    options.files.mapping.capacity = segment::region_size;
    options.initial_bytes = 4 * segment::region_size;
    EXPECT_EQ(engine::create(directory_.path("heap"), options).error().code, failure_code::no_space);
    options = small_heap();
    options.files.mapping.reservation = 3 * base::gibibyte;
    EXPECT_EQ(engine::create(directory_.path("heap"), options).error().code, failure_code::invalid_argument);
    EXPECT_THAT(segment::names_in(directory_.path()), IsEmpty());
}

TEST_F(heap_test, commits_before_the_thread_is_cancelled) {
    {
        const auto heap = create();
        ASSERT_NE(heap->allocate(5 * base::mebibyte, 16), nullptr);
        std::atomic<bool> committed{false};
        std::thread worker([&] {
            ::pthread_cancel(::pthread_self());  // takes effect at the next call that may be cancelled
            committed = heap->commit().ok();
            ::pthread_testcancel();
        });
        worker.join();
        EXPECT_TRUE(committed);
        must(heap->commit());
    }
    const auto heap = open();
    EXPECT_EQ(must(heap->statistics()).allocated_blocks, 1U);
    EXPECT_THAT(heap->check(true), IsEmpty());
}

TEST_F(heap_test, counts_what_is_allocated) {
    const auto heap = create();
    const auto before = must(heap->statistics());
    EXPECT_EQ(before.allocated_blocks, 0U);
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    void* const small = heap->allocate(100, 8);
    void* const big = heap->allocate(100000, 8);
    const auto numbers = must(heap->statistics());
    EXPECT_EQ(numbers.allocated_blocks, 2U);
    EXPECT_EQ(numbers.allocated_bytes,
              must(heap->blocks().inspect().usable_size(small)) + must(heap->blocks().inspect().usable_size(big)));
    EXPECT_FALSE(heap->blocks().inspect().all_free());
    EXPECT_EQ(heap->blocks().inspect().usable_size(static_cast<std::byte*>(big) + 8).error().code,
              failure_code::bad_address);
    must(heap->deallocate(small));
    must(heap->deallocate(big));
    EXPECT_EQ(heap->deallocate(big).error().code, failure_code::bad_address);
    EXPECT_TRUE(heap->blocks().inspect().all_free());
    EXPECT_THAT(heap->check(false), IsEmpty());
}

}  // namespace
}  // namespace holdfast::heap
