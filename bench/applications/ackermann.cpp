// Ackermann's function by its definition, with six blocks of 600 bytes: for each m from 1 to 3, one has the results of
// (m, n), the other the order in which they were found.
#include <algorithm>
#include <array>
#include <cstring>

#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr std::size_t caches = 6;
constexpr std::size_t block_bytes = 600;
constexpr std::size_t entries = block_bytes / sizeof(std::uint32_t);
constexpr std::uint32_t greatest_n = 4;  // A(3, 4) = 125: every step has an n below 150

class ackermann_caches {
public:
    explicit ackermann_caches(const std::array<void*, caches>& blocks) {
        for (std::size_t m = 0; m < results_.size(); ++m) {
            results_[m] = clear(blocks[2 * m]);
            steps_[m] = clear(blocks[2 * m + 1]);
        }
    }
    std::uint32_t value(std::uint32_t m, std::uint32_t n) {
        if (m == 0) {
            return n + 1;
        }
        require_answer(n < entries, "ackermann: a step outside of its cache");
        std::uint32_t& result = results_[m - 1][n];
        if (result == 0) {  // no value of the function is 0
            const std::uint32_t found = n == 0 ? value(m - 1, 1) : value(m - 1, value(m, n - 1));
            steps_[m - 1][n] = ++made_;
            result = found;
        }
        return result;
    }
    [[nodiscard]] std::uint32_t made() const noexcept { return made_; }

private:
    static std::uint32_t* clear(void* block) {
        std::memset(block, 0, block_bytes);
        return static_cast<std::uint32_t*>(block);
    }

    std::array<std::uint32_t*, caches / 2> results_{};
    std::array<std::uint32_t*, caches / 2> steps_{};
    std::uint32_t made_ = 0;
};

application_demand demand(const allocation_run& /*run*/) { return {caches, 1U << 16U}; }

application_outcome work(application_memory& memory, const allocation_run& /*run*/, unsigned thread,
                         std::uint64_t calls) {
    const std::uint64_t rounds = std::max<std::uint64_t>(calls / (2 * caches), 1);
    std::uint64_t checksum = thread;
    for (std::uint64_t i = 0; i < rounds; ++i) {
        std::array<void*, caches> blocks{};
        for (std::size_t which = 0; which < caches; ++which) {
            blocks[which] = memory.allocate(which, block_bytes);
        }
        ackermann_caches own(blocks);
        for (std::uint32_t n = 0; n <= greatest_n; ++n) {
            const std::uint32_t found = own.value(3, n);
            require_answer(found == (1U << (n + 3)) - 3, "ackermann: A(3, n) is 2^(n + 3) - 3");
            checksum += mix(found + own.made());
        }
        for (std::size_t which = 0; which < caches; ++which) {
            memory.release(which);
        }
    }
    return {rounds * 2 * caches, checksum};
}

}  // namespace

const application ackermann{"ackermann", demand, work};

}  // namespace bench
