#include "api/transaction_core.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <holdfast/transaction.hpp>

#include "base/hot.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast {

namespace detail {

namespace {

using base::failure;
using base::failure_code;

/// Compared two by two.
constexpr std::size_t few_ranges = 8;
constexpr std::size_t word_size = sizeof(std::uint64_t);

[[noreturn]] void refuse(const manager_core& heap, failure_code code, std::string field, std::string found,
                         std::string expected) {
    throw_failure(failure{code, heap.path(), std::move(field), std::move(found), std::move(expected), {}, 0});
}

std::uint64_t load(const std::byte* word) noexcept {
    return std::atomic_ref<std::uint64_t>(*const_cast<std::uint64_t*>(reinterpret_cast<const std::uint64_t*>(word)))
        .load(std::memory_order_relaxed);
}

std::uint64_t target_of(const std::uint64_t* place) noexcept {
    return segment::decode_pointer(reinterpret_cast<std::uintptr_t>(place), *place);
}

/// Puts what was stored before the object was opened into its copy. A word that reaches beyond the object stays one by
/// itself. `begin`: the offset of the object.
void show_stored_words(stored_words& stored, const opened_object& in, std::uint64_t begin) noexcept {
    const std::size_t whole = in.type->size / word_size;
    stored.for_each_in(begin, begin + whole * word_size, [&](stored_word& each) {
        const std::size_t word = (each.offset - begin) / word_size;
        if (each.is_pointer && in.type->copy != nullptr) {  // a `ptr` in a copy is relative to the copy
            const auto place = reinterpret_cast<std::uintptr_t>(in.object + word * word_size);
            *reinterpret_cast<ptr<void>*>(&in.copy[word]) =
                segment::is_null_pointer(each.value)
                    ? nullptr
                    : reinterpret_cast<void*>(segment::decode_pointer(place, each.value));
        } else {
            in.copy[word] = each.value;
        }
        each.in_copy = true;
    });
}

/// A word's bits that are the object's: bytes behind its end stay as they are in the heap.
std::uint64_t own_bits(const opened_object& of, std::size_t word) noexcept {
    const std::size_t rest = of.type->size - word * word_size;
    return rest >= word_size ? ~std::uint64_t{0} : (std::uint64_t{1} << (rest * 8)) - 1;
}

/// A range of the C interface may have none.
[[gnu::cold]] std::string name_of(const shadow_type& type) {
    return type.name != nullptr ? std::string(type.name) : fmt::format("{} bytes", type.size);
}

[[noreturn, gnu::cold]] void refuse_container(const manager_core& heap, const opened_object& of) {
    refuse(heap, failure_code::invalid_argument, "opened object", name_of(*of.type),
           "a type without containers: a copy of one is another container");
}

void refuse_double_frees(const manager_core& heap, std::vector<void*>& freed) {
    std::sort(freed.begin(), freed.end());
    if (const auto twice = std::adjacent_find(freed.begin(), freed.end()); twice != freed.end()) {
        refuse(heap, failure_code::bad_address, fmt::format("address {}", *twice),
               "a block that this transaction has freed already", "the start of an allocated block");
    }
}

[[noreturn, gnu::cold]] void refuse_blocks(const manager_core& heap, std::size_t made, std::size_t freed,
                                           std::size_t largest) {
    refuse(heap, failure_code::limit, "transaction", fmt::format("{} blocks made and {} freed", made, freed),
           fmt::format("at most {} of each in this domain", largest));
}

}  // namespace

std::uint64_t transaction_core::word_with_waiting(const std::byte* place) const {
    const pending_batch* const batch = waiting();
    if (batch == nullptr) {
        return load(place);
    }
    std::uint64_t word = 0;
    batch->read(offset_in_heap(place), word_size, &word);
    return word;
}

void transaction_core::begin_in(manager_core& heap) {
    if (checks_.keeps_copies()) {
        checks_.inspect_ended();
        opened_.memory().release();
    }
    checks_.begin(heap);
    life_ = heap.life();
    files_ = &heap.engine().files();
    base_ = files_->view().base();
    batches_seen_ = heap.pending().count();
    batch_ = batches_seen_ != 0 ? heap.pending().find_own() : nullptr;
}

void transaction_core::end_all() noexcept {
    if (checks_.is_on()) {
        checks_.end(is_alive());
    }
    if (is_alive() && !made_.empty()) {
        made_.free_all(heap_->engine().destinations()->groups());
    }
    made_.clear();
    inner_.clear();
    participants_.end();
}

void transaction_core::refuse_place(const void* place) const {
    refuse(heap(), failure_code::bad_address, "address", fmt::format("{}", place),
           "an object in this heap, at a multiple of 8");
}

void transaction_core::refuse_target(std::uint64_t target) const {
    if (const opened_object* const of = opened_.find_by_copy(reinterpret_cast<const void*>(target))) {
        refuse(heap(), failure_code::invalid_argument, "pointer",
               fmt::format("the address of the copy of an opened object ({})", name_of(*of->type)),
               fmt::format("the address of the object itself, {}", static_cast<const void*>(of->object)));
    }
    refuse(heap(), failure_code::invalid_argument, "pointer", fmt::format("{:#x}, which lies outside the heap", target),
           "an address in this heap");
}

void* transaction_core::open(void* object, const shadow_type& type) {
    auto* const address = static_cast<std::byte*>(object);
    if (const opened_object* const known = opened_.find(address)) {
        if (known->type->size != type.size) [[unlikely]] {
            refuse(heap(), failure_code::invalid_argument, "opened object", name_of(type),
                   fmt::format("{}, as it was opened before", name_of(*known->type)));
        }
        return known->copy;
    }
    if (made_.find(address) != nullptr) {
        return object;
    }
    static_cast<void>(offset_of(object, type.size));
    if (checks_.is_on()) [[unlikely]] {
        checks_.expect_free(address, type.size, type.name);
    }
    pending_batch* const batch = waiting();
    if (batch != nullptr && type.copy != nullptr && batch->has(offset_in_heap(object), type.size)) [[unlikely]] {
        batch->sync();  // the `ptr`s of waiting words are not known
    }
    const bool may_wait = batch != nullptr && type.copy == nullptr;
    const opened_object made = may_wait ? copy_with_waiting(address, type) : opened_.copy(address, type);
    if (type.copy != nullptr) {
        for (std::size_t i = 0; i < made.words(); ++i) {
            if (made.copy[i] != made.twin()[i] && target_of(&made.copy[i]) != target_of(&made.twin()[i])) {
                refuse_container(heap(), made);
            }
        }
    }
    if (checks_.is_on()) [[unlikely]] {
        checks_.opened({address, reinterpret_cast<std::byte*>(made.copy), type.size, type.name});
    }
    if (stored_.size() != 0) [[unlikely]] {
        stored_.make_index();
    }
    opened_.add(made);
    if (stored_.size() != 0) [[unlikely]] {
        show_stored_words(stored_, made, offset_in_heap(address));
    }
    return made.copy;
}

void* transaction_core::open_range(void* begin, std::size_t bytes) {
    if (bytes == 0) {
        refuse(heap(), failure_code::invalid_argument, "bytes", "0", "at least 1");
    }
    copy_memory& memory = opened_.memory();
    const char* name = nullptr;
    if (checks_.is_on()) [[unlikely]] {
        constexpr std::size_t longest_name = 32;
        auto* const text = reinterpret_cast<char*>(memory.take(longest_name, 1));
        *fmt::format_to_n(text, longest_name - 1, "{} bytes", bytes).out = 0;
        name = text;
    }
    auto* const type = ::new (memory.take(sizeof(shadow_type), alignof(shadow_type)))
        shadow_type{bytes, alignof(std::max_align_t), nullptr, name};
    const std::size_t before = opened_.size();
    void* const copy = open(begin, *type);
    if (opened_.size() > before) {
        opened_.note_range();
    }
    return copy;
}

/// With what earlier transactions of this thread have left for a sync.
opened_object transaction_core::copy_with_waiting(std::byte* object, const shadow_type& type) {
    const opened_object made = opened_.empty_copy(object, type);
    batch_->read(offset_in_heap(object), type.size, made.copy);
    std::memcpy(made.first(), made.copy, made.words() * word_size);
    return made;
}

std::uint64_t transaction_core::load_word(const void* place) const {
    const std::uint64_t offset = offset_of(place, word_size);
    if (const stored_word* const stored = stored_.find(offset); stored != nullptr && !stored->in_copy) {
        return stored->value;
    }
    const opened_object* const opened = opened_.find_around(place);
    if (opened != nullptr) {
        return opened->copy[(offset - offset_in_heap(opened->object)) / word_size];
    }
    return word_with_waiting(static_cast<const std::byte*>(place));
}

void* transaction_core::load_target(const void* place) const {
    const std::uint64_t word = load_word(place);
    auto from = reinterpret_cast<std::uintptr_t>(place);
    const opened_object* const opened = opened_.find_around(place);
    if (opened != nullptr && opened->type->copy != nullptr) {
        from =
            reinterpret_cast<std::uintptr_t>(opened->copy) + (from - reinterpret_cast<std::uintptr_t>(opened->object));
    }
    return segment::is_null_pointer(word) ? nullptr : reinterpret_cast<void*>(segment::decode_pointer(from, word));
}

void* transaction_core::load_pointer(const void* place) const {
    const std::byte* const original = opened_.original_of(place);
    const bool may_wait = original == nullptr && offset_in_heap(place) < base::to_bytes(files_->frontier());
    const std::uint64_t word =
        may_wait ? word_with_waiting(static_cast<const std::byte*>(place)) : load(static_cast<const std::byte*>(place));
    const auto from = reinterpret_cast<std::uintptr_t>(original == nullptr ? place : original);
    return segment::is_null_pointer(word) ? nullptr : reinterpret_cast<void*>(segment::decode_pointer(from, word));
}

void transaction_core::store(void* place, std::uint64_t value, bool is_pointer) {
    const std::uint64_t offset = offset_of(place, word_size);
    if (made_.find(static_cast<std::byte*>(place)) != nullptr) {
        std::memcpy(place, &value, word_size);
    } else {
        if (checks_.is_on()) [[unlikely]] {
            checks_.expect_free_to_store(static_cast<std::byte*>(place), word_size);
        }
        stored_.add({offset, value, is_pointer});
    }
}

void transaction_core::store_pointer(void* place, const void* target) {
    if (target != nullptr) {
        expect_in_heap(reinterpret_cast<std::uintptr_t>(target));
    }
    if (made_.find(static_cast<std::byte*>(place)) != nullptr) {
        *static_cast<ptr<void>*>(place) = const_cast<void*>(target);
        return;
    }
    std::byte* const original = opened_.original_of(place);
    const auto from = reinterpret_cast<std::uintptr_t>(original == nullptr ? place : original);
    const std::uint16_t stamp = segment::stamp_of(load(static_cast<const std::byte*>(place)));
    const std::uint64_t value = target == nullptr
                                    ? segment::null_pointer(stamp)
                                    : segment::encode_pointer(from, reinterpret_cast<std::uintptr_t>(target), stamp);
    if (original == nullptr) {
        store(place, value, true);
    } else {
        *static_cast<std::uint64_t*>(place) = value;
    }
}

void* transaction_core::allocate(std::size_t bytes, const allocation_traits& traits) {
    const std::size_t alignment = traits.alignment != 0 ? traits.alignment : (bytes >= 16 ? 16U : 8U);
    std::byte* const block = made_.make(operations(), life_, base_, {bytes, alignment, traits.zeroed, traits.type});
    if (block == nullptr) [[unlikely]] {
        throw_last_failure(heap().engine());
    }
    return block;
}

void transaction_core::free(void* block) {
    if (block == nullptr) {
        return;
    }
    made_block* const own = made_.find(static_cast<const std::byte*>(block));
    if (own == nullptr || own->block != block || own->dropped_in != 0) {
        freed_.push_back(block);  // commit() refuses what is no block
    } else {
        made_.drop(*own, inner_.size() + 1);
    }
}

// TX-2.
HF_HOT void transaction_core::put_changes_of(const opened_object& each) {
    if (each.type->copy != nullptr) {
        put_changes_by_type(each);
        return;
    }
    const std::uint64_t begin = offset_in_heap(each.object);
    const std::size_t whole = each.type->size / word_size;
    const std::uint64_t* const first = each.first();
    for (std::size_t i = 0; i < whole; ++i) {
        if (each.copy[i] != first[i]) {
            words_.put(begin + i * word_size, each.copy[i]);
        }
    }
    if (whole != each.words() && each.copy[whole] != first[whole]) {
        const std::uint64_t own = own_bits(each, whole);
        const std::uint64_t there = word_with_waiting(each.object + whole * word_size);
        words_.put(begin + whole * word_size, (each.copy[whole] & own) | (there & ~own));
    }
}

void transaction_core::put_changes_by_type(const opened_object& each) {
    const std::uint64_t begin = offset_in_heap(each.object);
    const std::uint64_t* const first = each.first();
    const std::uint64_t* const twin = each.twin();
    const std::uint64_t* here = nullptr;
    const std::uint64_t* there = nullptr;
    for (std::size_t i = 0; i < each.words(); ++i) {
        if (each.copy[i] == first[i]) {
            continue;
        }
        if (here == nullptr) {
            here = opened_.copy_again(each.copy, each);
            there = opened_.copy_again(each.copy, each);
        }
        std::byte* const place = each.object + i * word_size;
        std::uint64_t value = each.copy[i];
        if (here[i] != there[i]) {
            if (target_of(&here[i]) != target_of(&there[i])) {
                refuse_container(heap(), each);
            }
            expect_in_heap(target_of(&here[i]));
            value = segment::encode_pointer(reinterpret_cast<std::uintptr_t>(place), target_of(&here[i]),
                                            segment::stamp_of(load(place)));
        } else if (first[i] != twin[i] && segment::is_null_pointer(value)) {
            value = segment::null_pointer(segment::stamp_of(load(place)));  // it was a `ptr` that led somewhere
        }
        const std::uint64_t own = own_bits(each, i);
        words_.put(begin + i * word_size, ~own == 0 ? value : (value & own) | (word_with_waiting(place) & ~own));
    }
}

bool transaction_core::may_overlap() {
    by_offset_.clear();
    for (const opened_object& each : opened_) {
        const std::uint64_t begin = offset_in_heap(each.object);
        by_offset_.emplace_back(begin, begin + each.words() * word_size);
    }
    for (const made_block& each : made_) {
        const std::uint64_t begin = offset_in_heap(each.block);
        by_offset_.emplace_back(begin, begin + each.bytes);
    }
    for (const stored_word& each : stored_) {
        by_offset_.emplace_back(each.offset, each.offset + word_size);
    }
    if (by_offset_.size() <= few_ranges) [[likely]] {
        bool found = false;
        for (std::size_t i = 1; i < by_offset_.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                found |= by_offset_[i].first < by_offset_[j].second && by_offset_[j].first < by_offset_[i].second;
            }
        }
        return found;
    }
    std::sort(by_offset_.begin(), by_offset_.end());
    return std::adjacent_find(by_offset_.begin(), by_offset_.end(),
                              [](const auto& a, const auto& b) { return a.second > b.first; }) != by_offset_.end();
}

/// Refuses opened objects that overlap where both have changed a word: a group stores no word twice.
HF_HOT void transaction_core::refuse_overlaps() {
    if (opened_.size() + made_.size() + stored_.size() < 2 || !may_overlap()) [[likely]] {
        return;
    }
    by_offset_.clear();
    for (const heap::data_piece& each : words_.pieces()) {
        by_offset_.emplace_back(each.offset, each.offset + each.words * word_size);
    }
    std::sort(by_offset_.begin(), by_offset_.end());
    for (std::size_t i = 1; i < by_offset_.size(); ++i) {
        if (by_offset_[i - 1].second > by_offset_[i].first) {
            refuse(heap(), failure_code::invalid_argument, fmt::format("word at offset {:#x}", by_offset_[i].first),
                   "two opened objects, or an opened object and a store, that overlap", "one place for each word");
        }
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

/// The group stores the content of new blocks; those that are too large for it are written back.
inline void transaction_core::put_made() {
    bool must_wait = false;
    for (const made_block& each : made_) {
        if (each.dropped_in != 0) {
            continue;
        }
        if (each.bytes <= content_in_group) {
            for (std::size_t at = 0; at < each.bytes; at += word_size) {
                words_.put(offset_in_heap(each.block) + at, load(each.block + at));
            }
        } else {
            heap().engine().flush(each.block, each.bytes);
            must_wait = true;
        }
    }
    if (must_wait) {
        heap().engine().drain();
    }
}

/// `made_too`: the content of new blocks, too.
HF_HOT void transaction_core::gather(bool made_too) {
    if (freed_.size() > 1) {
        refuse_double_frees(heap(), freed_);
    }
    if (checks_.is_on()) [[unlikely]] {
        check_rules();
    }
    words_.clear();
    if (made_too) {
        put_made();
    }
    for (const opened_object& each : opened_) {
        put_changes_of(each);
    }
    if (stored_.size() > 1) {
        stored_.keep_last();
    }
    for (const stored_word& each : stored_) {
        if (!each.in_copy) [[likely]] {
            words_.put(each.offset, each.value);
        }
    }
    refuse_overlaps();
}

void transaction_core::commit() {
    heap::group_operations& operations = this->operations();
    if (heap_->pending().is_used()) [[unlikely]] {
        if (const auto batch = heap_->pending().find_own()) {
            batch->sync();  // a thread's transactions become durable in order
        }
    }
    gather(true);
    const std::span<const slab::held_block> kept = made_.empty() ? std::span<const slab::held_block>() : made_.kept();
    if (kept.empty() && freed_.empty() && words_.pieces().empty()) {
        return;
    }
    if (!operations.commit({kept, freed_, words_.pieces()})) [[unlikely]] {
        if (heap::engine::last_failure().code == failure_code::limit && heap::engine::last_failure().field.empty()) {
            refuse_blocks(heap(), kept.size(), freed_.size(), operations.largest() - 1);
        }
        throw_last_failure(heap().engine());
    }
    if (!made_.empty()) {
        made_.forget_kept(operations);
    }
}

ticket transaction_core::commit_later() {
    if (heap().engine().files().domain() != persist::domain_kind::disk ||
        heap().engine().durability() != heap::durability_kind::atomic) {
        commit();
        return {};
    }
    const std::shared_ptr<pending_batch> batch = heap().pending().find_or_make_own(heap());
    if (batch->is_large()) {
        batch->sync();
    }
    gather(false);
    const std::span<const slab::held_block> kept = made_.empty() ? std::span<const slab::held_block>() : made_.kept();
    if (std::max(kept.size(), freed_.size()) >= operations().largest()) {
        // A sync could never carry it out.
        refuse_blocks(heap(), kept.size(), freed_.size(), operations().largest() - 1);
    }
    const ticket made = batch->add({kept, freed_, words_.pieces()});
    if (!made_.empty()) {
        made_.forget_kept(operations());
    }
    return made;
}

void transaction_core::begin_inner(bool copies) {
    static_cast<void>(heap());
    inner_begin begin{opened_.size(), stored_.size(), made_.size(), freed_.size(), copies, {}, {}};
    if (copies) {
        for (const opened_object& each : opened_) {
            begin.copies.insert(begin.copies.end(), each.copy, each.copy + each.words());
        }
        for (const made_block& each : made_) {
            begin.contents.insert(begin.contents.end(), each.block, each.block + each.bytes);
        }
    }
    inner_.push_back(std::move(begin));
}

void transaction_core::keep_inner() noexcept {
    made_.limit_drops(inner_.size());
    inner_.pop_back();
}

void transaction_core::inner_begin::put_contents_back(opened_objects& into, made_blocks& blocks,
                                                      bool is_alive) const noexcept {
    const std::uint64_t* from = copies.data();
    for (const opened_object& each : into) {
        std::memcpy(each.copy, from, each.words() * word_size);
        from += each.words();
    }
    const std::byte* content = contents.data();
    for (auto each = blocks.begin(); is_alive && each != blocks.begin() + static_cast<std::ptrdiff_t>(made); ++each) {
        std::memcpy(each->block, content, each->bytes);
        content += each->bytes;
    }
}

void transaction_core::drop_inner() noexcept {
    const inner_begin begin = std::move(inner_.back());
    if (checks_.is_on()) [[unlikely]] {
        checks_.drop(begin.opened);
    }
    opened_.shrink(begin.opened);
    if (begin.has_copies) {
        begin.put_contents_back(opened_, made_, is_alive());
    }
    stored_.shrink(begin.stored);
    for (stored_word& each : stored_) {
        each.in_copy = each.in_copy && opened_.find_around(base_ + each.offset) != nullptr;
    }
    freed_.resize(begin.freed);
    made_.undo_drops(inner_.size());
    inner_.pop_back();
    while (made_.size() > begin.made) {
        if (is_alive()) {
            made_.free_last(heap_->engine().destinations()->groups());
        } else {
            made_.forget_last();
        }
    }
}

}  // namespace detail

}  // namespace holdfast
