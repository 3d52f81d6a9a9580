// Programs as they were before there was persistent memory: raw pointers, an allocator that gives and takes blocks, and
// plain stores in sections that a lock protects. They know nothing of Holdfast. Each goes on from whatever state a
// section left, with the memory at the addresses where it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace sections {

/// Where a program has its blocks. They are aligned to 16 bytes.
class memory {
public:
    memory() = default;
    memory(const memory&) = delete;
    memory& operator=(const memory&) = delete;
    virtual ~memory() = default;

    /// Throws std::bad_alloc.
    [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
    virtual void release(void* block) = 0;

    template <class T, class... Args>
    [[nodiscard]] T* make(Args&&... args) {
        return ::new (allocate(sizeof(T))) T(std::forward<Args>(args)...);
    }
};

/// A program on its state, which is a block of its memory. The object itself has nothing that a later one would miss.
class program {
public:
    program() = default;
    program(const program&) = delete;
    program& operator=(const program&) = delete;
    virtual ~program() = default;

    /// One section, which the caller protects by a lock: false, and nothing is changed, where all is done.
    virtual bool advance() = 0;
    /// Sections that were done.
    [[nodiscard]] virtual std::uint64_t sections() const = 0;
    /// What breaks a rule of the program's data; empty: nothing does.
    [[nodiscard]] virtual std::string problem() const = 0;
    /// Of all data, the same wherever they lie: equal for equal data.
    [[nodiscard]] virtual std::uint64_t digest() const = 0;
    /// Blocks that the data consist of, with that of the state.
    [[nodiscard]] virtual std::uint64_t blocks() const = 0;
    /// For people.
    [[nodiscard]] virtual std::string answer() const = 0;
};

struct program_kind {
    const char* name;
    std::size_t state_bytes;  ///< zero bytes are the state before the first section
    std::unique_ptr<program> (*open)(memory& blocks, void* state);
};
[[nodiscard]] std::span<const program_kind> all_programs();
/// Null where there is none, or this build lacks the library that it is made of.
[[nodiscard]] const program_kind* find_program(const std::string& name);

[[nodiscard]] std::unique_ptr<program> open_n_queens(memory& blocks, void* state);
extern const std::size_t n_queens_bytes;
[[nodiscard]] std::unique_ptr<program> open_cholesky(memory& blocks, void* state);
extern const std::size_t cholesky_bytes;
[[nodiscard]] std::unique_ptr<program> open_barnes_hut(memory& blocks, void* state);
extern const std::size_t barnes_hut_bytes;
[[nodiscard]] std::unique_ptr<program> open_documents(memory& blocks, void* state);
extern const std::size_t documents_bytes;

/// The finaliser of splitmix64: numbers that are the same everywhere, and the mixing of digests.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t word) noexcept {
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    return word ^ (word >> 31U);
}
/// In [0, 1).
[[nodiscard]] constexpr double fraction_of(std::uint64_t word) noexcept {
    return static_cast<double>(mix(word) >> 11U) * 0x1p-53;
}

}  // namespace sections
