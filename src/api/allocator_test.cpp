// The allocator over real heaps; what allocator_traits ask of it is in tests/containers/allocator_test.cpp.
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/allocator.hpp>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {
namespace {

class allocators_of_a_heap : public ::testing::Test {
protected:
    allocators_of_a_heap() {
        manager::remove(path_);
        heap_.emplace(create_only, path_);
    }
    ~allocators_of_a_heap() override {
        heap_.reset();
        manager::remove(path_);
    }

    std::string path_ = ::testing::TempDir() + "allocators_" + std::to_string(::getpid()) + ".hf";
    std::optional<manager> heap_;
};

TEST_F(allocators_of_a_heap, give_blocks_of_it) {
    auto numbers = heap_->get_allocator<long>();
    const ptr<long> block = numbers.allocate(1000);
    EXPECT_TRUE(heap_->belongs_to_segment(block.get()));
    EXPECT_GE(heap_->usable_size(block.get()), 1000 * sizeof(long));
    numbers.deallocate(block, 1000);
    EXPECT_THROW(static_cast<void>(heap_->usable_size(block.get())), error);
}

TEST_F(allocators_of_a_heap, come_from_the_segment_manager_too) {
    const allocator<int> numbers(heap_->get_segment_manager());
    EXPECT_EQ(numbers, heap_->get_allocator<int>());
}

TEST_F(allocators_of_a_heap, survive_it_being_closed_and_opened) {
    auto numbers = heap_->get_allocator<int>();
    heap_->close();
    EXPECT_THROW(static_cast<void>(numbers.allocate(1)), error);
    heap_.emplace(open_only, path_);
    EXPECT_EQ(numbers, heap_->get_allocator<int>());
    const ptr<int> block = numbers.allocate(1);
    EXPECT_TRUE(heap_->belongs_to_segment(block.get()));
    numbers.deallocate(block, 1);
}

TEST_F(allocators_of_a_heap, throw_bad_alloc_where_there_is_no_room) {
    auto bytes = heap_->get_allocator<std::byte>();
    EXPECT_THROW(static_cast<void>(bytes.allocate(bytes.max_size())), std::bad_alloc);
    const ptr<std::byte> block = bytes.allocate(1);  // and the heap goes on
    bytes.deallocate(block, 1);
}

TEST_F(allocators_of_a_heap, report_a_bad_free_to_the_handler) {
    static std::vector<errc> reported;
    reported.clear();
    const error_handler before = set_error_handler([](const error& what) { reported.push_back(what.reason()); });
    auto numbers = heap_->get_allocator<int>();
    const ptr<int> block = numbers.allocate(1);
    numbers.deallocate(block, 1);
    numbers.deallocate(block, 1);
    set_error_handler(before);
    EXPECT_EQ(reported, std::vector<errc>{errc::bad_address});
}

TEST_F(allocators_of_a_heap, serve_many_threads_at_once) {
    constexpr int thread_count = 4;
    constexpr int texts_per_thread = 2000;
    std::vector<ptr<vector<string>>> results(thread_count);
    std::vector<std::thread> threads;
    for (int t = 0; t < thread_count; ++t) {
        threads.emplace_back([&, t] {
            auto* const texts =
                heap_->construct<vector<string>>("texts " + std::to_string(t))(heap_->get_allocator<string>());
            for (int i = 0; i < texts_per_thread; ++i) {
                texts->emplace_back(std::string(static_cast<std::size_t>(i % 200), static_cast<char>('a' + t)).c_str(),
                                    heap_->get_allocator<char>());
                if (i % 3 == 0) {
                    texts->erase(texts->begin());
                }
            }
            results[static_cast<std::size_t>(t)] = texts;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (int t = 0; t < thread_count; ++t) {
        for (const string& text : *results[static_cast<std::size_t>(t)]) {
            ASSERT_EQ(text.find_first_not_of(static_cast<char>('a' + t)), string::npos);
        }
        EXPECT_TRUE(heap_->destroy<vector<string>>("texts " + std::to_string(t)));
    }
    EXPECT_EQ(heap_->check(false), std::vector<std::string>{});
}

}  // namespace
}  // namespace holdfast
