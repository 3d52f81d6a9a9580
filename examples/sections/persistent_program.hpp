// Makes a program of program.hpp survive: its blocks come from a heap that is mapped at the same address at each open,
// and what a lock protected is a transaction over everything. That is all.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include <holdfast/persistent_malloc.hpp>
#include <holdfast/transaction.hpp>

#include "sections/program.hpp"

namespace sections {

class heap_memory final : public memory {
public:
    explicit heap_memory(holdfast::persistent_malloc& heap) : heap_(heap) {}
    void* allocate(std::size_t bytes) override { return heap_.allocate(bytes); }
    void release(void* block) override { heap_.deallocate(block); }

private:
    holdfast::persistent_malloc& heap_;
};

inline void* make_state(memory& blocks, const program_kind& kind) {
    void* const state = blocks.allocate(kind.state_bytes);
    std::memset(state, 0, kind.state_bytes);
    return state;
}

/// A program that is in the heap, or begins there. The heap is open for as long.
class persistent_program {
public:
    /// Throws holdfast::error, std::bad_alloc.
    persistent_program(holdfast::persistent_malloc& heap, const program_kind& kind) : heap_(heap), blocks_(heap) {
        heap_.manager().transact([&] {
            void*& state = *heap_.find_or_construct<void*>(kind.name, nullptr);
            if (state == nullptr) {
                state = make_state(blocks_, kind);
            }
            inside_ = kind.open(blocks_, state);
        });
    }
    /// One section, durable when this returns: all of it or, after a crash or an exception, nothing. Threads wait for
    /// each other. False where all is done.
    bool advance() {
        return heap_.manager().transact([&] { return inside_->advance(); });
    }
    [[nodiscard]] const program& inside() const noexcept { return *inside_; }

private:
    holdfast::persistent_malloc& heap_;
    heap_memory blocks_;
    std::unique_ptr<program> inside_;
};

}  // namespace sections
