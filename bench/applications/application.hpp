// Small programs on the measured allocator (those of PMAlloc, TOCS 2024, section 8.6, and Cholesky of Makalu's thesis,
// 2018, written anew from their descriptions). Each proves its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "allocators/allocation_run.hpp"

namespace bench {

/// One thread's blocks, numbered from 0 below what the application demands.
class application_memory {
public:
    application_memory() = default;
    application_memory(const application_memory&) = delete;
    application_memory& operator=(const application_memory&) = delete;
    virtual ~application_memory() = default;

    /// Number `which` must be free. Throws where memory is short.
    [[nodiscard]] virtual void* allocate(std::size_t which, std::size_t size) = 0;
    virtual void release(std::size_t which) = 0;
};

struct application_demand {
    std::size_t blocks = 0;   ///< of a thread at the same time
    std::uint64_t bytes = 0;  ///< of these, with some room
};
struct application_outcome {
    std::uint64_t calls = 0;     ///< an allocation is one, a free is one
    std::uint64_t checksum = 0;  ///< of the answer: the same whatever allocates
};

struct application {
    const char* name;
    application_demand (*demand)(const allocation_run& run);
    /// One thread's part: about so many calls, at least one answer. Frees all blocks. Throws std::logic_error where an
    /// answer is wrong.
    application_outcome (*work)(application_memory& memory, const allocation_run& run, unsigned thread,
                                std::uint64_t calls);
};
[[nodiscard]] std::span<const application> all_applications();
/// Null where there is none.
[[nodiscard]] const application* find_application(const std::string& name);

inline void require_answer(bool holds, const char* message) {
    if (!holds) {
        throw std::logic_error(message);
    }
}

extern const application n_queens;
extern const application ackermann;
extern const application kruskal;
extern const application barnes_hut;
extern const application cfrac;
extern const application vacation;
extern const application cholesky;

}  // namespace bench
