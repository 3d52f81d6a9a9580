#include "lane/clock.hpp"

#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::lane {

bool has_invariant_counter() noexcept {
#if defined(__x86_64__)
    constexpr unsigned power_leaf = 0x80000007;
    constexpr unsigned invariant_bit = 1U << 8U;
    constexpr unsigned extended_leaf = 0x80000001;
    constexpr unsigned rdtscp_bit = 1U << 27U;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(extended_leaf, &a, &b, &c, &d) == 0 || (d & rdtscp_bit) == 0 ||
        __get_cpuid(power_leaf, &a, &b, &c, &d) == 0 || (d & invariant_bit) == 0) {
        return false;
    }
    // A kernel that saw the counters of two cores differ, or cannot tell, uses another clock source.
    try {
        std::string used;
        std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> used;
        return used == "tsc";
    } catch (const std::exception&) {
        return false;
    }
#else
    // Two threads of arm64 can pass on a pointer within one tick of its generic timer.
    return false;
#endif
}

}  // namespace holdfast::lane
