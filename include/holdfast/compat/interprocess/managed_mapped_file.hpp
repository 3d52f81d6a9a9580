// managed_mapped_file: the interface of Boost.Interprocess's class of that name, over a Holdfast heap.
//
//     bip::managed_mapped_file file(bip::open_or_create, "data.hf", 1 << 20);
//     auto* counters = file.find_or_construct<bip::vector<int, int_allocator>>("counters")(file.get_segment_manager());
//
// The "file" is a directory, a heap for every program of Holdfast, with one writing process at a time. docs/porting.md
// says what differs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <boost/interprocess/permissions.hpp>
#include <holdfast/compat/interprocess/segment_objects.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::compat::interprocess {

using boost::interprocess::permissions;
using holdfast::create_only;
using holdfast::create_only_t;
using holdfast::open_only;
using holdfast::open_only_t;
using holdfast::open_or_create;
using holdfast::open_or_create_t;
using holdfast::open_read_only;
using holdfast::open_read_only_t;
struct open_copy_on_write_t {};
/// A writer whose changes are its own, and gone with the close.
inline constexpr open_copy_on_write_t open_copy_on_write{};

namespace detail {

inline void* at(const void* address) noexcept { return const_cast<void*>(address); }
inline open_options options_at(const void* address) {
    open_options options;
    options.base_address = at(address);
    return options;
}

inline void restrict(const std::string& path, const permissions& access) {
    const auto mode = static_cast<unsigned>(access.get_permissions()) & 0777U;
    if (mode == (static_cast<unsigned>(permissions().get_permissions()) & 0777U)) {
        return;
    }
    const unsigned search = (mode >> 2U | mode >> 1U) & 0111U;
    std::error_code failed;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode | search), failed);
    if (failed) {
        throw interprocess_exception(error_info(security_error), failed.message().c_str());
    }
}

inline holdfast::manager created(const std::string& path, std::size_t size, const void* address,
                                 const permissions& access) {
    holdfast::manager heap(create_only, path, align_size(size), at(address));
    restrict(path, access);
    return heap;
}

inline holdfast::manager opened_or_created(const std::string& path, std::size_t size, const void* address,
                                           const permissions& access) {
    std::error_code ignored;
    const bool existed = std::filesystem::exists(path, ignored);
    holdfast::manager heap(open_or_create, path, align_size(size), at(address));
    if (!existed) {
        restrict(path, access);
    }
    return heap;
}

inline holdfast::manager opened_to_discard(const std::string& path, const void* address) {
    open_options options = options_at(address);
    options.commit_on_close = false;
    return {open_only, path, options};
}

template <class NewLimit>
bool resized(const std::string& path, NewLimit&& new_limit) noexcept {
    try {
        open_options limited;
        {
            holdfast::manager heap(open_only, path);
            const std::uint64_t limit = heap.statistics().maximum_size;
            if (limit == 0) {
                heap.shrink();
                return true;  // without a limit, a heap grows by itself
            }
            limited.maximum_size = new_limit(heap, limit);
            heap.close();
        }
        holdfast::manager heap(open_only, path, limited);
        heap.close();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace detail

/// For allocators, deleters and containers; valid while the segment is open.
class segment_manager : public detail::segment_objects {
public:
    explicit segment_manager(detail::open_segment& segment) noexcept : detail::segment_objects(segment) {}
    segment_manager(const segment_manager&) = delete;
    segment_manager& operator=(const segment_manager&) = delete;

    std::uint64_t key() const noexcept { return heap().get_segment_manager()->key(); }
    template <class T>
    interprocess::allocator<T, segment_manager> get_allocator() {
        return {this};
    }
    template <class T>
    interprocess::deleter<T, segment_manager> get_deleter() {
        return {this};
    }
};

/// Thread-safe as segment_blocks and segment_objects; during flush(), the destructor, assignment and swap() no other
/// thread uses the segment.
class managed_mapped_file : public detail::segment_objects {
public:
    using segment_manager = interprocess::segment_manager;
    using char_type = char;

    /// Without a segment: only assignment, swap and destruction may follow.
    managed_mapped_file() noexcept = default;
    /// Reserves `size` bytes on disk at once; grow() adds to them. The directory gets `access` unless that is the
    /// default, and those who may read or write may search it. Throws interprocess_exception (already_exists_error
    /// where anything is at the path), bad_alloc.
    managed_mapped_file(create_only_t, const std::string& path, size_type size, const void* address = nullptr,
                        const permissions& access = permissions())
        : managed_mapped_file(
              opening{}, [&] { return detail::created(path, size, address, access); }, false) {}
    /// An existing segment keeps its size.
    managed_mapped_file(open_or_create_t, const std::string& path, size_type size, const void* address = nullptr,
                        const permissions& access = permissions())
        : managed_mapped_file(
              opening{}, [&] { return detail::opened_or_created(path, size, address, access); }, false) {}
    /// Throws interprocess_exception: not_found_error; busy_error where a process has it open.
    managed_mapped_file(open_only_t, const std::string& path, const void* address = nullptr)
        : managed_mapped_file(
              opening{}, [&] { return holdfast::manager(open_only, path, detail::at(address)); }, false) {}
    /// Any number of processes, while none writes. Stores are this process's own and lost; allocation fails.
    managed_mapped_file(open_read_only_t, const std::string& path, const void* address = nullptr)
        : managed_mapped_file(
              opening{}, [&] { return holdfast::manager(open_read_only, path, detail::options_at(address)); }, false) {}
    /// flush() does nothing, and the destructor does not commit.
    managed_mapped_file(open_copy_on_write_t, const std::string& path, const void* address = nullptr)
        : managed_mapped_file(
              opening{}, [&] { return detail::opened_to_discard(path, address); }, true) {}
    managed_mapped_file(managed_mapped_file&& other) noexcept { swap(other); }
    managed_mapped_file& operator=(managed_mapped_file&& other) noexcept {
        managed_mapped_file taken(std::move(other));
        swap(taken);
        return *this;
    }
    /// Commits. A failure goes to the error handler (holdfast::set_error_handler()).
    ~managed_mapped_file() = default;
    void swap(managed_mapped_file& other) noexcept {
        std::swap(segment_, other.segment_);
        opened_.swap(other.opened_);
    }
    friend void swap(managed_mapped_file& a, managed_mapped_file& b) noexcept { a.swap(b); }

    /// Makes the present state durable, atomically: a crash leaves this state or the last flushed one. False on
    /// failure, which leaves the last.
    bool flush() {
        if (segment_->discards || heap().read_only()) {
            return true;
        }
        try {
            heap().commit();
            return true;
        } catch (const holdfast::error&) {
            return false;
        }
    }
    segment_manager* get_segment_manager() const noexcept { return opened_ == nullptr ? nullptr : &opened_->handle; }
    template <class T>
    interprocess::allocator<T, segment_manager> get_allocator() const {
        return {get_segment_manager()};
    }
    template <class T>
    interprocess::deleter<T, segment_manager> get_deleter() const {
        return {get_segment_manager()};
    }
    /// For what Boost.Interprocess has not.
    holdfast::manager& native() const noexcept { return heap(); }

    /// Adds `extra` bytes, at least, to the size of a segment that no process has open: what has room in so many bytes
    /// can be allocated then, however full or fragmented the segment was. False on failure.
    static bool grow(const std::string& path, size_type extra) noexcept {
        return detail::resized(path, [extra](holdfast::manager& heap, std::uint64_t limit) {
            const std::uint64_t more = detail::align_size(extra);
            const std::uint64_t used = heap.get_size() - heap.get_free_memory();  // may be beyond the size
            const std::uint64_t size = std::max(detail::size_of_limit(limit), detail::align_size(used)) + more;
            return std::max(detail::limit_of_size(size), detail::limit_behind(heap.statistics().user_bytes, more));
        });
    }
    /// Gives unused space back to the file system, and lowers the size to what is allocated. False on failure.
    static bool shrink_to_fit(const std::string& path) noexcept {
        return detail::resized(path, [](holdfast::manager& heap, std::uint64_t /*limit*/) {
            heap.shrink();
            const heap_statistics numbers = heap.statistics();
            std::uint64_t size = detail::align_size(numbers.allocated_bytes);
            while (detail::limit_of_size(size) < numbers.user_bytes) {
                size += detail::size_unit;
            }
            return detail::limit_of_size(size);
        });
    }

private:
    struct open_parts {
        open_parts(holdfast::manager heap, bool discards) : segment(std::move(heap), discards), handle(segment) {
            segment.handle = &handle;
            detail::open_segments().add(segment);
        }
        open_parts(const open_parts&) = delete;
        open_parts& operator=(const open_parts&) = delete;
        ~open_parts() { detail::open_segments().remove(segment); }
        detail::open_segment segment;
        segment_manager handle;
    };

    struct opening {};
    template <class Open>
    managed_mapped_file(opening, Open&& open, bool discards)
        : opened_(std::make_unique<open_parts>(detail::translated(std::forward<Open>(open)), discards)) {
        segment_ = &opened_->segment;
    }

    std::unique_ptr<open_parts> opened_;
};

// Parameters of basic_managed_mapped_file, which ignores them.
struct mutex_family {};
struct null_mutex_family {};
template <class MutexFamily, class VoidPointer = ptr<void>, std::size_t MemAlignment = 0>
struct rbtree_best_fit {};
template <class MutexFamily, class VoidPointer = ptr<void>>
struct simple_seq_fit {};
template <class Config>
struct iset_index {};
template <class Config>
struct iunordered_set_index {};
template <class Config>
struct flat_map_index {};
template <class Config>
struct map_index {};
template <class Config>
struct null_index {};

namespace detail {
template <class Char>
struct segment_of_names {
    static_assert(std::is_same_v<Char, char>, "holdfast: names of objects are of char: use managed_mapped_file");
    using type = managed_mapped_file;
};
}  // namespace detail

template <class Char, class Algorithm, template <class> class Index>
using basic_managed_mapped_file = typename detail::segment_of_names<Char>::type;

/// Of a segment, or, as in Boost.Interprocess, an ordinary file.
struct file_mapping {
    static bool remove(const char* path) noexcept {
        try {
            return std::filesystem::is_regular_file(path) ? std::filesystem::remove(path)
                                                          : holdfast::manager::remove(path);
        } catch (const std::exception&) {
            return false;
        }
    }
};

}  // namespace holdfast::compat::interprocess
