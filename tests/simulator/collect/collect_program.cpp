#include "simulator/collect/collect_program.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "segment/format/heap_format.hpp"

namespace holdfast::simulator {

namespace {

std::uint64_t target_of(const collect_space& space, const std::uint64_t& word) {
    return segment::is_null_pointer(word) ? 0 : segment::decode_pointer(space.view().offset(&word).value, word);
}

std::uint64_t usable_of(std::uint64_t bytes) {
    const unsigned class_index = slab::class_for(bytes, 16);
    return class_index == slab::no_class ? base::to_bytes(base::pages_for(bytes))
                                         : slab::size_classes[class_index].block_size;
}

/// How a list differs that begins at `first` on media.
std::string list_difference(const std::vector<listed_block>& list, std::uint64_t first, collect_session& session,
                            collect_space& space) {
    std::uint64_t at = first;
    for (const listed_block& expected : list) {
        if (at != expected.offset) {
            return fmt::format("leads to {:#x}, not to {:#x}", at, expected.offset);
        }
        const auto size = session.blocks().inspect().usable_size(space.view().address({at}));
        if (!size || *size != expected.bytes) {
            return fmt::format("the block at {:#x} is not there", at);
        }
        const auto* const words = reinterpret_cast<const std::uint64_t*>(space.view().address({at}));
        const bool rest_is_zero = std::all_of(words + 2, words + expected.bytes / sizeof *words,
                                              [](std::uint64_t word) { return word == 0; });
        const std::uint64_t content = expected.seed == 0 ? 0 : content_of(expected.seed);
        if (words[1] != content || !rest_is_zero) {
            return fmt::format("the block at {:#x} has other content", at);
        }
        at = target_of(space, words[0]);
    }
    return at == 0 ? std::string{} : fmt::format("goes on at {:#x}", at);
}

}  // namespace

std::uint64_t collect_world::hash() const noexcept {
    std::uint64_t sum = 0;
    const auto add = [&sum](const std::vector<listed_block>& blocks) {
        for (const listed_block& one : blocks) {
            sum = mix(sum, mix(one.offset, mix(one.bytes, one.seed)));
        }
        sum = mix(sum);
    };
    std::for_each(lists.begin(), lists.end(), add);
    add(lost);
    return sum;
}

std::string collect_world::difference(collect_session& session, collect_space& space) const {
    std::vector<listed_block> wanted;
    for (unsigned i = 0; i < lists.size(); ++i) {
        std::uint64_t first = 0;
        if (is_object(i)) {
            const auto found = session.objects().find(heap::object_kind::named, name_of(i));
            if (!found) {
                return found.error().message();
            }
            first = *found ? (*found)->offset : 0;
        } else {
            first = target_of(space, reinterpret_cast<const std::uint64_t*>(space.view().base())[i]);
        }
        if (std::string wrong = list_difference(lists[i], first, session, space); !wrong.empty()) {
            return fmt::format("list {} {}", i, wrong);
        }
        wanted.insert(wanted.end(), lists[i].begin(), lists[i].end());
    }
    wanted.insert(wanted.end(), lost.begin(), lost.end());
    std::vector<std::uint64_t> expected;
    std::transform(wanted.begin(), wanted.end(), std::back_inserter(expected),
                   [](const listed_block& one) { return one.offset; });
    std::sort(expected.begin(), expected.end());
    std::vector<std::uint64_t> found;
    session.blocks().inspect().for_each_block(
        [&found](base::heap_offset offset, std::uint64_t, std::uint32_t) { found.push_back(offset.value); });
    return found == expected ? std::string{}
                             : fmt::format("{} blocks are allocated, {} are expected", found.size(), expected.size());
}

std::string to_string(const collect_step& step) {
    constexpr std::array names{"push", "lend",      "pop",        "allocate to", "publish", "free from", "realloc to",
                               "lose", "free lost", "write back", "shrink",      "morph",   "reopen",    "die"};
    return fmt::format("{} {} {}", names.at(static_cast<std::size_t>(step.verb)), step.list, step.bytes);
}

bool collect_runner::run(const collect_step& step, unsigned stores) {
    left_ = stores;
    switch (step.verb) {
        case collect_verb::push: return push(step);
        case collect_verb::lend: return lend(step);
        case collect_verb::pop: return pop(step);
        case collect_verb::allocate_to: return allocate_to(step);
        case collect_verb::publish: return publish(step);
        case collect_verb::free_from: return free_from(step);
        case collect_verb::realloc_to: return realloc_to(step);
        case collect_verb::lose: {
            void* const block = session_.heap().allocate(step.bytes, 16, 0);
            if (block == nullptr) {
                return false;
            }
            const std::uint64_t offset = space_.view().offset(block).value;
            const std::uint64_t bytes = *session_.blocks().inspect().usable_size(block);
            model_.now.lost.push_back({offset, bytes, 0});
            break;
        }
        case collect_verb::free_lost:
            if (model_.now.lost.empty()) {
                return false;
            }
            if (!session_.heap().deallocate(space_.view().address({model_.now.lost.back().offset}))) {
                return false;
            }
            model_.now.lost.pop_back();
            break;
        case collect_verb::write_back: session_.heap().write_back(); break;
        case collect_verb::shrink: return session_.shrink();
        case collect_verb::morph: {
            const auto& list = model_.now.lists[step.list];
            session_.blocks().small().flush_this_thread();
            constexpr unsigned whatever_is_overlapped = 100;
            if (list.empty() || !session_.blocks().morph(base::granule_of(base::heap_offset{list.front().offset}),
                                                         slab::class_for(step.bytes, 16), whatever_is_overlapped)) {
                return false;
            }
            break;
        }
        default: return false;
    }
    space_.memory().cut("done");
    return true;
}

/// A block with durable content. Null if there is no space, or the process has ended.
void* collect_runner::make(std::uint64_t bytes, std::uint64_t next, std::uint64_t seed) {
    void* const block = session_.heap().allocate(bytes, 16, 0);
    if (block == nullptr || !may_store()) {
        return nullptr;
    }
    fill(block, *session_.blocks().inspect().usable_size(block), next, seed);
    return block;
}

/// Returns when the content is durable.
void collect_runner::fill(void* block, std::uint64_t size, std::uint64_t next, std::uint64_t seed) {
    auto* const words = static_cast<std::uint64_t*>(block);
    for (std::uint64_t i = 0; i < size / sizeof *words; ++i) {
        const std::uint64_t from = space_.view().offset(words).value;
        const std::uint64_t value = i == 1               ? content_of(seed)
                                    : i > 1 || next == 0 ? 0
                                                         : segment::encode_pointer(from, next, 0);
        if (words[i] != value) {
            domain_.store(words[i], value, "program.content");
        }
    }
    session_.heap().flush(block, size);
    session_.heap().drain();
}

/// Returns when the pointer is durable.
void collect_runner::point(std::uint64_t& word, std::uint64_t to) {
    const std::uint64_t from = space_.view().offset(&word).value;
    domain_.store(word, to == 0 ? 0 : segment::encode_pointer(from, to, 0), "program.pointer");
    if (may_store()) {  // otherwise the process ends between store and flush
        session_.heap().flush(&word, sizeof word);
        session_.heap().drain();
    }
}

/// The word that push and pop change; in an object's list, the object's.
std::uint64_t& collect_runner::destination_of(unsigned list) {
    std::byte* const base = space_.view().base();
    return collect_world::is_object(list) ? *reinterpret_cast<std::uint64_t*>(base + model_.now.lists[list][0].offset)
                                          : reinterpret_cast<std::uint64_t*>(base)[list];
}

bool collect_runner::push(const collect_step& step) {
    const std::vector<listed_block>& list = model_.now.lists[step.list];
    const bool is_new_object = collect_world::is_object(step.list) && list.empty();
    const std::size_t at = collect_world::is_object(step.list) && !list.empty() ? 1 : 0;
    const std::uint64_t seed = ++seeds_;
    void* const block = make(step.bytes, at < list.size() ? list[at].offset : 0, seed);
    if (block == nullptr) {
        return ended();
    }
    const std::uint64_t offset = space_.view().offset(block).value;
    const std::uint64_t size = *session_.blocks().inspect().usable_size(block);
    model_.next = model_.now;
    auto& grown = model_.next->lists[step.list];
    grown.insert(grown.begin() + static_cast<std::ptrdiff_t>(at), {offset, size, seed});
    if (!may_store()) {
        return true;
    }
    if (is_new_object) {
        heap::object_entry entry;
        entry.name = collect_world::name_of(step.list);
        entry.offset = offset;
        entry.count = 1;
        entry.type_size = size;
        if (!session_.objects().insert(entry)) {
            return false;
        }
    } else {
        point(destination_of(step.list), offset);
    }
    if (!ended()) {
        done();
    }
    return true;
}

bool collect_runner::lend(const collect_step& step) {
    void* const block = model_.now.lists[step.list].empty() ? session_.heap().allocate(step.bytes, 16, 0) : nullptr;
    if (block == nullptr || collect_world::is_object(step.list)) {
        return false;
    }
    const std::uint64_t offset = space_.view().offset(block).value;
    model_.next = model_.now;
    model_.next->lists[step.list] = {{offset, *session_.blocks().inspect().usable_size(block), 0}};
    point(destination_of(step.list), offset);
    done();
    return true;
}

bool collect_runner::pop(const collect_step& step) {
    const std::vector<listed_block>& list = model_.now.lists[step.list];
    if (list.empty()) {
        return false;
    }
    const bool is_object = collect_world::is_object(step.list) && list.size() == 1;
    const std::size_t at = collect_world::is_object(step.list) && list.size() > 1 ? 1 : 0;
    const listed_block gone = list[at];
    const std::uint64_t next = at + 1 < list.size() ? list[at + 1].offset : 0;
    model_.next = model_.now;
    auto& shorter = model_.next->lists[step.list];
    shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(at));
    if (!may_store()) {
        return true;
    }
    if (is_object) {
        if (!session_.objects().erase_at(gone.offset)) {
            return false;
        }
    } else {
        point(destination_of(step.list), next);
    }
    if (ended() || !may_store()) {
        return true;
    }
    if (!session_.heap().deallocate(space_.view().address({gone.offset}))) {
        return false;
    }
    done();
    return true;
}

void collect_runner::expect_alone(const collect_step& step, std::uint64_t offset, std::uint64_t seed) {
    model_.next = model_.now;
    model_.next->lists[step.list] = {{offset, usable_of(step.bytes), seed}};
}

/// After a call with a destination: the program writes the destination back itself.
bool collect_runner::finish(bool succeeded, std::uint64_t& destination) {
    session_.set_listener({});
    if (!succeeded) {
        model_.next.reset();  // without space nothing has changed
        return false;
    }
    session_.heap().flush(&destination, sizeof destination);
    session_.heap().drain();
    done();
    return true;
}

bool collect_runner::allocate_to(const collect_step& step) {
    if (collect_world::is_object(step.list) || !model_.now.lists[step.list].empty()) {
        return false;
    }
    session_.set_listener([&](std::uint64_t offset) { expect_alone(step, offset, 0); });
    std::uint64_t& destination = destination_of(step.list);
    return finish(session_.destinations().allocate_to(destination, {step.bytes, 16, true}) != nullptr, destination);
}

bool collect_runner::publish(const collect_step& step) {
    if (collect_world::is_object(step.list) || !model_.now.lists[step.list].empty()) {
        return false;
    }
    void* const block = session_.destinations().reserve({step.bytes});
    if (block == nullptr) {
        return false;
    }
    const std::uint64_t seed = ++seeds_;
    fill(block, usable_of(step.bytes), 0, seed);
    const std::uint64_t offset = space_.view().offset(block).value;
    expect_alone(step, offset, seed);
    std::uint64_t& destination = destination_of(step.list);
    return finish(session_.destinations().publish(destination, block), destination);
}

bool collect_runner::free_from(const collect_step& step) {
    if (collect_world::is_object(step.list) || model_.now.lists[step.list].size() != 1) {
        return false;
    }
    model_.next = model_.now;
    model_.next->lists[step.list].clear();
    std::uint64_t& destination = destination_of(step.list);
    return finish(session_.destinations().free_from(destination) == heap::operation_result::done, destination);
}

bool collect_runner::realloc_to(const collect_step& step) {
    if (collect_world::is_object(step.list) || model_.now.lists[step.list].size() != 1) {
        return false;
    }
    const std::uint64_t seed = model_.now.lists[step.list].front().seed;
    session_.set_listener([&](std::uint64_t offset) { expect_alone(step, offset, seed); });
    std::uint64_t& destination = destination_of(step.list);
    return finish(session_.destinations().reallocate_to(destination, {step.bytes, 16, true}) != nullptr, destination);
}

}  // namespace holdfast::simulator
