// From copies of objects to words, and from words to a group of records.
#include "api/transaction_core.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

#include "api/c_api.hpp"
#include "segment/format/pointer_format.hpp"

namespace holdfast {

namespace detail {

namespace {

using base::failure;
using base::failure_code;

/// New blocks up to this size have their content in the group; larger ones are written back before it.
constexpr std::size_t content_in_group = 512;
/// Up to so many objects are looked for one by one.
constexpr std::size_t few = 16;
constexpr std::size_t word_size = sizeof(std::uint64_t);

[[noreturn]] void refuse(const manager_core& heap, failure_code code, std::string field, std::string found,
                         std::string expected) {
    throw_failure(failure{code, heap.path(), std::move(field), std::move(found), std::move(expected), {}, 0});
}

std::uint64_t load(const std::byte* word) noexcept {
    return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(word)))
        .load(std::memory_order_relaxed);
}

/// Where a `ptr` that lies at `place` leads to.
std::uint64_t target_of(const std::uint64_t* place) noexcept {
    return segment::decode_pointer(reinterpret_cast<std::uintptr_t>(place), *place);
}

}  // namespace

void transaction_core::begin(manager_core& heap) {
    if (checks_.keeps_copies()) [[unlikely]] {
        checks_.look_at_ended();
        memory_.release();
    }
    checks_.begin(heap);
    heap_ = &heap;
    life_ = heap.life();
    static_cast<void>(operations());
}

void transaction_core::give_back(void* block) noexcept {
    if (!heap_->engine().destinations()->cancel(block)) {
        const base::failure& what = heap::engine::last_failure();
        if (what.code != failure_code::wrong_process) {
            report_failure(what, heap_->path());
        }
    }
}

void transaction_core::end() noexcept {
    if (checks_.is_on()) [[unlikely]] {
        checks_.end(is_alive());
    }
    if (is_alive()) {
        for (const made_block& each : made_) {
            give_back(each.block);
        }
    }
    opened_.clear();
    stored_.clear();
    made_.clear();
    freed_.clear();
    opened_at_.clear();
    made_at_.clear();
    copies_at_.clear();
    inner_.clear();
    if (!checks_.keeps_copies()) [[likely]] {
        memory_.release();
    }
    heap_ = nullptr;
}

heap::destination_operations& transaction_core::operations() const {
    heap::engine& engine = heap().engine();
    if (engine.destinations() == nullptr) {
        throw_read_only(engine, "transaction");
    }
    return *engine.destinations();
}

std::uint64_t transaction_core::offset_of(const void* place, std::size_t bytes) const {
    const std::uint64_t end = base::to_bytes(heap().engine().files().frontier());
    const std::uint64_t offset = heap().engine().files().view().offset(place).value;
    if (offset >= end || bytes > end - offset || offset % word_size != 0) {
        refuse(heap(), failure_code::bad_address, "address", fmt::format("{}", place),
               "an object in this heap, at a multiple of 8");
    }
    return offset;
}

void transaction_core::refuse_target(std::uint64_t target) const {
    const auto* const address = reinterpret_cast<const std::byte*>(target);
    for (const opened_object& each : opened_) {
        const auto* const copy = reinterpret_cast<const std::byte*>(each.copy);
        if (address >= copy && address < copy + each.type->size) {
            refuse(heap(), failure_code::invalid_argument, "pointer",
                   fmt::format("the address of the copy of an opened object ({})", each.type->name),
                   fmt::format("the address of the object itself, {}", static_cast<const void*>(each.object)));
        }
    }
    refuse(heap(), failure_code::invalid_argument, "pointer", fmt::format("{:#x}, which lies outside the heap", target),
           "an address in this heap");
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

std::uint64_t* transaction_core::find_opened(const std::byte* object, const shadow_type& type) const {
    const opened_object* found = nullptr;
    if (opened_.size() <= few) {
        const auto each = std::find_if(opened_.begin(), opened_.end(),
                                       [object](const opened_object& one) { return one.object == object; });
        found = each == opened_.end() ? nullptr : &*each;
    } else if (const auto at = opened_at_.find(object); at != opened_at_.end()) {
        found = &opened_[at->second];
    }
    if (found != nullptr && found->type->size != type.size) {
        refuse(heap(), failure_code::invalid_argument, "opened object", type.name,
               fmt::format("{}, as it was opened before", found->type->name));
    }
    return found == nullptr ? nullptr : found->copy;
}

transaction_core::made_block* transaction_core::find_made(const std::byte* address) {
    const auto has = [address](const made_block& each) {
        return address >= each.block && address < each.block + each.bytes;
    };
    if (made_.size() <= few) {
        const auto found = std::find_if(made_.begin(), made_.end(), has);
        return found == made_.end() ? nullptr : &*found;
    }
    const auto below = made_at_.lower_bound(address);
    return below != made_at_.end() && has(made_[below->second]) ? &made_[below->second] : nullptr;
}

void* transaction_core::open(void* object, const shadow_type& type) {
    auto* const address = static_cast<std::byte*>(object);
    if (std::uint64_t* const known = find_opened(address, type)) {
        return known;
    }
    if (find_made(address) != nullptr) {
        return object;
    }
    static_cast<void>(offset_of(object, type.size));
    if (checks_.is_on()) [[unlikely]] {
        checks_.expect_free(address, type.size, type.name);
    }
    opened_object made{address, new_copy(object, type), nullptr, nullptr, &type};
    made.first = static_cast<std::uint64_t*>(memory_.allocate(made.words() * word_size, word_size));
    std::memcpy(made.first, made.copy, made.words() * word_size);
    made.twin = type.copy == nullptr ? made.first : new_copy(object, type);
    for (std::size_t i = 0; i < made.words(); ++i) {
        if (made.copy[i] != made.twin[i] && target_of(&made.copy[i]) != target_of(&made.twin[i])) {
            refuse(heap(), failure_code::invalid_argument, "opened object", type.name,
                   "a type without containers: a copy of one is another container");
        }
    }
    if (opened_.size() == opened_.capacity()) {
        opened_.reserve(2 * opened_.size() + few);
    }
    if (opened_.size() == few) {
        for (std::size_t i = 0; i < few; ++i) {
            opened_at_[opened_[i].object] = i;
        }
    }
    if (opened_.size() >= few) {
        opened_at_[address] = opened_.size();
    }
    if (checks_.is_on()) [[unlikely]] {
        checks_.opened({address, reinterpret_cast<std::byte*>(made.copy), type.size, type.name});
    }
    opened_.push_back(made);
    return made.copy;
}

void* transaction_core::open_range(void* begin, std::size_t bytes) {
    auto* const address = static_cast<std::byte*>(begin);
    if (bytes == 0) {
        refuse(heap(), failure_code::invalid_argument, "bytes", "0", "at least 1");
    }
    constexpr std::size_t longest_name = 32;
    auto* const name = static_cast<char*>(memory_.allocate(longest_name, 1));
    *fmt::format_to_n(name, longest_name - 1, "{} bytes", bytes).out = 0;
    auto* const type = ::new (memory_.allocate(sizeof(shadow_type), alignof(shadow_type)))
        shadow_type{bytes, alignof(std::max_align_t), nullptr, name};
    const std::size_t before = opened_.size();
    void* const copy = open(address, *type);
    if (opened_.size() > before) {
        copies_at_[static_cast<std::byte*>(copy)] = before;
    }
    return copy;
}

std::byte* transaction_core::original_of(const void* place) const {
    const auto* const address = static_cast<const std::byte*>(place);
    const auto below = copies_at_.lower_bound(address);
    if (below == copies_at_.end()) {
        return nullptr;
    }
    const opened_object& of = opened_[below->second];
    const auto at = static_cast<std::size_t>(address - below->first);
    return at < of.type->size ? of.object + at : nullptr;
}

void* transaction_core::load_pointer(const void* place) const {
    const std::byte* const original = original_of(place);
    const std::uint64_t word = load(static_cast<const std::byte*>(place));
    const auto from = reinterpret_cast<std::uintptr_t>(original == nullptr ? place : original);
    return segment::is_null_pointer(word) ? nullptr : reinterpret_cast<void*>(segment::decode_pointer(from, word));
}

void transaction_core::store(void* place, std::uint64_t value) {
    const std::uint64_t offset = offset_of(place, word_size);
    if (find_made(static_cast<std::byte*>(place)) != nullptr) {
        std::memcpy(place, &value, word_size);
    } else {
        if (checks_.is_on()) [[unlikely]] {
            checks_.expect_free_to_store(static_cast<std::byte*>(place), word_size);
        }
        stored_.push_back({offset, value});  // of several, the last one counts
    }
}

void transaction_core::store_pointer(void* place, const void* target) {
    if (target != nullptr) {
        expect_in_heap(reinterpret_cast<std::uintptr_t>(target));
    }
    if (find_made(static_cast<std::byte*>(place)) != nullptr) {
        *static_cast<ptr<void>*>(place) = const_cast<void*>(target);
        return;
    }
    std::byte* const original = original_of(place);
    const auto from = reinterpret_cast<std::uintptr_t>(original == nullptr ? place : original);
    const std::uint16_t stamp = segment::stamp_of(load(static_cast<const std::byte*>(place)));
    const std::uint64_t value = target == nullptr
                                    ? segment::null_pointer(stamp)
                                    : segment::encode_pointer(from, reinterpret_cast<std::uintptr_t>(target), stamp);
    if (original == nullptr) {
        store(place, value);
    } else {
        *static_cast<std::uint64_t*>(place) = value;
    }
}

void* transaction_core::allocate(std::size_t bytes, const allocation_traits& traits) {
    const std::size_t alignment = traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U);
    void* const block = operations().reserve({bytes, alignment, traits.zeroed, traits.type});
    if (block == nullptr) {
        throw_last_failure(heap().engine());
    }
    try {
        if (made_.size() == few) {
            for (std::size_t i = 0; i < few; ++i) {
                made_at_[made_[i].block] = i;
            }
        }
        if (made_.size() >= few) {
            made_at_[static_cast<std::byte*>(block)] = made_.size();
        }
        made_.push_back({static_cast<std::byte*>(block), bytes, 0});
    } catch (const std::bad_alloc&) {
        made_at_.erase(static_cast<std::byte*>(block));
        static_cast<void>(operations().cancel(block));
        throw;
    }
    return block;
}

void transaction_core::free(void* block) {
    if (block == nullptr) {
        return;
    }
    made_block* const own = find_made(static_cast<const std::byte*>(block));
    if (own == nullptr || own->block != block || own->dropped_in != 0) {
        freed_.push_back(block);  // commit() refuses what is no block
    } else {
        own->dropped_in = inner_.size() + 1;
    }
}

/// Words that lie one behind the other become one piece, as long as it has room.
void transaction_core::put(std::uint64_t offset, std::uint64_t value) {
    if (last_ == nullptr || last_->words == last_->values.size() ||
        last_->offset + last_->words * word_size != offset) {
        last_ = &pieces_.emplace_back();
        last_->offset = offset;
    }
    last_->values[last_->words++] = value;
}

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
                refuse(heap(), failure_code::invalid_argument, "opened object", each.type->name,
                       "a type without containers: a copy of one is another container");
            }
            expect_in_heap(target_of(&here[i]));
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

/// Opened objects that overlap are refused: a group stores no word twice.
void transaction_core::refuse_overlaps() {
    by_offset_.clear();
    for (const heap::data_piece& each : pieces_) {
        by_offset_.emplace_back(each.offset, each.words);
    }
    if (!std::is_sorted(by_offset_.begin(), by_offset_.end())) {
        std::sort(by_offset_.begin(), by_offset_.end());
    }
    for (std::size_t i = 1; i < by_offset_.size(); ++i) {
        if (by_offset_[i - 1].first + by_offset_[i - 1].second * word_size > by_offset_[i].first) {
            refuse(heap(), failure_code::invalid_argument, fmt::format("word at offset {:#x}", by_offset_[i].first),
                   "two opened objects, or an opened object and a store, that overlap", "one place for each word");
        }
    }
}

void transaction_core::refuse_double_frees() {
    if (freed_.size() < 2) {
        return;
    }
    std::sort(freed_.begin(), freed_.end());
    if (const auto twice = std::adjacent_find(freed_.begin(), freed_.end()); twice != freed_.end()) {
        refuse(heap(), failure_code::bad_address, fmt::format("address {}", *twice),
               "a block that this transaction has freed already", "the start of an allocated block");
    }
}

void transaction_core::check_rules() {
    checks_.expect_untouched();
    for (const made_block& each : made_) {
        if (each.dropped_in == 0) {
            checks_.expect_no_pointer_to_copies(each.block, each.bytes);
        }
    }
}

/// All that the group stores. New blocks that are too large for it are written back instead.
void transaction_core::put_words() {
    pieces_.clear();
    last_ = nullptr;
    bool must_wait = false;
    for (const made_block& each : made_) {
        if (each.dropped_in != 0) {
            continue;
        }
        if (each.bytes <= content_in_group) {
            put_content_of(each);
        } else {
            heap().engine().flush(each.block, each.bytes);
            must_wait = true;
        }
    }
    std::for_each(opened_.begin(), opened_.end(), [this](const opened_object& each) { put_changes_of(each); });
    if (stored_.size() > 1) {  // of several values of one place, the last one counts
        std::stable_sort(stored_.begin(), stored_.end(),
                         [](const stored_word& a, const stored_word& b) { return a.offset < b.offset; });
    }
    for (std::size_t i = 0; i < stored_.size(); ++i) {
        if (i + 1 == stored_.size() || stored_[i + 1].offset != stored_[i].offset) {
            put(stored_[i].offset, stored_[i].value);
        }
    }
    refuse_overlaps();
    if (must_wait) {
        heap().engine().drain();
    }
}

void transaction_core::commit() {
    heap::destination_operations& operations = this->operations();
    refuse_double_frees();
    if (checks_.is_on()) [[unlikely]] {
        check_rules();
    }
    put_words();
    kept_.clear();
    for (const made_block& each : made_) {
        if (each.dropped_in == 0) {
            kept_.push_back(each.block);
        }
    }
    if (kept_.empty() && freed_.empty() && pieces_.empty()) {
        return;
    }
    if (!operations.commit_group({kept_, freed_, pieces_})) {
        if (heap::engine::last_failure().code == failure_code::limit && heap::engine::last_failure().field.empty()) {
            refuse(heap(), failure_code::limit, "transaction",
                   fmt::format("{} blocks made and {} freed", kept_.size(), freed_.size()),
                   fmt::format("at most {} of each in this domain", operations.largest_group() - 1));
        }
        throw_last_failure(heap().engine());
    }
    std::erase_if(made_, [](const made_block& each) { return each.dropped_in == 0; });
}

void transaction_core::begin_inner() {
    static_cast<void>(heap());
    inner_begin begin{opened_.size(), stored_.size(), made_.size(), freed_.size(), {}, {}};
    for (const opened_object& each : opened_) {
        begin.copies.insert(begin.copies.end(), each.copy, each.copy + each.words());
    }
    for (const made_block& each : made_) {
        begin.contents.insert(begin.contents.end(), each.block, each.block + each.bytes);
    }
    inner_.push_back(std::move(begin));
}

void transaction_core::keep_inner() noexcept {
    for (made_block& each : made_) {
        each.dropped_in = std::min(each.dropped_in, inner_.size());
    }
    inner_.pop_back();
}

void transaction_core::drop_inner() noexcept {
    const inner_begin begin = std::move(inner_.back());
    if (checks_.is_on()) [[unlikely]] {
        checks_.drop(begin.opened);
    }
    while (opened_.size() > begin.opened) {
        opened_at_.erase(opened_.back().object);
        copies_at_.erase(reinterpret_cast<const std::byte*>(opened_.back().copy));
        opened_.pop_back();
    }
    const std::uint64_t* from = begin.copies.data();
    for (const opened_object& each : opened_) {
        std::memcpy(each.copy, from, each.words() * word_size);  // to where it was, so a `ptr` in it stays right
        from += each.words();
    }
    const std::byte* content = begin.contents.data();
    for (std::size_t i = 0; i < begin.made && is_alive(); ++i) {
        std::memcpy(made_[i].block, content, made_[i].bytes);
        content += made_[i].bytes;
    }
    stored_.resize(begin.stored);
    freed_.resize(begin.freed);
    for (made_block& each : made_) {
        each.dropped_in = each.dropped_in > inner_.size() ? 0 : each.dropped_in;
    }
    inner_.pop_back();
    while (made_.size() > begin.made) {
        if (is_alive()) {
            give_back(made_.back().block);
        }
        made_at_.erase(made_.back().block);
        made_.pop_back();
    }
}

}  // namespace detail

}  // namespace holdfast
