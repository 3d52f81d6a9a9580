// What the threads of basket_watcher.hpp change beside their baskets, in the same transactions: containers of every
// kind, blocks of whole pages, and objects with names. What thread `t` has is determined by how many transactions it
// has done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>
#include <holdfast/transaction.hpp>

namespace holdfast::test {

class basket_shelf {
public:
    explicit basket_shelf(manager& heap)
        : heap_(heap),
          texts_(*heap.find<texts>("texts").first),
          queues_(*heap.find<queues>("queues").first),
          seen_(*heap.find<numbers>("seen").first) {}

    static void make(manager& heap) {
        heap.construct<texts>("texts")(heap.get_allocator<>());
        heap.construct<queues>("queues")(heap.get_allocator<>());
        heap.construct<numbers>("seen")(heap.get_allocator<>());
    }
    /// All that was ever on it.
    static void end(manager& heap) {
        for (std::uint64_t thread = 0; thread < most_threads; ++thread) {
            for (std::uint64_t turn = 0; turn < names_of_thread; ++turn) {
                static_cast<void>(heap.destroy<std::uint64_t>(name_of(thread, turn)));
            }
        }
        heap.destroy<texts>("texts");
        heap.destroy<queues>("queues");
        heap.destroy<numbers>("seen");
    }

    /// Within a transaction. The numbers of a thread ascend by one.
    void put(std::uint64_t thread, std::uint64_t number) {
        const std::string text = text_of(thread, number);
        texts_[thread] = string(text.data(), text.size(), heap_.get_allocator<char>());
        auto& queue = queues_[thread];
        queue.push_back(number);
        if (queue.size() > longest_queue) {
            queue.pop_front();
        }
        seen_.insert(key_of(thread, number));
        if (number > longest_queue) {
            seen_.erase(key_of(thread, number - longest_queue));
        }
        const std::string name = name_of(thread, number);
        static_cast<void>(heap_.destroy<std::uint64_t>(name));
        heap_.construct<std::uint64_t>(name)(number);
    }

    /// From what a thread with so many transactions has; empty where there is none.
    [[nodiscard]] std::string difference(std::uint64_t thread, std::uint64_t done) const {
        const std::uint64_t first = done > longest_queue ? done - longest_queue + 1 : 1;
        if (done != 0 && (!texts_.contains(thread) || std::string(texts_.at(thread)) != text_of(thread, done))) {
            return "its text is another";
        }
        std::deque<std::uint64_t> expected;
        for (std::uint64_t number = first; number <= done; ++number) {
            expected.push_back(number);
            if (!seen_.contains(key_of(thread, number))) {
                return fmt::format("{} was not seen", number);
            }
        }
        if (done != 0 && (!queues_.contains(thread) || !std::ranges::equal(queues_.at(thread), expected))) {
            return "its queue is another";
        }
        const auto of_thread = std::ranges::count_if(seen_, [&](std::uint64_t key) { return key >> 48U == thread; });
        if (static_cast<std::size_t>(of_thread) != expected.size()) {
            return fmt::format("{} numbers were seen", of_thread);
        }
        for (std::uint64_t turn = 0; turn < names_of_thread; ++turn) {
            const auto* const found = heap_.find<std::uint64_t>(name_of(thread, turn)).first;
            const std::uint64_t last = done < turn ? 0 : done - (done - turn) % names_of_thread;
            if ((found == nullptr ? 0 : *found) != last) {
                return fmt::format("{} is {}, not {}", name_of(thread, turn), found == nullptr ? 0 : *found, last);
            }
        }
        return {};
    }

private:
    using texts = unordered_map<std::uint64_t, string>;
    using queues = map<std::uint64_t, deque<std::uint64_t>>;
    using numbers = set<std::uint64_t>;

    static constexpr std::uint64_t most_threads = 16;
    static constexpr std::uint64_t names_of_thread = 7;
    static constexpr std::uint64_t longest_queue = 20;

    [[nodiscard]] static std::uint64_t key_of(std::uint64_t thread, std::uint64_t number) {
        return thread << 48U | number;
    }
    [[nodiscard]] static std::string name_of(std::uint64_t thread, std::uint64_t number) {
        return fmt::format("of thread {}, {}", thread, number % names_of_thread);
    }
    /// Some in the object, some in small blocks, some in blocks of whole pages.
    [[nodiscard]] static std::string text_of(std::uint64_t thread, std::uint64_t number) {
        const std::size_t length = number % 11 == 0 ? 40'000 + number % 1000 : number % 200;
        return std::string(length, static_cast<char>('a' + (thread + number) % 26));
    }

    manager& heap_;
    texts& texts_;
    queues& queues_;
    numbers& seen_;
};

}  // namespace holdfast::test
