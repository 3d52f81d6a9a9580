// A cache that restarts warm: results of an expensive function, the least recently used of which go.
//
//     warm_cache HEAP CAPACITY NUMBER...    prints how many divisors each number has, and whether the cache knew it
//
// A cache may lose its last entries in a crash, so it commits when that is cheap: here, once at the end.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace {

/// Answers by key, at most as many as its capacity. It lies in a heap and takes the allocator of that.
template <class Key, class Value>
class cache {
    struct entry {
        Key key;
        Value value;
    };
    using entry_list = holdfast::list<entry>;

public:
    using allocator_type = holdfast::allocator<std::byte>;
    explicit cache(const allocator_type& heap) : entries_(heap), places_(heap) {}

    [[nodiscard]] std::optional<Value> find(const Key& key) {
        const auto place = places_.find(key);
        if (place == places_.end()) {
            return std::nullopt;
        }
        entries_.splice(entries_.begin(), entries_, place->second);  // it is the most recently used one now
        return place->second->value;
    }
    void insert(const Key& key, const Value& value, std::size_t capacity) {
        entries_.push_front(entry{key, value});
        places_[key] = entries_.begin();
        while (entries_.size() > capacity) {
            places_.erase(entries_.back().key);
            entries_.pop_back();
        }
    }

private:
    entry_list entries_;  // from the most to the least recently used one
    holdfast::unordered_map<Key, typename entry_list::iterator> places_;
};

/// What is worth a cache.
std::uint64_t count_divisors(std::uint64_t number) {
    std::uint64_t count = 0;
    for (std::uint64_t divisor = 1; divisor <= number; ++divisor) {
        count += number % divisor == 0 ? 1 : 0;
    }
    return count;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: warm_cache HEAP CAPACITY NUMBER...\n");
        return 2;
    }
    try {
        holdfast::manager heap(holdfast::open_or_create, argv[1]);
        auto* divisors = heap.find_or_construct<cache<std::uint64_t, std::uint64_t>>("divisors")();
        const std::size_t capacity = std::strtoull(argv[2], nullptr, 10);
        for (int i = 3; i < argc; ++i) {
            const std::uint64_t number = std::strtoull(argv[i], nullptr, 10);
            const std::optional<std::uint64_t> known = divisors->find(number);
            const std::uint64_t count = known ? *known : count_divisors(number);
            if (!known) {
                divisors->insert(number, count, capacity);
            }
            std::printf("%llu has %llu divisors (%s)\n", static_cast<unsigned long long>(number),
                        static_cast<unsigned long long>(count), known ? "cached" : "computed");
        }
        heap.commit();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "warm_cache: %s\n", failure.what());
        return 1;
    }
    return 0;
}
