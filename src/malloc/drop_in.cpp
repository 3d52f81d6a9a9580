#include "malloc/drop_in.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/interruption.hpp"
#include "base/units.hpp"
#include "heap/heap.hpp"
#include "heap/reallocate.hpp"
#include "heap/upkeep_thread.hpp"
#include "malloc/call_gate.hpp"
#include "malloc/fork_locks.hpp"
#include "malloc/internal_arena.hpp"
#include "malloc/kept_errno.hpp"
#include "malloc/process_heap.hpp"
#include "segment/files/private_memory.hpp"

namespace holdfast::drop_in {

namespace {

using heap::engine;

constinit internal_arena arena;

/// Never destroyed.
struct process_heap {
    lane::announcement_barrier barrier;
    call_gate gate{barrier};
    std::unique_ptr<engine> owned;
    std::atomic<engine*> open{nullptr};  ///< null after close()
    /// engine::fast_path() of an open heap with files; for threads inside the gate.
    std::atomic<const slab::fast_path*> fast_path{&slab::fast_path::of_no_heap()};
    std::uintptr_t begin = 0;
    std::uint64_t reservation = 0;
    std::array<int, 2> pipe{-1, -1};  ///< for a fork: the child closes it when it has its copy
    bool child_sees_heap = true;      ///< for a fork: false where a heap with files could not be shown to the child
    std::atomic<bool> refused{false};
    call_state state_of_closer = call_state::unknown;  ///< earlier state of the thread that closed the gate
    bool statistics = false;
    bool wants_upkeep = false;
    std::atomic<bool> lacks_upkeep{false};  ///< the thread that settings::upkeep_thread asks for

    [[nodiscard]] bool contains(const void* address) const noexcept {
        return reinterpret_cast<std::uintptr_t>(address) - begin < reservation;
    }
};

constinit const slab::fast_path no_blocks{};
/// engine::fast_path() of a heap without files, which is never closed: its shortest paths run outside the gate. Where a
/// fork cuts them off is harmless: they change a list that no thread of the child uses, the state of one block, and a
/// count that may be behind.
constinit std::atomic<const slab::fast_path*> ungated{&no_blocks};

alignas(process_heap) constinit std::array<std::byte, sizeof(process_heap)> storage{};
constinit std::atomic<process_heap*> process{nullptr};
constinit thread_local call_record this_thread;

void report_invalid(process_heap* of, const char* function, const void* address) noexcept {
    if (of != nullptr && of->refused.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    std::array<char, 128> text{};
    std::snprintf(text.data(), text.size(), "%s of %p, which is no allocated block; ignored, and so are later ones",
                  function, address);
    say(text.data());
}

/// A fork waits for this work of the allocator.
void end_thread() noexcept {
    process_heap* const of = process.load(std::memory_order_acquire);
    const bool known = of != nullptr && of->gate.try_enter(this_thread);
    slab::thread_cache_registry::end_this_thread();
    if (known) {
        of->gate.remove(this_thread);
    }
}

/// Inside the gate, where no call may wait for a lock of the C library or the loader: its holder may wait for the gate,
/// which a fork closes until this thread is outside. So nobody registers a thread-local object's destructor here.
/// False: nobody would notice the thread's end, so it counts as ended.
bool begin_thread(process_heap& of, engine& heap) noexcept {
    of.gate.add(this_thread);
    if (!slab::thread_cache_registry::notices_end_of_this_thread()) {
        of.gate.remove(this_thread);
        return false;
    }
    static_cast<void>(heap.blocks().this_cache());
    return true;
}

/// The thread is inside, unless it was or there is no heap.
class call {
public:
    call() noexcept : of_(process.load(std::memory_order_acquire)) {
        if (of_ == nullptr) [[unlikely]] {
            return;
        }
        if (of_->gate.try_enter(this_thread)) [[likely]] {
            heap_ = of_->open.load(std::memory_order_relaxed);
            return;
        }
        enter_slow();
    }
    call(const call&) = delete;
    call& operator=(const call&) = delete;
    ~call() HF_NO_THREAD_SAFETY_ANALYSIS {
        if (late_) [[unlikely]] {
            this_thread.state.store(static_cast<std::uint64_t>(call_state::ended), std::memory_order_relaxed);
            of_->gate.late_mutex().unlock();
        } else if (!nested_) [[likely]] {
            call_gate::leave(this_thread);
        }
        if (refusing_ != nullptr && call_gate::state_of(this_thread) != call_state::inside) [[unlikely]] {
            report_invalid(of_, refusing_, refused_);
        }
    }
    /// The report follows where the thread is outside: who reads standard error may wait for the gate.
    void refuse(const char* function, const void* address) noexcept {
        refusing_ = function;
        refused_ = address;
    }
    /// Null: the arena serves the call.
    [[nodiscard]] engine* heap() const noexcept { return heap_; }
    /// A thread that has ended gets no blocks.
    [[nodiscard]] engine* heap_for_new() const noexcept { return late_ ? nullptr : heap_; }
    [[nodiscard]] process_heap* of() const noexcept { return of_; }
    [[nodiscard]] bool nested() const noexcept { return nested_; }

private:
    [[gnu::noinline]] void enter_slow() noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        switch (call_gate::state_of(this_thread)) {
            case call_state::unknown:
                heap_ = of_->open.load(std::memory_order_acquire);
                nested_ = heap_ == nullptr;
                if (heap_ != nullptr && !begin_thread(*of_, *heap_)) {
                    enter_late();
                }
                break;
            case call_state::ended: enter_late(); break;
            default: nested_ = true;
        }
    }
    void enter_late() noexcept HF_NO_THREAD_SAFETY_ANALYSIS {
        late_.emplace();
        of_->gate.late_mutex().lock();
        this_thread.state.store(static_cast<std::uint64_t>(call_state::inside), std::memory_order_relaxed);
        heap_ = of_->open.load(std::memory_order_relaxed);
    }

    process_heap* of_;
    engine* heap_ = nullptr;
    const char* refusing_ = nullptr;
    const void* refused_ = nullptr;
    bool nested_ = of_ == nullptr;
    std::optional<base::no_signals> late_;  ///< and with it late_mutex()
};

void* allocate_in(const call& here, std::size_t bytes, std::size_t alignment) noexcept {
    if (engine* const heap = here.heap_for_new()) [[likely]] {
        return heap->allocate(std::max<std::size_t>(bytes, 1), std::max(alignment, malloc_alignment));
    }
    return arena.allocate(bytes, alignment);
}

void free_in(call& here, void* block) noexcept {
    if (arena.contains(block)) {
        if (!arena.free(block)) {
            here.refuse("free", block);
        }
        return;
    }
    engine* const heap = here.heap();
    const bool is_ours = here.of() != nullptr && here.of()->contains(block);
    // The heap is closed, or the call comes from within the allocator, which frees only blocks of the arena.
    if (heap == nullptr ? !is_ours : !heap->try_deallocate(block)) {
        here.refuse("free", block);
    }
}

/// The heap is closed, so its blocks stay as they are.
std::size_t usable_size_of_closed(process_heap& of, const void* block) noexcept {
    try {
        const auto found = of.owned->blocks().inspect().usable_size(block);
        return found ? *found : 0;
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
        return 0;
    }
}

std::size_t usable_size_in(const call& here, void* block) noexcept {
    if (arena.contains(block)) {
        return arena.usable_size(block);
    }
    process_heap* const of = here.of();
    if (of == nullptr || !of->contains(block)) {
        return 0;
    }
    if (here.heap() == nullptr) {
        return of->open.load(std::memory_order_relaxed) == nullptr ? usable_size_of_closed(*of, block) : 0;
    }
    slab::held_block found;
    return here.heap()->blocks().find_allocated(block, found) ? found.bytes() : 0;
}

constinit const base::atomic<std::uint32_t> never_ends{0};

bool give_back_some() noexcept {
    const call here;
    if (here.heap() != nullptr) {
        here.heap()->blocks().slabs().upkeep().age_alone();
    }
    return here.heap() != nullptr;
}

/// A child of fork gets its thread when it first comes here: most children soon end, or run another program.
[[gnu::noinline]] void start_upkeep(process_heap& of) noexcept {
    if (call_gate::state_of(this_thread) != call_state::outside || !of.lacks_upkeep.exchange(false)) {
        return;
    }
    const base::no_signals while_it_begins;  // the program's handlers run on its own threads
    try {
        std::thread([&of] {
            constexpr auto periods = heap::upkeep_thread::periods_for(heap::default_decay_ns);
            heap::upkeep_thread::run(of.owned->blocks().slabs().upkeep().alarm(), periods, never_ends,
                                     [] { return give_back_some(); });
        }).detach();
    } catch (const std::exception& thrown) {
        say(thrown.what());
    }
}

void start_upkeep_where_due(process_heap* of) noexcept {
    if (of != nullptr && of->lacks_upkeep.load(std::memory_order_relaxed)) [[unlikely]] {
        start_upkeep(*of);
    }
}

[[noreturn]] void end_child(std::string_view why) noexcept {
    say(why);
    ::_exit(127);
}

/// From here on no other thread is in the allocator, and this thread allocates for the allocator itself.
void close_gate(process_heap& of) noexcept { of.state_of_closer = of.gate.close(this_thread); }

void restore_state(call_state before) noexcept {
    this_thread.state.store(static_cast<std::uint64_t>(before), std::memory_order_release);
}

void open_gate(process_heap& of) noexcept {
    const call_state before = of.state_of_closer;
    of.gate.open();
    restore_state(before);
}

/// Of the thread that has closed the gate, or holds the arena, for a fork.
constinit fork_locks locks_of_fork{};

void prepare_fork() noexcept {
    process_heap* const of = process.load(std::memory_order_relaxed);
    fork_locks locks;
    locks.take();
    if (of != nullptr) {
        close_gate(*of);
    }
    if (of == nullptr || of->open == nullptr) {
        arena.hold();  // it serves all calls, and the gate keeps nobody out of it
    }
    locks_of_fork = locks;
    if (of == nullptr || !of->owned->files().shared()) {
        return;
    }
    of->child_sees_heap = false;
    try {
        of->child_sees_heap = ::pipe2(of->pipe.data(), O_CLOEXEC) == 0 && of->owned->forks().prepare();
    } catch (const std::bad_alloc&) {  // no memory for a failure's text
    }
}

void close_end(int& end) noexcept {
    if (end >= 0) {
        ::close(end);
        end = -1;
    }
}

/// Waits until the child has its copy.
void wait_for_child(process_heap& of) noexcept {
    const kept_errno kept;
    if (of.pipe[0] >= 0) {
        close_end(of.pipe[1]);
        char none = 0;
        while (::read(of.pipe[0], &none, 1) < 0 && errno == EINTR) {
        }
        close_end(of.pipe[0]);
        of.owned->forks().resume();
    }
}

void fork_in_parent() noexcept {
    process_heap* const of = process.load(std::memory_order_relaxed);
    fork_locks locks = locks_of_fork;
    const bool child_has_heap = of == nullptr || std::exchange(of->child_sees_heap, true);
    if (of != nullptr) {
        wait_for_child(*of);
    }
    arena.let_go();
    if (of != nullptr) {
        open_gate(*of);
    }
    locks.release_in_parent();
    if (!child_has_heap) {
        say("a child of fork did not have the heap");
    }
}

void fork_in_child() noexcept {
    process_heap* const of = process.load(std::memory_order_relaxed);
    fork_locks locks = locks_of_fork;
    arena.let_go();
    if (of != nullptr) {
        const kept_errno kept;
        of->gate.open_in_child(this_thread);
        close_end(of->pipe[0]);  // the copy needs a descriptor, and the parent may have had two left
        try {
            const auto forked = of->state_of_closer == call_state::inside ? heap::fork_point::within_a_call
                                                                          : heap::fork_point::between_calls;
            if (!of->child_sees_heap ||
                !of->owned->forks().continue_in_child(forked)) {  // a closed heap has blocks, too
                end_child("a child of fork could not copy the heap");
            }
        } catch (const std::bad_alloc&) {
            end_child("a child of fork has no memory for a copy of the heap");
        }
        of->statistics = false;
        of->lacks_upkeep = of->wants_upkeep;
        close_end(of->pipe[1]);
        restore_state(of->state_of_closer);
    }
    locks.release_in_child();
}

}  // namespace

bool open(const settings& wanted) noexcept {
    auto* const of = ::new (storage.data()) process_heap;
    try {
        if (::pthread_atfork(prepare_fork, fork_in_parent, fork_in_child) != 0) {
            return false;
        }
        of->owned = make_heap(wanted);
        if (of->owned == nullptr) {
            return false;
        }
    } catch (const std::exception& thrown) {
        say(thrown.what());
        return false;
    }
    of->owned->forks().keep_in_children();
    of->statistics = wanted.statistics;
    of->wants_upkeep = of->lacks_upkeep = wanted.upkeep_thread;
    of->begin = reinterpret_cast<std::uintptr_t>(of->owned->files().view().base());
    of->reservation = of->owned->files().view().reservation();
    of->open.store(of->owned.get(), std::memory_order_relaxed);
    const bool has_files = of->owned->files().shared();
    if (has_files) {
        of->fast_path.store(of->owned->fast_path(), std::memory_order_relaxed);
    }
    ungated.store(has_files ? &slab::fast_path::of_no_heap() : of->owned->fast_path(), std::memory_order_release);
    slab::thread_cache_registry::end_threads_by(end_thread);
    base::leave_out_texts();  // malloc says ENOMEM
    process.store(of, std::memory_order_release);
    if (begin_thread(*of, *of->owned)) {
        call_gate::leave(this_thread);
    }
    start_upkeep_where_due(of);
    return true;
}

namespace {

/// The gate is closed, so its caller says the lines later.
void close_heap(process_heap& of, line& statistics, line& failure) noexcept {
    engine& heap = *of.open.load();
    const bool has_files = heap.files().shared();
    if (has_files) {
        of.open.store(nullptr);
        of.fast_path.store(&slab::fast_path::of_no_heap(), std::memory_order_relaxed);
    }
    try {
        if (std::exchange(of.statistics, false)) {
            statistics = statistics_of(heap);
        }
        // Threads that outlive main() still use a heap without files.
        if (has_files) {
            if (auto closed = heap.close(true); !closed) {
                failure = line(closed.error().message());
            }
        }
    } catch (const std::exception& thrown) {
        failure = line(thrown.what());
    }
}

}  // namespace

void close() noexcept {
    process_heap* const of = process.load(std::memory_order_relaxed);
    if (of == nullptr || of->open == nullptr) {
        return;
    }
    line statistics;
    line failure;
    {
        const base::no_signals blocked;
        close_gate(*of);
        close_heap(*of, statistics, failure);
        open_gate(*of);
    }
    statistics.say();
    failure.say();
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    kept_errno kept;
    void* const block = allocate_in(call(), bytes, alignment);
    if (block == nullptr) [[unlikely]] {
        kept.fail(ENOMEM);
    }
    start_upkeep_where_due(process.load(std::memory_order_relaxed));
    return block;
}

namespace {

[[gnu::noinline]] void* allocate_gated(std::size_t bytes) noexcept {
    if (process_heap* const of = process.load(std::memory_order_acquire);
        of != nullptr && of->gate.try_enter(this_thread)) [[likely]] {
        void* const block = of->fast_path.load(std::memory_order_relaxed)->allocate(std::max(bytes, malloc_alignment));
        call_gate::leave(this_thread);
        if (block != nullptr) [[likely]] {
            return block;
        }
    }
    return allocate(bytes, malloc_alignment);
}

}  // namespace

void* allocate(std::size_t bytes) noexcept {
    // Outside, the heap is open, and no change of its lists is under way.
    if (call_gate::state_of(this_thread) == call_state::outside) [[likely]] {
        if (void* const block = ungated.load(std::memory_order_relaxed)->allocate(std::max(bytes, malloc_alignment)))
            [[likely]] {
            return block;
        }
    }
    return allocate_gated(bytes);
}

namespace {

/// Without files, or in a child's copy.
bool has_private_memory(const void* block) noexcept {
    const process_heap* const of = process.load(std::memory_order_acquire);
    return of != nullptr && of->contains(block) && of->owned->files().location().is_scratch();
}

}  // namespace

void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
    const auto all = base::checked_multiply(std::uint64_t{count}, std::uint64_t{bytes});
    if (!all) {
        errno = ENOMEM;
        return nullptr;
    }
    void* const block = allocate(*all);
    if (*all >= segment::least_asked_about && block != nullptr && has_private_memory(block)) {
        const kept_errno kept;
        segment::zero_private_memory(static_cast<std::byte*>(block), *all);
        return block;
    }
    return block == nullptr ? nullptr : std::memset(block, 0, *all);
}

namespace {

void* move_between(call& here, void* block, std::size_t bytes, kept_errno& kept) noexcept {
    const std::size_t usable = usable_size_in(here, block);
    if (usable == 0) {
        here.refuse("realloc", block);
        kept.fail(ENOMEM);
        return nullptr;
    }
    if (bytes <= usable && bytes > usable / 2) {
        return block;
    }
    void* const moved = allocate_in(here, bytes, malloc_alignment);
    if (moved == nullptr) {
        kept.fail(ENOMEM);
        return nullptr;
    }
    std::memcpy(moved, block, std::min(usable, bytes));
    free_in(here, block);
    return moved;
}

}  // namespace

void* reallocate(void* block, std::size_t bytes) noexcept {
    if (block == nullptr) {
        return allocate(bytes);
    }
    if (bytes == 0) {
        free(block);
        return nullptr;
    }
    kept_errno kept;
    call here;
    engine* const heap = here.heap_for_new();
    if (heap == nullptr || !here.of()->contains(block)) [[unlikely]] {
        return move_between(here, block, bytes, kept);
    }
    void* const grown = heap::reallocate(*heap, block, bytes, malloc_alignment);
    if (grown == nullptr) [[unlikely]] {
        const base::failure_code why = engine::last_failure().code;
        if (why == base::failure_code::bad_address || why == base::failure_code::corrupt) {
            here.refuse("realloc", block);
        }
        kept.fail(ENOMEM);
    }
    return grown;
}

namespace {

[[gnu::noinline]] void free_gated(void* block) noexcept {
    if (process_heap* const of = process.load(std::memory_order_acquire);
        of != nullptr && of->gate.try_enter(this_thread)) [[likely]] {
        const bool freed = of->fast_path.load(std::memory_order_relaxed)->free(block);
        call_gate::leave(this_thread);
        if (freed) [[likely]] {
            return;
        }
    }
    if (block != nullptr) {
        const kept_errno kept;
        call here;
        free_in(here, block);
    }
}

/// The slab stays due where the allocator itself, or a handler within it, freed the block.
[[gnu::noinline]] void inspect_gated(const slab::fast_path& of, const slab::slab_entry& due) noexcept {
    const kept_errno kept;
    if (const call here; !here.nested()) {
        of.inspect(due);
    }
    start_upkeep_where_due(process.load(std::memory_order_relaxed));
}

}  // namespace

void free(void* block) noexcept {
    const slab::fast_path& blocks = *ungated.load(std::memory_order_acquire);
    const slab::slab_entry* due = nullptr;
    if (!blocks.free(block, due)) [[unlikely]] {
        free_gated(block);
    } else if (due != nullptr) [[unlikely]] {
        inspect_gated(blocks, *due);
    }
}

std::size_t usable_size(void* block) noexcept {
    const kept_errno kept;
    return block == nullptr ? 0 : usable_size_in(call(), block);
}

bool is_in_heap(const void* block) noexcept {
    const process_heap* const of = process.load(std::memory_order_acquire);
    return of != nullptr && of->contains(block);
}

}  // namespace holdfast::drop_in
