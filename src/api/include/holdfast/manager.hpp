// holdfast::manager: a persistent heap in a directory, with the vocabulary of Boost.Interprocess and Metall.
//
//     holdfast::manager heap(holdfast::open_or_create, "graph.hf");
//     auto* counts = heap.find_or_construct<holdfast::vector<int>>("counts")(heap.get_allocator<int>());
//     counts->push_back(1);
//     heap.commit();
//
// Durability `commit`: after a crash of the process or the machine, the heap is exactly as the last commit() left it.
// Durability `atomic`: every call that allocated or freed, and returned, is there, block and destination as one:
//
//     holdfast::manager heap(holdfast::open_only, "graph.hf", {.durability = holdfast::durability::atomic});
//     node* fresh = heap.make_persistent<node>(list->head, 1);     // there, and list->head points to it, or neither
//
// Durability `collect`: no call makes anything durable but headers, so it costs what `commit` costs, without commit():
// what was stored is the heap. After a crash what roots and objects reach is allocated, the rest is free; that the
// program's data can be read then is its own business (persist()). Source: Makalu; PMAlloc-GC.
//
// Thread safety: allocation and the functions on objects may be called by any number of threads at once. commit(),
// close() and snapshot() are called by one thread while all others stand still: neither call the heap nor write to its
// memory. Where one does all the same while commit() runs, it may lose what it is doing, and never what was committed
// before: calls that change what a commit writes wait for it, and a commit that notices a store is refused
// (concurrent_modification). A thread that ends gives the free blocks that it kept back: it is no other one only when
// it was joined. Different managers are independent. Handlers of signals call nothing of the library: one that has
// interrupted the allocator is refused (unsupported), where it would wait for its own thread.
//
// A heap is the directory that was opened: while it is open, the program may change its working directory, and the
// directory may be renamed. path() and messages say what it was opened by.
//
// After fork() the heap is the parent's: commit, close and snapshot of the child fail with errc::wrong_process, and
// what the child stores stays its own.
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

/// One object of the directory.
class object_info {
public:
    /// The type's name for unique objects, "" for anonymous ones.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] instance_kind kind() const noexcept { return kind_; }
    [[nodiscard]] const void* value() const noexcept { return address_; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }             ///< from the heap's base
    [[nodiscard]] std::size_t length() const noexcept { return length_; }               ///< elements
    [[nodiscard]] const std::string& type_name() const noexcept { return type_name_; }  ///< as the ABI mangles it
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

/// Iterates over the objects that existed when begin() was called.
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

/// The paths that the smallest calls take at once; those of no heap where they must not, for a closed manager, and for
/// one that was moved from. A copy, so that no pointer is followed to what they need.
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

/// Reports what a noexcept function could not throw (a bad free in a destructor, a commit that failed in ~manager). The
/// default prints one line to standard error. Returns the handler set before. Thread-safe.
using error_handler = std::function<void(const error&)>;
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

    /// All constructors throw holdfast::error with path, field, found and expected; on failure nothing on media has
    /// changed, except that a crashed heap may have been recovered. When create returns, the empty heap is durable.
    manager(create_only_t, const std::string& path, const open_options& options = {});
    manager(open_only_t, const std::string& path, const open_options& options = {});
    manager(open_or_create_t, const std::string& path, const open_options& options = {});
    manager(open_read_only_t, const std::string& path, const open_options& options = {});
    /// As Boost.Interprocess and Metall: `size` bytes of user space are available, reserved on disk at once, and they
    /// are the limit, but for an eighth and 4 MiB more, for what blocks need beside their bytes. A heap that is there
    /// already keeps the limit that it has; open_options::maximum_size changes that.
    manager(create_only_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_or_create_t, const std::string& path, size_type size, void* base_address = nullptr);
    manager(open_only_t, const std::string& path, void* base_address);
    manager(const manager&) = delete;
    manager& operator=(const manager&) = delete;
    manager(manager&& other) noexcept;
    manager& operator=(manager&& other) noexcept;
    /// Commits (unless options.commit_on_close is off) and closes; a failure goes to the error handler. Call close() to
    /// catch it.
    ~manager();

    /// Makes the present state durable, atomically: when it returns, a crash of any kind leaves this state; while it
    /// runs, a crash leaves this one or the one before. Throws error (no_space: nothing changed, the heap goes on and
    /// may be committed later; concurrent_modification: another thread stored to the heap, and corrupt: a store to a
    /// wrong address has hit the heap's own tables, which are not written: the last commit stands; poisoned: a sync
    /// failed, reopen the heap). Other threads stand still.
    void commit();
    /// Metall's and Boost's name for commit(); always synchronous.
    void flush(bool /*synchronous*/ = true) { commit(); }
    /// Commits if `commit_changes` (default: as the options said), then unmaps. Safe to call twice. On failure the heap
    /// stays open.
    void close();
    void close(bool commit_changes);
    [[nodiscard]] bool is_open() const noexcept;
    [[nodiscard]] commit_report last_commit() const;

    // --- objects ----------------------------------------------------------------------------------------------------
    /// construct<T>(name)(args...) constructs T; construct<T>(name)[n](args...) an array of n, each from the same
    /// arguments. Throws error(name_exists) if the name is taken, holdfast::bad_alloc, and what the constructor throws:
    /// then nothing is left behind.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::fail);
    }
    /// With std::nothrow: null where the name is taken or memory is short.
    template <class T>
    [[nodiscard]] auto construct(const detail::instance_name& name, const std::nothrow_t&) {
        return detail::construct_proxy<T>(core(), name, detail::if_exists::return_null);
    }
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
    /// The object and its count; {nullptr, 0} where there is none. Throws error(type_mismatch) where the name bears
    /// another type.
    template <class T>
    [[nodiscard]] std::pair<T*, size_type> find(const detail::instance_name& name) const {
        const auto found = detail::find_object(core(), name, detail::object_type::of<T>());
        return {static_cast<T*>(found.address), found.count};
    }
    /// Destroys the object and frees it; false where there is none.
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
    /// Destroys an object (of any kind) by its address. Throws error(bad_address) where it is none.
    template <class T>
    bool destroy_ptr(const T* object) {
        const detail::object_lock lock(core());
        detail::destroy_found<T>(core(), detail::find_object_at(core(), object, detail::object_type::of<T>()));
        return true;
    }
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
    /// The object at the address; throws error(bad_address) where it is none of the directory's.
    [[nodiscard]] object_info object_at(const void* object) const;
    /// Runs f while no other thread can construct, find or destroy objects (Boost.Interprocess).
    template <class Function>
    void atomic_func(Function& function) {
        const detail::object_lock lock(core());
        function();
    }

    // --- roots ------------------------------------------------------------------------------------------------------
    static constexpr size_type root_count = 512;
    /// Slot `index` (< 512, else error(invalid_argument)) of the roots: pointers that a heap keeps without names. Null
    /// at creation. A root that can be written is a writer's: of a heap opened read-only, error(read_only). To read
    /// one, ask through a const manager: `std::as_const(heap).root(0)`.
    [[nodiscard]] ptr<void>& root(size_type index);
    [[nodiscard]] const ptr<void>& root(size_type index) const;

    // --- memory -----------------------------------------------------------------------------------------------------
    /// `bytes` of memory, 16-byte aligned from 16 bytes on (8 below). Throws holdfast::bad_alloc, or
    /// error(invalid_argument) for 0.
    [[nodiscard]] void* allocate(size_type bytes);
    [[nodiscard]] void* allocate(size_type bytes, const std::nothrow_t&) noexcept;
    /// alignment: a power of two up to 2 MiB, else error(invalid_argument).
    [[nodiscard]] void* allocate_aligned(size_type bytes, size_type alignment);
    /// Allocates by traits: a type number says to precise tracing, and to for_each_block(), what the block is.
    /// `zeroed` is as durable as what the program stores itself.
    [[nodiscard]] void* allocate(size_type bytes, const allocation_traits& traits);
    /// Frees; null is ignored. Throws error(bad_address), and changes nothing, where the address lies outside the heap,
    /// is not the start of a block, is already free, or is a constructed object: destroy() frees that.
    void deallocate(void* address);
    /// Usable bytes of the block; throws error(bad_address).
    [[nodiscard]] size_type usable_size(const void* address) const;
    /// The type number that the block was allocated with, 0 for none; throws error(bad_address).
    [[nodiscard]] std::uint32_t type_of(const void* address) const;
    [[nodiscard]] bool all_memory_deallocated() const;
    /// The heap was created with open_options::separate_cache_lines.
    [[nodiscard]] bool separates_cache_lines() const;
    template <class T = std::byte>
    [[nodiscard]] allocator_type<T> get_allocator() const noexcept {
        return allocator_type<T>{key()};
    }
    [[nodiscard]] const segment_manager* get_segment_manager() const noexcept;
    /// True where the address lies in the heap's user space.
    [[nodiscard]] bool belongs_to_segment(const void* address) const noexcept;
    [[nodiscard]] handle_t get_handle_from_address(const void* address) const;
    [[nodiscard]] void* get_address_from_handle(handle_t handle) const;

    // --- blocks with their destinations -----------------------------------------------------------------------------
    // In durability `atomic` each of these is there after a crash, or not, as a whole; it is durable when it returns.
    // In durability `commit` they do the same, and it is there with the next commit(). In durability `collect` no
    // destination leads to memory that is free or another's, whenever the process dies: free_from() and realloc_to()
    // write the destination back before they free, where stores need that; what allocate_to() and publish() store there
    // is the program's to persist(), as its other pointers are.
    //
    // A destination is a `ptr` in this heap: a root, or in an allocated block, durably initialised (zeroed memory is),
    // with one operation at a time. It is written by `ptr`'s assignment only, never copied byte by byte; the program
    // persists a word that it emptied (`head = tmp; tmp = nullptr; persist(&tmp, sizeof tmp)`) before it frees through
    // the new one. The whole contract: docs/atomic-protocol.md.
    //
    // They throw holdfast::bad_alloc for a lack of space, error(bad_address) for a destination outside of the heap, or
    // one that points to no allocated block, error(read_only); then nothing is changed. Thread-safe.

    /// Allocates, and `destination` points to the block. What it pointed to before is not freed.
    template <class T>
    T* allocate_to(ptr<T>& destination, size_type bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(allocate_to_word(&destination, bytes, traits));
    }
    /// Frees what `destination` points to, and it is null. False where it was null.
    template <class T>
    bool free_from(ptr<T>& destination) {
        return free_from_word(&destination);
    }
    /// A block of another size, with the same content as far as both reach, in the place of the old one, whose type it
    /// keeps where traits.type is 0. Null: as allocate_to().
    template <class T>
    T* realloc_to(ptr<T>& destination, size_type bytes, const allocation_traits& traits = {}) {
        return static_cast<T*>(reallocate_to_word(&destination, bytes, traits));
    }
    /// A block that is not allocated yet: fill it, persist() it, publish() it. Until then it is nobody's: usable_size()
    /// and deallocate() refuse it, for_each_block() passes it over, and after a crash and after a close it is free. It
    /// holds no destinations before it is published.
    [[nodiscard]] void* reserve(size_type bytes, const allocation_traits& traits = {});
    /// Allocates what reserve() returned, and `destination` points to it. Throws error(bad_address) for any other
    /// address, a block that was published or cancelled among them.
    template <class T>
    void publish(ptr<T>& destination, std::type_identity_t<T>* reserved) {
        publish_word(&destination, reserved);
    }
    /// Gives back what reserve() returned. Throws error(bad_address) for any other address, as publish().
    void cancel(void* reserved);
    /// allocate_to() for many destinations, each atomic alone, with a fence for 32. On failure the first ones are done
    /// and the rest is not: those are null, or what they were.
    template <class T>
    void allocate_batch(std::span<ptr<T>* const> destinations, size_type bytes, const allocation_traits& traits = {}) {
        for_each_batch(destinations, [&](std::span<void* const> words) { allocate_words(words, bytes, traits); });
    }
    /// free_from() for many. Null ones are passed over.
    template <class T>
    void free_batch(std::span<ptr<T>* const> destinations) {
        for_each_batch(destinations, [this](std::span<void* const> words) { free_words(words); });
    }
    /// Reserves, constructs, persists, publishes: two fences. What the constructor throws leaves nothing behind. A
    /// `ptr` in T that is to be a destination is one from here on.
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
    /// Destroys and frees what `destination` points to. False where it is null.
    template <class T>
    bool destroy_persistent(ptr<T>& destination) {
        if (destination == nullptr) {
            return false;
        }
        std::destroy_at(destination.get());
        return free_from(destination);
    }

    /// The program's own data, durability `atomic` and `collect`: starts to write a range back; waits for what this
    /// thread started; both. They do nothing where it would not help (page-cache, durability `commit`).
    void flush(const void* begin, size_type bytes) const noexcept;
    void drain() const noexcept;
    void persist(const void* begin, size_type bytes) const noexcept {
        flush(begin, bytes);
        drain();
    }
    /// Calls `each` for every allocated block, in order of address; it may free the block it is given. Blocks that
    /// others allocate or free meanwhile may be missed or seen.
    void for_each_block(const std::function<void(const block_info&)>& each) const;
    /// The same for every extent, allocated or free. Throws error.
    void for_each_extent(const std::function<void(const extent_info&)>& each) const;
    /// Durability `atomic`: writes back what all calls so far have changed, so that a recovery has less to do.
    void checkpoint();
    [[nodiscard]] protocol_counters counters() const;
    [[nodiscard]] recovery_report last_recovery() const;
    /// Throws error, as an open does.
    [[nodiscard]] lane_information lanes() const;

    // --- collection -------------------------------------------------------------------------------------------------
    /// Frees every allocated block that cannot be reached from the roots and the objects of the directory: what leaked.
    /// In any durability, with the next commit() in `commit`. All other threads stand still; reserve()d blocks are no
    /// roots. Throws error; docs/tracing.md says what counts as a pointer.
    collect_report collect(const collect_options& options = {});
    /// What the recovery of this open has reached, and freed; nothing where the heap had not crashed in durability
    /// `collect`. After such a crash nobody knows which small blocks were allocated: blocks_freed counts those of whole
    /// pages alone, and slabs_freed the slabs in which nothing was reached.
    [[nodiscard]] std::optional<collect_report> last_recovery_trace() const;
    /// Says where the pointers of a type are, for precise collection; kept in the heap, durable as its objects are.
    /// Replaces what was said before. Throws error(invalid_argument).
    void register_type(const type_layout& layout);
    template <class T>
    void register_type(std::uint32_t type, std::string name = {}) {
        register_type(layout_of<T>(type, std::move(name)));
    }
    [[nodiscard]] std::vector<type_layout> registered_types() const;
    /// A visitor for a type, in this process, instead of what register_type() says; an empty one takes it away.
    void register_visitor(std::uint32_t type, block_visitor visitor);
    /// From now on `filter` sees every free (deallocate, free_from, destroy, allocators); an empty one: nobody. While
    /// no other thread uses the heap. What it keeps back when the heap is closed stays allocated: the next collect()
    /// finds it. Throws error(unsupported) in durability `atomic`, whose frees are durable at once.
    void set_free_filter(free_filter filter);
    /// deallocate() past the filter.
    void free_now(void* block);

    // --- the heap itself --------------------------------------------------------------------------------------------
    /// Where the heap's base is mapped.
    [[nodiscard]] void* get_address() const noexcept;
    /// Bytes of user space backed by files.
    [[nodiscard]] size_type get_size() const;
    [[nodiscard]] size_type get_free_memory() const;
    [[nodiscard]] bool read_only() const noexcept;
    /// Checks every invariant of the open heap; false where one is broken. problems() of `check` names them.
    [[nodiscard]] bool check_sanity() const;
    /// Every broken invariant, a line each ("EXT-2: ..."); empty for a sound heap. `pages`: compare committed pages
    /// with their checksums.
    [[nodiscard]] std::vector<std::string> check(bool pages) const;
    /// What check(true), or else the open with open_options::verify, has compared: a heap that was last open in
    /// durability `atomic` or `collect` has no checksums, and nothing was.
    struct page_comparison {
        std::uint64_t compared = 0;     ///< pages
        std::uint64_t without_sum = 0;  ///< pages that have none: never committed, or changed in another durability
    };
    [[nodiscard]] page_comparison last_comparison() const;
    [[nodiscard]] heap_statistics statistics() const;
    [[nodiscard]] const std::string& path() const noexcept;
    [[nodiscard]] std::string get_uuid() const;
    [[nodiscard]] std::string get_version() const;      ///< of the format: "1"
    [[nodiscard]] std::string get_description() const;  ///< of the heap; "" where none was set
    /// Throws error(read_only) for a heap opened so, as set_instance_description() does.
    void set_description(std::string_view description);
    /// "page-cache", "dax", "eadr" or "emulated" (DESIGN section 1).
    /// Where the segments lie, by node, with links followed; none: in the heap's directory (open_options).
    [[nodiscard]] std::vector<std::string> node_directories() const;
    [[nodiscard]] std::string domain() const;
    [[nodiscard]] holdfast::durability durability() const noexcept;

    /// Of a heap with a directory a node (open_options): looks which node the calling thread runs on now. Where that is
    /// another than the one that it allocates from, it goes on with the new one, and what it kept for itself goes back:
    /// true. Threads look by themselves after some thousand allocations; a program that binds a thread to processors
    /// calls this after that. Any thread, at any time; nothing durable changes. Throws error after close().
    bool follow_this_thread();

    /// Gives space that is not used back to the file system: slabs without a block and free extents become holes,
    /// segments at the end are removed. Nothing moves. Durability `atomic`: other threads may go on; `commit`: it
    /// commits, as commit() does. A crash at any moment leaves the heap as it is, with more or less of its space given
    /// back. Throws error (PAllocator 4.6).
    shrink_report shrink(const shrink_options& options = {});

    /// Commits, then copies the heap to the new directory `destination` (error(already_exists) where something is
    /// there). The copy gets a uuid of its own and stays sparse. In durability `commit` it shares blocks where the file
    /// system can (in the others a store to a shared block would ask for space). Its files and its directory may be
    /// used by whom the heap's may, less the umask. Durable when it returns.
    void snapshot(const std::string& destination);

    // --- heaps that are not open ------------------------------------------------------------------------------------
    /// Copies a heap that no writer has open. Throws error. The segments of a copy, as of a snapshot, lie in its own
    /// directory, or in `node_directories` (open_options). Relative paths, those of the calls that return a future,
    /// too, mean what they mean when the call is made.
    static void copy(const std::string& source, const std::string& destination,
                     const std::vector<std::string>& node_directories = {});
    [[nodiscard]] static std::future<void> copy_async(const std::string& source, const std::string& destination);
    /// Removes a heap's directory, and those of its nodes: its own files only; a directory with others in it stays,
    /// with an error. False where nothing is there.
    static bool remove(const std::string& path);
    [[nodiscard]] static std::future<bool> remove_async(const std::string& path);
    /// True where open_only would succeed (a crashed heap counts: it recovers); never changes anything.
    [[nodiscard]] static bool consistent(const std::string& path);
    [[nodiscard]] static std::string get_uuid(const std::string& path);
    [[nodiscard]] static std::string get_version(const std::string& path);
    [[nodiscard]] static std::string get_description(const std::string& path);
    /// Works while a writer has the heap open; what that one is about to change may be seen in part.
    [[nodiscard]] static lane_information lanes(const std::string& path);

private:
    friend struct detail::manager_door;  // the C face
    [[nodiscard]] detail::manager_core& core() const;
    [[nodiscard]] std::uint64_t key() const noexcept;
    [[nodiscard]] object_iterator objects(instance_kind kind) const;
    void describe(const void* object, std::string_view description);

    // Destinations as addresses of their words.
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
    /// A reserved block, given back unless it was published.
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
