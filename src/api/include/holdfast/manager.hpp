// holdfast::manager: a persistent heap in a directory, with the vocabulary of Boost.Interprocess and Metall.
//
//     holdfast::manager heap(holdfast::open_or_create, "graph.hf");
//     auto* counts = heap.find_or_construct<holdfast::vector<int>>("counts")(heap.get_allocator<int>());
//     counts->push_back(1);
//     heap.commit();
//
// This is durability `commit`: a crash leaves the heap as the last commit() left it. In durability `atomic` every call
// survives a crash when it has returned (holdfast::durability in open_options.hpp has all promises):
//
//     holdfast::manager heap(holdfast::open_only, "graph.hf", {.durability = holdfast::durability::atomic});
//     node* fresh = heap.make_persistent<node>(list->head, 1);  // block and pointer: both survive a crash, or neither
//
// Thread safety: any number of threads may allocate, free, and call the functions on objects at once. commit(),
// close(), snapshot() and collect() need that all other threads stand still: they neither call the heap nor store to
// its memory. A thread that stores while commit() runs may lose these stores, but never what was committed before:
// calls that change what a commit writes wait for it, and a commit that notices a store fails
// (concurrent_modification). A thread that ends returns the free blocks that it kept, so it counts as active until it
// is joined. Different managers are independent. A signal handler must not call the library: if it has interrupted the
// allocator, its call fails with errc::unsupported where it would wait for its own thread.
//
// A heap is the directory that was opened. While it is open, the program may change its working directory, and the
// directory may be renamed. path() and messages name the path that the program opened.
//
// After fork() the heap is the parent's: commit(), close() and snapshot() of the child fail (errc::wrong_process). In
// durability `commit` the child has a private copy of the heap's memory, in the others no mapping of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <holdfast/allocator.hpp>
#include <holdfast/collect.hpp>
#include <holdfast/detail/construct.hpp>
#include <holdfast/detail/objects.hpp>
#include <holdfast/error.hpp>
#include <holdfast/extent_information.hpp>
#include <holdfast/lane_information.hpp>
#include <holdfast/open_options.hpp>
#include <holdfast/ptr.hpp>
#include <holdfast/statistics.hpp>
#include <holdfast/trace.hpp>

namespace holdfast::slab {
struct plain_blocks;
}  // namespace holdfast::slab

namespace holdfast {

/// One object of the directory: a copy, which stays as it is when the object changes.
class object_info {
public:
    /// The name of a named object, the type's name for a unique one, "" for an anonymous one.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] instance_kind kind() const noexcept { return kind_; }
    [[nodiscard]] const void* value() const noexcept { return address_; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }             ///< from the heap's base
    [[nodiscard]] std::size_t length() const noexcept { return length_; }               ///< elements
    [[nodiscard]] const std::string& type_name() const noexcept { return type_name_; }  ///< as the ABI mangles it
    /// type_name() as C++ spells it; type_name() itself where the ABI did not mangle it (objects of C programs).
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

/// Iterates over copies of the objects that existed when begin() was called.
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

namespace detail {

/// What the fast paths of allocate() and deallocate() need, copied here so that they follow no pointer to it. For a
/// manager that is closed or moved from it is plain_blocks::of_no_heap(), so that the slow paths run.
class plain_path {
public:
    plain_path() noexcept;
    explicit plain_path(const slab::plain_blocks& of) noexcept;
    plain_path(plain_path&& other) noexcept : plain_path() { *this = std::move(other); }
    plain_path& operator=(plain_path&& other) noexcept;
    plain_path(const plain_path&) = delete;
    plain_path& operator=(const plain_path&) = delete;
    ~plain_path() = default;
    [[nodiscard]] const slab::plain_blocks* operator->() const noexcept;  // manager_core.hpp

private:
    static constexpr std::size_t words = 5;
    alignas(std::uintptr_t) std::byte blocks_[words * sizeof(std::uintptr_t)];
};

}  // namespace detail

/// Receives errors that a noexcept function cannot throw: a bad free in a destructor, a failed commit in ~manager.
using error_handler = std::function<void(const error&)>;
/// Sets the process's handler; returns the one before. Empty: the default, a line on standard error. Thread-safe.
error_handler set_error_handler(error_handler handler);

class manager {
public:
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using void_pointer = ptr<void>;
    using segment_manager = holdfast::segment_manager;
    template <class T>
    using allocator_type = holdfast::allocator<T>;
    template <class T>
    using scoped_allocator_type = holdfast::scoped_allocator<T>;
    template <class T>
    using fallback_allocator = holdfast::fallback_allocator<T>;
    using const_named_iterator = object_iterator;
    using const_unique_iterator = object_iterator;
    using const_anonymous_iterator = object_iterator;
    using handle_t = std::uint64_t;

    /// Create or open a heap (open_options.hpp). Throw holdfast::error; on failure nothing on media has changed, except
    /// that a crashed heap may have been recovered. A new, empty heap is durable when the constructor returns.
    manager(create_only_t, const std::string& path, const open_options& options = {});
    manager(open_only_t, const std::string& path, const open_options& options = {});
    manager(open_or_create_t, const std::string& path, const open_options& options = {});
    manager(open_read_only_t, const std::string& path, const open_options& options = {});
    /// As Boost.Interprocess and Metall. A new heap reserves `size` bytes of user space on disk at once. Its
    /// maximum_size is `size`, plus an eighth and 4 MiB for what slabs and runs of pages need beside their blocks. An
    /// existing heap keeps its limit (open_options::maximum_size changes it).
    manager(create_only_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_or_create_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_only_t, const std::string& path, void* base_address);
    manager(const manager&) = delete;
    manager& operator=(const manager&) = delete;
    manager(manager&& other) noexcept;
    manager& operator=(manager&& other) noexcept;
    /// close(), but a failure goes to the error handler. In a child of fork() it reports nothing.
    ~manager();

    /// Durability `commit`: makes the present state durable, atomically: a crash while it runs leaves this state or
    /// that of the last commit. All other threads stand still. Throws error: no_space (commit() may be called again);
    /// concurrent_modification (another thread stored to the heap); corrupt (a stray store has hit the heap's own
    /// tables, which are not written); poisoned (a sync failed: reopen the heap). All but the last leave the last
    /// commit.
    /// Durability `atomic` and `collect`: syncs the files. A later crash does not lead back to this state.
    void commit();
    /// Metall's and Boost.Interprocess's name for commit(); always synchronous.
    void flush(bool /*synchronous*/ = true) { commit(); }
    /// Commits if `commit_changes` (default: open_options::commit_on_close), then unmaps the heap. A second call does
    /// nothing. Throws error; on failure the heap stays open.
    void close();
    void close(bool commit_changes);
    [[nodiscard]] bool is_open() const noexcept;
    /// What the last commit() through this manager did; all zero where there was none.
    [[nodiscard]] commit_report last_commit() const;

    // --- objects ----------------------------------------------------------------------------------------------------
    /// construct<T>(name)(args...) constructs a T; construct<T>(name)[n](args...) constructs an array of n, each from
    /// the same arguments. Durable when it returns in durability `atomic` and `collect`, with the next commit() in
    /// `commit`. Throws error(name_exists), error(invalid_argument) for an empty name or n = 0, holdfast::bad_alloc,
    /// and what the constructor throws. Then nothing is left behind.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::fail);
    }
    /// With std::nothrow: null where the name is taken or memory is short.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name, const std::nothrow_t&) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::return_null);
    }
    /// Finds the object or constructs it, in one step among threads. Throws error(type_mismatch) for another type.
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
    [[nodiscard]] std::pair<T*, size_type> find(const detail::instance_name& name) const {
        const auto found = detail::find_object(core(), name, detail::object_type::of<T>());
        return {static_cast<T*>(found.address), found.count};
    }
    /// Destroys the object and frees it; false where there is none. Throws error(type_mismatch), error(read_only).
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
    /// As destroy(), for an object of any kind, by its address. Throws error(bad_address) where no object is there.
    template <class T>
    bool destroy_ptr(const T* object) {
        const detail::object_lock lock(core());
        detail::destroy_found<T>(core(), detail::find_object_at(core(), object, detail::object_type::of<T>()));
        return true;
    }
    /// These take the address of an object. They throw error(bad_address) where no object is there.
    template <class T>
    [[nodiscard]] std::string get_instance_name(const T* object) const {
        return object_at(object).name();
    }
    template <class T>
    [[nodiscard]] instance_kind get_instance_kind(const T* object) const {
        return object_at(object).kind();
    }
    template <class T>
    [[nodiscard]] size_type get_instance_length(const T* object) const {
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
    [[nodiscard]] size_type get_num_named_objects() const;
    [[nodiscard]] size_type get_num_unique_objects() const;
    [[nodiscard]] size_type get_num_anonymous_objects() const;
    [[nodiscard]] const_named_iterator named_begin() const { return objects(instance_kind::named); }
    [[nodiscard]] const_named_iterator named_end() const { return {}; }
    [[nodiscard]] const_unique_iterator unique_begin() const { return objects(instance_kind::unique); }
    [[nodiscard]] const_unique_iterator unique_end() const { return {}; }
    [[nodiscard]] const_anonymous_iterator anonymous_begin() const { return objects(instance_kind::anonymous); }
    [[nodiscard]] const_anonymous_iterator anonymous_end() const { return {}; }
    /// The object at the address. Throws error(bad_address) where no object of the directory starts there.
    [[nodiscard]] object_info object_at(const void* object) const;
    /// Runs f while no other thread can construct, find or destroy objects (Boost.Interprocess).
    template <class Function>
    void atomic_func(Function& function) {
        const detail::object_lock lock(core());
        function();
    }

    // --- roots ------------------------------------------------------------------------------------------------------
    static constexpr size_type root_count = 512;
    /// Slot `index` of the roots: pointers that the heap keeps without names, null at creation. Throws
    /// error(invalid_argument) for an index of 512 or more. The first function, whose root can be written, throws
    /// error(read_only) for a heap opened read-only: read there by `std::as_const(heap).root(0)`.
    [[nodiscard]] ptr<void>& root(size_type index);
    [[nodiscard]] const ptr<void>& root(size_type index) const;

    // --- memory -----------------------------------------------------------------------------------------------------
    // In durability `atomic` these calls are durable when they return: a crash before the program has stored the
    // address of a new block leaks it (allocate_to() does not).

    /// `bytes` of memory, not zeroed, aligned to 16 bytes (to 8 where `bytes` is below 16). Throws holdfast::bad_alloc
    /// with the reason in what(), error(invalid_argument) for 0 bytes, error(read_only).
    [[nodiscard]] void* allocate(size_type bytes);
    /// With std::nothrow: null where allocate() would throw.
    [[nodiscard]] void* allocate(size_type bytes, const std::nothrow_t&) noexcept;
    /// `alignment`: a power of two up to 2 MiB, else error(invalid_argument).
    [[nodiscard]] void* allocate_aligned(size_type bytes, size_type alignment);
    /// The zeros of `traits.zeroed` are ordinary stores here, as durable as what the program stores itself.
    [[nodiscard]] void* allocate(size_type bytes, const allocation_traits& traits);
    /// Frees a block; null is ignored. Throws error(bad_address), and changes nothing, where the address lies outside
    /// the heap, is not the start of an allocated block, or is an object, which destroy() frees. Two threads that free
    /// one block at the same moment may both return; open_options::hardened excludes that.
    void deallocate(void* address);
    /// Usable bytes of the block, at least those that were asked for. Throws error(bad_address).
    [[nodiscard]] size_type usable_size(const void* address) const;
    /// The type number that the block was allocated with, 0 for none. Throws error(bad_address).
    [[nodiscard]] std::uint32_t type_of(const void* address) const;
    [[nodiscard]] bool all_memory_deallocated() const;
    [[nodiscard]] bool separates_cache_lines() const;  ///< created with open_options::separate_cache_lines
    template <class T = std::byte>
    [[nodiscard]] allocator_type<T> get_allocator() const noexcept {
        return allocator_type<T>{key()};
    }
    [[nodiscard]] const segment_manager* get_segment_manager() const noexcept;
    /// Whether the address lies in the heap's user space (get_size() bytes from get_address()).
    [[nodiscard]] bool belongs_to_segment(const void* address) const noexcept;
    /// A handle is the offset from the heap's base in bytes. Throw error(bad_address) outside the user space.
    [[nodiscard]] handle_t get_handle_from_address(const void* address) const;
    [[nodiscard]] void* get_address_from_handle(handle_t handle) const;

    // --- blocks with their destinations -----------------------------------------------------------------------------
    // Durability `atomic`: a crash leaves each call done as a whole or not at all, and done if it has returned.
    // Durability `commit`: the effect of a call is part of the next commit().
    // Durability `collect`: no crash leaves a destination that points to memory that is free or another block's.
    // free_from() and realloc_to() write the destination back before they free; what allocate_to() and publish() store
    // in it is durable when the program has called persist() on it.
    //
    // A destination is a `ptr` in this heap: a root, or a word in an allocated block that was durably initialised
    // (zeroed memory is). It has one operation at a time. Only these calls and the assignment of `ptr` write it; it is
    // never copied byte by byte. A program that moves a pointer (`head = tmp; tmp = nullptr`) persists `head` before it
    // empties `tmp`, and `tmp` before it frees through `head` (docs/atomic-protocol.md, "What the program promises").
    //
    // Errors: holdfast::bad_alloc for a lack of space; error(bad_address) for a destination outside the heap or one
    // that points to no allocated block; error(read_only). Then nothing has changed. Thread-safe.

    /// Allocates a block and lets `destination` point to it. The block that it pointed to before is not freed.
    template <class T>
    T* allocate_to(ptr<T>& destination, size_type bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(allocate_to_word(&destination, bytes, traits));
    }
    /// Frees the block that `destination` points to and sets it to null. False where it was null.
    template <class T>
    bool free_from(ptr<T>& destination) {
        return free_from_word(&destination);
    }
    /// Replaces the block by one of `bytes` bytes with the same content as far as both reach, durably. The type stays
    /// where traits.type is 0. The copy holds no destinations. A block of whole pages that is long enough and not twice
    /// as long is its own replacement. A null destination: as allocate_to().
    template <class T>
    T* realloc_to(ptr<T>& destination, size_type bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(reallocate_to_word(&destination, bytes, traits));
    }
    /// A block that is not allocated yet: fill it, persist() it, publish() it. Before publish(), usable_size() and
    /// deallocate() refuse it, for_each_block() skips it, a crash and a close free it, and it holds no destinations.
    [[nodiscard]] void* reserve(size_type bytes, const allocation_traits& traits = {});
    /// Allocates a block that is reserved, else error(bad_address), and lets `destination` point to it.
    template <class T>
    void publish(ptr<T>& destination, std::type_identity_t<T>* reserved) {
        publish_word(&destination, reserved);
    }
    /// Gives back a block that is reserved, else error(bad_address).
    void cancel(void* reserved);
    /// allocate_to() for many destinations, with one fence for up to 32. Each element is atomic, the batch is not: on
    /// failure the first elements are done, and the other destinations are as they were.
    template <class T>
    void allocate_batch(std::span<ptr<T>* const> destinations, size_type bytes, const allocation_traits& traits = {}) {
        for_each_batch(destinations, [&](std::span<void* const> words) { allocate_words(words, bytes, traits); });
    }
    /// free_from() for many destinations, as allocate_batch(). Null ones are skipped.
    template <class T>
    void free_batch(std::span<ptr<T>* const> destinations) {
        for_each_batch(destinations, [this](std::span<void* const> words) { free_words(words); });
    }
    /// Reserves a block, constructs a T in it, persists and publishes it: two fences. If the constructor throws,
    /// nothing is left behind. A `ptr` in T can be a destination once this returns.
    template <class T, class... Args>
    T* make_persistent(ptr<T>& destination, Args&&... args) {
        static_assert(detail::require_persistable<T>());
        pending_block pending(*this, reserve(sizeof(T), {alignof(T), false}));
        T* const made = ::new (pending.block) T(std::forward<Args>(args)...);
        persist(made, sizeof(T));
        publish(destination, made);
        pending.block = nullptr;
        return made;
    }
    /// Runs the destructor of what `destination` points to, then free_from(). False where it is null.
    template <class T>
    bool destroy_persistent(ptr<T>& destination) {
        if (destination == nullptr) {
            return false;
        }
        std::destroy_at(destination.get());
        return free_from(destination);
    }

    /// The program's own data: flush() starts to write a range back, drain() waits until what this thread flushed is
    /// durable, persist() does both. They do nothing in the domain page-cache and in durability `commit`.
    void flush(const void* begin, size_type bytes) const noexcept;
    void drain() const noexcept;
    void persist(const void* begin, size_type bytes) const noexcept {
        flush(begin, bytes);
        drain();
    }
    /// Calls `each` for every allocated block, in order of address; it may free the block that it is given. Blocks that
    /// others allocate or free meanwhile may be missed or seen. Throws error.
    void for_each_block(const std::function<void(const block_info&)>& each) const;
    /// Calls `each` for every extent, allocated or free, in order of address. Throws error.
    void for_each_extent(const std::function<void(const extent_info&)>& each) const;
    /// Durability `atomic`: writes back what completed calls have changed, so that a recovery has less to do.
    void checkpoint();
    [[nodiscard]] protocol_counters counters() const;
    /// What this open had to do for a heap that crashed in durability `atomic`; all zero where there was nothing.
    [[nodiscard]] recovery_report last_recovery() const;
    [[nodiscard]] lane_information lanes() const;  ///< throws error, as an open does

    // --- collection -------------------------------------------------------------------------------------------------
    /// Frees every allocated block that the roots and the objects of the directory do not reach (leaks), in any
    /// durability; in `commit` the frees are part of the next commit(). All other threads stand still. A reserved block
    /// is neither a root nor freed. Throws error. docs/tracing.md says what counts as a pointer.
    collect_report collect(const collect_options& options = {});
    /// What the recovery of this open reached and freed; nothing where the heap had not crashed in durability
    /// `collect`. Which small blocks were allocated is unknown after such a crash: blocks_freed counts blocks of whole
    /// pages alone, and slabs_freed counts slabs in which nothing was reached.
    [[nodiscard]] std::optional<collect_report> last_recovery_trace() const;
    /// Records where the pointers of a type are, for precise collection, and replaces an earlier layout of that type.
    /// The heap keeps it, as durable as its objects. Throws error(invalid_argument), error(read_only).
    void register_type(const type_layout& layout);
    template <class T>
    void register_type(std::uint32_t type, std::string name = {}) {
        register_type(layout_of<T>(type, std::move(name)));
    }
    [[nodiscard]] std::vector<type_layout> registered_types() const;
    /// In this process `visitor` finds the pointers of the type, instead of its layout. An empty one removes it. Throws
    /// error(invalid_argument) for a bad type number.
    void register_visitor(std::uint32_t type, block_visitor visitor);
    /// Lets `filter` decide on every free from now on (deallocate, free_from, destroy, allocators); an empty filter
    /// ends that. No other thread uses the heap meanwhile. Blocks that the filter still keeps when the heap is closed
    /// stay allocated until collect() frees them. Throws error(unsupported) in durability `atomic`, where frees are
    /// durable at once.
    void set_free_filter(free_filter filter);
    /// deallocate() without the filter.
    void free_now(void* block);

    // --- the heap itself --------------------------------------------------------------------------------------------
    /// Where the heap's base is mapped; null for a closed heap.
    [[nodiscard]] void* get_address() const noexcept;
    /// Bytes of user space backed by files.
    [[nodiscard]] size_type get_size() const;
    [[nodiscard]] size_type get_free_memory() const;  ///< get_size() less the bytes of allocated blocks
    [[nodiscard]] bool read_only() const noexcept;
    [[nodiscard]] bool check_sanity() const;  ///< whether check(false) finds nothing
    /// Every broken invariant, a line each ("EXT-2: ..."). `pages`: also every page that differs from its checksum.
    [[nodiscard]] std::vector<std::string> check(bool pages) const;
    /// What the last check(true), or else the open with open_options::verify, compared: nothing in a heap that was last
    /// open in durability `atomic` or `collect`, which has no checksums.
    struct page_comparison {
        std::uint64_t compared = 0;     ///< pages
        std::uint64_t without_sum = 0;  ///< pages that have none: never committed, or changed in another durability
    };
    [[nodiscard]] page_comparison last_comparison() const;
    [[nodiscard]] heap_statistics statistics() const;
    /// The path that the heap was opened by; "" for a closed heap.
    [[nodiscard]] const std::string& path() const noexcept;
    [[nodiscard]] std::string get_uuid() const;
    [[nodiscard]] std::string get_version() const;      ///< of the format: "1"
    [[nodiscard]] std::string get_description() const;  ///< of the heap; "" where none was set
    /// Throws error(read_only) for a heap opened so.
    void set_description(std::string_view description);
    /// Where the segments lie, by node, with links followed; empty: all in the heap's directory (open_options).
    [[nodiscard]] std::vector<std::string> node_directories() const;
    /// The persistence domain, found at the open: "page-cache", "dax", "eadr" or "emulated" (docs/architecture.md).
    [[nodiscard]] std::string domain() const;
    /// What the heap was opened in; `commit` for a heap that is closed or opened read-only.
    [[nodiscard]] holdfast::durability durability() const noexcept;

    /// For a heap with a directory for each node (open_options::node_directories): if the calling thread runs on
    /// another node than the one that it allocates from, it returns the free blocks that it kept and goes on with the
    /// new node; the result is true. Threads do so by themselves at every 64th refill of their caches; a program that
    /// binds a thread to processors calls this. Thread-safe; nothing durable changes. Throws error after close().
    bool follow_this_thread();

    /// Gives unused space back to the file system: empty slabs and free extents become holes, segments at the end are
    /// removed; no block moves. Durability `commit`: commits as commit() does; in the others other threads may go on. A
    /// crash leaves the heap with more or less of its space given back. Throws error. Source: PAllocator 4.6.
    shrink_report shrink(const shrink_options& options = {});

    /// Commits (unless the heap is open read-only), then copies the heap to the new directory `destination`; durable
    /// when it returns. Throws error(already_exists) where something is at that path. The copy has its own uuid and is
    /// sparse. Its files and its directory have the permissions of the heap's, less the umask. In durability `commit`
    /// it shares blocks where the file system can (in the others a store to a shared block would need space).
    void snapshot(const std::string& destination);

    // --- heaps that are not open ------------------------------------------------------------------------------------
    /// Copies a heap; throws error, with `locked` where a writer has it open. The segments of the copy lie in its own
    /// directory, or in `node_directories` (as open_options). Relative paths, also of the calls that return a future,
    /// refer to the working directory at the time of the call.
    static void copy(const std::string& source, const std::string& destination,
                     const std::vector<std::string>& node_directories = {});
    [[nodiscard]] static std::future<void> copy_async(const std::string& source, const std::string& destination);
    /// Removes the files of a heap, its directory and its directories on nodes. A directory that holds other files
    /// stays, and an error is thrown. False where nothing is at the path.
    static bool remove(const std::string& path);
    [[nodiscard]] static std::future<bool> remove_async(const std::string& path);
    /// Whether open_read_only would succeed: a crashed heap counts, one that a writer has open does not.
    [[nodiscard]] static bool consistent(const std::string& path);
    /// Uuid and version: also while a writer has the heap open. Throw error.
    [[nodiscard]] static std::string get_uuid(const std::string& path);
    [[nodiscard]] static std::string get_version(const std::string& path);
    [[nodiscard]] static std::string get_description(const std::string& path);
    /// Works while a writer has the heap open; a change that the writer is making may be seen in part. Throws error.
    [[nodiscard]] static lane_information lanes(const std::string& path);

private:
    friend struct detail::manager_door;  // the C face
    [[nodiscard]] detail::manager_core& core() const;
    [[nodiscard]] std::uint64_t key() const noexcept;
    [[nodiscard]] object_iterator objects(instance_kind kind) const;
    void describe(const void* object, std::string_view description);

    // Destinations, as the addresses of their words.
    void* allocate_to_word(void* destination, size_type bytes, const allocation_traits& traits);
    bool free_from_word(void* destination);
    void* reallocate_to_word(void* destination, size_type bytes, const allocation_traits& traits);
    void publish_word(void* destination, void* reserved);
    void allocate_words(std::span<void* const> destinations, size_type bytes, const allocation_traits& traits);
    void free_words(std::span<void* const> destinations);
    template <class T, class Function>
    static void for_each_batch(std::span<ptr<T>* const> destinations, Function&& function) {
        constexpr size_type most = 32;
        void* words[most];
        while (!destinations.empty()) {
            const size_type some = destinations.size() < most ? destinations.size() : most;
            for (size_type i = 0; i < some; ++i) {
                words[i] = destinations[i];
            }
            function(std::span<void* const>(words, some));
            destinations = destinations.subspan(some);
        }
    }
    /// Cancels a reserved block unless it was published.
    struct pending_block {
        pending_block(manager& of, void* reserved) : owner(of), block(reserved) {}
        pending_block(const pending_block&) = delete;
        pending_block& operator=(const pending_block&) = delete;
        ~pending_block() {
            if (block != nullptr) {
                owner.cancel(block);
            }
        }
        manager& owner;
        void* block;
    };

    [[gnu::noinline]] void deallocate_rarely(void* address);

    std::unique_ptr<detail::manager_core> core_;
    detail::plain_path plain_;
};

/// The name that programs written for Boost.Interprocess use.
using managed_mapped_file = manager;

/// Boost.Interprocess: file_mapping::remove(path).
struct file_mapping {
    static bool remove(const char* path) { return manager::remove(path); }
};

template <class T>
bool segment_manager::destroy_ptr(const T* object) const {
    const detail::object_lock lock(*heap_);
    detail::destroy_found<T>(*heap_, detail::find_object_at(*heap_, object, detail::object_type::of<T>()));
    return true;
}

}  // namespace holdfast
