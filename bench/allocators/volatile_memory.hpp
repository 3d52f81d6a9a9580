// Destinations of backends that keep nothing: plain words, on a cache line's boundary.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace bench {

class volatile_destinations {
public:
    explicit volatile_destinations(std::size_t count) : lines_((count + words_a_line - 1) / words_a_line) {}
    [[nodiscard]] void** first() noexcept { return lines_.front().words.data(); }

private:
    static constexpr std::size_t words_a_line = 8;
    struct alignas(64) line {
        std::array<void*, words_a_line> words{};
    };
    std::vector<line> lines_;
};

/// For workers without calls for many blocks: one after the other.
template <class Worker>
class one_by_one {
public:
    template <class Destination>
    void allocate_batch(std::span<Destination* const> many, std::size_t size) {
        for (Destination* const one : many) {
            static_cast<Worker*>(this)->allocate(*one, size);
        }
    }
    template <class Destination>
    void release_batch(std::span<Destination* const> many) {
        for (Destination* const one : many) {
            static_cast<Worker*>(this)->release(*one);
        }
    }
};

}  // namespace bench
