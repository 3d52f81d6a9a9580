// Containers in a real heap, which is closed and opened at another address between rounds. The random operations beside
// models are in tests/containers/.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace holdfast {
namespace {

constexpr int rounds = 4;
constexpr int elements_per_round = 500;

/// A heap in a directory of its own that moves with every reopen().
class containers_in_a_heap : public ::testing::Test {
protected:
    containers_in_a_heap()
        : path_(::testing::TempDir() + "containers_" + std::to_string(::getpid()) + "_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".hf") {
        manager::remove(path_);
        heap_.emplace(create_only, path_, options_);
    }
    ~containers_in_a_heap() override {
        heap_.reset();
        manager::remove(path_);
    }

    void reopen() {
        auto* const before = static_cast<std::byte*>(heap_->get_address());
        heap_->close();
        heap_.reset();
        // Where another mapping lies, the heap cannot.
        constexpr std::size_t size = 4096;
        void* const taken = ::mmap(before, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        heap_.emplace(open_only, path_, options_);
        if (taken != MAP_FAILED) {
            ASSERT_EQ(::munmap(taken, size), 0);
        }
        ASSERT_NE(heap_->get_address(), before);
        ASSERT_EQ(heap_->check(true), std::vector<std::string>{});
    }

    template <class T, class... Args>
    T& object(const char* name, Args&&... args) {
        return *heap_->find_or_construct<T>(name)(std::forward<Args>(args)...);
    }
    template <class T = std::byte>
    [[nodiscard]] allocator<T> memory() const {
        return heap_->get_allocator<T>();
    }

private:
    static open_options small_reservation() {
        open_options options;
        options.reservation = std::uint64_t{1} << 32;
        return options;
    }

    std::string path_;
    open_options options_ = small_reservation();
    std::optional<manager> heap_;
};

std::string long_text(int number) { return "a text that is too long for the string itself " + std::to_string(number); }

TEST_F(containers_in_a_heap, sequences_grow_across_addresses) {
    for (int round = 0; round < rounds; ++round) {
        auto& a = object<vector<int>>("vector", memory<int>());
        auto& b = object<deque<int>>("deque", memory<int>());
        auto& c = object<list<int>>("list", memory<int>());
        auto& d = object<stable_vector<int>>("stable_vector", memory<int>());
        auto& e = object<std::vector<int, allocator<int>>>("std_vector", memory<int>());
        auto& f = object<std::deque<int, allocator<int>>>("std_deque", memory<int>());
        const int before = round * elements_per_round;
        ASSERT_EQ(a.size(), static_cast<std::size_t>(before));
        for (int i = before; i < before + elements_per_round; ++i) {
            a.push_back(i);
            b.push_back(i);
            c.push_back(i);
            d.push_back(i);
            e.push_back(i);
            f.push_back(i);
        }
        ASSERT_NO_FATAL_FAILURE(reopen());
        const auto& kept = object<vector<int>>("vector", memory<int>());
        for (int i = 0; i < before + elements_per_round; ++i) {
            ASSERT_EQ(kept[static_cast<std::size_t>(i)], i);
        }
        const auto same_as_kept = [&](const auto& other) {
            return std::equal(kept.begin(), kept.end(), other.begin(), other.end());
        };
        EXPECT_TRUE(same_as_kept(object<deque<int>>("deque", memory<int>())));
        EXPECT_TRUE(same_as_kept(object<list<int>>("list", memory<int>())));
        EXPECT_TRUE(same_as_kept(object<stable_vector<int>>("stable_vector", memory<int>())));
        EXPECT_TRUE(same_as_kept(object<std::vector<int, allocator<int>>>("std_vector", memory<int>())));
        EXPECT_TRUE(same_as_kept(object<std::deque<int, allocator<int>>>("std_deque", memory<int>())));
    }
}

TEST_F(containers_in_a_heap, graph_of_strings_grows_across_addresses) {
    using names = vector<string>;
    using graph = unordered_map<string, names>;
    using index = map<string, int>;
    for (int round = 0; round < rounds; ++round) {
        auto& nodes = object<graph>("graph", memory());
        auto& numbers = object<index>("index", memory());
        for (int i = round * elements_per_round; i < (round + 1) * elements_per_round; ++i) {
            const string key(long_text(i).c_str(), memory<char>());
            auto& edges = nodes.try_emplace(key, memory<string>()).first->second;
            edges.emplace_back("short", memory<char>());
            edges.emplace_back(long_text(i + 1).c_str(), memory<char>());
            numbers.emplace(key, i);
        }
        ASSERT_NO_FATAL_FAILURE(reopen());
        const auto& kept = object<graph>("graph", memory());
        const auto& kept_numbers = object<index>("index", memory());
        const int total = (round + 1) * elements_per_round;
        ASSERT_EQ(kept.size(), static_cast<std::size_t>(total));
        for (int i = 0; i < total; ++i) {
            const auto found = kept.find(std::string_view(long_text(i)));
            ASSERT_TRUE(found != kept.end()) << i;
            ASSERT_EQ(std::string_view(found->second.at(0)), "short");
            ASSERT_EQ(std::string_view(found->second.at(1)), long_text(i + 1));
            ASSERT_EQ(kept_numbers.find(std::string_view(long_text(i)))->second, i);
        }
    }
}

}  // namespace
}  // namespace holdfast
