#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <new>
#include <system_error>

#include <holdfast/index/index_support.hpp>

namespace holdfast::detail {

namespace {

[[noreturn]] void throw_index_error(errc code, const manager& heap, std::string_view field, std::string_view found,
                                    std::string_view expected) {
    std::string message = heap.path();
    message.append(": ").append(field).append(": found ").append(found).append(", expected ").append(expected);
    throw error(code, message, {heap.path(), std::string(field), std::string(found), std::string(expected), {}, 0});
}

}  // namespace

void throw_corrupt_index(const manager& heap, std::string_view name, std::string_view field, std::string_view found,
                         std::string_view expected) {
    throw_index_error(errc::corrupt, heap, std::string("index ").append(name).append(", ").append(field), found,
                      expected);
}

void throw_index_argument(const manager& heap, std::string_view field, std::string_view found,
                          std::string_view expected) {
    throw_index_error(errc::invalid_argument, heap, field, found, expected);
}

void throw_read_only_index(const manager& heap, std::string_view name) {
    throw_index_error(errc::read_only, heap, std::string("index ").append(name), "a heap that is open read-only",
                      "one that is open for writing");
}

void throw_index_limit(const manager& heap, std::string_view name) {
    throw_index_error(errc::limit, heap, std::string("index ").append(name),
                      "more keys with one hash than a leaf holds", "fewer");
}

void throw_index_missing(const manager& heap, std::string_view name) {
    throw_index_error(errc::not_found, heap, std::string("index ").append(name), "nothing", "an index of this type");
}

std::uint64_t random_index_seed() {
    std::uint64_t seed = 0;
    while (seed == 0) {
        if (::getrandom(&seed, sizeof seed, 0) != sizeof seed && errno != EINTR) {
            throw std::system_error(errno, std::generic_category(), "getrandom");
        }
    }
    return seed;
}

std::string hexadecimal(std::uint64_t number) {
    char digits[16];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number, 16).ptr;
    return "0x" + std::string(std::begin(digits), end);
}

std::string address_text(const manager& heap, const void* address) {
    return heap.belongs_to_segment(address) ? "offset " + hexadecimal(heap.get_handle_from_address(address))
                                            : "an address outside of the heap";
}

void throw_closed_index(std::string_view name) {
    const std::string field = std::string("index ").append(name);
    throw error(errc::invalid_argument, field + ": found a heap that was closed, expected an open one",
                {{}, field, "a heap that was closed", "an open one", {}, 0});
}

index_claim::index_claim(const manager& heap, std::string_view name, const void* head)
    : head_(head), heap_(watch_of(heap)) {
    if (!claim_object(head, heap_)) {
        throw_index_error(errc::locked, heap, std::string("index ").append(name),
                          "an object of this process that has it open", "one");
    }
}

index_claim::~index_claim() { release_object(head_, heap_); }

namespace {

/// The half that changes with each lock and unlock.
void* lower_half_of(const std::atomic<std::uint64_t>& word) noexcept {
    static_assert(std::endian::native == std::endian::little);
    return const_cast<std::atomic<std::uint64_t>*>(&word);
}

}  // namespace

void sleep_on_lock(const std::atomic<std::uint64_t>& word, std::uint32_t lower_half) noexcept {
    // After 65,536 changes the half is the same again: a thread that slept through them must not sleep for ever.
    const timespec longest{0, 100'000'000};
    ::syscall(SYS_futex, lower_half_of(word), FUTEX_WAIT_PRIVATE, lower_half, &longest, nullptr, 0);
}
void wake_lock(const std::atomic<std::uint64_t>& word) noexcept {
    ::syscall(SYS_futex, lower_half_of(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

node_memory::node_memory(std::size_t bytes) : memory_(nullptr, &std::free) {
    constexpr std::size_t huge_page = std::size_t{2} << 20U;
    const std::size_t unit = bytes < huge_page ? std::size_t{64} : huge_page;
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    memory_.reset(std::aligned_alloc(unit, whole));
    if (memory_ == nullptr) {
        throw std::bad_alloc();
    }
    if (unit == huge_page) {
        ::madvise(memory_.get(), whole, MADV_HUGEPAGE);  // without huge pages it is only slower
    }
}

std::size_t index_stripe() noexcept {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t own = threads.fetch_add(1, std::memory_order_relaxed);
    return own % grace_periods::stripes;
}

bool grace_periods::is_quiet(std::uint32_t phase) const noexcept {
    return std::ranges::all_of(
        readers_, [phase](const stripe& each) { return each.inside[phase & 1U].load(std::memory_order_seq_cst) == 0; });
}

void grace_periods::retire(std::unique_ptr<const std::string> text) noexcept {
    fresh_.push_back(std::move(text));
    free_what_can_be();
}

/// The phase changes only when no call of the phase before is left. A call may have read the phase and not counted
/// itself yet, so what was retired waits for two changes.
void grace_periods::free_what_can_be() noexcept {
    constexpr std::size_t at_a_time = 64;
    if (waiting_.empty()) {
        if (fresh_.size() < at_a_time) {
            return;
        }
        waiting_.swap(fresh_);
        changes_ = 0;
    }
    for (; changes_ < 3; ++changes_) {
        const std::uint32_t phase = phase_.load(std::memory_order_seq_cst);
        if (!is_quiet(phase + 1)) {
            return;
        }
        phase_.store(phase + 1, std::memory_order_seq_cst);
    }
    waiting_.clear();
}

}  // namespace holdfast::detail
