#include "kill/destination_actor.hpp"

#include <algorithm>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <thread>

namespace holdfast::test::destinations {

namespace {

constexpr std::uint64_t kibibyte = 1024;
constexpr std::uint64_t most_bytes_of_set = 6 * kibibyte * kibibyte;
constexpr std::size_t most_destinations = 120;
constexpr std::uint64_t smallest_huge = 17 * kibibyte * kibibyte;
constexpr std::uint64_t largest_huge = 40 * kibibyte * kibibyte;

/// A node that make_persistent() makes.
struct made_node {
    ptr<void> words[words_of_node];
    std::uint64_t content[10];
    explicit made_node(std::uint64_t seed) {
        fill(reinterpret_cast<std::byte*>(this), {0, sizeof(made_node), seed, sizeof(made_node), true});
    }
};
static_assert(offsetof(made_node, content) == node_header);

}  // namespace

actor::actor(manager& heap, shared_sets& world, shared_region& region, std::uint64_t seed, bool shrinks)
    : heap_(heap),
      base_(static_cast<std::byte*>(heap.get_address())),
      world_(world),
      region_(region),
      source_(seed),
      shrinks_(shrinks) {}

void actor::expect(bool right, const char* what) const {
    if (!right) {
        throw std::runtime_error(what);
    }
}

bool actor::step() {
    for (std::size_t tries = 0; tries < 4 * set_count; ++tries) {
        const std::size_t chosen = below(set_count);
        const std::unique_lock lock(world_.locks.at(chosen), std::try_to_lock);
        if (!lock || region_.logs[chosen].begun.load() + 2 > set_log::capacity) {
            continue;
        }
        set_ = &world_.sets.at(chosen);
        log_ = &region_.logs[chosen];
        if (set_->unfinished.from != 0 || set_->unfinished.to != 0) {
            finish_move();
        } else {
            act();
        }
        return true;
    }
    return false;
}

void actor::act() {
    const std::uint64_t dice = below(1000);
    if (dice < 260) {
        allocate();
    } else if (dice < 500) {
        free();
    } else if (dice < 590) {
        publish();
    } else if (dice < 640) {
        make_node();
    } else if (dice < 700) {
        reallocate();
    } else if (dice < 760) {
        allocate_batch();
    } else if (dice < 810) {
        free_batch();
    } else if (dice < 840) {
        change_object();
    } else if (dice < 900) {
        move();
    } else if (dice < 960) {
        write();
    } else if (dice < 990) {
        reserve();
    } else if (dice < 997) {
        cancel_all();
    } else if (dice < 998) {
        if (shrinks_) {
            heap_.shrink({below(2) == 0 ? 0 : 16 * kibibyte * kibibyte, {}});
        }
    } else {
        heap_.checkpoint();
    }
}

std::uint64_t actor::random_size() {
    const std::uint64_t dice = below(1000);
    if (dice < 700) {
        return 1 + below(256);
    }
    if (dice < 900) {
        return 1 + below(4 * kibibyte);
    }
    if (dice < 950 || set_->bytes() > most_bytes_of_set) {
        return 1 + below(40 * kibibyte);
    }
    if (below(400) == 0) {
        return smallest_huge + below(largest_huge - smallest_huge);
    }
    return below(10) == 0 ? 1 + below(3072 * kibibyte) : 1 + below(400 * kibibyte);
}

/// None for half of all; few, for each has slabs of its own.
std::uint32_t actor::random_type() {
    constexpr std::uint32_t types[] = {0, 0, 1, (1U << 20U) - 1};
    return types[below(std::size(types))];
}

bool actor::choose_empty(std::size_t most, call_record& into) {
    std::vector<destination>& all = set_->all();
    const std::size_t first = below(all.size());
    for (std::size_t i = 0; i < all.size() && into.count < most; ++i) {
        const destination& each = all[(first + i) % all.size()];
        if (each.target.at == 0 && !is_object(each.at)) {
            into.words.at(into.count++) = each.at;
        }
    }
    return into.count != 0;
}

bool actor::choose_taken(std::size_t most, bool leaves_only, call_record& into) {
    std::vector<destination>& all = set_->all();
    const std::size_t first = below(all.size());
    for (std::size_t i = 0; i < all.size() && into.count < most; ++i) {
        const destination& each = all[(first + i) % all.size()];
        if (each.target.at != 0 && !is_object(each.at) &&
            (!each.target.node || (!leaves_only && set_->is_empty_node(each.target)))) {
            into.words.at(into.count++) = each.at;
        }
    }
    return into.count != 0;
}

call_record& actor::report(const call_record& intended) {
    const std::uint64_t number = log_->begun.load(std::memory_order_relaxed);
    call_record& written = log_->records[number];
    written = intended;
    log_->begun.store(number + 1, std::memory_order_release);
    set_->begin(written);
    return written;
}

void actor::returned(const call_record& made) {
    log_->done.store(log_->begun.load(std::memory_order_relaxed), std::memory_order_release);
    set_->apply(made);
}

void actor::allocate() {
    call_record intended;
    if (!choose_empty(1, intended)) {
        return;
    }
    intended.node = below(8) == 0 && set_->all().size() < most_destinations;
    intended.zeroed = intended.node || below(4) == 0;
    intended.size = intended.node ? node_header + below(300) : random_size();
    intended.type = random_type();
    allocation_traits traits;
    traits.zeroed = intended.zeroed;
    traits.type = intended.type;
    traits.alignment = below(16) == 0 ? std::size_t{8} << below(11) : 0;
    call_record& made = report(intended);
    void* const memory = heap_.allocate_to(word(made.words[0]), made.size, traits);
    made.targets[0] = offset_of(memory);
    returned(made);
    expect(word(made.words[0]).get() == memory, "allocate_to returns another block than its destination points to");
    expect(traits.alignment == 0 || made.targets[0] % traits.alignment == 0, "a block that is not aligned");
}

void actor::allocate_batch() {
    call_record intended;
    if (!choose_empty(1 + below(largest_batch), intended)) {
        return;
    }
    intended.size = 1 + below(600);
    intended.type = random_type();
    intended.zeroed = below(4) == 0;
    call_record& made = report(intended);
    std::array<ptr<void>*, largest_batch> words{};
    for (std::size_t i = 0; i < made.count; ++i) {
        words.at(i) = &word(made.words.at(i));
    }
    heap_.allocate_batch<void>(std::span(words.data(), made.count), made.size,
                               {.zeroed = made.zeroed, .type = made.type});
    for (std::size_t i = 0; i < made.count; ++i) {
        made.targets.at(i) = offset_of(words.at(i)->get());
    }
    returned(made);
}

void actor::free() {
    call_record intended;
    intended.what = call::free;
    if (!choose_taken(1, false, intended)) {
        return;
    }
    const block old = set_->target_of(intended.words[0]);
    call_record& made = report(intended);
    const bool freed = old.node && old.size == sizeof(made_node)
                           ? heap_.destroy_persistent(reinterpret_cast<ptr<made_node>&>(word(made.words[0])))
                           : heap_.free_from(word(made.words[0]));
    returned(made);
    expect(freed, "free_from says that its destination is null");
}

void actor::free_batch() {
    call_record intended;
    intended.what = call::free;
    if (!choose_taken(1 + below(largest_batch), false, intended)) {
        return;
    }
    call_record& made = report(intended);
    std::array<ptr<void>*, largest_batch> words{};
    for (std::size_t i = 0; i < made.count; ++i) {
        words.at(i) = &word(made.words.at(i));
    }
    heap_.free_batch<void>(std::span(words.data(), made.count));
    returned(made);
}

void actor::reallocate() {
    call_record intended;
    intended.what = call::reallocate;
    if (!choose_taken(1, true, intended)) {
        return;
    }
    intended.size = random_size();
    intended.type = random_type();
    call_record& made = report(intended);
    made.targets[0] = offset_of(heap_.realloc_to(word(made.words[0]), made.size, {.type = made.type}));
    returned(made);
}

void actor::reserve() {
    if (reserved_.size() < 4) {
        block wanted{0, random_size(), source_() | 1U, 0, below(4) == 0, random_type()};
        wanted.size += wanted.node ? node_header : 0;
        wanted.valid = wanted.size;
        void* const memory = heap_.reserve(wanted.size, {.zeroed = wanted.node, .type = wanted.type});
        wanted.at = offset_of(memory);
        fill(static_cast<std::byte*>(memory), wanted);
        heap_.persist(memory, wanted.size);
        reserved_.push_back({memory, wanted});
    }
}

void actor::cancel_all() {
    for (const reserved_block& each : reserved_) {
        heap_.cancel(each.memory);
    }
    reserved_.clear();
}

void actor::publish() {
    call_record intended;
    intended.what = call::publish;
    if (!choose_empty(1, intended)) {
        return;
    }
    if (reserved_.empty()) {
        reserve();
    }
    const reserved_block chosen = reserved_.back();
    if (chosen.is.node && set_->all().size() >= most_destinations) {
        return;
    }
    reserved_.pop_back();
    intended.size = chosen.is.size;
    intended.seed = chosen.is.seed;
    intended.node = chosen.is.node;
    intended.type = chosen.is.type;
    intended.targets[0] = chosen.is.at;
    call_record& made = report(intended);
    heap_.publish(word(made.words[0]), chosen.memory);
    returned(made);
}

void actor::make_node() {
    call_record intended;
    intended.what = call::publish;
    if (set_->all().size() >= most_destinations || !choose_empty(1, intended)) {
        return;
    }
    intended.size = sizeof(made_node);
    intended.seed = source_() | 1U;
    intended.node = true;
    call_record& made = report(intended);
    auto& destination = reinterpret_cast<ptr<made_node>&>(word(made.words[0]));
    made.targets[0] = offset_of(heap_.make_persistent<made_node>(destination, made.seed));
    returned(made);
}

/// An object that is there is destroyed or gets another description; else it is constructed.
void actor::change_object() {
    std::vector<destination>& all = set_->all();
    const std::size_t first = below(all.size());
    std::size_t chosen = first;
    while (!is_object(all[chosen].at)) {
        chosen = (chosen + 1) % all.size();
    }
    const block old = all[chosen].target;
    call_record intended;
    intended.count = 1;
    intended.words[0] = all[chosen].at;
    const std::string name = object_name(all[chosen].at);
    if (old.at == 0) {
        intended.what = call::publish;
        intended.size = sizeof(object_content);
        intended.seed = source_() | 1U;
        call_record& made = report(intended);
        made.targets[0] = offset_of(heap_.construct<object_content>(name)(made.seed));
        returned(made);
    } else if (below(3) == 0) {
        heap_.set_instance_description(reinterpret_cast<object_content*>(address(old.at)),
                                       std::string(below(200), 'd'));
    } else {
        intended.what = call::free;
        call_record& made = report(intended);
        const bool destroyed = heap_.destroy<object_content>(name);
        returned(made);
        expect(destroyed, "destroy finds no object");
    }
}

void actor::write() {
    call_record intended;
    intended.what = call::write;
    if (!choose_taken(1, false, intended)) {
        return;
    }
    intended.seed = source_() | 1U;
    call_record& made = report(intended);
    block wanted = set_->target_of(made.words[0]);
    wanted.seed = made.seed;
    wanted.valid = wanted.size;
    fill(address(wanted.at), wanted);
    heap_.persist(address(wanted.at), wanted.size);
    returned(made);
}

void actor::move() {
    call_record from;
    call_record to;
    if (!choose_taken(1, false, from) || !choose_empty(1, to)) {
        return;
    }
    const block moved = set_->target_of(from.words[0]);
    if (to.words[0] >= moved.at && to.words[0] < moved.at + moved.size) {
        return;  // into itself
    }
    call_record intended;
    intended.what = call::move;
    intended.count = 2;
    intended.words[0] = from.words[0];
    intended.words[1] = to.words[0];
    call_record& made = report(intended);
    ptr<void>& source = word(made.words[0]);
    ptr<void>& target = word(made.words[1]);
    target = source;
    heap_.persist(&target, sizeof target);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a compiler may not swap the two stores
    source = nullptr;
    heap_.persist(&source, sizeof source);
    returned(made);
}

void actor::finish_move() {
    call_record intended;
    intended.what = call::move;
    intended.count = 2;
    intended.words[0] = set_->unfinished.from;
    intended.words[1] = set_->unfinished.to;
    call_record& made = report(intended);
    word(made.words[0]) = nullptr;
    heap_.persist(&word(made.words[0]), sizeof(ptr<void>));
    returned(made);
}

namespace {

void work(manager& heap, shared_sets& world, shared_region& region, std::uint64_t seed, std::uint64_t calls) {
    constexpr std::uint64_t longest_life = 3000;
    std::mt19937_64 source(seed);
    for (std::uint64_t made = 0; calls == 0 || made < calls;) {
        const std::uint64_t life = std::min(1 + source() % longest_life, calls == 0 ? longest_life : calls - made);
        made += life;
        // Threads end and others begin: lanes and caches change hands.
        std::thread([&heap, &world, &region, life, inner = source()] {
            try {
                actor one(heap, world, region, inner);
                for (std::uint64_t i = 0; i < life; ++i) {
                    if (!one.step()) {
                        std::this_thread::yield();  // the logs are full: all that is left is to be killed
                    }
                }
                one.cancel_all();
            } catch (const std::exception& thrown) {
                std::snprintf(region.problem, sizeof region.problem, "%s", thrown.what());
                std::_Exit(3);
            }
        }).join();
    }
}

}  // namespace

int run_worker(const worker_plan& plan, std::vector<holdings>& sets, shared_region& region) {
    constexpr std::size_t threads = 4;
    try {
        while (plan.open_and_close) {
            manager heap(open_only, plan.heap, plan.options);
            region.now.store(phase::running);
            heap.close();
        }
        manager heap(open_only, plan.heap, plan.options);
        shared_sets world{sets, {}};
        region.now.store(phase::running);
        std::vector<std::thread> workers;
        for (std::size_t i = 0; i < threads; ++i) {
            workers.emplace_back([&, i] { work(heap, world, region, plan.seed + i, plan.calls); });
        }
        for (std::thread& worker : workers) {
            worker.join();
        }
        region.now.store(phase::closing);
        heap.close();
        region.now.store(phase::closed);
        return 0;
    } catch (const std::exception& thrown) {
        std::snprintf(region.problem, sizeof region.problem, "%s", thrown.what());
        return 3;
    }
}

}  // namespace holdfast::test::destinations
