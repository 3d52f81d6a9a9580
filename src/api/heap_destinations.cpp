#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <boost/container/small_vector.hpp>
#include <fmt/format.h>
#include <holdfast/manager.hpp>

#include "api/manager_core.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast {

// ptr.hpp and the layers below define the layout of the word independently.
static_assert(detail::distance_bits == segment::pointer_distance_bits &&
              detail::distance_bias == segment::pointer_distance_bias);

namespace {

using base::failure;
using base::failure_code;

heap::block_request request_of(std::size_t bytes, const allocation_traits& traits) {
    return {bytes, traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U), traits.zeroed, traits.type};
}

std::uint64_t& word_at(void* destination) noexcept { return *static_cast<std::uint64_t*>(destination); }

/// Throws error(read_only): a heap opened so has no destination_operations.
heap::destination_operations& destinations_of(heap::engine& engine, std::string_view operation) {
    if (engine.destinations() == nullptr) [[unlikely]] {
        detail::throw_read_only(engine, operation);
    }
    return *engine.destinations();
}

constexpr std::size_t batch_size = 32;

std::span<std::uint64_t* const> words_of(std::span<void* const> destinations, std::uint64_t* (&words)[batch_size]) {
    std::transform(destinations.begin(), destinations.end(), words, [](void* word) { return &word_at(word); });
    return {words, destinations.size()};
}

}  // namespace

void* heap_destinations::allocate_to_word(void* destination, std::size_t bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block =
        destinations_of(engine, "allocate_to").allocate_to(word_at(destination), request_of(bytes, traits));
    if (block == nullptr) [[unlikely]] {
        detail::throw_last_failure(engine);
    }
    return block;
}

bool heap_destinations::free_from_word(void* destination) {
    heap::engine& engine = core().engine();
    const heap::operation_result done = destinations_of(engine, "free_from").free_from(word_at(destination));
    if (done == heap::operation_result::failed) [[unlikely]] {
        detail::throw_last_failure(engine);
    }
    return done == heap::operation_result::done;
}

void* heap_destinations::reallocate_to_word(void* destination, std::size_t bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block =
        destinations_of(engine, "realloc_to").reallocate_to(word_at(destination), request_of(bytes, traits));
    if (block == nullptr) {
        detail::throw_last_failure(engine);
    }
    return block;
}

void* heap_destinations::reserve(std::size_t bytes, const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    void* const block = destinations_of(engine, "reserve").reserve(request_of(bytes, traits));
    if (block == nullptr) {
        detail::throw_last_failure(engine);
    }
    return block;
}

void heap_destinations::publish_word(void* destination, void* reserved) {
    heap::engine& engine = core().engine();
    if (!destinations_of(engine, "publish").publish(word_at(destination), reserved)) {
        detail::throw_last_failure(engine);
    }
}

void heap_destinations::cancel(void* reserved) {
    heap::engine& engine = core().engine();
    if (!destinations_of(engine, "cancel").cancel(reserved)) {
        detail::throw_last_failure(engine);
    }
}

void heap_destinations::allocate_words(std::span<void* const> destinations, std::size_t bytes,
                                       const allocation_traits& traits) {
    heap::engine& engine = core().engine();
    std::uint64_t* words[batch_size];
    const auto all = words_of(destinations, words);
    if (destinations_of(engine, "allocate_batch").allocate_batch(all, request_of(bytes, traits)) != all.size()) {
        detail::throw_last_failure(engine);
    }
}

void heap_destinations::free_words(std::span<void* const> destinations) {
    heap::engine& engine = core().engine();
    std::uint64_t* words[batch_size];
    const auto all = words_of(destinations, words);
    if (destinations_of(engine, "free_batch").free_batch(all) != all.size()) {
        detail::throw_last_failure(engine);
    }
}

void heap_destinations::flush(const void* begin, std::size_t bytes) const noexcept {
    if (const detail::manager_core* const heap = handle().open_core()) {
        heap->engine().flush(begin, bytes);
    }
}

void heap_destinations::drain() const noexcept {
    if (const detail::manager_core* const heap = handle().open_core()) {
        heap->engine().drain();
    }
}

namespace {

/// A group stores each word once.
class word_pieces {
public:
    /// `end`: of the user space, in bytes from its base.
    void add(const detail::manager_core& heap, const word_run& run, std::uint64_t end) {
        const std::uint64_t offset = heap.engine().files().view().offset(run.place).value;
        const std::uint64_t bytes = run.values.size_bytes();
        if (offset >= end || bytes > end - offset || offset % sizeof(std::uint64_t) != 0) [[unlikely]] {
            refuse(heap, failure_code::bad_address, "address", fmt::format("{}", run.place),
                   "words in this heap, at a multiple of 8");
        }
        for (std::size_t i = 0; i < run.values.size();) {
            heap::data_piece& made = pieces_.emplace_back();
            made.offset = offset + i * sizeof(std::uint64_t);
            made.words = std::min(made.values.size(), run.values.size() - i);
            std::copy_n(run.values.begin() + static_cast<std::ptrdiff_t>(i), made.words, made.values.begin());
            i += made.words;
        }
    }
    void refuse_overlaps(const detail::manager_core& heap) const {
        constexpr std::size_t few = 8;
        if (pieces_.size() > few) {
            refuse_overlaps_of_many(heap);
            return;
        }
        for (std::size_t i = 1; i < pieces_.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                refuse_overlap(heap, pieces_[i], pieces_[j]);
            }
        }
    }
    [[nodiscard]] std::span<const heap::data_piece> all() const noexcept { return {pieces_.data(), pieces_.size()}; }

private:
    static void refuse_overlap(const detail::manager_core& heap, const heap::data_piece& a, const heap::data_piece& b) {
        if (a.offset < b.offset + b.words * sizeof(std::uint64_t) &&
            b.offset < a.offset + a.words * sizeof(std::uint64_t)) [[unlikely]] {
            refuse(heap, failure_code::invalid_argument, fmt::format("word at offset {:#x}", a.offset),
                   "runs that overlap", "one place for each word");
        }
    }
    /// The pieces stay in their order, which counts in durability `collect`.
    void refuse_overlaps_of_many(const detail::manager_core& heap) const {
        std::vector<const heap::data_piece*> sorted;
        sorted.reserve(pieces_.size());
        for (const heap::data_piece& each : pieces_) {
            sorted.push_back(&each);
        }
        std::sort(sorted.begin(), sorted.end(),
                  [](const heap::data_piece* a, const heap::data_piece* b) { return a->offset < b->offset; });
        for (std::size_t i = 1; i < sorted.size(); ++i) {
            refuse_overlap(heap, *sorted[i], *sorted[i - 1]);
        }
    }
    [[noreturn, gnu::cold]] static void refuse(const detail::manager_core& heap, failure_code code, std::string field,
                                               std::string found, std::string expected) {
        throw_failure(failure{code, heap.path(), std::move(field), std::move(found), std::move(expected), {}, 0});
    }

    boost::container::small_vector<heap::data_piece, 8> pieces_;
};

}  // namespace

void heap_destinations::store_words(std::span<const word_run> runs) {
    heap::engine& engine = core().engine();
    heap::destination_operations& operations = destinations_of(engine, "store_words");
    core().plain().refuse_inside("store_words");
    const std::uint64_t end = base::to_bytes(engine.files().frontier());
    word_pieces pieces;
    for (const word_run& run : runs) {
        pieces.add(core(), run, end);
    }
    pieces.refuse_overlaps(core());
    if (!pieces.all().empty() && !operations.groups().commit({{}, {}, pieces.all()})) [[unlikely]] {
        detail::throw_last_failure(engine);
    }
}

void heap_destinations::sync(const ticket& of) {
    if (detail::ticket_access::number_of(of) == 0) {
        return;
    }
    value_or_throw(core().engine().check_process());
    if (core().engine().changes() != nullptr) {
        core().plain().sync(detail::ticket_access::number_of(of));
        return;
    }
    const auto batch = core().pending().find(detail::ticket_access::batch_of(of));
    if (batch == nullptr) {
        throw_failure(failure{failure_code::invalid_argument,
                              core().path(),
                              "ticket",
                              "one of another heap",
                              "a ticket of this heap",
                              {},
                              0});
    }
    batch->sync(detail::ticket_access::number_of(of));
}

void heap_destinations::sync() {
    core().sync_pending();
    if (core().is_shared()) {
        return;
    }
    if (core().engine().changes() != nullptr && !core().engine().read_only()) {
        value_or_throw(core().engine().check_process());
        core().plain().sync_all();
    }
}

void heap_destinations::checkpoint() {
    heap::engine& engine = core().engine();
    if (engine.atomic() == nullptr) {
        return;
    }
    value_or_throw(engine.check_process());
    engine.atomic()->checkpoint();  // also shows the counters to other processes
    static_cast<void>(engine.atomic()->wait_until_obsolete());
}

}  // namespace holdfast
