// manager: named, unique and anonymous objects.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <holdfast/allocator.hpp>
#include <holdfast/detail/construct.hpp>
#include <holdfast/detail/heap_handle.hpp>
#include <holdfast/detail/objects.hpp>

namespace holdfast {

/// A copy: later changes of the object do not show.
class object_info {
public:
    /// A unique object has its type's name, an anonymous one "".
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] instance_kind kind() const noexcept { return kind_; }
    [[nodiscard]] const void* value() const noexcept { return address_; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }             ///< from the base
    [[nodiscard]] std::size_t length() const noexcept { return length_; }               ///< elements
    [[nodiscard]] const std::string& type_name() const noexcept { return type_name_; }  ///< as the ABI mangles it
    /// As C++ spells it; type_name() itself for objects of C programs.
    [[nodiscard]] std::string readable_type_name() const;
    template <class T>
    [[nodiscard]] bool is_type() const {
        return type_name_ == detail::object_type::of<T>().name;
    }
    [[nodiscard]] std::size_t type_size() const noexcept { return type_size_; }  ///< bytes of one element
    [[nodiscard]] const std::string& description() const noexcept { return description_; }

private:
    friend class detail::manager_core;
    std::string name_;
    instance_kind kind_ = instance_kind::anonymous;
    const void* address_ = nullptr;
    std::uint64_t offset_ = 0;
    std::size_t length_ = 0;
    std::string type_name_;
    std::size_t type_size_ = 0;
    std::string description_;
};

/// Over copies of the objects at begin().
class object_iterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = object_info;
    using difference_type = std::ptrdiff_t;
    using pointer = const object_info*;
    using reference = const object_info&;

    object_iterator() = default;
    explicit object_iterator(std::shared_ptr<const std::vector<object_info>> objects) : objects_(std::move(objects)) {}
    [[nodiscard]] reference operator*() const { return (*objects_)[index_]; }
    [[nodiscard]] pointer operator->() const { return &(*objects_)[index_]; }
    object_iterator& operator++() {
        ++index_;
        return *this;
    }
    object_iterator operator++(int) {
        object_iterator before{*this};
        ++index_;
        return before;
    }
    [[nodiscard]] friend bool operator==(const object_iterator& a, const object_iterator& b) {
        return a.at_end() || b.at_end() ? a.at_end() == b.at_end() : a.objects_ == b.objects_ && a.index_ == b.index_;
    }

private:
    [[nodiscard]] bool at_end() const { return objects_ == nullptr || index_ == objects_->size(); }
    std::shared_ptr<const std::vector<object_info>> objects_;
    std::size_t index_ = 0;
};

class heap_objects : public detail::part_of_manager<heap_objects> {
public:
    using const_named_iterator = object_iterator;
    using const_unique_iterator = object_iterator;
    using const_anonymous_iterator = object_iterator;

    /// construct<T>(name)(args...) constructs a T; construct<T>(name)[n](args...) n of them, each from the same
    /// arguments. Durable when it returns in durability `atomic` and `collect`, with the next commit() in `commit`.
    /// Throws error(name_exists), error(invalid_argument) for an empty name or n = 0, holdfast::bad_alloc, and what the
    /// constructor throws; then nothing is left behind.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::fail);
    }
    /// With std::nothrow: null where the name is taken or memory is short.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name, const std::nothrow_t&) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::return_null);
    }
    /// Finds or constructs, in one step among threads. Throws error(type_mismatch).
    template <class T>
    [[nodiscard]] auto find_or_construct(const detail::instance_name& name) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::find);
    }
    /// construct_it<T>(name)[n](it...): element i is constructed from the i-th values of the iterators.
    template <class T>
    [[nodiscard]] auto construct_it(const detail::instance_name& name) {
        return detail::construct_it_proxy<T>(core(), name, detail::if_exists::fail);
    }
    template <class T>
    [[nodiscard]] auto find_or_construct_it(const detail::instance_name& name) {
        return detail::construct_it_proxy<T>(core(), name, detail::if_exists::find);
    }
    /// The object and the number of its elements; {nullptr, 0} where there is none. Throws error(type_mismatch).
    template <class T>
    [[nodiscard]] std::pair<T*, std::size_t> find(const detail::instance_name& name) const {
        const auto found = detail::find_object(core(), name, detail::object_type::of<T>());
        return {static_cast<T*>(found.address), found.count};
    }
    /// False where there is none. As durable as construct(). Throws error(type_mismatch), error(read_only),
    /// error(locked) for the head of an open index.
    template <class T>
    bool destroy(const detail::instance_name& name) {
        const detail::object_lock lock(core());
        const auto found = detail::find_object(core(), name, detail::object_type::of<T>());
        if (found.address == nullptr) {
            return false;
        }
        detail::destroy_found<T>(core(), found);
        return true;
    }
    /// destroy() of an object of any kind; throws error(bad_address) where none is there.
    template <class T>
    bool destroy_ptr(const T* object) {
        const detail::object_lock lock(core());
        detail::destroy_found<T>(core(), detail::find_object_at(core(), object, detail::object_type::of<T>()));
        return true;
    }
    /// Throw error(bad_address) where no object is there.
    template <class T>
    [[nodiscard]] std::string get_instance_name(const T* object) const {
        return object_at(object).name();
    }
    template <class T>
    [[nodiscard]] instance_kind get_instance_kind(const T* object) const {
        return object_at(object).kind();
    }
    template <class T>
    [[nodiscard]] std::size_t get_instance_length(const T* object) const {
        return object_at(object).length();
    }
    template <class T>
    [[nodiscard]] std::string get_instance_type(const T* object) const {
        return object_at(object).type_name();
    }
    template <class T>
    [[nodiscard]] bool is_instance_type(const void* object) const {
        return object_at(object).type_name() == detail::object_type::of<T>().name;
    }
    template <class T>
    [[nodiscard]] std::string get_instance_description(const T* object) const {
        return object_at(object).description();
    }
    template <class T>
    void set_instance_description(const T* object, std::string_view description) {
        describe(object, description);
    }
    [[nodiscard]] std::size_t get_num_named_objects() const;
    [[nodiscard]] std::size_t get_num_unique_objects() const;
    [[nodiscard]] std::size_t get_num_anonymous_objects() const;
    [[nodiscard]] const_named_iterator named_begin() const { return objects(instance_kind::named); }
    [[nodiscard]] const_named_iterator named_end() const { return {}; }
    [[nodiscard]] const_unique_iterator unique_begin() const { return objects(instance_kind::unique); }
    [[nodiscard]] const_unique_iterator unique_end() const { return {}; }
    [[nodiscard]] const_anonymous_iterator anonymous_begin() const { return objects(instance_kind::anonymous); }
    [[nodiscard]] const_anonymous_iterator anonymous_end() const { return {}; }
    /// Throws error(bad_address) where no object of the directory starts there.
    [[nodiscard]] object_info object_at(const void* object) const;
    /// Meanwhile no other thread constructs, finds or destroys objects (Boost.Interprocess).
    template <class Function>
    void atomic_func(Function& function) {
        const detail::object_lock lock(core());
        function();
    }

private:
    friend class manager;
    heap_objects() noexcept = default;

    [[nodiscard]] object_iterator objects(instance_kind kind) const;
    void describe(const void* object, std::string_view description);
};

template <class T>
bool segment_manager::destroy_ptr(const T* object) const {
    const detail::object_lock lock(*heap_);
    detail::destroy_found<T>(*heap_, detail::find_object_at(*heap_, object, detail::object_type::of<T>()));
    return true;
}

}  // namespace holdfast
