// Random changes of a heap of the crash tests.
#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

#include "kill/world.hpp"
#include "kill/world_content.hpp"

namespace holdfast::test {

namespace {

std::uint64_t below(random& source, std::uint64_t limit) { return source() % limit; }

void fill(std::byte* bytes, std::uint64_t size, std::uint64_t seed) {
    for_each_word(size, [&](std::uint64_t at, std::uint64_t length) {
        const std::uint64_t word = mix(seed, at);
        std::memcpy(bytes + at, &word, length);
    });
}

std::uint64_t random_size(random& source, bool huge) {
    constexpr std::uint64_t kibibyte = 1024;
    const std::uint64_t kind = below(source, 1000);
    if (kind < 450) {
        return 1 + below(source, 256);
    }
    if (kind < 700) {
        return 1 + below(source, 4 * kibibyte);
    }
    if (kind < 880) {
        return 1 + below(source, 32 * kibibyte);
    }
    if (kind < 980) {
        return 1 + below(source, 256 * kibibyte);
    }
    if (kind < 998 || !huge) {
        return 1 + below(source, 2048 * kibibyte);
    }
    return (17 + below(source, 24)) * 1024 * kibibyte + below(source, 5000);
}

/// Changes one shard.
class changer {
public:
    changer(manager& heap, shard& part, std::size_t index, std::uint64_t seed, const world_limits& limits)
        : heap_(heap), part_(part), index_(index), source_(seed), limits_(limits) {}

    void run() {
        const std::uint64_t operations = 1 + below(source_, limits_.largest_batch);
        for (std::uint64_t i = 0; i < operations; ++i) {
            change();
        }
    }

private:
    void change() {
        switch (below(source_, 16)) {
            case 0:
            case 1:
            case 2:
            case 3: add_block(); break;
            case 4:
            case 5:
            case 6: drop_block(); break;
            case 7: rewrite_block(); break;
            case 8: change_table(); break;
            case 9: change_lists(); break;
            case 10: change_texts(); break;
            case 11: change_chain(); break;
            case 12:
            case 13: change_named(); break;
            case 14: change_anonymous(); break;
            default: change_unique(); break;
        }
    }

    void add_block() {
        const std::uint64_t size = random_size(source_, limits_.huge_blocks && index_ == 0);
        const std::uint64_t alignment = below(source_, 8) == 0 ? std::uint64_t{64} << below(source_, 12) : 0;
        void* const memory = alignment == 0 ? heap_.allocate(size) : heap_.allocate_aligned(size, alignment);
        auto* const bytes = static_cast<std::byte*>(memory);
        const std::uint64_t seed = source_();
        fill(bytes, size, seed);
        part_.blocks.push_back({bytes, size, seed});
        part_.bytes += size;
        while (part_.bytes > limits_.shard_bytes) {
            drop_block();
        }
    }

    void drop_block() {
        if (part_.blocks.empty()) {
            return;
        }
        raw_block& chosen = part_.blocks[below(source_, part_.blocks.size())];
        heap_.deallocate(chosen.at.get());
        part_.bytes -= chosen.size;
        chosen = part_.blocks.back();
        part_.blocks.pop_back();
    }

    void rewrite_block() {
        if (!part_.blocks.empty()) {
            raw_block& chosen = part_.blocks[below(source_, part_.blocks.size())];
            chosen.seed = source_();
            fill(chosen.at.get(), chosen.size, chosen.seed);
        }
    }

    string random_text() {
        const auto letter = static_cast<char>('a' + below(source_, 26));
        return {below(source_, 8) == 0 ? below(source_, 3000) : below(source_, 60), letter,
                heap_.get_allocator<char>()};
    }

    void change_table() {
        const std::uint64_t key = below(source_, 300);
        if (below(source_, 3) == 0) {
            part_.table.erase(key);
        } else {
            part_.table.insert_or_assign(key, random_text());
        }
    }

    void change_lists() {
        const std::uint64_t key = below(source_, 40);
        if (below(source_, 4) == 0) {
            part_.lists.erase(key);
            return;
        }
        auto& numbers = part_.lists.try_emplace(key, heap_.get_allocator<std::uint64_t>()).first->second;
        numbers.insert(numbers.end(), below(source_, 50), source_());
        if (numbers.size() > 400) {
            numbers.resize(20);
            numbers.shrink_to_fit();
        }
    }

    void change_texts() {
        if (part_.texts.size() > below(source_, 60)) {
            part_.texts.pop_front();
        } else {
            part_.texts.push_back(random_text());
        }
    }

    void change_chain() {
        if (part_.chain_length > below(source_, 100)) {
            chain_node* const first = part_.chain.get();
            part_.chain = first->next;
            std::destroy_at(first);
            heap_.deallocate(first);
            --part_.chain_length;
        } else {
            auto* const node = ::new (heap_.allocate(sizeof(chain_node))) chain_node;
            node->next = part_.chain;
            node->value = source_();
            part_.chain = node;
            ++part_.chain_length;
        }
        if (index_ == 0) {
            heap_.root(7) = part_.chain;
        }
    }

    [[nodiscard]] std::string name_of(std::uint64_t number) const {
        // Some names are long, so that records of the directory have several sizes.
        return std::to_string(index_) + "." + std::to_string(number) + std::string(number % 7 == 0 ? 300 : 0, 'n');
    }

    void change_named() {
        const std::uint64_t number = part_.next_name;
        if (part_.named < 40 + below(source_, 40)) {
            if (number % 5 == 0) {
                heap_.construct<number_list>(name_of(number))(below(source_, 100), source_(),
                                                              heap_.get_allocator<std::uint64_t>());
            } else {
                auto* const made = heap_.construct<record>(name_of(number))[1 + number % 4](source_());
                if (number % 3 == 0) {
                    heap_.set_instance_description(made, std::string(number % 50, 'd'));
                }
            }
            ++part_.next_name;
            ++part_.named;
            return;
        }
        const std::uint64_t victim = number - 1 - below(source_, std::min<std::uint64_t>(number, 100));
        const bool gone =
            victim % 5 == 0 ? heap_.destroy<number_list>(name_of(victim)) : heap_.destroy<record>(name_of(victim));
        part_.named -= gone ? 1 : 0;
    }

    void change_anonymous() {
        if (part_.anonymous.size() > below(source_, 40)) {
            ptr<record>& chosen = part_.anonymous[below(source_, part_.anonymous.size())];
            heap_.destroy_ptr(chosen.get());
            chosen = part_.anonymous.back();
            part_.anonymous.pop_back();
        } else {
            part_.anonymous.push_back(heap_.construct<record>(anonymous_instance)(source_()));
        }
    }

    template <int Number>
    void change_one_unique() {
        if (!heap_.destroy<unique_record<Number>>(unique_instance)) {
            heap_.construct<unique_record<Number>>(unique_instance)(source_());
        }
    }

    /// The types of a shard are its own: no other thread constructs them.
    void change_unique() {
        switch (index_) {
            case 0: change_one_unique<0>(); break;
            case 1: change_one_unique<1>(); break;
            case 2: change_one_unique<2>(); break;
            default: change_one_unique<3>(); break;
        }
    }

    manager& heap_;
    shard& part_;
    std::size_t index_;
    random source_;
    const world_limits& limits_;
};

}  // namespace

void make_world(manager& heap) {
    if (heap.find<shard>(world_name).first != nullptr) {
        return;
    }
    shard* const shards = heap.construct<shard>(world_name)[shard_count](heap.get_allocator());
    // How many blocks a hash table has besides its nodes is its own affair: ask an example.
    const std::uint64_t before = heap.statistics().allocated_blocks;
    shards[0].lists.try_emplace(0, heap.get_allocator<std::uint64_t>());
    const std::uint64_t blocks = heap.statistics().allocated_blocks - before - 1;
    for (std::size_t i = 0; i < shard_count; ++i) {
        shards[i].table_blocks = blocks;
    }
}

void change_world(manager& heap, random& source, const world_limits& limits) {
    shard* const shards = heap.find<shard>(world_name).first;
    const std::size_t threads = 1 + below(source, 3);
    const std::size_t first = below(source, shard_count);  // so that blocks are freed by other threads than made them
    std::vector<std::exception_ptr> failures(threads);
    const auto work = [&](std::size_t which, std::uint64_t seed) {
        try {
            const std::size_t index = (first + which) % shard_count;
            changer(heap, shards[index], index, seed, limits).run();
        } catch (...) {
            failures.at(which) = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < threads; ++i) {
            others.emplace_back(work, i, source());
        }
        work(0, source());
    }
    for (const std::exception_ptr& failure : failures) {
        if (failure != nullptr) {
            std::rethrow_exception(failure);
        }
    }
    if (below(source, 10) == 0) {
        heap.set_description(std::string(below(source, 100), 'x'));
    }
}

}  // namespace holdfast::test
