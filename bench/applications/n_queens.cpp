// The eight queens: each puzzle has a block of 128 bytes for its board, which is freed when all solutions are counted.
#include <algorithm>
#include <array>
#include <new>

#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr unsigned queens = 8;
constexpr unsigned known_solutions = 92;
constexpr std::size_t block_bytes = 128;

/// A row's masks have a bit for each column: what the rows above attack, and what is still to be tried.
struct board {
    struct row {
        std::uint16_t columns;
        std::uint16_t left;   ///< diagonals that go to lower columns
        std::uint16_t right;  ///< to higher columns
        std::uint16_t untried;
    };
    std::array<row, queens + 1> rows;
};
static_assert(sizeof(board) <= block_bytes);

/// Depth first, row by row, without recursion: all state is in the block.
unsigned count_solutions(board& own) {
    constexpr unsigned all = (1U << queens) - 1;
    unsigned found = 0;
    unsigned row = 0;
    own.rows[0] = {0, 0, 0, all};
    for (;;) {
        board::row& here = own.rows[row];
        if (here.untried == 0) {
            if (row == 0) {
                return found;
            }
            --row;
            continue;
        }
        const unsigned placed = here.untried & (~unsigned{here.untried} + 1);
        here.untried = static_cast<std::uint16_t>(here.untried ^ placed);
        if (row + 1 == queens) {
            ++found;
            continue;
        }
        const unsigned columns = here.columns | placed;
        const unsigned left = ((here.left | placed) << 1U) & all;
        const unsigned right = (here.right | placed) >> 1U;
        own.rows[++row] = {static_cast<std::uint16_t>(columns), static_cast<std::uint16_t>(left),
                           static_cast<std::uint16_t>(right),
                           static_cast<std::uint16_t>(all & ~(columns | left | right))};
    }
}

application_demand demand(const allocation_run& /*run*/) { return {1, 1U << 16U}; }

application_outcome work(application_memory& memory, const allocation_run& /*run*/, unsigned thread,
                         std::uint64_t calls) {
    const std::uint64_t puzzles = std::max<std::uint64_t>(calls / 2, 1);
    std::uint64_t solutions = 0;
    for (std::uint64_t i = 0; i < puzzles; ++i) {
        solutions += count_solutions(*new (memory.allocate(0, block_bytes)) board);
        memory.release(0);
    }
    require_answer(solutions == puzzles * known_solutions, "n-queens: eight queens have 92 solutions");
    return {puzzles * 2, mix(solutions + thread)};
}

}  // namespace

const application n_queens{"n-queens", demand, work};

}  // namespace bench
