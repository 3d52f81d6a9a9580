#include <cstdlib>
#include <memory>

#include <cxxabi.h>
#include <fmt/format.h>

#include "api/manager_core.hpp"
#include "base/units.hpp"
#include "heap/registry.hpp"

namespace holdfast::detail {

namespace {

using base::failure;
using base::failure_code;

failure no_heap(std::uint64_t key) {
    return failure{failure_code::not_found,
                   {},
                   "heap key",
                   fmt::format("{:#x}", key),
                   "a heap open for writing in this process",
                   "its manager was closed, or opened read-only, or processes share it, and this is not in transact()",
                   0};
}

/// Without memory for the message, only the code is reported.
void report_no_heap(std::uint64_t key) noexcept {
    try {
        report_failure(no_heap(key));
    } catch (const std::bad_alloc&) {
        failure what;
        what.code = failure_code::not_found;
        report_failure(what);
    }
}

heap::object_kind kind_of(instance_kind kind) noexcept { return static_cast<heap::object_kind>(kind); }

/// A unique object is looked up by its type.
std::string_view lookup_name(const instance_name& name, const object_type& type) noexcept {
    return name.kind() == instance_kind::unique ? type.name : name.name();
}

/// As C++ spells it, and as it is stored: a C program may have chosen the stored name.
std::string told(const std::string& type) {
    const auto readable = readable_type(type);
    return readable ? fmt::format("{} ({})", *readable, type) : type;
}

void check_type(const heap::object_entry& entry, const object_type& type, const std::string& path) {
    if (entry.type != type.name || entry.type_size != type.size) {
        throw_failure(
            failure{failure_code::type_mismatch,
                    path,
                    fmt::format("object \"{}\"", entry.kind == heap::object_kind::named ? entry.name : entry.type),
                    fmt::format("type {} of {} bytes", told(entry.type), entry.type_size),
                    fmt::format("type {} of {} bytes", told(std::string(type.name)), type.size),
                    {},
                    0});
    }
}

[[gnu::always_inline]] inline void* allocate_from(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment,
                                                  std::uint32_t type) {
    heap::engine* const engine = heap::find_engine(heap_key);
    if (engine == nullptr) [[unlikely]] {
        throw_failure(no_heap(heap_key));
    }
    // For 0 bytes a smallest block: no two addresses are the same.
    void* const block = engine->allocate(bytes == 0 ? 1 : bytes, alignment, type);
    if (block == nullptr) [[unlikely]] {
        throw_allocation_failure(heap::engine::last_failure(), engine->files().paths().directory());
    }
    return block;
}

}  // namespace

std::optional<std::string> readable_type(const std::string& name) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                           &std::free);
    return status == 0 && text != nullptr ? std::optional<std::string>(text.get()) : std::nullopt;
}

constinit std::atomic<std::uint32_t> open_readers{0};
constinit std::atomic<std::uint32_t> open_heaps{0};

bool holds_allocator_of_another_heap(std::uint64_t heap_key, const void* object, std::size_t bytes) noexcept {
    return heap::names_another_heap(heap_key, {static_cast<const std::byte*>(object), bytes});
}

void throw_element_of_another_heap(std::uint64_t heap_key, const char* type) {
    const heap::engine* const engine = heap::find_engine(heap_key);
    throw_failure(failure{failure_code::invalid_argument, engine == nullptr ? "" : engine->files().paths().directory(),
                          "element of a container", fmt::format("a {} with an allocator of another heap", told(type)),
                          "all parts in the heap of the container",
                          "its parts cannot follow it: give the type an allocator_type and constructors that take an "
                          "allocator last, or construct the element from its values",
                          0});
}

void throw_nodes_of_another_heap(std::uint64_t heap_key, const char* type) {
    const heap::engine* const engine = heap::find_engine(heap_key);
    throw_failure(failure{failure_code::invalid_argument, engine == nullptr ? "" : engine->files().paths().directory(),
                          fmt::format("nodes for a {}", told(type)), "nodes of another heap",
                          "nodes in the heap of the container",
                          "insert the elements one by one: then they are copied to this heap", 0});
}

void refuse_reader(std::uint64_t heap_key, const void* asker) {
    if (heap::find_engine(heap_key) != nullptr && heap::is_of_reader(heap_key, asker)) {
        throw_failure(no_heap(heap_key));
    }
}

void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) {
    return allocate_from(heap_key, bytes, alignment, 0);
}

void* allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment, std::uint32_t type) {
    return allocate_from(heap_key, bytes, alignment, type);
}

void* try_allocate(std::uint64_t heap_key, std::size_t bytes, std::size_t alignment) noexcept {
    heap::engine* const engine = heap::find_engine(heap_key);
    return engine == nullptr ? nullptr : engine->allocate(bytes == 0 ? 1 : bytes, alignment);
}

void deallocate(std::uint64_t heap_key, void* address) noexcept {
    if (address == nullptr) {
        return;
    }
    heap::engine* const engine = heap::find_engine(heap_key);
    if (engine == nullptr) [[unlikely]] {
        report_no_heap(heap_key);
        return;
    }
    if (!engine->try_deallocate(address)) [[unlikely]] {
        report_failure(heap::engine::last_failure(), engine->files().paths().directory());
    }
}

void throw_bad_array_length() { throw std::bad_array_new_length(); }

object_lock::object_lock(manager_core& core) : core_(core) { core_.engine().object_mutex().lock(); }

object_lock::~object_lock() { core_.engine().object_mutex().unlock(); }

construction::construction(manager_core& core, const instance_name& name, object_type type, std::size_t count)
    : core_(core), name_(name), type_(type), count_(count) {
    heap::engine& engine = core_.engine();
    const auto refuse = [&](std::string_view field, std::string found, std::string expected) {
        throw_failure(failure{failure_code::invalid_argument,
                              core_.path(),
                              std::string(field),
                              std::move(found),
                              std::move(expected),
                              {},
                              0});
    };
    if (name.kind() == instance_kind::named && name.name().empty()) {
        refuse("name of an object", "\"\"", "a name");
    }
    if (count == 0) {
        refuse("count of an object", "0", "at least 1");
    }
    refuse_read_only(engine, "construct");
    const auto bytes = base::checked_multiply(count, type.size);
    if (!bytes) {
        refuse("size of an object", fmt::format("{} elements of {} bytes", count, type.size), "less than 2^64 bytes");
    }
    const object_lock lock(core_);
    if (name.kind() != instance_kind::anonymous &&
        value_or_throw(engine.objects().find(kind_of(name.kind()), lookup_name(name, type))).has_value()) {
        throw_failure(failure{failure_code::name_exists,
                              core_.path(),
                              fmt::format("object \"{}\"", lookup_name(name, type)),
                              "constructed before",
                              "a new name",
                              {},
                              0});
    }
    const std::uint64_t wanted = std::max<std::uint64_t>(*bytes, 1);
    memory_ = engine.atomic() != nullptr ? engine.atomic()->reserve({wanted, type.alignment, false})
                                         : engine.allocate(wanted, type.alignment);
    if (memory_ == nullptr) {
        throw_allocation_failure(heap::engine::last_failure(), core_.path());
    }
}

construction::~construction() {
    if (published_ || memory_ == nullptr) {
        return;
    }
    if (heap::atomic_operations* const atomic = core_.engine().atomic()) {
        static_cast<void>(atomic->cancel(memory_));
    } else {
        release_memory(core_, memory_);
    }
}

void construction::publish() {
    const object_lock lock(core_);
    // Durability `atomic`: first the elements are durable, then the record, then the block is allocated. A crash before
    // the last step leaves a record without a block, which the next open removes. Durability `collect`: the elements
    // are durable before the record, which is a root.
    heap::atomic_operations* const atomic = core_.engine().atomic();
    slab::pin_place pin = slab::pinned_blocks::make_place();
    heap::savepoints& undo = core_.engine().undo();
    if (undo.any()) {
        undo.make_room();
    }
    core_.engine().persist(memory_, count_ * type_.size);
    heap::object_entry entry;
    entry.kind = kind_of(name_.kind());
    entry.name = name_.name();
    entry.type = type_.name;
    entry.offset = core_.offset_of(memory_);
    entry.count = count_;
    entry.type_size = type_.size;
    if (auto inserted = core_.engine().objects().insert(entry); !inserted) {
        if (inserted.error().code == failure_code::no_space) {
            throw_allocation_failure(inserted.error(), core_.path());
        }
        throw_failure(inserted.error());
    }
    if (atomic != nullptr && !atomic->keep(memory_)) {
        throw_failure(heap::engine::last_failure());
    }
    core_.engine().blocks().pin(memory_, std::move(pin));
    if (undo.any()) {
        undo.note_made(entry.offset);
    }
    published_ = true;
}

bool is_taken(manager_core& core, const instance_name& name, object_type type) {
    const object_lock lock(core);
    return value_or_throw(core.engine().objects().find(kind_of(name.kind()), lookup_name(name, type))).has_value();
}

found_object find_object(manager_core& core, const instance_name& name, object_type type) {
    const object_lock lock(core);
    const auto entry = value_or_throw(core.engine().objects().find(kind_of(name.kind()), lookup_name(name, type)));
    if (!entry) {
        return {};
    }
    check_type(*entry, type, core.path());
    return {core.engine().files().view().address({entry->offset}), entry->count};
}

found_object find_object_at(manager_core& core, const void* address, object_type type) {
    const object_lock lock(core);
    const auto entry = value_or_throw(core.engine().objects().find_at(core.offset_of(address)));
    if (!entry) {
        throw_failure(failure{failure_code::bad_address,
                              core.path(),
                              "address",
                              fmt::format("{}", address),
                              "an object of the directory",
                              {},
                              0});
    }
    check_type(*entry, type, core.path());
    return {core.engine().files().view().address({entry->offset}), entry->count};
}

void unpublish(manager_core& core, void* address) {
    const object_lock lock(core);
    refuse_read_only(core.engine(), "destroy");
    if (is_claimed_object(address)) {
        throw_failure(failure{failure_code::locked, core.path(), "destroy",
                              "an object that this process has open: an index", "one that is closed", "", 0});
    }
    if (core.engine().pins().has_block(core.offset_of(address))) {
        throw_failure(failure{failure_code::locked, core.path(), "destroy", "an object with memory that is pinned",
                              "one without: unpin it", "", 0});
    }
    heap::savepoints& undo = core.engine().undo();
    if (undo.any()) {
        undo.make_room();
    }
    // The block of an object is pinned: deallocate() refuses it. The pin is put back if unpublish() fails.
    struct freed_pin {
        slab::block_allocator& blocks;
        void* address;
        slab::pin_place place = blocks.unpin(address);
        ~freed_pin() { blocks.pin(address, std::move(place)); }
    } pin{core.engine().blocks(), address};
    // Durability `atomic`: the block is freed before the record is erased, and stays reserved until release_memory():
    // no other thread gets its memory in between.
    if (heap::atomic_operations* const atomic = core.engine().atomic()) {
        if (!atomic->withdraw(address)) {
            throw_failure(heap::engine::last_failure());
        }
    }
    value_or_throw(core.engine().objects().erase_at(core.offset_of(address)));
    if (undo.any()) {
        undo.note_gone(core.offset_of(address), std::move(pin.place));
    }
    pin.place = {};
}

std::uint64_t key_of(const manager_core& core) noexcept { return core.handle()->key(); }

void release_memory(manager_core& core, void* address) noexcept {
    if (heap::atomic_operations* const atomic = core.engine().atomic()) {
        if (!atomic->cancel(address)) {  // unpublish() withdrew it
            report_failure(heap::engine::last_failure(), core.path());
        }
        return;
    }
    if (auto freed = core.engine().deallocate(address); !freed) {
        report_failure(freed.error());
    }
}

}  // namespace holdfast::detail
