// What a managed_mapped_file and its segment_manager share: named, unique and anonymous objects. To ask for one as
// another type throws interprocess_exception. Thread-safe.
#pragma once

#include <cstddef>
#include <iterator>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <holdfast/compat/interprocess/segment_blocks.hpp>

namespace holdfast::compat::interprocess {

using holdfast::anonymous_instance;
using holdfast::unique_instance;

enum instance_type { anonymous_type, named_type, unique_type };

template <class T, class SegmentManager>
class allocator;
template <class T, class SegmentManager>
class deleter;

namespace detail {

template <class T, class Inner>
class construct_proxy {
public:
    construct_proxy(const Inner& inner, bool returns_null) : inner_(inner), returns_null_(returns_null) {}

    construct_proxy& operator[](std::size_t count) {
        static_cast<void>(inner_[count]);
        return *this;
    }
    template <class... Args>
    T* operator()(Args&&... args) {
        try {
            return inner_(std::forward<Args>(args)...);
        } catch (const holdfast::error& failure) {
            if (returns_null_ && failure.reason() == errc::name_exists) {
                return nullptr;
            }
            throw interprocess_exception(error_info(code_of(failure.reason())), failure.what());
        } catch (const holdfast::bad_alloc& failure) {
            if (returns_null_) {
                return nullptr;
            }
            throw heap_bad_alloc(failure.what());
        }
    }

private:
    Inner inner_;
    bool returns_null_;
};

/// The name is valid as long as the entry's iterator.
class object_entry {
public:
    explicit object_entry(const object_info& object) noexcept : object_(&object) {}
    const char* name() const noexcept { return object_->name().c_str(); }
    std::size_t name_length() const noexcept { return object_->name().size(); }
    const void* value() const noexcept { return object_->value(); }
    const object_entry* operator->() const noexcept { return this; }

private:
    const object_info* object_;
};

class const_object_iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = object_entry;
    using difference_type = std::ptrdiff_t;
    using pointer = object_entry;
    using reference = object_entry;

    const_object_iterator() = default;
    explicit const_object_iterator(object_iterator position) : position_(std::move(position)) {}
    object_entry operator*() const { return object_entry(*position_); }
    object_entry operator->() const { return object_entry(*position_); }
    const_object_iterator& operator++() {
        ++position_;
        return *this;
    }
    const_object_iterator operator++(int) { return const_object_iterator(position_++); }
    friend bool operator==(const const_object_iterator& a, const const_object_iterator& b) {
        return a.position_ == b.position_;
    }

private:
    object_iterator position_;
};

template <class T, class Inner>
construct_proxy<T, Inner> proxy(const Inner& inner, bool returns_null) {
    return {inner, returns_null};
}
/// Throws interprocess_exception where no open segment has it.
inline open_segment& segment_of(const void* object) {
    open_segment* const found = open_segments().at(object);
    if (found == nullptr) {
        throw interprocess_exception(error_info(not_found_error), "the address lies in no open segment");
    }
    return *found;
}

class segment_objects : public segment_blocks {
public:
    using const_named_iterator = const_object_iterator;
    using const_unique_iterator = const_object_iterator;
    template <class T>
    struct allocator {
        using type = interprocess::allocator<T, segment_manager>;
    };
    template <class T>
    struct deleter {
        using type = interprocess::deleter<T, segment_manager>;
    };

    /// construct<T>(name)(args...), construct<T>(name)[count](args...). Throw interprocess_exception where the name is
    /// taken, bad_alloc, and what the constructor throws; then nothing is left behind. With std::nothrow: null where
    /// the name is taken or memory is short.
    template <class T>
    auto construct(const holdfast::detail::instance_name& name) const {
        return proxy<T>(heap().construct<T>(name), false);
    }
    template <class T>
    auto construct(const holdfast::detail::instance_name& name, const std::nothrow_t&) const {
        return proxy<T>(heap().construct<T>(name), true);
    }
    template <class T>
    auto find_or_construct(const holdfast::detail::instance_name& name) const {
        return proxy<T>(heap().find_or_construct<T>(name), false);
    }
    template <class T>
    auto find_or_construct(const holdfast::detail::instance_name& name, const std::nothrow_t&) const {
        return proxy<T>(heap().find_or_construct<T>(name), true);
    }
    template <class T>
    auto construct_it(const holdfast::detail::instance_name& name) const {
        return proxy<T>(heap().construct_it<T>(name), false);
    }
    template <class T>
    auto construct_it(const holdfast::detail::instance_name& name, const std::nothrow_t&) const {
        return proxy<T>(heap().construct_it<T>(name), true);
    }
    template <class T>
    auto find_or_construct_it(const holdfast::detail::instance_name& name) const {
        return proxy<T>(heap().find_or_construct_it<T>(name), false);
    }
    template <class T>
    auto find_or_construct_it(const holdfast::detail::instance_name& name, const std::nothrow_t&) const {
        return proxy<T>(heap().find_or_construct_it<T>(name), true);
    }
    template <class T>
    std::pair<T*, size_type> find(const holdfast::detail::instance_name& name) const {
        return translated([&] { return heap().find<T>(name); });
    }
    /// The lock is recursive, so this is find().
    template <class T>
    std::pair<T*, size_type> find_no_lock(const holdfast::detail::instance_name& name) const {
        return find<T>(name);
    }
    template <class T>
    bool destroy(const holdfast::detail::instance_name& name) const {
        return translated([&] { return heap().destroy<T>(name); });
    }
    template <class T>
    void destroy_ptr(const T* object) const {
        translated([&] { heap().destroy_ptr(object); });
    }

    /// Of any object of an open segment of this process. The name is valid until that is closed; null for an anonymous
    /// object.
    template <class T>
    static const char* get_instance_name(const T* object) {
        open_segment& segment = segment_of(object);
        const object_info found = translated([&] { return segment.heap.object_at(object); });
        return found.kind() == instance_kind::anonymous ? nullptr : segment.keep(found.name());
    }
    template <class T>
    static size_type get_instance_length(const T* object) {
        return translated([&] { return segment_of(object).heap.object_at(object).length(); });
    }
    template <class T>
    static instance_type get_instance_type(const T* object) {
        const instance_kind kind = translated([&] { return segment_of(object).heap.object_at(object).kind(); });
        return kind == instance_kind::named ? named_type : kind == instance_kind::unique ? unique_type : anonymous_type;
    }

    size_type get_num_named_objects() const { return heap().get_num_named_objects(); }
    size_type get_num_unique_objects() const { return heap().get_num_unique_objects(); }
    const_named_iterator named_begin() const { return const_named_iterator(heap().named_begin()); }
    const_named_iterator named_end() const { return {}; }
    const_unique_iterator unique_begin() const { return const_unique_iterator(heap().unique_begin()); }
    const_unique_iterator unique_end() const { return {}; }
    /// No-ops: the directory of objects grows by itself.
    void reserve_named_objects(size_type /*count*/) const noexcept {}
    void reserve_unique_objects(size_type /*count*/) const noexcept {}
    void shrink_to_fit_indexes() const noexcept {}

    /// Meanwhile no other thread constructs, finds or destroys objects. It is no transaction
    /// (<holdfast/transaction.hpp>): an exception undoes nothing.
    template <class Function>
    void atomic_func(Function&& function) const {
        translated([&] { heap().atomic_func(function); });
    }
    /// Waits for the lock: always true.
    template <class Function>
    bool try_atomic_func(Function&& function) const {
        atomic_func(function);
        return true;
    }

protected:
    using segment_blocks::segment_blocks;
};

}  // namespace detail
}  // namespace holdfast::compat::interprocess
