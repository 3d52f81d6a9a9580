// The smart pointers of Boost.Interprocess, with a deleter of ours; they may lie in a segment.
//
// After a crash, a count in a segment is as the last flush() left it, with the pointers in the segment that it counts.
// A shared_ptr in ordinary memory is gone then, and still counted: keep the pointers of a shared object in its segment.
#pragma once

#include <new>
#include <type_traits>

#include <boost/interprocess/smart_ptr/enable_shared_from_this.hpp>
#include <boost/interprocess/smart_ptr/intrusive_ptr.hpp>
#include <boost/interprocess/smart_ptr/scoped_ptr.hpp>
#include <boost/interprocess/smart_ptr/shared_ptr.hpp>
#include <boost/interprocess/smart_ptr/weak_ptr.hpp>
#include <boost/move/unique_ptr.hpp>
#include <holdfast/compat/interprocess/allocators.hpp>

namespace holdfast::compat::interprocess {

using boost::interprocess::const_pointer_cast;
using boost::interprocess::dynamic_pointer_cast;
using boost::interprocess::enable_shared_from_this;
using boost::interprocess::intrusive_ptr;
using boost::interprocess::scoped_ptr;
using boost::interprocess::shared_ptr;
using boost::interprocess::static_pointer_cast;
using boost::interprocess::weak_ptr;
using boost::movelib::unique_ptr;

/// Destroys an object (destroy_ptr) of a segment that a managed_mapped_file of this process has open.
template <class T, class SegmentManager>
class deleter {
public:
    using pointer = ptr<T>;

    deleter(SegmentManager* /*segment*/) noexcept {}  // NOLINT(google-explicit-constructor): as Boost.Interprocess
    void operator()(const pointer& object) const {
        if (const auto* const found = detail::open_segments().at(object.get()); found != nullptr) {
            found->handle->destroy_ptr(object.get());
        }
    }
};

template <class T, class ManagedMemory>
struct managed_unique_ptr {
    using type = unique_ptr<T, deleter<T, typename ManagedMemory::segment_manager>>;
};
template <class T, class ManagedMemory>
struct managed_shared_ptr {
    using type = shared_ptr<T, allocator<void, typename ManagedMemory::segment_manager>,
                            deleter<T, typename ManagedMemory::segment_manager>>;
};
template <class T, class ManagedMemory>
struct managed_weak_ptr {
    using type = weak_ptr<T, allocator<void, typename ManagedMemory::segment_manager>,
                          deleter<T, typename ManagedMemory::segment_manager>>;
};

/// For an object that construct<T>() made in `segment`. Throws bad_alloc, and the object is then destroyed; with
/// std::nothrow: empty, and the object stays.
template <class T, class ManagedMemory>
typename managed_unique_ptr<T, ManagedMemory>::type make_managed_unique_ptr(T* object, ManagedMemory& segment) {
    return typename managed_unique_ptr<T, ManagedMemory>::type(ptr<T>(object), segment.template get_deleter<T>());
}
template <class T, class ManagedMemory>
typename managed_shared_ptr<T, ManagedMemory>::type make_managed_shared_ptr(T* object, ManagedMemory& segment) {
    return typename managed_shared_ptr<T, ManagedMemory>::type(ptr<T>(object), segment.template get_allocator<void>(),
                                                               segment.template get_deleter<T>());
}
template <class T, class ManagedMemory>
typename managed_shared_ptr<T, ManagedMemory>::type make_managed_shared_ptr(T* object, ManagedMemory& segment,
                                                                            const std::nothrow_t&) {
    try {
        return make_managed_shared_ptr(object, segment);
    } catch (const bad_alloc&) {
        return {};
    }
}

}  // namespace holdfast::compat::interprocess
