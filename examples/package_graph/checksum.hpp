// A 64-bit checksum of a sequence of words and strings: the same in every process and on all machines of one byte
// order. It detects differences, not manipulation.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace package_graph {

class checksum64 {
public:
    checksum64& add(std::uint64_t word) noexcept {
        state_ = (state_ ^ word) * 0x9E37'79B9'7F4A'7C15;
        state_ ^= state_ >> 32;
        return *this;
    }
    /// Adds the length first, so that "ab","c" and "a","bc" differ.
    checksum64& add(std::string_view text) noexcept {
        add(static_cast<std::uint64_t>(text.size()));
        while (!text.empty()) {
            std::uint64_t word = 0;
            const std::size_t length = text.size() < sizeof word ? text.size() : sizeof word;
            std::memcpy(&word, text.data(), length);
            add(word);
            text.remove_prefix(length);
        }
        return *this;
    }
    [[nodiscard]] std::uint64_t value() const noexcept {
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 33)) * 0xFF51'AFD7'ED55'8CCD;
        mixed = (mixed ^ (mixed >> 33)) * 0xC4CE'B9FE'1A85'EC53;
        return mixed ^ (mixed >> 33);
    }

private:
    std::uint64_t state_ = 0x2545'F491'4F6C'DD1D;
};

/// The first word of each term of a graph's checksum (summary.hpp).
inline constexpr std::uint64_t term_of_name = 'N';
inline constexpr std::uint64_t term_of_dependent = 'R';
inline constexpr std::uint64_t term_of_provider = 'P';

}  // namespace package_graph
