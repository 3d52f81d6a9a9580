// holdfast::compat::metall::manager: the interface of metall::manager over a Holdfast heap.
//
// As in Metall, constructors do not throw: check_sanity() says whether the data store is open; functions of one that is
// not return null, false or 0. Each failure is a message of `logger`. Exceptions of the program's own constructors pass
// through.
//
// Thread safety and durability: as holdfast::manager in durability `commit`. flush(), snapshot() and the destructor
// commit; a crash leaves the data store as the last of them left it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <holdfast/compat/metall/object_attributes.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::compat::metall {

using holdfast::create_only;
using holdfast::create_only_t;
using holdfast::offset_ptr;
using holdfast::open_only;
using holdfast::open_only_t;
using holdfast::open_read_only;
using holdfast::open_read_only_t;
using holdfast::to_raw_pointer;

namespace detail {

/// Null where the data store is not open, the name is taken, or memory is short.
template <class T, class Inner>
class construct_proxy {
public:
    explicit construct_proxy(std::optional<Inner> inner) : inner_(std::move(inner)) {}
    construct_proxy& operator[](std::size_t count) {
        if (inner_) {
            static_cast<void>((*inner_)[count]);
        }
        return *this;
    }
    template <class... Args>
    T* operator()(Args&&... args) {
        if (!inner_) {
            return nullptr;
        }
        try {
            return (*inner_)(std::forward<Args>(args)...);
        } catch (const holdfast::error& failure) {
            const bool expected = failure.reason() == errc::name_exists;
            logger::out(expected ? logger::level::info : logger::level::error, "holdfast", 0, failure.what());
        } catch (const holdfast::bad_alloc& failure) {
            logger::out(logger::level::error, "holdfast", 0, failure.what());
        }
        return nullptr;
    }

private:
    std::optional<Inner> inner_;
};

/// Whether there is one; else `description` stays as it is.
inline bool told(const std::string& found, std::string* description) {
    if (!found.empty()) {
        *description = found;
    }
    return !found.empty();
}

/// `make` makes a data store beside the one that is `given`, and then replaces it.
template <class Make>
void replace(const std::string& given, Make&& make) {
    const std::filesystem::path whole(given);
    const std::string path = whole.has_filename() ? given : whole.parent_path().string();  // no slash at the end
    const auto parent = std::filesystem::path(path).parent_path();
    if (!parent.empty()) {
        std::filesystem::create_directories(parent);
    }
    std::error_code ignored;
    if (std::filesystem::is_empty(path, ignored)) {
        std::filesystem::remove(path, ignored);
    }
    if (!std::filesystem::exists(path)) {
        make(path);
        return;
    }
    const std::string fresh = path + ".incoming";
    static_cast<void>(holdfast::manager::remove(fresh));
    make(fresh);
    try {
        static_cast<void>(holdfast::manager::remove(path));
    } catch (...) {
        static_cast<void>(holdfast::manager::remove(fresh));
        throw;
    }
    std::filesystem::rename(fresh, path);  // if it fails, the fresh one is all that is left
}

inline std::string absolute(const std::string& path) noexcept {
    return or_else(path, [&] { return std::filesystem::absolute(path).string(); });
}

template <class Call>
std::future<bool> run_async(Call&& call) noexcept {
    return or_else(std::future<bool>(), [&] { return std::async(std::launch::async, std::forward<Call>(call)); });
}

/// Data stores that are not open. None throws.
class closed_stores {
public:
    using char_type = char;

    /// Replaces a data store at the destination. Ignores `clone` and `threads`: blocks are shared where the file system
    /// can. Fails where a writer has the source open.
    static bool copy(const std::string& source, const std::string& destination, bool /*clone*/ = true,
                     int /*threads*/ = 0) noexcept {
        return or_else(false, [&] {
            replace(destination, [&](const std::string& fresh) { holdfast::manager::copy(source, fresh); });
            return true;
        });
    }
    static std::future<bool> copy_async(const std::string& source, const std::string& destination, bool clone = true,
                                        int threads = 0) noexcept {
        return run_async([from = absolute(source), to = absolute(destination), clone, threads] {
            return copy(from, to, clone, threads);
        });
    }
    /// False where a data store cannot be removed; true where none is there.
    static bool remove(const std::string& path) noexcept {
        return or_else(false, [&] {
            static_cast<void>(holdfast::manager::remove(path));
            return true;
        });
    }
    static std::future<bool> remove_async(const std::string& path) noexcept {
        return run_async([path = absolute(path)] { return remove(path); });
    }
    /// Whether open_read_only would succeed, as it does after a crash, and nobody writes the data store.
    static bool consistent(const std::string& path) noexcept {
        return or_else(false, [&] {
            const holdfast::manager heap(holdfast::open_read_only, path);
            return heap.neighbours().writer == 0;
        });
    }
    static std::string get_uuid(const std::string& path) noexcept {
        return or_else(std::string(), [&] { return holdfast::manager::get_uuid(path); });
    }
    /// METALL_VERSION for a data store that can be read, else 0.
    static version_type get_version(const std::string& path) noexcept {
        return or_else(version_type{0}, [&] {
            return holdfast::manager::get_version(path).empty() ? version_type{0} : version_type{METALL_VERSION};
        });
    }
    static bool set_description(const std::string& path, const std::string& description) noexcept {
        return or_else(false, [&] {
            holdfast::manager heap(open_only, path);
            heap.set_description(description);
            heap.close();
            return true;
        });
    }
    /// False, and `description` unchanged, where there is none.
    static bool get_description(const std::string& path, std::string* description) noexcept {
        return or_else(false, [&] { return told(holdfast::manager::get_description(path), description); });
    }
    static object_attribute_accessor access_named_object_attribute(const std::string& path) {
        return {path, instance_kind::named};
    }
    static object_attribute_accessor access_unique_object_attribute(const std::string& path) {
        return {path, instance_kind::unique};
    }
    static object_attribute_accessor access_anonymous_object_attribute(const std::string& path) {
        return {path, instance_kind::anonymous};
    }
};

inline constexpr std::uint64_t least_capacity = std::uint64_t{8} << 20U;
inline constexpr std::uint64_t most_reserved = std::uint64_t{1} << 46U;
inline constexpr std::uint64_t usually_reserved = std::uint64_t{1} << 40U;

/// 0, the default, where that suffices.
constexpr std::uint64_t reservation_for(std::uint64_t capacity) noexcept {
    std::uint64_t reservation = usually_reserved;
    while (reservation < capacity && reservation < most_reserved) {
        reservation *= 2;
    }
    return reservation == usually_reserved ? 0 : reservation;
}

class store_objects : public closed_stores {
public:
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using instance_kind = holdfast::instance_kind;
    using const_named_iterator = object_attribute_iterator;
    using const_unique_iterator = object_attribute_iterator;
    using const_anonymous_iterator = object_attribute_iterator;
    using instance_name = holdfast::detail::instance_name;

    bool check_sanity() const noexcept { return state_ != nullptr; }
    bool read_only() const noexcept { return check_sanity() && state_->heap.read_only(); }

    template <class T>
    auto construct(const instance_name& name) {
        return proxy<T>([&] { return state_->heap.template construct<T>(name); });
    }
    template <class T>
    auto find_or_construct(const instance_name& name) {
        return proxy<T>([&] { return state_->heap.template find_or_construct<T>(name); });
    }
    template <class T>
    auto construct_it(const instance_name& name) {
        return proxy<T>([&] { return state_->heap.template construct_it<T>(name); });
    }
    template <class T>
    auto find_or_construct_it(const instance_name& name) {
        return proxy<T>([&] { return state_->heap.template find_or_construct_it<T>(name); });
    }
    /// {nullptr, 0} also for another type.
    template <class T>
    std::pair<T*, size_type> find(const instance_name& name) const noexcept {
        return ask(std::pair<T*, size_type>(nullptr, 0), [&] { return state_->heap.template find<T>(name); });
    }
    template <class T>
    bool destroy(const instance_name& name) {
        return ask(false, [&] { return state_->heap.template destroy<T>(name); });
    }
    template <class T>
    bool destroy_ptr(const T* object) {
        return ask(false, [&] { return state_->heap.destroy_ptr(object); });
    }
    /// Valid until the manager is gone. Null for an anonymous object, and for what is none.
    template <class T>
    const char_type* get_instance_name(const T* object) const noexcept {
        return ask(static_cast<const char_type*>(nullptr), [&]() -> const char_type* {
            const object_info found = state_->heap.object_at(object);
            return found.kind() == instance_kind::anonymous ? nullptr : state_->keep(found.name());
        });
    }
    template <class T>
    instance_kind get_instance_kind(const T* object) const noexcept {
        return ask(instance_kind(), [&] { return state_->heap.object_at(object).kind(); });
    }
    template <class T>
    size_type get_instance_length(const T* object) const noexcept {
        return ask(size_type{0}, [&] { return state_->heap.object_at(object).length(); });
    }
    template <class T>
    bool is_instance_type(const void* object) const noexcept {
        return ask(false, [&] { return state_->heap.object_at(object).template is_type<T>(); });
    }
    template <class T>
    bool get_instance_description(const T* object, std::string* description) const noexcept {
        return ask(false, [&] {
            *description = state_->heap.object_at(object).description();
            return true;
        });
    }
    template <class T>
    bool set_instance_description(const T* object, const std::string& description) noexcept {
        return ask(false, [&] {
            state_->heap.set_instance_description(object, description);
            return true;
        });
    }
    size_type get_num_named_objects() const noexcept {
        return ask(size_type{0}, [&] { return state_->heap.get_num_named_objects(); });
    }
    size_type get_num_unique_objects() const noexcept {
        return ask(size_type{0}, [&] { return state_->heap.get_num_unique_objects(); });
    }
    size_type get_num_anonymous_objects() const noexcept {
        return ask(size_type{0}, [&] { return state_->heap.get_num_anonymous_objects(); });
    }
    const_named_iterator named_begin() const noexcept {
        return ask(const_named_iterator(), [&] { return attributes(state_->heap.named_begin(), {}); });
    }
    const_named_iterator named_end() const noexcept { return {}; }
    const_unique_iterator unique_begin() const noexcept {
        return ask(const_unique_iterator(), [&] { return attributes(state_->heap.unique_begin(), {}); });
    }
    const_unique_iterator unique_end() const noexcept { return {}; }
    const_anonymous_iterator anonymous_begin() const noexcept {
        return ask(const_anonymous_iterator(), [&] { return attributes(state_->heap.anonymous_begin(), {}); });
    }
    const_anonymous_iterator anonymous_end() const noexcept { return {}; }

protected:
    struct open_store {
        explicit open_store(holdfast::manager opened) : heap(std::move(opened)) {}
        const char* keep(const std::string& name) {
            const std::lock_guard guard(mutex);
            return names.insert(name).first->c_str();
        }
        holdfast::manager heap;
        std::mutex mutex;
        std::set<std::string> names;
    };

    store_objects() noexcept = default;

    template <class Result, class Call>
    Result ask(Result otherwise, Call&& call) const noexcept {
        return check_sanity() ? or_else(std::move(otherwise), std::forward<Call>(call)) : otherwise;
    }

    std::unique_ptr<open_store> state_;

private:
    template <class T, class MakeInner>
    auto proxy(MakeInner&& make_inner) {
        using inner = decltype(make_inner());
        return construct_proxy<T, inner>(check_sanity() ? std::optional<inner>(make_inner()) : std::nullopt);
    }
};

}  // namespace detail

/// Ignores the parameters, but for chunk_size().
template <class ChunkNumber = std::uint32_t, std::size_t ChunkSize = (std::size_t{1} << 21U)>
class basic_manager : public detail::store_objects {
public:
    using void_pointer = ptr<void>;
    using chunk_number_type = ChunkNumber;
    template <class T>
    using allocator_type = holdfast::allocator<T>;
    template <class Outer, class... Inner>
    using scoped_allocator_type = holdfast::scoped_allocator_adaptor<allocator_type<Outer>>;
    template <class T>
    using fallback_allocator = holdfast::fallback_allocator<T>;
    using named_object_attribute_accessor_type = object_attribute_accessor;
    using unique_object_attribute_accessor_type = object_attribute_accessor;
    using anonymous_object_attribute_accessor_type = object_attribute_accessor;

    basic_manager(open_only_t, const std::string& path) noexcept {
        open([&] { return holdfast::manager(open_only, path); });
    }
    /// Stores are this process's own and lost; in Metall they end the process.
    basic_manager(open_read_only_t, const std::string& path) noexcept {
        open([&] { return holdfast::manager(open_read_only, path); });
    }
    /// Replaces a data store at the path, and makes the directories above. A directory with anything else stays, and
    /// check_sanity() is false.
    basic_manager(create_only_t, const std::string& path) noexcept { create(path, {}); }
    /// Allocations fail when about `capacity` bytes, at least 8 MiB, are allocated. Nothing is reserved on disk.
    basic_manager(create_only_t, const std::string& path, size_type capacity) noexcept {
        open_options options;
        options.maximum_size = std::max<std::uint64_t>(capacity, detail::least_capacity);
        options.reservation = detail::reservation_for(options.maximum_size);
        create(path, options);
    }

    /// Null on failure; `bytes` of 0 get a smallest block.
    void* allocate(size_type bytes) noexcept {
        return ask(static_cast<void*>(nullptr), [&] { return state_->heap.allocate(bytes == 0 ? 1 : bytes); });
    }
    void* allocate_aligned(size_type bytes, size_type alignment) noexcept {
        return ask(static_cast<void*>(nullptr),
                   [&] { return state_->heap.allocate_aligned(bytes == 0 ? 1 : bytes, alignment); });
    }
    void deallocate(void* address) noexcept {
        ask(false, [&] {
            state_->heap.deallocate(address);
            return true;
        });
    }
    bool all_memory_deallocated() const noexcept {
        return ask(false, [&] { return state_->heap.all_memory_deallocated(); });
    }
    /// Durable when it returns.
    void flush(bool /*synchronous*/ = true) noexcept {
        ask(false, [&] {
            if (!state_->heap.read_only()) {
                state_->heap.commit();
            }
            return true;
        });
    }
    /// flush(), then a copy with its own UUID, which replaces a data store at the destination.
    bool snapshot(const std::string& destination, bool /*clone*/ = true, int /*threads*/ = 0) noexcept {
        return ask(false, [&] {
            detail::replace(destination, [&](const std::string& fresh) { state_->heap.snapshot(fresh); });
            return true;
        });
    }
    using closed_stores::get_description;
    using closed_stores::get_uuid;
    using closed_stores::get_version;
    using closed_stores::set_description;
    std::string get_uuid() const noexcept {
        return ask(std::string(), [&] { return state_->heap.get_uuid(); });
    }
    version_type get_version() const noexcept { return check_sanity() ? METALL_VERSION : 0; }
    bool set_description(const std::string& description) noexcept {
        return ask(false, [&] {
            state_->heap.set_description(description);
            return true;
        });
    }
    /// False where there is none.
    bool get_description(std::string* description) const noexcept {
        return ask(false, [&] { return detail::told(state_->heap.get_description(), description); });
    }
    /// Where none is open, its allocations throw.
    template <class T = std::byte>
    allocator_type<T> get_allocator() const noexcept {
        return check_sanity() ? state_->heap.template get_allocator<T>() : allocator_type<T>(std::uint64_t{0});
    }
    static constexpr size_type chunk_size() noexcept { return ChunkSize; }
    const void* get_address() const noexcept { return check_sanity() ? state_->heap.get_address() : nullptr; }
    /// The capacity in bytes, else the addresses that are reserved.
    size_type get_size() const noexcept {
        return ask(size_type{0}, [&]() -> size_type {
            const heap_statistics numbers = state_->heap.statistics();
            return numbers.maximum_size == 0 ? numbers.reserved_address_space : numbers.maximum_size;
        });
    }
    /// Null where none is open.
    holdfast::manager* native() const noexcept { return check_sanity() ? &state_->heap : nullptr; }

private:
    template <class Open>
    void open(Open&& heap) noexcept {
        detail::or_else(false, [&] {
            state_ = std::make_unique<open_store>(heap());
            return true;
        });
    }
    void create(const std::string& path, const open_options& options) noexcept {
        open([&] {
            const auto parent = std::filesystem::path(path).parent_path();
            if (!parent.empty()) {
                std::filesystem::create_directories(parent);
            }
            std::error_code ignored;
            if (!std::filesystem::is_empty(path, ignored) || ignored) {
                static_cast<void>(holdfast::manager::remove(path));
            } else {
                std::filesystem::remove(path, ignored);
            }
            return holdfast::manager(create_only, path, options);
        });
    }
};
using manager = basic_manager<>;

namespace utility {

template <class Allocator>
using fallback_allocator_adaptor = holdfast::fallback_allocator<typename Allocator::value_type>;

}  // namespace utility
}  // namespace holdfast::compat::metall
