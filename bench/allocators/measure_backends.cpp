// Two that allocate nothing: measures for the others.
//
// raw: the hardware's limit for a durable operation: one record of 64 bytes, written past the caches into a ring in a
// shared file mapping, and one fence. A batch is as many records and one fence.
// none: what the benchmark itself costs: a call that does nothing.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "allocators/runner.hpp"
#include "allocators/volatile_memory.hpp"
#include "support/environment.hpp"

namespace bench {

namespace {

constexpr std::size_t record_bytes = 64;
constexpr std::size_t ring_slots = 8'192;

/// The rings of all threads in one file, every page written.
class ring_file {
public:
    explicit ring_file(const allocation_run& run)
        : path_(std::filesystem::path(run.directory) / "rings"), bytes_(run.threads * ring_slots * record_bytes) {
        const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        const int refused = file < 0 ? errno : ::posix_fallocate(file, 0, static_cast<off_t>(bytes_));
        if (refused != 0) {
            throw std::system_error(refused, std::generic_category(), path_.string());
        }
        void* const mapped = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
        ::close(file);
        if (mapped == MAP_FAILED) {
            throw std::system_error(errno, std::generic_category(), path_.string());
        }
        rings_ = static_cast<std::byte*>(mapped);
    }
    ring_file(const ring_file&) = delete;
    ring_file& operator=(const ring_file&) = delete;
    ~ring_file() { ::munmap(rings_, bytes_); }
    [[nodiscard]] std::byte* ring(unsigned thread) const noexcept {
        return rings_ + std::size_t{thread} * ring_slots * record_bytes;
    }
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

private:
    std::filesystem::path path_;
    std::size_t bytes_;
    std::byte* rings_ = nullptr;
};

#if defined(__x86_64__)
/// Four stores of 16 bytes; eight of 8 or one of 64 take the same time.
void write_record(std::byte* slot, std::uint64_t number) noexcept {
    const __m128i value = _mm_set1_epi64x(static_cast<long long>(number));
    for (std::size_t at = 0; at < record_bytes; at += sizeof value) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(slot + at), value);
    }
}
void fence() noexcept { _mm_sfence(); }
#else
void write_record(std::byte* /*slot*/, std::uint64_t /*number*/) {
    throw backend_unavailable("raw is written for x86-64 alone");
}
void fence() noexcept {}
#endif

class raw_backend {
public:
    class worker {
    public:
        using destination = void*;

        worker(raw_backend& backend, unsigned thread) : ring_(backend.rings_.ring(thread)) {}
        void allocate(destination& one, std::size_t /*size*/) {
            append();
            fence();
            one = ring_;
        }
        void release(destination& one) {
            append();
            fence();
            one = nullptr;
        }
        void allocate_batch(std::span<destination* const> many, std::size_t /*size*/) { append_batch(many, ring_); }
        void release_batch(std::span<destination* const> many) { append_batch(many, nullptr); }
        [[nodiscard]] static bool is_null(const destination& one) noexcept { return one == nullptr; }
        [[nodiscard]] static void* block(const destination& /*one*/) noexcept { return nullptr; }

    private:
        void append() {
            write_record(ring_ + number_ % ring_slots * record_bytes, number_);
            ++number_;
        }
        void append_batch(std::span<destination* const> many, void* target) {
            for (std::size_t i = 0; i < many.size(); ++i) {
                append();
            }
            fence();
            for (destination* const one : many) {
                *one = target;
            }
        }

        std::byte* ring_;
        std::uint64_t number_ = 0;
    };

    explicit raw_backend(const allocation_run& run) : rings_(run), destinations_(demand_of(run).destinations) {}
    [[nodiscard]] void** destinations() noexcept { return destinations_.first(); }
    [[nodiscard]] static std::string durability() { return "atomic"; }
    [[nodiscard]] static std::string domain() { return "emulated"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] std::uint64_t charged_bytes() const { return bench::charged_bytes(rings_.path()); }
    [[nodiscard]] static std::optional<std::uint64_t> settled_bytes() noexcept { return std::nullopt; }
    [[nodiscard]] static double finish() noexcept { return 0; }

private:
    ring_file rings_;
    volatile_destinations destinations_;
};

/// Not inlined: a call, as into a library.
[[gnu::noinline]] void set_word(void*& one, void* target) noexcept {
    one = target;
    __asm__ volatile("" ::: "memory");
}

class no_backend {
public:
    class worker : public one_by_one<worker> {
    public:
        using destination = void*;

        worker(no_backend& /*backend*/, unsigned /*thread*/) {}
        void allocate(destination& one, std::size_t /*size*/) { set_word(one, this); }
        static void release(destination& one) { set_word(one, nullptr); }
        [[nodiscard]] static bool is_null(const destination& one) noexcept { return one == nullptr; }
        [[nodiscard]] static void* block(const destination& /*one*/) noexcept { return nullptr; }
    };

    explicit no_backend(const allocation_run& run) : destinations_(demand_of(run).destinations) {}
    [[nodiscard]] void** destinations() noexcept { return destinations_.first(); }
    [[nodiscard]] static std::string durability() { return "none"; }
    [[nodiscard]] static std::string domain() { return "none"; }
    [[nodiscard]] static protocol_totals totals() noexcept { return {}; }
    [[nodiscard]] static std::uint64_t charged_bytes() noexcept { return 0; }
    [[nodiscard]] static std::optional<std::uint64_t> settled_bytes() noexcept { return std::nullopt; }
    [[nodiscard]] static double finish() noexcept { return 0; }

private:
    volatile_destinations destinations_;
};

/// Without blocks, workloads that write into them or measure space cannot run.
template <class Backend>
nlohmann::ordered_json run_calls_alone(const allocation_run& run) {
    const workload_kind kind = workload_of(run.workload);
    if (kind == workload_kind::application || measures_space(kind)) {
        throw backend_unavailable("it has no blocks for those workloads that use theirs or count what they take");
    }
    return run_allocations<Backend>(run);
}

}  // namespace

nlohmann::ordered_json run_raw_allocations(const allocation_run& run) { return run_calls_alone<raw_backend>(run); }
nlohmann::ordered_json run_no_allocations(const allocation_run& run) { return run_calls_alone<no_backend>(run); }

}  // namespace bench
