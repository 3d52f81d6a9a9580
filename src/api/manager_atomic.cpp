// manager: blocks with their destinations, in every durability; checkpoints, counters and recovery of `atomic`.
#include <algorithm>

#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "segment/pointer_format.hpp"

namespace holdfast {

namespace detail {

// ptr.hpp and the layers below define the layout of the word independently; both must agree.
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

void throw_last_failure(const heap::engine& engine) {
    base::failure what = heap::engine::last_failure();
    if (what.code == base::failure_code::bad_address || what.code == base::failure_code::corrupt) {
        what.path = engine.files().paths().directory();
        throw_failure(what);
    }
    throw_allocation_failure(what, engine.files().paths().directory());
}

}  // namespace detail

namespace {

using base::failure;
using base::failure_code;

heap::block_request request_of(std::size_t bytes, const allocation_traits& traits) {
    return {bytes, traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U), traits.zeroed, traits.type};
}

std::uint64_t& word_at(void* destination) noexcept { return *static_cast<std::uint64_t*>(destination); }

/// Throws error(read_only) for a heap opened read-only, which has no destination_operations.
heap::destination_operations& destinations_of(heap::engine& engine, std::string_view operation) {
    if (engine.destinations() == nullptr) [[unlikely]] {
        detail::throw_read_only(engine, operation);
    }
    return *engine.destinations();
}

/// The most words that manager::for_each_batch() passes at once.
constexpr std::size_t batch_size = 32;

std::span<std::uint64_t* const> words_of(std::span<void* const> destinations, std::uint64_t* (&words)[batch_size]) {
    std::transform(destinations.begin(), destinations.end(), words, [](void* word) { return &word_at(word); });
    return {words, destinations.size()};
}

}  // namespace

void* manager::allocate_to_word(void* destination, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block =
        destinations_of(engine, "allocate_to").allocate_to(word_at(destination), request_of(bytes, traits));
    if (block == nullptr) [[unlikely]] {
        detail::throw_last_failure(engine);
    }
    return block;
}

bool manager::free_from_word(void* destination) {
    heap::engine& engine = core().engine();
    const heap::operation_result done = destinations_of(engine, "free_from").free_from(word_at(destination));
    if (done == heap::operation_result::failed) [[unlikely]] {
        detail::throw_last_failure(engine);
    }
    return done == heap::operation_result::done;
}

void* manager::reallocate_to_word(void* destination, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block =
        destinations_of(engine, "realloc_to").reallocate_to(word_at(destination), request_of(bytes, traits));
    if (block == nullptr) {
        detail::throw_last_failure(engine);
    }
    return block;
}

void* manager::reserve(size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block = destinations_of(engine, "reserve").reserve(request_of(bytes, traits));
    if (block == nullptr) {
        detail::throw_last_failure(engine);
    }
    return block;
}

void manager::publish_word(void* destination, void* reserved) {
    heap::engine& engine = core().engine();
    if (!destinations_of(engine, "publish").publish(word_at(destination), reserved)) {
        detail::throw_last_failure(engine);
    }
}

void manager::cancel(void* reserved) {
    heap::engine& engine = core().engine();
    if (!destinations_of(engine, "cancel").cancel(reserved)) {
        detail::throw_last_failure(engine);
    }
}

void manager::allocate_words(std::span<void* const> destinations, size_type bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    std::uint64_t* words[batch_size];
    const auto all = words_of(destinations, words);
    if (destinations_of(engine, "allocate_batch").allocate_batch(all, request_of(bytes, traits)) != all.size()) {
        detail::throw_last_failure(engine);
    }
}

void manager::free_words(std::span<void* const> destinations) {
    heap::engine& engine = core().engine();
    std::uint64_t* words[batch_size];
    const auto all = words_of(destinations, words);
    if (destinations_of(engine, "free_batch").free_batch(all) != all.size()) {
        detail::throw_last_failure(engine);
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
    value_or_throw(engine.files().bitmaps().admit_all());
    engine.blocks().inspect().for_each_block([&](base::heap_offset offset, std::uint64_t size, std::uint32_t type) {
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
