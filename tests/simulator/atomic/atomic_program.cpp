#include "simulator/atomic/atomic_program.hpp"

#include <fmt/format.h>

#include "segment/format/heap_format.hpp"

namespace holdfast::simulator {

namespace {

constexpr std::uint64_t filled_words = 8;

std::uint64_t bytes_asked(request size) noexcept {
    switch (size) {
        case request::small: return 64;
        case request::other: return 2048;
        case request::slot:
        case request::typed_slot: return 14336;
        case request::six_pages: return 6 * base::page_size;
        default: return 8 * base::page_size;
    }
}

/// A block of pages stays where it is when the new size fits: one moves to more than twice the pages, or to less than
/// half of them.
std::uint64_t bytes_to_move(request size, std::uint64_t old_bytes) noexcept {
    constexpr std::uint64_t larger = 17 * base::page_size;
    return size == request::big && old_bytes == bytes_asked(size) ? larger : bytes_asked(size);
}

/// Of whole-page blocks, only those of the first place have a type.
std::uint32_t type_asked(const step& one) noexcept {
    constexpr std::uint32_t last = segment::type_limit - 1;
    switch (one.size) {
        case request::other: return 3;
        case request::typed_slot: return last;
        case request::big: return one.to == 0 ? last : 0;
        default: return 0;
    }
}

heap::block_request asked(const step& one, bool zeroed = false) noexcept {
    return {bytes_asked(one.size), 16, zeroed, type_asked(one)};
}

/// Words that look like destinations with the most frequent stamps.
std::uint64_t filled_word(std::uint64_t index) noexcept {
    const std::uint16_t stamps[4] = {1, 2, 3, 4};
    return index % 2 == 0 ? segment::null_pointer(stamps[index / 2 % 4])
                          : segment::encode_pointer(index * 8, base::granule_size, stamps[index / 2 % 4]);
}

std::vector<data_word> filled_content() {
    std::vector<data_word> content;
    for (std::uint64_t i = 0; i < filled_words; ++i) {
        content.push_back({i * 8, filled_word(i)});
    }
    return content;
}

std::vector<data_word> zero_content() {
    std::vector<data_word> content;
    for (std::uint64_t i = 0; i < filled_words; ++i) {
        content.push_back({i * 8, 0});
    }
    return content;
}

}  // namespace

std::string to_string(const step& one) {
    static constexpr const char* names[] = {"allocate",
                                            "allocate_zeroed",
                                            "free",
                                            "reallocate",
                                            "publish",
                                            "cancel",
                                            "keep",
                                            "discard",
                                            "move",
                                            "move_durably",
                                            "checkpoint",
                                            "allocate_both",
                                            "free_both",
                                            "free_cycle",
                                            "allocate_carelessly",
                                            "give_back",
                                            "hold_big",
                                            "shrink",
                                            "morph",
                                            "await",
                                            "transact_words",
                                            "transact_make",
                                            "transact_change",
                                            "transact_free",
                                            "transact_replace",
                                            "publish_inside",
                                            "free_inside",
                                            "go_to_node",
                                            "skip_stamps"};
    static constexpr const char* sizes[] = {"small", "other", "slot", "big", "typed_slot", "six_pages"};
    return fmt::format("{}({}<-{}, {})", names[static_cast<int>(one.what)], one.to, one.from,
                       sizes[static_cast<int>(one.size)]);
}

std::string to_string(const std::vector<step>& steps) {
    std::string text;
    for (const step& one : steps) {
        text += (text.empty() ? "" : "; ") + to_string(one);
    }
    return text;
}

void program_runner::start(std::uint16_t stamp) {
    for (unsigned i = 0; i < first_inner_place; ++i) {
        model_.add_destination(place(i), 0);
    }
    if (stamp != 0) {
        tracked_domain{space_.memory()}.store(word(0), segment::null_pointer(stamp), "program.stamp");
    }
}

void program_runner::start_again() {
    const std::uint64_t holder = model_.target_of(place(holder_place));
    if (holder != 0 && !model_.is_destination(holder + 8)) {
        adopt_inner_places(holder);  // its allocation was in flight
    }
    for (unsigned thread = 0; thread < model_threads; ++thread) {
        adopt_place_inside(thread);
    }
    // A crash in a move may leave two pointers to one block; the program keeps one.
    for (unsigned i = 0; i < place_count; ++i) {
        const std::uint64_t destination = place(i);
        if (destination != no_offset && model_.target_of(destination) != 0 &&
            model_.places_of(model_.target_of(destination)).size() > 1) {
            set_null(destination);
        }
    }
}

std::uint64_t program_runner::place(unsigned index) const {
    constexpr std::uint64_t roots[first_inner_place] = {0, 64, 8};
    if (index < first_inner_place) {
        return roots[index];
    }
    const std::uint64_t holder = model_.target_of(roots[holder_place]);
    const std::uint64_t offset = holder + (index - first_inner_place + 1) * 8;
    return holder != 0 && model_.is_destination(offset) ? offset : no_offset;
}

std::uint64_t& program_runner::word(std::uint64_t offset) const {
    return *reinterpret_cast<std::uint64_t*>(space_.view().address({offset}));
}

std::uint64_t program_runner::target(std::uint64_t destination) const {
    return target_in(space_.memory(), destination);
}

bool program_runner::run(const step& one, unsigned thread) {
    switch (one.what) {
        case verb::allocate:
        case verb::allocate_zeroed: return allocate(one, thread);
        case verb::free:
        case verb::free_inside: return free(one, thread);
        case verb::reallocate: return reallocate(one, thread);
        case verb::publish:
        case verb::publish_inside: return publish(one, thread);
        case verb::cancel: return cancel(one);
        case verb::keep: return keep(one, thread);
        case verb::discard: return discard(thread);
        case verb::move: return move(one, false);
        case verb::move_durably: return move(one, true);
        case verb::checkpoint: session_.heap().checkpoint(); return true;
        case verb::allocate_both: return both(true, thread);
        case verb::free_both: return both(false, thread);
        case verb::free_cycle: return free_cycle(thread);
        case verb::allocate_carelessly: return allocate_carelessly(one, thread);
        case verb::give_back: session_.blocks().small().flush_this_thread(); return true;
        case verb::hold_big: return hold_big(thread);
        case verb::shrink: return session_.shrink();
        case verb::go_to_node:
            persist::made_up_topology::move_this_thread_to(one.to);
            return session_.blocks().small().follow_this_thread();
        case verb::morph: return morph(one, thread);
        case verb::transact_words:
        case verb::transact_make:
        case verb::transact_change:
        case verb::transact_free:
        case verb::transact_replace: return transact(one, thread);
        case verb::skip_stamps: return skip_stamps(one);
        default: return true;
    }
}

void program_runner::finish(unsigned thread, const std::vector<std::uint64_t>& allocated) {
    model_.returned(thread, allocated);
    space_.memory().cut("returned");
}

/// The holder's block has null destinations.
void program_runner::adopt_inner_places(std::uint64_t block) {
    for (unsigned i = first_inner_place; i < place_count; ++i) {
        model_.add_destination(block + (i - first_inner_place + 1) * 8, 0);
    }
}

bool program_runner::allocate(const step& one, unsigned thread) {
    const std::uint64_t destination = place(one.to);
    const bool zeroed = one.what == verb::allocate_zeroed || one.to == holder_place;
    if (destination == no_offset || model_.target_of(destination) != 0) {
        return false;
    }
    const std::uint64_t bytes = bytes_asked(one.size);
    pending_change change{.destination = destination, .allocated_bytes = bytes, .type = type_asked(one)};
    if (zeroed) {
        change.content = zero_content();
    }
    model_.begin(thread, {change});
    if (session_.heap().allocate_to(word(destination), asked(one, zeroed)) == nullptr) {
        model_.failed(thread);
        return true;
    }
    const std::uint64_t block = target(destination);
    finish(thread, {block});
    if (one.to == holder_place) {
        adopt_inner_places(block);
    }
    return true;
}

bool program_runner::free(const step& one, unsigned thread) {
    const std::uint64_t destination = one.what == verb::free_inside ? place_inside(thread) : place(one.to);
    if (destination == no_offset || model_.target_of(destination) == 0) {
        return false;
    }
    model_.begin(thread, {{.destination = destination, .freed = model_.target_of(destination)}});
    if (session_.heap().free_from(word(destination)) != heap::operation_result::done) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {});
    return true;
}

bool program_runner::reallocate(const step& one, unsigned thread) {
    const std::uint64_t destination = place(one.to);
    if (destination == no_offset || model_.target_of(destination) == 0 || one.to == holder_place) {
        return false;  // a copy, byte by byte, would change the targets of its pointers
    }
    const std::uint64_t old = model_.target_of(destination);
    const std::uint64_t type = type_asked(one) != 0 ? type_asked(one) : model_.type_of(old);
    heap::block_request wanted = asked(one);
    wanted.bytes = bytes_to_move(one.size, model_.bytes_of(old));
    model_.begin(thread, {{.destination = destination,
                           .allocated_bytes = wanted.bytes,
                           .type = type,
                           .freed = old,
                           .content = model_.content_of(old)}});
    if (session_.heap().reallocate_to(word(destination), wanted) == nullptr) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {target(destination)});
    return true;
}

void program_runner::fill(void* block) {
    std::uint64_t words[filled_words];
    for (std::uint64_t i = 0; i < filled_words; ++i) {
        words[i] = filled_word(i);
    }
    tracked_domain{space_.memory()}.copy(block, words, sizeof words, "program.fill");
}

void program_runner::persist(const void* begin, std::uint64_t bytes) {
    session_.heap().on_blocks().flush(begin, bytes);
    session_.heap().on_blocks().drain();
}

bool program_runner::publish(const step& one, unsigned thread) {
    const bool inside = one.what == verb::publish_inside;
    const std::uint64_t destination = inside ? place_inside(thread) : place(one.to);
    if (destination == no_offset || model_.target_of(destination) != 0 || (!inside && one.to == holder_place)) {
        return false;
    }
    void* const block = session_.heap().reserve(asked(one));
    if (block == nullptr) {
        return true;
    }
    fill(block);
    persist(block, filled_words * 8);
    const std::uint64_t offset = space_.view().offset(block).value;
    model_.begin(thread, {{.destination = destination,
                           .allocated_bytes = bytes_asked(one.size),
                           .type = type_asked(one),
                           .target = offset,
                           .content = filled_content()}});
    if (!session_.heap().publish(word(destination), block)) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {offset});
    return true;
}

bool program_runner::hold_big(unsigned thread) {
    const std::uint64_t destination = place(holder_place);
    const std::uint64_t bytes = bytes_asked(request::big);
    if (model_.target_of(destination) != 0) {
        return false;
    }
    void* const block = session_.heap().reserve({bytes, 16, false});
    if (block == nullptr) {
        return true;
    }
    const std::uint64_t zeros[filled_words] = {};
    tracked_domain{space_.memory()}.copy(block, zeros, sizeof zeros, "program.fill");
    persist(block, sizeof zeros);
    const std::uint64_t offset = space_.view().offset(block).value;
    model_.begin(thread,
                 {{.destination = destination, .allocated_bytes = bytes, .target = offset, .content = zero_content()}});
    if (!session_.heap().publish(word(destination), block)) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {offset});
    adopt_inner_places(offset);
    return true;
}

bool program_runner::cancel(const step& one) {
    void* const block = session_.heap().reserve(asked(one));
    if (block != nullptr) {
        fill(block);
        space_.memory().cut("reserved");
        static_cast<void>(session_.heap().cancel(block));
        space_.memory().cut("cancelled");
    }
    return true;
}

bool program_runner::morph(const step& one, unsigned thread) {
    std::uint64_t block = model_.target_of(place(one.to));
    if (block == 0 && !kept_.at(thread).empty()) {
        block = space_.view().offset(kept_.at(thread).back()).value;
    }
    if (block == 0) {
        return false;
    }
    session_.blocks().small().flush_this_thread();
    constexpr unsigned whatever_is_overlapped = 100;
    const bool morphed = session_.blocks().morph(base::granule_of(base::heap_offset{block}),
                                                 slab::class_for(bytes_asked(one.size), 1), whatever_is_overlapped);
    space_.memory().cut("morphed");
    return morphed;
}

bool program_runner::keep(const step& one, unsigned thread) {
    model_.begin(thread, {{.allocated_bytes = bytes_asked(one.size), .type = type_asked(one)}});
    void* const block = session_.heap().allocate(asked(one));
    if (block == nullptr) {
        model_.failed(thread);
        return true;
    }
    kept_.at(thread).push_back(block);
    finish(thread, {space_.view().offset(block).value});
    return true;
}

bool program_runner::discard(unsigned thread) {
    auto& kept = kept_.at(thread);
    if (kept.empty()) {
        return false;
    }
    void* const block = kept.back();
    kept.pop_back();
    model_.begin(thread, {{.freed = space_.view().offset(block).value}});
    if (!session_.heap().on_blocks().deallocate(block)) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {});
    return true;
}

void program_runner::set_null(std::uint64_t destination) {
    model_.stored(destination, 0);
    tracked_domain{space_.memory()}.store(word(destination),
                                          segment::null_pointer(segment::stamp_of(word(destination))), "program.move");
    persist(&word(destination), 8);
    model_.made_durable(destination);
}

bool program_runner::move(const step& one, bool durably) {
    const std::uint64_t to = place(one.to);
    const std::uint64_t from = place(one.from);
    if (to == no_offset || from == no_offset || to == from || model_.target_of(to) != 0 ||
        model_.target_of(from) == 0 || one.to == holder_place || one.from == holder_place) {
        return false;
    }
    tracked_domain domain{space_.memory()};
    const std::uint64_t block = model_.target_of(from);
    model_.stored(to, block);
    domain.store(word(to), segment::encode_pointer(to, block, segment::stamp_of(word(to))), "program.move");
    if (durably) {
        persist(&word(to), 8);
        model_.made_durable(to);
        space_.memory().cut("moved");
    }
    set_null(from);
    space_.memory().cut("moved and emptied");
    return true;
}

bool program_runner::free_cycle(unsigned thread) {
    const std::uint64_t inner = place(first_inner_place);
    const std::uint64_t outer = place(holder_place);
    const std::uint64_t holder = model_.target_of(outer);
    if (inner == no_offset || model_.target_of(inner) != 0) {
        return false;
    }
    model_.stored(inner, holder);
    tracked_domain{space_.memory()}.store(
        word(inner), segment::encode_pointer(inner, holder, segment::stamp_of(word(inner))), "program.cycle");
    persist(&word(inner), 8);
    model_.made_durable(inner);
    set_null(outer);
    model_.begin(thread, {{.destination = inner, .freed = holder}});
    if (session_.heap().free_from(word(inner)) != heap::operation_result::done) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {});
    return true;
}

/// Breaks a precondition of allocate_to(): the block may be lost, and nothing else.
bool program_runner::allocate_carelessly(const step& one, unsigned thread) {
    constexpr std::uint64_t index = 4;  // publish() leaves stamp 3 in this word
    const std::uint64_t block = model_.target_of(place(one.to));
    if (block == 0) {
        return false;
    }
    const std::uint64_t careless = block + index * 8;
    model_.forget(careless, careless + 8);
    tracked_domain{space_.memory()}.store(word(careless), segment::null_pointer(2), "program.careless");
    model_.begin(thread, {{.allocated_bytes = bytes_asked(one.size), .type = type_asked(one)}});
    if (session_.heap().allocate_to(word(careless), asked(one)) == nullptr) {
        model_.failed(thread);
        return true;
    }
    finish(thread, {target(careless)});
    return true;
}

/// Must not skip the first stamp of a half of the range.
bool program_runner::skip_stamps(const step& one) {
    const std::uint64_t destination = place(one.to);
    const auto last = static_cast<std::uint16_t>(one.from - 1);
    const std::uint64_t block = model_.target_of(destination);
    tracked_domain{space_.memory()}.store(
        word(destination), block == 0 ? segment::null_pointer(last) : segment::encode_pointer(destination, block, last),
        "program.skip");
    return true;
}

bool program_runner::both(bool allocate, unsigned thread) {
    const std::uint64_t places[2] = {place(0), place(2)};
    std::uint64_t* const words[2] = {&word(places[0]), &word(places[1])};
    const std::uint64_t bytes = bytes_asked(request::small);
    std::vector<pending_change> changes;
    for (const std::uint64_t destination : places) {
        const std::uint64_t block = model_.target_of(destination);
        if ((block == 0) != allocate) {
            return false;
        }
        if (allocate) {
            changes.push_back({.destination = destination, .allocated_bytes = bytes});
        } else {
            changes.push_back({.destination = destination, .freed = block});
        }
    }
    model_.begin(thread, changes);
    const std::size_t done =
        allocate ? session_.heap().allocate_batch(words, {bytes, 16, false}) : session_.heap().free_batch(words);
    model_.keep_first(thread, done);
    finish(thread, allocate ? std::vector{target(places[0]), target(places[1])} : std::vector<std::uint64_t>{});
    return true;
}

}  // namespace holdfast::simulator
