// Objects of a data store that is not open: manager::access_named_object_attribute(path) and its kin.
//
// The accessor copies the directory of objects of the heap, opened read-only; set_description() opens it for writing.
// Both fail where a writer, this process included, has the heap open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <holdfast/compat/metall/logger.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::compat::metall {

using holdfast::anonymous_instance;
using holdfast::instance_kind;
using holdfast::unique_instance;

/// holdfast::object_info under Metall's names.
class object_attribute {
public:
    using id_type = std::size_t;

    explicit object_attribute(object_info object) : object_(std::move(object)) {}
    const std::string& name() const noexcept { return object_.name(); }
    std::size_t length() const noexcept { return object_.length(); }
    /// Bytes from the heap's base.
    std::ptrdiff_t offset() const noexcept { return static_cast<std::ptrdiff_t>(object_.offset()); }
    id_type type_id() const { return std::hash<std::string>{}(object_.type_name()); }
    const std::string& description() const noexcept { return description_ ? *description_ : object_.description(); }
    template <class T>
    bool is_type() const {
        return object_.is_type<T>();
    }

private:
    friend class object_attribute_accessor;
    object_info object_;
    std::shared_ptr<std::string> description_;  ///< set since by an accessor
};

class object_attribute_iterator {
public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = object_attribute;
    using difference_type = std::ptrdiff_t;
    using pointer = const object_attribute*;
    using reference = const object_attribute&;

    object_attribute_iterator() = default;
    object_attribute_iterator(std::shared_ptr<std::vector<object_attribute>> objects, std::size_t index)
        : objects_(std::move(objects)), index_(index) {}
    reference operator*() const { return (*objects_)[index_]; }
    pointer operator->() const { return &(*objects_)[index_]; }
    object_attribute_iterator& operator++() {
        ++index_;
        return *this;
    }
    object_attribute_iterator operator++(int) {
        object_attribute_iterator before{*this};
        ++index_;
        return before;
    }
    friend bool operator==(const object_attribute_iterator& a, const object_attribute_iterator& b) {
        return a.at_end() || b.at_end() ? a.at_end() == b.at_end() : a.index_ == b.index_;
    }

private:
    friend class object_attribute_accessor;
    bool at_end() const { return objects_ == nullptr || index_ >= objects_->size(); }
    std::shared_ptr<std::vector<object_attribute>> objects_;
    std::size_t index_ = 0;
};

namespace detail {

inline object_attribute_iterator attributes(object_iterator first, const object_iterator& last) {
    auto objects = std::make_shared<std::vector<object_attribute>>();
    for (; first != last; ++first) {
        objects->emplace_back(*first);
    }
    return {std::move(objects), 0};
}

}  // namespace detail

/// Of one kind. Thread safety: none.
class object_attribute_accessor {
public:
    using iterator = object_attribute_iterator;
    using const_iterator = object_attribute_iterator;

    object_attribute_accessor() = default;
    object_attribute_accessor(const std::string& path, instance_kind kind) : path_(path) {
        detail::or_else(false, [&] {
            const holdfast::manager heap(open_read_only, path);
            first_ = kind == instance_kind::named    ? detail::attributes(heap.named_begin(), heap.named_end())
                     : kind == instance_kind::unique ? detail::attributes(heap.unique_begin(), heap.unique_end())
                                                     : detail::attributes(heap.anonymous_begin(), heap.anonymous_end());
            return true;
        });
    }

    bool good() const noexcept { return first_.objects_ != nullptr; }
    std::size_t num_objects() const noexcept { return good() ? first_.objects_->size() : 0; }
    const_iterator begin() const { return first_; }
    const_iterator end() const { return {}; }
    const_iterator find(const std::string& name) const {
        const_iterator position = first_;
        while (position != end() && position->name() != name) {
            ++position;
        }
        return position;
    }
    template <class T>
    const_iterator find(const unique_instance_t* /*name*/) const {
        return find(typeid(T).name());
    }
    std::size_t count(const std::string& name) const { return find(name) == end() ? 0 : 1; }
    template <class T>
    std::size_t count(const unique_instance_t* name) const {
        return find<T>(name) == end() ? 0 : 1;
    }
    /// Durable when it returns true.
    bool set_description(const const_iterator& position, const std::string& description) {
        if (position == end()) {
            return false;
        }
        object_attribute& object = (*position.objects_)[position.index_];
        return detail::or_else(false, [&] {
            holdfast::manager heap(open_only, path_);
            heap.set_instance_description(heap.get_address_from_handle(object.object_.offset()), description);
            heap.close();
            object.description_ = std::make_shared<std::string>(description);
            return true;
        });
    }
    bool set_description(const std::string& name, const std::string& description) {
        return set_description(find(name), description);
    }
    template <class T>
    bool set_description(const unique_instance_t* name, const std::string& description) {
        return set_description(find<T>(name), description);
    }

private:
    std::string path_;
    object_attribute_iterator first_;
};

}  // namespace holdfast::compat::metall
