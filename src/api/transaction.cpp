// Transactions: from copies of objects to words, and from words to a group of records.
#include <holdfast/transaction.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "api/c_api.hpp"
#include "api/transaction_core.hpp"
#include "segment/pointer_format.hpp"

namespace holdfast {

namespace detail {

namespace {

using base::failure;
using base::failure_code;

/// New blocks up to this size have their content in the group; larger ones are written back before it.
constexpr std::size_t content_in_group = 512;
constexpr std::size_t word_size = sizeof(std::uint64_t);

[[noreturn]] void refuse(const manager_core& heap, failure_code code, std::string field, std::string found,
                         std::string expected) {
    throw_failure(failure{code, heap.path(), std::move(field), std::move(found), std::move(expected), {}, 0});
}

std::uint64_t load(const std::byte* word) noexcept {
    return std::atomic_ref<std::uint64_t>(
               *const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(word)))
        .load(std::memory_order_relaxed);
}

/// Where a `ptr` that lies at `place` leads to.
std::uint64_t target_of(const std::uint64_t* place) noexcept {
    return segment::decode_pointer(reinterpret_cast<std::uintptr_t>(place), *place);
}

}  // namespace

transaction_core::transaction_core(manager_core& heap) : heap_(heap) { static_cast<void>(operations()); }

transaction_core::~transaction_core() { cancel_all(); }

heap::destination_operations& transaction_core::operations() const {
    heap::engine& engine = heap_.engine();
    if (engine.destinations() == nullptr) {
        throw_read_only(engine, "transaction");
    }
    return *engine.destinations();
}

std::uint64_t transaction_core::offset_of(const void* place, std::size_t bytes) const {
    const std::uint64_t end = base::to_bytes(heap_.engine().files().frontier());
    const std::uint64_t offset = heap_.engine().files().view().offset(place).value;
    if (offset >= end || bytes > end - offset || offset % word_size != 0) {
        refuse(heap_, failure_code::bad_address, "address", fmt::format("{}", place),
               "an object in this heap, at a multiple of 8");
    }
    return offset;
}

/// Starts as zeros, so that what the copy leaves out is the same in all copies.
std::uint64_t* transaction_core::new_copy(const void* from, const shadow_type& type) {
    const std::size_t bytes = (type.size + word_size - 1) / word_size * word_size;
    void* const made = memory_.allocate(bytes, std::max(type.alignment, word_size));
    std::memset(made, 0, bytes);
    if (type.copy != nullptr) {
        type.copy(made, from);
    } else {
        std::memcpy(made, from, type.size);
    }
    return static_cast<std::uint64_t*>(made);
}

bool transaction_core::is_made(const std::byte* object) const noexcept {
    return std::any_of(made_.begin(), made_.end(), [object](const made_block& each) {
        return object >= each.block && object < each.block + each.bytes;
    });
}

void* transaction_core::open(void* object, const shadow_type& type) {
    auto* const address = static_cast<std::byte*>(object);
    const auto known = std::find_if(opened_.begin(), opened_.end(),
                                    [address](const opened_object& each) { return each.object == address; });
    if (known != opened_.end()) {
        if (known->type->size != type.size) {
            refuse(heap_, failure_code::invalid_argument, "opened object", type.name,
                   fmt::format("{}, as it was opened before", known->type->name));
        }
        return known->copy;
    }
    if (is_made(address)) {
        return object;
    }
    static_cast<void>(offset_of(object, type.size));
    opened_object made{address, new_copy(object, type), nullptr, nullptr, &type};
    made.first = static_cast<std::uint64_t*>(memory_.allocate(made.words() * word_size, word_size));
    std::memcpy(made.first, made.copy, made.words() * word_size);
    made.twin = type.copy == nullptr ? made.first : new_copy(object, type);
    for (std::size_t i = 0; i < made.words(); ++i) {
        if (made.copy[i] != made.twin[i] && target_of(&made.copy[i]) != target_of(&made.twin[i])) {
            refuse(heap_, failure_code::invalid_argument, "opened object", type.name,
                   "a type without containers: a copy of one is another container");
        }
    }
    opened_.push_back(made);
    return made.copy;
}

void transaction_core::store(void* place, std::uint64_t value) {
    const std::uint64_t offset = offset_of(place, word_size);
    const auto known = std::find_if(stored_.begin(), stored_.end(),
                                    [offset](const stored_word& each) { return each.offset == offset; });
    if (known != stored_.end() && inner_.empty()) {
        known->value = value;
    } else {
        stored_.push_back({offset, value});  // of several, the last one counts
    }
}

void transaction_core::store_pointer(void* place, const void* target) {
    if (is_made(static_cast<std::byte*>(place))) {
        *static_cast<ptr<void>*>(place) = const_cast<void*>(target);
        return;
    }
    const std::uint16_t stamp = segment::stamp_of(load(static_cast<const std::byte*>(place)));
    store(place, target == nullptr ? segment::null_pointer(stamp)
                                   : segment::encode_pointer(reinterpret_cast<std::uintptr_t>(place),
                                                             reinterpret_cast<std::uintptr_t>(target), stamp));
}

void* transaction_core::allocate(std::size_t bytes, const allocation_traits& traits) {
    made_.reserve(made_.size() + 1);
    const std::size_t alignment = traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U);
    void* const block = operations().reserve({bytes, alignment, traits.zeroed, traits.type});
    if (block == nullptr) {
        throw_last_failure(heap_.engine());
    }
    made_.push_back({static_cast<std::byte*>(block), bytes});
    return block;
}

void transaction_core::free(void* block) {
    const bool own = std::any_of(made_.begin(), made_.end(),
                                 [block](const made_block& each) { return each.block == block; });
    (own ? dropped_ : freed_).push_back(block);
}

void transaction_core::put(std::uint64_t offset, std::uint64_t value) { words_.push_back({offset, value}); }

// TX-2.
void transaction_core::put_changes_of(const opened_object& each) {
    const std::uint64_t begin = offset_of(each.object, each.type->size);
    const std::uint64_t* here = each.copy;
    const std::uint64_t* there = each.copy;
    for (std::size_t i = 0; i < each.words(); ++i) {
        if (each.copy[i] == each.first[i]) {
            continue;
        }
        if (each.type->copy != nullptr && here == there) {
            here = new_copy(each.copy, *each.type);
            there = new_copy(each.copy, *each.type);
        }
        std::byte* const place = each.object + i * word_size;
        const std::uint64_t before = load(place);
        std::uint64_t value = each.copy[i];
        if (here[i] != there[i]) {
            if (target_of(&here[i]) != target_of(&there[i])) {
                refuse(heap_, failure_code::invalid_argument, "opened object", each.type->name,
                       "a type without containers: a copy of one is another container");
            }
            value = segment::encode_pointer(reinterpret_cast<std::uintptr_t>(place), target_of(&here[i]),
                                            segment::stamp_of(before));
        } else if (each.first[i] != each.twin[i] && segment::is_null_pointer(value)) {
            value = segment::null_pointer(segment::stamp_of(before));  // it was a `ptr` that led somewhere
        }
        if (const std::size_t rest = each.type->size - i * word_size; rest < word_size) {
            const std::uint64_t own = (std::uint64_t{1} << (rest * 8)) - 1;  // bytes behind the object stay
            value = (value & own) | (before & ~own);
        }
        put(begin + i * word_size, value);
    }
}

void transaction_core::put_content_of(const made_block& each) {
    const std::uint64_t begin = offset_of(each.block, each.bytes);
    for (std::size_t at = 0; at < each.bytes; at += word_size) {
        put(begin + at, load(each.block + at));
    }
}

/// Of several values of one place, those of store() count by their order; opened objects that overlap are refused.
void transaction_core::order_words() {
    std::stable_sort(words_.begin(), words_.end(),
                     [](const stored_word& a, const stored_word& b) { return a.offset < b.offset; });
    const auto twice = std::adjacent_find(words_.begin(), words_.end(), [](const stored_word& a, const stored_word& b) {
        return a.offset == b.offset && a.value != b.value;
    });
    if (twice != words_.end()) {
        refuse(heap_, failure_code::invalid_argument, fmt::format("word at offset {:#x}", twice->offset),
               "two opened objects, or an opened object and a store, that overlap", "one place for each word");
    }
    words_.erase(std::unique(words_.begin(), words_.end(),
                             [](const stored_word& a, const stored_word& b) { return a.offset == b.offset; }),
                 words_.end());
}

std::vector<heap::data_piece> transaction_core::pieces() const {
    std::vector<heap::data_piece> all;
    for (const stored_word& each : words_) {
        if (all.empty() || all.back().words == all.back().values.size() ||
            all.back().offset + all.back().words * word_size != each.offset) {
            all.push_back({each.offset, 0, {}});
        }
        heap::data_piece& last = all.back();
        last.values.at(last.words++) = each.value;
    }
    return all;
}

std::vector<void*> transaction_core::kept_blocks() {
    std::vector<void*> kept;
    for (const made_block& each : made_) {
        if (std::find(dropped_.begin(), dropped_.end(), each.block) == dropped_.end()) {
            kept.push_back(each.block);
        }
    }
    return kept;
}

void transaction_core::commit() {
    heap::destination_operations& operations = this->operations();
    heap::engine& engine = heap_.engine();
    const std::vector<void*> kept = kept_blocks();
    words_.clear();
    bool must_wait = false;
    for (const made_block& each : made_) {
        if (std::find(kept.begin(), kept.end(), each.block) == kept.end()) {
            continue;
        }
        if (each.bytes <= content_in_group) {
            put_content_of(each);
        } else {
            engine.flush(each.block, each.bytes);
            must_wait = true;
        }
    }
    std::for_each(opened_.begin(), opened_.end(), [this](const opened_object& each) { put_changes_of(each); });
    for (std::size_t i = 0; i < stored_.size(); ++i) {
        const bool is_last = std::none_of(stored_.begin() + static_cast<std::ptrdiff_t>(i) + 1, stored_.end(),
                                          [&](const stored_word& later) { return later.offset == stored_[i].offset; });
        if (is_last) {
            put(stored_[i].offset, stored_[i].value);
        }
    }
    order_words();
    const std::vector<heap::data_piece> data = pieces();
    if (must_wait) {
        engine.drain();
    }
    if (kept.empty() && freed_.empty() && data.empty()) {
        return;
    }
    if (!operations.commit_group({kept, freed_, data})) {
        throw_last_failure(engine);
    }
    std::erase_if(made_, [&kept](const made_block& each) {
        return std::find(kept.begin(), kept.end(), each.block) != kept.end();
    });
}

void transaction_core::cancel_all() noexcept {
    if (!heap_.is_open()) {
        return;
    }
    for (const made_block& each : made_) {
        if (!heap_.engine().destinations()->cancel(each.block)) {
            report_failure(heap::engine::last_failure(), heap_.path());
        }
    }
    made_.clear();
}

void transaction_core::begin_inner() {
    inner_begin begin{opened_.size(), stored_.size(), made_.size(), freed_.size(), dropped_.size(), {}};
    for (const opened_object& each : opened_) {
        begin.copies.insert(begin.copies.end(), each.copy, each.copy + each.words());
    }
    inner_.push_back(std::move(begin));
}

void transaction_core::drop_inner() noexcept {
    const inner_begin begin = std::move(inner_.back());
    inner_.pop_back();
    opened_.resize(begin.opened);
    const std::uint64_t* from = begin.copies.data();
    for (const opened_object& each : opened_) {
        std::memcpy(each.copy, from, each.words() * word_size);  // to where it was, so a `ptr` in it stays right
        from += each.words();
    }
    stored_.resize(begin.stored);
    freed_.resize(begin.freed);
    dropped_.resize(begin.dropped);
    while (made_.size() > begin.made) {
        if (!heap_.engine().destinations()->cancel(made_.back().block)) {
            report_failure(heap::engine::last_failure(), heap_.path());
        }
        made_.pop_back();
    }
}

}  // namespace detail

transaction::transaction(manager& heap)
    : owned_(std::make_unique<detail::transaction_core>(detail::manager_access::core(heap))) {
    core_ = owned_.get();
}

transaction::transaction(transaction& outer) : core_(&outer.core()), is_inner_(true) { core_->begin_inner(); }

transaction::~transaction() { abort(); }

detail::transaction_core& transaction::core() const {
    if (core_ == nullptr) {
        throw_failure(base::failure{base::failure_code::invalid_argument,
                                    {},
                                    "transaction",
                                    "one that was committed or aborted",
                                    "an open one",
                                    {},
                                    0});
    }
    return *core_;
}

void* transaction::open_object(void* object, const detail::shadow_type& type) { return core().open(object, type); }

void transaction::store_word(void* place, std::uint64_t value) { core().store(place, value); }

void transaction::store_pointer(void* place, const void* target) { core().store_pointer(place, target); }

void* transaction::allocate(std::size_t bytes, const allocation_traits& traits) {
    return core().allocate(bytes, traits);
}

void transaction::free(void* block) { core().free(block); }

void transaction::commit() {
    detail::transaction_core& committed = core();
    if (is_inner_) {
        committed.keep_inner();
        core_ = nullptr;
        return;
    }
    try {
        committed.commit();
    } catch (...) {
        abort();
        throw;
    }
    core_ = nullptr;
    owned_.reset();
}

void transaction::abort() noexcept {
    if (core_ != nullptr && is_inner_) {
        core_->drop_inner();
    }
    core_ = nullptr;
    owned_.reset();
}

}  // namespace holdfast
