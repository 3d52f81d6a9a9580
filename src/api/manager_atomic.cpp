// Blocks with their destinations: the functions of durability `atomic`, and what they are in durability `commit`.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "base/hot.hpp"
#include "segment/pointer_format.hpp"

namespace holdfast {

namespace detail {

// The public header knows the pointer, the layers below know its word.
static_assert(distance_bits == segment::pointer_distance_bits && distance_bias == segment::pointer_distance_bias);

void throw_read_only(const heap::engine& engine, std::string_view operation) {
    throw_failure(base::failure{base::failure_code::read_only,
                                engine.files().paths().directory(),
                                std::string(operation),
                                "a heap opened read-only",
                                "a writer",
                                {},
                                0});
}

void throw_refused_free(const heap::engine& engine) {
    base::failure what = heap::engine::last_failure();
    if (what.path.empty()) {
        what.path = engine.files().paths().directory();
    }
    throw_failure(what);
}

}  // namespace detail

namespace {

using base::failure;
using base::failure_code;

heap::block_request request_of(std::size_t bytes, const allocation_traits& traits) {
    return {bytes, traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U), traits.zeroed, traits.type};
}

[[noreturn]] void throw_last(const heap::engine& engine) {
    failure what = heap::engine::last_failure();
    if (what.code == failure_code::bad_address || what.code == failure_code::corrupt) {
        what.path = engine.files().paths().directory();
        throw_failure(what);
    }
    throw_allocation_failure(what, engine.files().paths().directory());
}

std::uint64_t& word_at(void* destination) noexcept { return *static_cast<std::uint64_t*>(destination); }

[[noreturn, gnu::cold]] void throw_bad_destination(const heap::engine& engine) {
    throw_failure(failure{failure_code::bad_address,
                          engine.files().paths().directory(),
                          "destination",
                          "a word elsewhere",
                          "a ptr in this heap",
                          {},
                          0});
}

/// Durability `commit`: a destination is any word of the heap's pages.
inline void check_destination(const heap::engine& engine, const void* destination) {
    const segment::heap_files& files = engine.files();
    const std::uint64_t offset = files.view().offset(destination).value;
    if (offset >= base::to_bytes(files.frontier()) || offset % sizeof(std::uint64_t) != 0) [[unlikely]] {
        throw_bad_destination(engine);
    }
}

void* target_of(void* destination) noexcept {
    const std::uint64_t word = word_at(destination);
    return segment::is_null_pointer(word)
               ? nullptr
               : reinterpret_cast<void*>(segment::decode_pointer(reinterpret_cast<std::uintptr_t>(destination), word));
}

void point_to(void* destination, const void* block) noexcept {
    const std::uint16_t stamp = segment::stamp_of(word_at(destination));
    word_at(destination) = block == nullptr ? segment::null_pointer(stamp)
                                            : segment::encode_pointer(reinterpret_cast<std::uintptr_t>(destination),
                                                                      reinterpret_cast<std::uintptr_t>(block), stamp);
}

HF_HOT void* allocate_volatile(heap::engine& engine, std::size_t bytes, const allocation_traits& traits) {
    const heap::block_request wanted = request_of(bytes, traits);
    void* const block = engine.allocate(wanted.bytes, wanted.alignment, wanted.type);
    if (block == nullptr) {
        throw_last(engine);
    }
    if (wanted.zeroed) {
        std::memset(block, 0, bytes);
    }
    return block;
}

}  // namespace

void* manager::allocate_to_word(void* destination, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    if (heap::atomic_operations* const atomic = engine.atomic()) [[likely]] {
        void* const block = atomic->allocate_to(word_at(destination), request_of(bytes, traits));
        if (block == nullptr) [[unlikely]] {
            throw_last(engine);
        }
        return block;
    }
    detail::refuse_read_only(engine, "allocate_to");
    check_destination(engine, destination);
    void* const block = allocate_volatile(engine, bytes, traits);
    point_to(destination, block);
    return block;
}

bool manager::free_from_word(void* destination) {
    heap::engine& engine = core().engine();
    if (heap::atomic_operations* const atomic = engine.atomic()) [[likely]] {
        const heap::operation_result done = atomic->free_from(word_at(destination));
        if (done == heap::operation_result::failed) [[unlikely]] {
            throw_last(engine);
        }
        return done == heap::operation_result::done;
    }
    detail::refuse_read_only(engine, "free_from");
    check_destination(engine, destination);
    void* const block = target_of(destination);
    if (block != nullptr) {
        detail::free_or_throw(engine, block);
        point_to(destination, nullptr);
    }
    return block != nullptr;
}

void* manager::reallocate_to_word(void* destination, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    if (heap::atomic_operations* const atomic = engine.atomic()) {
        void* const block = atomic->reallocate_to(word_at(destination), request_of(bytes, traits));
        if (block == nullptr) {
            throw_last(engine);
        }
        return block;
    }
    detail::refuse_read_only(engine, "realloc_to");
    check_destination(engine, destination);
    void* const old = target_of(destination);
    const std::size_t kept = old == nullptr ? 0 : std::min<std::size_t>(value_or_throw(engine.usable_size(old)), bytes);
    allocation_traits wanted = traits;
    if (old != nullptr && wanted.type == 0) {
        wanted.type = value_or_throw(engine.type_of(old));
    }
    void* const block = allocate_volatile(engine, bytes, wanted);
    if (old != nullptr) {
        std::memcpy(block, old, kept);
        detail::free_or_throw(engine, old);
    }
    point_to(destination, block);
    return block;
}

void* manager::reserve(size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    detail::refuse_read_only(engine, "reserve");
    heap::atomic_operations* const atomic = engine.atomic();
    if (atomic == nullptr) {
        return allocate_volatile(engine, bytes, traits);
    }
    void* const block = atomic->reserve(request_of(bytes, traits));
    if (block == nullptr) {
        throw_last(engine);
    }
    return block;
}

void manager::publish_word(void* destination, void* reserved) {
    heap::engine& engine = core().engine();
    if (heap::atomic_operations* const atomic = engine.atomic()) {
        if (!atomic->publish(word_at(destination), reserved)) {
            throw_last(engine);
        }
        return;
    }
    detail::refuse_read_only(engine, "publish");
    check_destination(engine, destination);
    value_or_throw(engine.usable_size(reserved));
    point_to(destination, reserved);
}

void manager::cancel(void* reserved) {
    heap::engine& engine = core().engine();
    if (heap::atomic_operations* const atomic = engine.atomic()) {
        if (!atomic->cancel(reserved)) {
            throw_last(engine);
        }
        return;
    }
    detail::free_or_throw(engine, reserved);
}

void manager::allocate_words(std::span<void* const> destinations, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    if (engine.atomic() == nullptr) {
        for (void* const destination : destinations) {
            allocate_to_word(destination, bytes, traits);
        }
        return;
    }
    std::uint64_t* words[32];
    std::transform(destinations.begin(), destinations.end(), words, [](void* word) { return &word_at(word); });
    const std::span<std::uint64_t* const> all(words, destinations.size());
    if (engine.atomic()->allocate_batch(all, request_of(bytes, traits)) != all.size()) {
        throw_last(engine);
    }
}

void manager::free_words(std::span<void* const> destinations) {
    heap::engine& engine = core().engine();
    if (engine.atomic() == nullptr) {
        for (void* const destination : destinations) {
            free_from_word(destination);
        }
        return;
    }
    std::uint64_t* words[32];
    std::transform(destinations.begin(), destinations.end(), words, [](void* word) { return &word_at(word); });
    const std::span<std::uint64_t* const> all(words, destinations.size());
    if (engine.atomic()->free_batch(all) != all.size()) {
        throw_last(engine);
    }
}

void manager::flush(const void* begin, size_type bytes) const noexcept {
    if (is_open()) {
        core_->engine().flush(begin, bytes);
    }
}

void manager::drain() const noexcept {
    if (is_open()) {
        core_->engine().drain();
    }
}

void manager::for_each_block(const std::function<void(const block_info&)>& each) const {
    heap::engine& engine = core().engine();
    value_or_throw(engine.files().admit_all());
    engine.blocks().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t type) {
        each({engine.files().view().address(offset), size, type});
    });
}

void manager::checkpoint() {
    heap::engine& engine = core().engine();
    if (engine.atomic() != nullptr) {
        engine.atomic()->checkpoint();
    }
}

protocol_counters manager::counters() const {
    heap::engine& engine = core().engine();
    if (engine.atomic() == nullptr) {
        return {};
    }
    return protocol_counters_of(engine.atomic()->lanes().statistics());
}

recovery_report manager::last_recovery() const {
    const lane::replay_report& report = core().engine().replayed();
    return {report.lanes, report.pending, report.replayed, report.rolled_back, report.time_ns};
}

}  // namespace holdfast
