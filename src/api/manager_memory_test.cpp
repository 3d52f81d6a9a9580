// Memory, roots and allocators of an open heap.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "api/manager_test_support.hpp"
#include "base/units.hpp"

namespace holdfast {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

using base::mebibyte;

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

TEST_F(manager_test, allocates_blocks_of_all_sizes_at_their_alignments) {
    manager heap = create();
    std::map<char*, std::size_t> blocks;
    for (std::size_t bytes = 1; bytes < 20 * mebibyte; bytes = bytes * 5 / 4 + 1) {
        auto* const block = static_cast<char*>(heap.allocate(bytes));
        EXPECT_EQ(number(block) % (bytes >= 16 ? 16 : 8), 0U) << bytes;
        EXPECT_GE(heap.usable_size(block), bytes);
        EXPECT_TRUE(heap.belongs_to_segment(block));
        EXPECT_TRUE(heap.belongs_to_segment(block + bytes - 1));
        std::memset(block, static_cast<int>(bytes % 251), bytes);
        blocks.emplace(block, bytes);
    }
    const char* end = nullptr;
    for (const auto& [block, bytes] : blocks) {
        EXPECT_GE(block, end) << "blocks do not overlap";
        end = block + bytes;
        EXPECT_EQ(block[0], static_cast<char>(bytes % 251));
        EXPECT_EQ(block[bytes - 1], static_cast<char>(bytes % 251));
        heap.deallocate(block);
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

TEST_F(manager_test, counts_the_memory_that_only_this_process_has) {
    constexpr std::size_t bytes = 8 * mebibyte;
    manager heap = create();
    auto* const block = static_cast<char*>(heap.allocate(bytes));
    std::memset(block, 1, bytes);
    EXPECT_GE(heap.statistics().private_bytes, bytes);
    heap.commit();
    const std::uint64_t at_rest = heap.statistics().private_bytes;
    EXPECT_LT(at_rest, mebibyte);
    std::memset(block, 2, bytes / 2);
    const std::uint64_t changed = heap.statistics().private_bytes;
    EXPECT_GE(changed, bytes / 2);
    EXPECT_LT(changed, bytes / 2 + at_rest + mebibyte);
    heap.commit();
    EXPECT_LT(heap.statistics().private_bytes, mebibyte);
}

TEST_F(manager_test, aligns_up_to_two_mebibytes) {
    manager heap = create();
    for (std::size_t alignment = 1; alignment <= 2 * mebibyte; alignment *= 2) {
        for (const std::size_t bytes : {std::size_t{1}, alignment / 2 + 1, alignment, 3 * alignment + 1}) {
            void* const block = heap.allocate_aligned(bytes, alignment);
            EXPECT_EQ(number(block) % alignment, 0U);
            EXPECT_GE(heap.usable_size(block), bytes);
            heap.deallocate(block);
        }
    }
    for (const std::size_t wrong : {std::size_t{0}, std::size_t{3}, std::size_t{24}, 4 * mebibyte}) {
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate_aligned(64, wrong)); }), errc::invalid_argument);
    }
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, refuses_sizes_without_a_meaning) {
    manager heap = create();
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(0)); }), errc::invalid_argument);
    EXPECT_EQ(heap.allocate(0, std::nothrow), nullptr);
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    for (const std::size_t bytes :
         {std::size_t{1} << 40, std::size_t{1} << 62, std::size_t{1} << 63, most, most - 4095}) {
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(bytes)); }), errc::out_of_memory) << bytes;
        EXPECT_EQ(heap.allocate(bytes, std::nothrow), nullptr) << bytes;
    }
    EXPECT_NE(heap.allocate(100, std::nothrow), nullptr);
}

TEST_F(manager_test, refuses_to_free_what_is_no_block) {
    manager heap = create();
    manager other = create("other");
    for (const std::size_t bytes : {std::size_t{24}, std::size_t{5000}, 100000 * std::size_t{1}, 3 * mebibyte}) {
        auto* const block = static_cast<char*>(heap.allocate(bytes));
        const usage before = usage_of(heap);
        std::vector<void*> wrong{block + 8,
                                 block + bytes,
                                 block - 8,
                                 block + 1,
                                 &wrong,
                                 other.allocate(bytes),
                                 reinterpret_cast<void*>(8),
                                 heap.get_address()};
        for (void* const address : wrong) {
            try {
                heap.deallocate(address);
                ADD_FAILURE() << bytes << " freed " << address;
            } catch (const error& thrown) {
                EXPECT_EQ(thrown.reason(), errc::bad_address);
                EXPECT_THAT(thrown.what(), HasSubstr(fmt::format("{:x}", number(address))));
            }
            EXPECT_EQ(reason_of([&] { static_cast<void>(heap.usable_size(address)); }), errc::bad_address);
        }
        EXPECT_EQ(usage_of(heap), before);
        heap.deallocate(block);
        EXPECT_EQ(reason_of([&] { heap.deallocate(block); }), errc::bad_address) << "twice";
    }
    heap.deallocate(nullptr);
    EXPECT_TRUE(heap.all_memory_deallocated());
    EXPECT_THAT(heap.check(false), IsEmpty());
}

/// Allocates blocks of so many bytes until none is left; the bytes of all.
std::uint64_t fill(manager& heap, std::size_t bytes) {
    for (std::uint64_t all = 0;; all += bytes) {
        if (heap.allocate(bytes, std::nothrow) == nullptr) {
            return all;
        }
    }
}

/// Was: a program that fills its heap until std::bad_alloc filled the disk.
TEST_F(manager_test, of_a_size_has_that_size_and_not_much_more) {
    constexpr std::uint64_t size = 16 * mebibyte;
    for (const std::size_t bytes : {std::size_t{40}, std::size_t{1000}, std::size_t{100'000}}) {
        {
            manager heap(create_only, path(), size);
            EXPECT_GE(fill(heap, bytes), size) << bytes;
            EXPECT_LE(heap.get_size(), size + size / 8 + 4 * mebibyte) << bytes;
            EXPECT_EQ(heap.statistics().maximum_size, size + size / 8 + 4 * mebibyte);
        }
        {
            manager again(open_only, path());
            EXPECT_LT(fill(again, bytes), mebibyte) << "the limit is the heap's";
        }
        {
            open_options larger;
            larger.maximum_size = 2 * size;
            manager again(open_only, path(), larger);
            EXPECT_GT(fill(again, bytes), size / 2);
        }
        manager once_more(open_only, path());
        EXPECT_EQ(once_more.statistics().maximum_size, 2 * size);
        EXPECT_LT(fill(once_more, bytes), mebibyte) << "which is the new one now";
        once_more.close();
        EXPECT_TRUE(manager::remove(path()));
    }
}

/// Was: the close wrote nothing where nothing but the limit had changed.
TEST_F(manager_test, keeps_a_limit_that_an_open_without_changes_has_set) {
    create().close();
    open_options limited;
    limited.maximum_size = 8 * mebibyte;
    manager(open_only, path(), limited).close();
    EXPECT_EQ(manager(open_read_only, path()).statistics().maximum_size, 8 * mebibyte);
}

TEST_F(manager_test, allocates_by_traits) {
    manager heap = create();
    for (const std::size_t bytes : {std::size_t{40}, std::size_t{100'000}}) {
        std::memset(heap.allocate(bytes), 0xff, bytes);
        void* const block = heap.allocate(bytes, {.alignment = 256, .zeroed = true, .type = 12});
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 256, 0U);
        EXPECT_EQ(heap.type_of(block), 12U);
        const auto* const first = static_cast<const unsigned char*>(block);
        EXPECT_TRUE(std::all_of(first, first + bytes, [](unsigned char byte) { return byte == 0; }));
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(bytes, {.alignment = 3})); }),
                  errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(bytes, {.type = 1U << 20U})); }),
                  errc::invalid_argument);
    }
    EXPECT_EQ(reason_of([&] { static_cast<void>(heap.allocate(0, allocation_traits{})); }), errc::invalid_argument);
}

TEST_F(manager_test, gives_a_handle_that_allocators_and_deleters_of_programs_hold) {
    manager heap = create();
    const manager::segment_manager* const handle = heap.get_segment_manager();
    static_assert(std::is_same_v<manager::segment_manager::void_pointer, ptr<void>>);
    static_assert(std::is_same_v<manager::segment_manager::size_type, std::size_t>);
    void* const block = handle->allocate(100);
    EXPECT_GE(heap.usable_size(block), 100U);
    void* const aligned = handle->allocate_aligned(100, 4096);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 4096, 0U);
    void* const other = handle->allocate(10, std::nothrow);
    EXPECT_NE(other, nullptr);
    EXPECT_EQ(handle->allocate(std::size_t{1} << 50, std::nothrow), nullptr);
    EXPECT_EQ(reason_of([&] { static_cast<void>(handle->allocate(0)); }), errc::invalid_argument);
    for (void* const each : {block, aligned, other}) {
        handle->deallocate(each);
        EXPECT_EQ(reason_of([&] { handle->deallocate(each); }), errc::bad_address);
    }
    handle->deallocate(nullptr);
    EXPECT_TRUE(handle->destroy_ptr(heap.construct<int>("number")(1)));
    EXPECT_EQ(heap.find<int>("number").first, nullptr);
    EXPECT_EQ(handle->get_size(), heap.get_size());
    EXPECT_EQ(handle->get_free_memory(), heap.get_free_memory());
    EXPECT_TRUE(heap.all_memory_deallocated());
    heap.close();
    EXPECT_EQ(reason_of([&] { static_cast<void>(handle->allocate(100)); }), errc::invalid_argument) << "closed";
}

TEST_F(manager_test, free_memory_is_what_is_in_no_block) {
    manager heap(create_only, path(), small_options());
    std::mt19937 random(7);
    std::vector<void*> blocks;
    std::uint64_t in_blocks = 0;
    for (unsigned i = 0; i < 5'000; ++i) {
        if (!blocks.empty() && random() % 3 == 0) {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            in_blocks -= heap.usable_size(blocks.back());
            heap.deallocate(blocks.back());
            blocks.pop_back();
        } else {
            const std::size_t bytes = i % 100 == 0 ? 20'000 + random() % 100'000 : 1 + random() % 2'000;
            blocks.push_back(heap.allocate(bytes));
            in_blocks += heap.usable_size(blocks.back());
        }
        if (i % 50 == 0) {
            ASSERT_EQ(heap.get_free_memory(), heap.get_size() - in_blocks);
        }
    }
    EXPECT_EQ(heap.statistics().allocated_bytes, in_blocks);
    EXPECT_EQ(heap.statistics().allocated_blocks, blocks.size());
}

TEST_F(manager_test, goes_on_after_it_was_full) {
    open_options options = small_options();
    options.maximum_size = 16 * mebibyte;
    manager heap(create_only, path(), options);
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{9000}, mebibyte}) {
        std::vector<void*> blocks;
        std::string why;
        try {
            for (;;) {
                blocks.push_back(heap.allocate(bytes));
            }
        } catch (const holdfast::bad_alloc& full) {
            why = full.what();
        }
        EXPECT_THAT(why, HasSubstr("no_space"));
        EXPECT_THAT(why, HasSubstr("maximum size"));
        EXPECT_THAT(why, HasSubstr(path()));
        EXPECT_GT(blocks.size() * bytes, 13 * mebibyte);
        EXPECT_EQ(heap.get_size(), 16 * mebibyte);
        heap.deallocate(blocks.back());
        blocks.back() = heap.allocate(bytes);
        heap.commit();
        for (void* const block : blocks) {
            heap.deallocate(block);
        }
        EXPECT_TRUE(heap.all_memory_deallocated());
    }
    EXPECT_THAT(heap.check(true), IsEmpty());
}

TEST_F(manager_test, counts_what_it_has_and_what_is_in_use) {
    manager heap = create();
    const heap_statistics before = heap.statistics();
    EXPECT_EQ(before.allocated_bytes, 0U);
    EXPECT_EQ(before.commit_sequence, 1U) << "created durably";
    EXPECT_GT(before.created_ns, 0);
    EXPECT_GE(before.last_commit_ns, before.created_ns);
    EXPECT_EQ(before.reserved_address_space, std::uint64_t{1} << 30);
    void* const small = heap.allocate(100);
    void* const big = heap.allocate(5 * mebibyte);
    static_cast<void>(heap.construct<int>("n")(1));
    static_cast<void>(heap.construct<int>(unique_instance)(1));
    static_cast<void>(heap.construct<int>(anonymous_instance)(1));
    heap.commit();
    const heap_statistics numbers = heap.statistics();
    EXPECT_EQ(numbers.allocated_blocks, 5U);
    EXPECT_EQ(numbers.allocated_bytes,
              heap.usable_size(small) + heap.usable_size(big) + 3 * heap.usable_size(heap.find<int>("n").first));
    EXPECT_EQ(numbers.free_bytes, numbers.user_bytes - numbers.allocated_bytes);
    EXPECT_EQ(heap.get_free_memory(), numbers.free_bytes);
    EXPECT_EQ(heap.get_size(), numbers.user_bytes);
    EXPECT_LE(numbers.largest_free_block, numbers.free_bytes);
    EXPECT_GE(numbers.segments, 3U);
    EXPECT_GE(numbers.apparent_bytes, numbers.user_bytes);
    EXPECT_GE(numbers.charged_bytes, numbers.allocated_bytes) << "what lies ahead of need has no space yet";
    EXPECT_GE(numbers.slabs, 1U);
    EXPECT_GE(numbers.extents, 1U);
    EXPECT_EQ(numbers.named_objects, 1U);
    EXPECT_EQ(numbers.unique_objects, 1U);
    EXPECT_EQ(numbers.anonymous_objects, 1U);
    EXPECT_EQ(numbers.commit_sequence, 2U);
    EXPECT_FALSE(numbers.recovered);
}

TEST_F(manager_test, has_handles_that_outlive_the_mapping) {
    manager::handle_t handle = 0;
    {
        manager heap = create();
        auto* const number = heap.construct<int>("number")(5);
        handle = heap.get_handle_from_address(number);
        EXPECT_EQ(heap.get_address_from_handle(handle), number);
        EXPECT_EQ(static_cast<char*>(heap.get_address()) + handle, reinterpret_cast<char*>(number));
        EXPECT_FALSE(heap.belongs_to_segment(&handle));
        EXPECT_FALSE(heap.belongs_to_segment(static_cast<char*>(heap.get_address()) - 1));
        EXPECT_FALSE(heap.belongs_to_segment(static_cast<char*>(heap.get_address()) + heap.get_size()));
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.get_handle_from_address(&handle)); }), errc::bad_address);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.get_address_from_handle(heap.get_size())); }),
                  errc::bad_address);
    }
    const manager heap = open();
    EXPECT_EQ(*static_cast<int*>(heap.get_address_from_handle(handle)), 5);
}

TEST_F(manager_test, keeps_roots) {
    {
        manager heap = create();
        for (std::size_t i = 0; i < manager::root_count; ++i) {
            EXPECT_EQ(heap.root(i), nullptr);
        }
        for (std::size_t i = 0; i < manager::root_count; i += 7) {
            auto* const number = static_cast<std::size_t*>(heap.allocate(8));
            *number = i;
            heap.root(i) = number;
        }
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.root(manager::root_count)); }), errc::invalid_argument);
        EXPECT_EQ(reason_of([&] { static_cast<void>(heap.root(~std::size_t{0})); }), errc::invalid_argument);
    }
    const manager heap = open();
    for (std::size_t i = 0; i < manager::root_count; ++i) {
        EXPECT_EQ(heap.root(i) != nullptr, i % 7 == 0);
        if (i % 7 == 0) {
            EXPECT_EQ(*static_cast<std::size_t*>(heap.root(i).get()), i);
        }
    }
}

// --- allocators ---

TEST_F(manager_test, serves_allocators_of_containers) {
    using numbers = vector<int>;
    using words = vector<string>;
    {
        manager heap = create();
        auto* const list = heap.construct<numbers>("numbers")(heap.get_allocator<int>());
        for (int i = 0; i < 100000; ++i) {
            list->push_back(i);
        }
        auto* const text = heap.construct<words>("words")(heap.get_segment_manager());
        for (int i = 0; i < 1000; ++i) {
            text->emplace_back(std::string(static_cast<std::size_t>(i % 60), 'w').c_str(), heap.get_allocator<char>());
        }
        EXPECT_EQ(manager::allocator_type<int>(heap.get_segment_manager()), heap.get_allocator<int>());
    }
    {
        manager heap = open();
        auto* const list = heap.find<numbers>("numbers").first;
        EXPECT_EQ(list->at(99999), 99999);
        list->push_back(7);
        EXPECT_EQ(heap.find<words>("words").first->at(59).size(), 59U);
        EXPECT_TRUE(heap.destroy<numbers>("numbers"));
        EXPECT_TRUE(heap.destroy<words>("words"));
        EXPECT_TRUE(heap.all_memory_deallocated());
    }
}

TEST_F(manager_test, serves_nested_containers_through_scoped_allocators) {
    using word = basic_string<char, std::char_traits<char>, scoped_allocator<char>>;
    using words = vector<word, scoped_allocator<word>>;
    using index = map<int, words, std::less<int>, scoped_allocator<std::pair<const int, words>>>;
    const std::string long_text(100, 'x');
    {
        manager heap = create();
        auto* const by_number =
            heap.construct<index>("index")(manager::scoped_allocator_type<char>(heap.get_allocator<char>()));
        for (int i = 0; i < 100; ++i) {
            (*by_number)[i % 10].emplace_back(long_text.c_str());
        }
        EXPECT_TRUE(heap.belongs_to_segment((*by_number)[3][5].data())) << "the allocator was passed on";
    }
    manager heap = open();
    auto* const by_number = heap.find<index>("index").first;
    ASSERT_EQ(by_number->size(), 10U);
    EXPECT_EQ(by_number->at(9).at(9), long_text.c_str());
    EXPECT_TRUE(heap.destroy<index>("index"));
    EXPECT_TRUE(heap.all_memory_deallocated());
}

TEST_F(manager_test, serves_fallback_allocators_inside_and_nothing_outside) {
    using list = vector<int, manager::fallback_allocator<int>>;
    list outside;
    for (int i = 0; i < 100; ++i) {
        outside.push_back(i);
    }
    {
        manager heap = create();
        auto* const inside = heap.construct<list>("list")(outside, heap.get_allocator<int>());
        EXPECT_TRUE(heap.belongs_to_segment(inside->data()));
        EXPECT_FALSE(heap.belongs_to_segment(outside.data()));
        inside->push_back(100);
        outside = *inside;
        EXPECT_FALSE(heap.belongs_to_segment(outside.data())) << "an assignment keeps the allocator";
        outside = std::move(*inside);
        EXPECT_FALSE(heap.belongs_to_segment(outside.data()));
        *inside = outside;
        EXPECT_TRUE(heap.belongs_to_segment(inside->data()));
    }
    EXPECT_EQ(outside.size(), 101U);
    const manager heap = open();
    EXPECT_EQ(heap.find<list>("list").first->back(), 100);
}

TEST_F(manager_test, reports_what_destructors_cannot_throw) {
    std::vector<errc> reported;
    const auto before = set_error_handler([&](const error& what) { reported.push_back(what.reason()); });
    {
        auto heap = std::make_unique<manager>(create());
        auto memory = heap->get_allocator<int>();
        const auto block = memory.allocate(10);
        memory.deallocate(block, 10);
        memory.deallocate(block, 10);
        EXPECT_THAT(reported, testing::ElementsAre(errc::bad_address));
        vector<int> left_behind(100, 1, memory);
        heap.reset();
        EXPECT_EQ(reason_of([&] { static_cast<void>(memory.allocate(1)); }), errc::not_found);
    }
    EXPECT_THAT(reported, testing::ElementsAre(errc::bad_address, errc::not_found));
    set_error_handler(before);
}

TEST_F(manager_test, keeps_what_is_allocated_across_many_sessions) {
    std::mt19937_64 random(17);
    std::map<manager::handle_t, std::pair<std::size_t, int>> model;
    create().close();
    for (int session = 0; session < 12; ++session) {
        manager heap = open();
        for (int i = 0; i < 200; ++i) {
            if (random() % 3 != 0 || model.empty()) {
                const std::size_t bytes = 1 + random() % (random() % 20 == 0 ? 300000 : 3000);
                void* const block = heap.allocate(bytes);
                const auto value = static_cast<int>(random() % 256);
                std::memset(block, value, bytes);
                EXPECT_TRUE(model.emplace(heap.get_handle_from_address(block), std::pair(bytes, value)).second);
            } else {
                const auto victim = std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
                heap.deallocate(heap.get_address_from_handle(victim->first));
                model.erase(victim);
            }
        }
        for (const auto& [handle, content] : model) {
            const auto* const block = static_cast<unsigned char*>(heap.get_address_from_handle(handle));
            ASSERT_EQ(block[0], content.second);
            ASSERT_EQ(block[content.first - 1], content.second);
        }
        EXPECT_EQ(heap.statistics().allocated_blocks, model.size());
        EXPECT_THAT(heap.check(session % 4 == 0), IsEmpty());
    }
}

}  // namespace
}  // namespace holdfast
