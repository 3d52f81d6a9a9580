#include "malloc/internal_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>

#include "base/interruption.hpp"
#include "base/units.hpp"

namespace holdfast::drop_in {

namespace {

/// Its address stands for the thread, in a child of fork too.
constinit thread_local char mark_of_thread = 0;

/// Hardly ever the second word of a block in use, so only blocks that are likely to be free are looked for in a list.
std::uintptr_t mark_of(const void* block) noexcept {
    return reinterpret_cast<std::uintptr_t>(block) ^ 0x9e37'79b9'7f4a'7c15;
}

}  // namespace

/// hold() may have locked it for this thread. Signals are blocked: a handler that forks allocates here.
class HF_SCOPED_CAPABILITY internal_arena::change {
public:
    explicit change(internal_arena& of) noexcept HF_ACQUIRE(of.mutex_) HF_NO_THREAD_SAFETY_ANALYSIS
        : mutex_(of.holder_.load(std::memory_order_relaxed) == &mark_of_thread ? nullptr : &of.mutex_) {
        if (mutex_ != nullptr) {
            blocked_.emplace();
            mutex_->lock();
        }
    }
    change(const change&) = delete;
    change& operator=(const change&) = delete;
    ~change() HF_RELEASE() HF_NO_THREAD_SAFETY_ANALYSIS {
        if (mutex_ != nullptr) {
            mutex_->unlock();
        }
    }

private:
    base::mutex* mutex_;
    std::optional<base::no_signals> blocked_;
};

void internal_arena::hold() noexcept {
    mutex_.lock();
    holder_.store(&mark_of_thread, std::memory_order_relaxed);
}

void internal_arena::let_go() noexcept {
    if (holder_.load(std::memory_order_relaxed) == &mark_of_thread) {
        holder_.store(nullptr, std::memory_order_relaxed);
        mutex_.unlock();
    }
}

bool internal_arena::reserve() noexcept {
    if (begin_.load(std::memory_order_relaxed) != 0) {
        return true;
    }
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    // Where addresses are few (`ulimit -v`), a sixteenth leaves most to the heap.
    for (std::uint64_t size = range_size; size >= smallest_range; size /= 16) {
        void* const range = ::mmap(nullptr, size + most_alignment, PROT_NONE, flags, -1, 0);
        if (range != MAP_FAILED) {
            static_cast<void>(::madvise(range, size + most_alignment, MADV_DONTDUMP));  // until refill()
            size_.store(size, std::memory_order_relaxed);
            begin_.store(base::align_up(reinterpret_cast<std::uintptr_t>(range), most_alignment),
                         std::memory_order_release);
            return true;
        }
    }
    return false;
}

bool internal_arena::refill(unsigned size_class) noexcept {
    if (!reserve()) {
        return false;
    }
    const std::uint64_t block = std::uint64_t{1} << size_class;
    const std::uint64_t run = std::max(block, granule);
    const std::uint64_t start = base::align_up(used_, run);
    if (start + run > size_.load(std::memory_order_relaxed)) {
        return false;
    }
    const std::uintptr_t begin = begin_.load(std::memory_order_relaxed);
    if (start + run > accessible_) {
        const std::uint64_t to = base::align_up(start + run, step);
        auto* const from = reinterpret_cast<void*>(begin + accessible_);  // NOLINT(performance-no-int-to-ptr)
        if (::mprotect(from, to - accessible_, PROT_READ | PROT_WRITE) != 0) {
            return false;
        }
        static_cast<void>(::madvise(from, to - accessible_, MADV_DODUMP));
        accessible_ = to;
    }
    used_ = start + run;
    class_of_granule_[start / granule].store(static_cast<std::uint8_t>(size_class), std::memory_order_release);
    for (std::uint64_t at = run; at >= block; at -= block) {
        push(size_class, reinterpret_cast<void*>(begin + start + at - block));  // NOLINT(performance-no-int-to-ptr)
    }
    return true;
}

void internal_arena::push(unsigned size_class, void* block) noexcept {
    free_[size_class] = ::new (block) free_block{free_[size_class], mark_of(block)};
}

bool internal_arena::is_free(unsigned size_class, const void* block) const noexcept {
    std::uintptr_t mark = 0;
    std::memcpy(&mark, static_cast<const std::byte*>(block) + offsetof(free_block, mark), sizeof mark);
    const free_block* found = mark == mark_of(block) ? free_[size_class] : nullptr;
    while (found != nullptr && found != block) {
        found = found->next;
    }
    return found != nullptr;
}

void* internal_arena::allocate(std::size_t bytes, std::size_t alignment) noexcept {
    const std::size_t wanted = std::max({bytes, alignment, std::size_t{1} << smallest});
    if (wanted > range_size / 2 || alignment > most_alignment) {
        return nullptr;
    }
    const auto size_class = static_cast<unsigned>(std::bit_width(wanted - 1));
    const change begun(*this);
    if (free_[size_class] == nullptr && !refill(size_class)) {
        return nullptr;
    }
    free_block* const block = free_[size_class];
    free_[size_class] = block->next;
    block->mark = 0;
    return block;
}

unsigned internal_arena::class_of(const void* block) const noexcept {
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(block) - begin_.load(std::memory_order_acquire);
    const unsigned size_class = class_of_granule_[offset / granule].load(std::memory_order_acquire);
    return size_class != 0 && offset % (std::uint64_t{1} << size_class) == 0 ? size_class : 0;
}

bool internal_arena::free(void* block) noexcept {
    const unsigned size_class = class_of(block);
    if (size_class == 0) {
        return false;
    }
    const change begun(*this);
    if (is_free(size_class, block)) {
        return false;
    }
    push(size_class, block);
    return true;
}

std::size_t internal_arena::usable_size(const void* block) const noexcept {
    const unsigned size_class = class_of(block);
    return size_class == 0 ? 0 : std::size_t{1} << size_class;
}

}  // namespace holdfast::drop_in
