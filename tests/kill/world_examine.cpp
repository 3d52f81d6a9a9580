// The walk over a heap of the crash tests.
#include <cstring>

#include "kill/world.hpp"
#include "kill/world_content.hpp"

namespace holdfast::test {

namespace {

class examination {
public:
    explicit examination(const manager& heap) : heap_(heap) {}

    world_state run() {
        const auto [shards, count] = heap_.find<shard>(world_name);
        if (shards == nullptr) {
            state_.digest = empty_digest;
            expect(heap_.get_num_named_objects() == 0, "an empty heap has objects");
            return state_;
        }
        expect(count == shard_count, "the world has the wrong number of shards");
        for (std::size_t i = 0; i < count; ++i) {
            add_shard(shards[i]);
            named_expected_ += shards[i].named;
            anonymous_expected_ += shards[i].anonymous.size();
        }
        add_directory();
        return state_;
    }

private:
    void expect(bool right, const std::string& problem) {
        if (!right && state_.problems.size() < 8) {
            state_.problems.push_back(problem);
        }
    }
    void add(std::uint64_t value) { state_.digest = mix(state_.digest, value); }
    static std::uint64_t sum_of(std::string_view text) {
        std::uint64_t sum = text.size();
        for (; text.size() >= sizeof(std::uint64_t); text.remove_prefix(sizeof(std::uint64_t))) {
            std::uint64_t word = 0;
            std::memcpy(&word, text.data(), sizeof word);
            sum = mix(sum, word);
        }
        for (const char c : text) {
            sum = mix(sum, static_cast<unsigned char>(c));
        }
        return sum;
    }
    /// A string of more than a few characters has a block of its own.
    void add_text(const string& text) {
        const auto* const inside = reinterpret_cast<const char*>(&text);
        state_.blocks += text.c_str() >= inside && text.c_str() < inside + sizeof text ? 0U : 1U;
        add(sum_of({text.c_str(), text.size()}));
    }
    template <class Vector>
    void add_buffer(const Vector& numbers) {
        state_.blocks += numbers.capacity() > 0 ? 1U : 0U;
    }

    void add_raw(const raw_block& block) {
        const std::byte* const bytes = block.at.get();
        add(heap_.get_handle_from_address(bytes));
        add(block.size);
        add(block.seed);
        expect(heap_.usable_size(bytes) >= block.size, "a block is smaller than what it was allocated with");
        bool whole = true;
        for_each_word(block.size, [&](std::uint64_t at, std::uint64_t length) {
            const std::uint64_t word = mix(block.seed, at);
            whole = whole && std::memcmp(bytes + at, &word, length) == 0;
        });
        expect(whole, "a block of " + std::to_string(block.size) + " bytes at " +
                          std::to_string(heap_.get_handle_from_address(bytes)) + " has other content");
        ++state_.blocks;
    }

    void add_numbers(const number_list& numbers) {
        add_buffer(numbers);
        add(numbers.size());
        for (const std::uint64_t number : numbers) {
            add(number);
        }
    }

    void add_shard(const shard& part) {
        add_buffer(part.blocks);
        add_buffer(part.anonymous);
        for (const raw_block& block : part.blocks) {
            add_raw(block);
        }
        for (const auto& [key, text] : part.table) {
            add(key);
            add_text(text);
            ++state_.blocks;
        }
        add_lists(part);
        for (const string& text : part.texts) {
            add_text(text);
            ++state_.blocks;
        }
        std::uint64_t length = 0;
        for (const chain_node* node = part.chain.get(); node != nullptr && length <= part.chain_length;
             node = node->next.get()) {
            add(node->value);
            ++length;
        }
        expect(length == part.chain_length, "a chain of pointers has the wrong length");
        state_.blocks += length;
        for (const ptr<record>& object : part.anonymous) {
            add(heap_.get_handle_from_address(object.get()));
            expect(heap_.get_instance_kind(object.get()) == instance_kind::anonymous, "an anonymous object is none");
        }
    }

    void add_lists(const shard& part) {
        std::uint64_t sum = 0;  // the order of a hash table is its own
        for (const auto& [key, numbers] : part.lists) {
            const std::uint64_t before = state_.digest;
            state_.digest = key;
            add_numbers(numbers);
            sum += state_.digest;
            state_.digest = before;
            ++state_.blocks;
        }
        state_.blocks += part.lists.bucket_count() > 0 ? part.table_blocks : 0;
        add(sum);
    }

    void add_object(const object_info& object) {
        add(sum_of(object.name()));
        add(sum_of(object.type_name()));
        add(sum_of(object.description()));
        add(object.offset());
        add(object.length());
        ++state_.blocks;
        if (object.name() == world_name) {
            return;
        }
        if (object.type_name() == typeid(number_list).name()) {
            for (std::size_t i = 0; i < object.length(); ++i) {
                add_numbers(static_cast<const number_list*>(object.value())[i]);
            }
            return;
        }
        expect(object.type_size() == sizeof(record), "an object has the wrong type");
        const auto* const records = static_cast<const record*>(object.value());
        for (std::size_t i = 0; i < object.length(); ++i) {
            const record right(records[i].seed);
            expect(right.words == records[i].words, "object \"" + object.name() + "\" has other content");
            add(right.seed);
        }
    }

    /// The order of the directory is its own too.
    void add_directory() {
        std::uint64_t sum = 0;
        std::uint64_t count = 0;
        const std::uint64_t before = state_.digest;
        const auto add_all = [&](object_iterator it, const object_iterator& end) {
            for (; it != end; ++it, ++count) {
                state_.digest = 1;
                add_object(*it);
                sum += state_.digest;
            }
        };
        add_all(heap_.named_begin(), heap_.named_end());
        expect(count == named_expected_ + 1, "named objects: " + std::to_string(count));
        add_all(heap_.unique_begin(), heap_.unique_end());
        count = 0;
        add_all(heap_.anonymous_begin(), heap_.anonymous_end());
        expect(count == anonymous_expected_, "anonymous objects: " + std::to_string(count));
        state_.digest = mix(before, sum);
        const ptr<void>& root = heap_.root(7);
        add(root == nullptr ? 0 : heap_.get_handle_from_address(root.get()));
        add(sum_of(heap_.get_description()));
    }

    const manager& heap_;
    world_state state_;
    std::uint64_t named_expected_ = 0;
    std::uint64_t anonymous_expected_ = 0;
};

}  // namespace

world_state examine(const manager& heap) { return examination(heap).run(); }

world_state examine_and_check(const manager& heap) {
    // First what the heap says of itself: a walk over a broken heap may end anywhere.
    world_state state;
    std::vector<std::string> problems = heap.check(true);
    if (problems.empty()) {
        state = examine(heap);
    }
    const std::uint64_t counted = heap.statistics().allocated_blocks;
    if (problems.empty() && counted != state.blocks) {
        problems.push_back("the heap has " + std::to_string(counted) + " blocks, " + std::to_string(state.blocks) +
                           " can be reached");
    }
    state.problems.insert(state.problems.end(), problems.begin(), problems.end());
    return state;
}

}  // namespace holdfast::test
