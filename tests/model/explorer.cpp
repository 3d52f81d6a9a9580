// Breadth-first search through all states, each remembered by a 64-bit hash.
#include <algorithm>
#include <bit>
#include <cstring>

#include "model/protocol_replay.hpp"
#include "model/protocol_steps.hpp"

namespace holdfast::model {

namespace {

template <class T>
std::uint64_t hash_of(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (std::size_t at = 0; at < sizeof(T); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes + at, std::min<std::size_t>(8, sizeof(T) - at));
        word = std::rotl(word * 0x87c37b91114253d5U, 31) * 0x4cf5ad432745937fU;
        hash = std::rotl(hash ^ word, 27) * 5 + 0x52dce729U;
    }
    // Each bit affects all others.
    hash = (hash ^ hash >> 33U) * 0xff51afd7ed558ccdU;
    hash = (hash ^ hash >> 33U) * 0xc4ceb9fe1a85ec53U;
    hash ^= hash >> 33U;
    return hash == 0 ? 1 : hash;
}

/// Open addressing; 0 means empty.
class hash_set {
public:
    hash_set() : places_(1U << 16U) {}

    bool insert(std::uint64_t hash) {
        if ((count_ + 1) * 3 > places_.size() * 2) {
            grow();
        }
        return put(hash);
    }

    [[nodiscard]] std::size_t size() const { return count_; }

private:
    bool put(std::uint64_t hash) {
        const std::size_t mask = places_.size() - 1;
        std::size_t at = hash & mask;
        while (places_[at] != 0) {
            if (places_[at] == hash) {
                return false;
            }
            at = (at + 1) & mask;
        }
        places_[at] = hash;
        ++count_;
        return true;
    }

    void grow() {
        std::vector<std::uint64_t> old(places_.size() * 2);
        old.swap(places_);
        count_ = 0;
        for (const std::uint64_t hash : old) {
            if (hash != 0) {
                put(hash);
            }
        }
    }

    std::vector<std::uint64_t> places_;
    std::size_t count_ = 0;
};

/// All that the judgement of an image depends on.
struct judged_image {
    image crashed;
    std::array<std::array<byte, max_elements>, max_threads> words{};
    std::array<std::array<byte, max_elements>, max_threads> allocated{};
    std::array<std::array<byte, max_elements>, max_threads> freed{};
    std::array<std::array<byte, max_elements>, max_threads> stamps{};
    std::array<std::array<byte, max_elements>, max_threads> targets{};
    std::array<content_kind, max_threads> contents{};
    std::array<byte, max_words> settled_words{};
    std::array<byte, max_threads> elements{};
    std::array<byte, max_words> allowed{};
    std::array<block_mode, block_count> modes{};
    byte settled = 0;
    byte dropped = 0;
    byte unpersisted = 0;
};

judged_image judgement_key(const state& before) {
    judged_image key;
    for (std::size_t who = 0; who < before.threads.size(); ++who) {
        const thread& each = before.threads[who];
        if (each.doing == activity::call && each.durable == 0) {
            key.words[who] = each.word;
            key.allocated[who] = each.allocated;
            key.freed[who] = each.freed;
        }
        if (each.kind == operation::group && each.durable == 0) {
            key.stamps[who] = each.stamp;
            key.targets[who] = each.target;
            key.contents[who] = each.content;
            key.elements[who] = each.elements;
        }
    }
    key.settled_words = before.settled_words;
    key.allowed = before.allowed;
    key.modes = before.modes;
    key.settled = before.settled_blocks;
    key.dropped = before.dropped_blocks;
    key.unpersisted = before.unpersisted_words;
    return key;
}

struct queued {
    state content;
    std::uint32_t number;
};

class explorer {
public:
    explicit explorer(const rules& chosen) : rules_(chosen), stepper_(chosen) {}

    outcome run() {
        state first = stepper_.initial();
        stepper_.normalise(first);
        discover(first, 0, {});
        while (!next_.empty() && !stopped_ && result_.violation.empty()) {
            current_.swap(next_);
            next_.clear();
            ++result_.depth;
            for (const queued& each : current_) {
                if (!visit(each)) {
                    break;
                }
            }
        }
        result_.states = seen_.size();
        result_.images = images_.size();
        result_.complete = !stopped_ && result_.violation.empty();
        return result_;
    }

private:
    void discover(const state& found, std::uint32_t parent, const label& step) {
        if (seen_.insert(hash_of(found))) {
            next_.push_back({found, static_cast<std::uint32_t>(parents_.size())});
            parents_.push_back({parent, step});
        }
    }

    bool visit(const queued& each) {
        if (rules_.about.state_limit != 0 && seen_.size() > rules_.about.state_limit) {
            stopped_ = true;
            return false;
        }
        if (!stepper_.next_state_has_all_images(each.content)) {
            judged_image key = judgement_key(each.content);
            for_each_image(rules_, each.content, [&](const image& crashed) { return judge(each, crashed, key); });
            if (!result_.violation.empty()) {
                return false;
            }
        }
        if (stepper_.is_stuck(each.content)) {
            result_.violation = "a thread waits for room in the log that no checkpoint can make";
            trace(each.number);
            return false;
        }
        stepper_.for_each_successor(each.content,
                                    [&](const state& next, const label& step) { discover(next, each.number, step); });
        return true;
    }

    bool judge(const queued& each, const image& crashed, judged_image& key) {
        key.crashed = crashed;
        if (!images_.insert(hash_of(key))) {
            return true;
        }
        const image recovered = replay(rules_, crashed);
        bool excused = false;
        std::string wrong = examine(rules_, each.content, crashed, recovered, excused);
        if (wrong.empty()) {
            wrong = examine_second_crash(rules_, crashed, recovered);
        }
        if (!wrong.empty()) {
            result_.violation = wrong;
            trace(each.number);
            return false;
        }
        if (!excused) {
            state again = reopen(rules_, each.content, recovered);
            stepper_.normalise(again);
            discover(again, each.number, {event::crash, 0, 0, 0});
        }
        return true;
    }

    void trace(std::uint32_t number) {
        while (number != 0) {
            result_.path.push_back(describe(parents_[number].step));
            number = parents_[number].parent;
        }
        std::reverse(result_.path.begin(), result_.path.end());
    }

    struct origin {
        std::uint32_t parent;
        label step;
    };

    rules rules_;
    stepper stepper_;
    hash_set seen_;
    hash_set images_;
    std::vector<origin> parents_;
    std::vector<queued> current_;
    std::vector<queued> next_;
    bool stopped_ = false;
    outcome result_;
};

}  // namespace

outcome explore(const rules& chosen) { return explorer(chosen).run(); }

}  // namespace holdfast::model
