// Small programs of the public operations of durability `atomic`; the model learns what each call promises.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "simulator/atomic/atomic_heap.hpp"
#include "simulator/atomic/atomic_oracle.hpp"

namespace holdfast::simulator {

enum class verb : std::uint8_t {
    allocate,         ///< allocate_to(to)
    allocate_zeroed,  ///< allocate_to(to), zeroed
    free,             ///< free_from(to)
    reallocate,       ///< reallocate_to(to)
    publish,          ///< reserve, fill with words that look like stamps, persist, publish(to)
    cancel,           ///< reserve, fill, cancel
    keep,             ///< allocate without a destination
    discard,          ///< deallocate the block kept last
    move,             ///< to = from; from = null; persist from
    move_durably,     ///< to = from; persist to; from = null; persist from
    checkpoint,
    allocate_both,  ///< a batch of places 0 and 2
    free_both,
    free_cycle,           ///< free the holder through a pointer in its own first word
    allocate_carelessly,  ///< allocate_to() a word in the block of place `to`, with an arbitrary stamp on media
    give_back,            ///< the thread's cached blocks go back to slabs, and empty slabs to the extents
    hold_big,             ///< reserve a big block, null its destinations, persist, publish(holder)
    shrink,               ///< the heap ends behind its last used page
    morph,                ///< the slab of the block at `to`, or else of the block kept last, gets blocks of that size
    await,                ///< wait until the other thread has done `to` steps
    transact_words,       ///< a group that stores words of this thread, some of them in two lines
    transact_make,        ///< and makes a block, with its content
    transact_change,      ///< and changes words of that block
    transact_free,        ///< and frees it
    transact_replace,     ///< and frees it, and makes another one
    publish_inside,       ///< publish(a word of the block that a group made)
    free_inside,
    go_to_node,   ///< the thread goes on on node `to`
    skip_stamps,  ///< the next stamp at `to` is number `from`, as after calls whose stores may all be lost
};

/// The places of destinations: 0 and 2 share a line; 3 and 4 share one in the block that place 1 points to.
inline constexpr unsigned place_count = 5;
inline constexpr unsigned holder_place = 1;
inline constexpr unsigned first_inner_place = 3;

enum class request : std::uint8_t {
    small,       ///< 64 bytes
    other,       ///< 2048 bytes: another class, with a type
    slot,        ///< 14336 bytes: four fill a slab
    big,         ///< 8 pages; with a type if `to` is 0
    typed_slot,  ///< a slot with the type of a big block
    six_pages,
};

struct step {
    verb what = verb::checkpoint;
    unsigned to = 0;
    unsigned from = 0;
    request size = request::small;
};

[[nodiscard]] std::string to_string(const step& one);
[[nodiscard]] std::string to_string(const std::vector<step>& steps);

class program_runner {
public:
    program_runner(atomic_space& space, atomic_session& session, heap_model& model)
        : space_(space), session_(session), model_(model) {}

    /// Creates the destinations that every heap has. `stamp`: of place 0.
    void start(std::uint16_t stamp);
    /// On a recovered heap.
    void start_again();
    /// False, and nothing is done, if the step is impossible in this state.
    [[nodiscard]] bool run(const step& one, unsigned thread);
    /// Offset of the destination, or no_offset.
    [[nodiscard]] std::uint64_t place(unsigned index) const;
    /// The destination in the block that the thread's groups made, or no_offset.
    [[nodiscard]] std::uint64_t place_inside(unsigned thread) const;
    void adopt_place_inside(unsigned thread);

private:
    [[nodiscard]] std::uint64_t& word(std::uint64_t offset) const;
    [[nodiscard]] std::uint64_t target(std::uint64_t destination) const;
    [[nodiscard]] bool allocate(const step& one, unsigned thread);
    [[nodiscard]] bool free(const step& one, unsigned thread);
    [[nodiscard]] bool reallocate(const step& one, unsigned thread);
    [[nodiscard]] bool publish(const step& one, unsigned thread);
    [[nodiscard]] bool cancel(const step& one);
    [[nodiscard]] bool hold_big(unsigned thread);
    [[nodiscard]] bool keep(const step& one, unsigned thread);
    [[nodiscard]] bool discard(unsigned thread);
    [[nodiscard]] bool morph(const step& one, unsigned thread);
    [[nodiscard]] bool move(const step& one, bool durably);
    [[nodiscard]] bool free_cycle(unsigned thread);
    [[nodiscard]] bool allocate_carelessly(const step& one, unsigned thread);
    [[nodiscard]] bool skip_stamps(const step& one);
    [[nodiscard]] bool both(bool allocate, unsigned thread);
    [[nodiscard]] bool transact(const step& one, unsigned thread);
    void finish(unsigned thread, const std::vector<std::uint64_t>& allocated);
    void fill(void* block);
    void persist(const void* begin, std::uint64_t bytes);
    void set_null(std::uint64_t destination);
    void adopt_inner_places(std::uint64_t block);

    atomic_space& space_;
    atomic_session& session_;
    heap_model& model_;
    std::array<std::vector<void*>, model_threads> kept_;
};

}  // namespace holdfast::simulator
