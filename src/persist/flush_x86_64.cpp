#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>

#include "base/assert.hpp"
#include "base/units.hpp"
#include "persist/flush.hpp"

namespace holdfast::persist {

namespace {

struct features {
    bool clwb = false;
    bool clflushopt = false;
};

features read_features() noexcept {
    constexpr unsigned clflushopt_bit = 1U << 23U;  // CPUID.(EAX=7,ECX=0):EBX
    constexpr unsigned clwb_bit = 1U << 24U;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    features found;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
        found.clwb = (b & clwb_bit) != 0;
        found.clflushopt = (b & clflushopt_bit) != 0;
    }
    return found;
}

const features& processor() noexcept {
    static const features found = read_features();
    return found;
}

// Older assemblers accept older instructions with a prefix.
void clwb_line(char* line) noexcept { asm volatile(".byte 0x66; xsaveopt %0" : "+m"(*line)); }
void clflushopt_line(char* line) noexcept { asm volatile(".byte 0x66; clflush %0" : "+m"(*line)); }
void clflush_line(char* line) noexcept { asm volatile("clflush %0" : "+m"(*line)); }

template <void (*Line)(char*) noexcept>
void flush_range(const void* begin, std::size_t bytes) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const auto end = address + bytes;
    // The compiler must not move an earlier store to the range behind the write-back of its line.
    asm volatile("" ::: "memory");
    for (auto line = base::align_down(address, base::cache_line_size); line < end; line += base::cache_line_size) {
        Line(reinterpret_cast<char*>(line));
    }
}

}  // namespace

bool is_available(flush_method method) noexcept {
    switch (method) {
        case flush_method::clwb: return processor().clwb;
        case flush_method::clflushopt: return processor().clflushopt;
        case flush_method::clflush: return true;
        default: return false;
    }
}

flush_method best_flush_method() noexcept {
    if (processor().clwb) {
        return flush_method::clwb;
    }
    return processor().clflushopt ? flush_method::clflushopt : flush_method::clflush;
}

flush_function flush_with(flush_method method) noexcept {
    HF_ASSERT(is_available(method));
    switch (method) {
        case flush_method::clwb: return &flush_range<clwb_line>;
        case flush_method::clflushopt: return &flush_range<clflushopt_line>;
        default: return &flush_range<clflush_line>;
    }
}

void copy_around_cache(void* target, const void* source, std::size_t bytes) noexcept {
    constexpr std::size_t word = sizeof(long long);
    HF_ASSERT(base::is_aligned(reinterpret_cast<std::uintptr_t>(target), word) && bytes % word == 0);
    auto* to = static_cast<char*>(target);
    const auto* from = static_cast<const char*>(source);
    if (base::is_aligned(reinterpret_cast<std::uintptr_t>(to), sizeof(__m128i))) {
        for (; bytes >= sizeof(__m128i); bytes -= sizeof(__m128i)) {
            _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
            to += sizeof(__m128i);
            from += sizeof(__m128i);
        }
    }
    for (; bytes >= word; bytes -= word) {
        long long value = 0;
        std::memcpy(&value, from, word);
        _mm_stream_si64(reinterpret_cast<long long*>(to), value);
        to += word;
        from += word;
    }
}

}  // namespace holdfast::persist

#endif
