// What a loss of power leaves of a heap in memory, in the domain `emulated`: made in the heap's own file by a process
// that ends then. Works in a build with mutants (preset `crash`), for calls of one thread.
//
// From begin() on, a word that was stored may be on the media or not, until its line was written back and a fence has
// followed. lose() takes back some of those that may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "persist/mutant.hpp"

namespace holdfast::test {

class power_image {
public:
    enum class loss : std::uint8_t { nothing, everything, lines, words };

    /// All that the files of this path hold now is durable. `step` is called before each step of this thread, of the
    /// protocol or of the memory.
    void begin(const std::string& path, void (*step)());
    /// Each line or word that may be missing is lost or not, by chance; or all, or none.
    void lose(loss which, std::uint64_t seed);

private:
    struct mapping {
        std::byte* begin = nullptr;
        std::byte* end = nullptr;
        std::size_t file = 0;
        std::size_t offset = 0;
    };
    struct range {
        const std::byte* begin = nullptr;
        std::size_t bytes = 0;
    };

    static void tell(persist::media_step step, const void* begin, std::size_t bytes);
    void find_mappings(const std::string& path);
    void settle();
    [[nodiscard]] std::byte* durable(const mapping& in, const std::byte* at) noexcept;

    std::vector<mapping> mappings_;
    std::vector<std::vector<std::byte>> durable_;  ///< of each file
    std::vector<range> pending_;                   ///< written back, and no fence since
    void (*step_)() = nullptr;
};

}  // namespace holdfast::test
