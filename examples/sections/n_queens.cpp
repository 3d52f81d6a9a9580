// N queens on a board of N x N fields, none of which attacks another: boards with some rows filled wait on a stack. A
// section takes the uppermost, frees it, and puts one for each field of the next row that nobody attacks.
#include <array>
#include <new>
#include <string>

#include "sections/program.hpp"

namespace sections {

namespace {

constexpr unsigned queens = 7;
constexpr std::uint64_t known_solutions = 40;

struct board {
    board* below = nullptr;
    std::uint32_t rows = 0;
    std::array<std::uint8_t, queens> columns{};  ///< of the queen in each row

    [[nodiscard]] bool may_have(unsigned column) const {
        for (unsigned row = 0; row < rows; ++row) {
            const unsigned distance = rows - row;
            const unsigned there = columns[row];
            if (there == column || there + distance == column || column + distance == there) {
                return false;
            }
        }
        return true;
    }
    void place(unsigned column) { columns[rows++] = static_cast<std::uint8_t>(column); }
};

struct search {
    board* top = nullptr;
    std::uint64_t has_begun = 0;
    std::uint64_t waiting = 0;
    std::uint64_t solutions = 0;
    std::uint64_t sections = 0;
};

/// Without the heap: how many solutions begin like this.
std::uint64_t solutions_from(const board& begun) {
    if (begun.rows == queens) {
        return 1;
    }
    std::uint64_t found = 0;
    for (unsigned column = 0; column < queens; ++column) {
        if (begun.may_have(column)) {
            board next = begun;
            next.place(column);
            found += solutions_from(next);
        }
    }
    return found;
}

class n_queens final : public program {
public:
    n_queens(memory& blocks, void* state) : blocks_(blocks), own_(*static_cast<search*>(state)) {}

    bool advance() override {
        if (own_.has_begun == 0) {
            own_.has_begun = 1;
            push(board());
        } else if (own_.top == nullptr) {
            return false;
        } else {
            const board taken = *own_.top;
            blocks_.release(own_.top);
            own_.top = taken.below;
            --own_.waiting;
            expand(taken);
        }
        ++own_.sections;
        return true;
    }
    std::uint64_t sections() const override { return own_.sections; }
    std::string problem() const override {
        std::uint64_t left = own_.solutions;
        std::uint64_t waiting = 0;
        for (const board* each = own_.top; each != nullptr && waiting <= own_.waiting; each = each->below) {
            board filled;
            for (unsigned row = 0; row < each->rows; ++row) {
                if (row >= queens || each->columns[row] >= queens || !filled.may_have(each->columns[row])) {
                    return "a board has queens that attack each other";
                }
                filled.place(each->columns[row]);
            }
            left += solutions_from(filled);
            ++waiting;
        }
        if (waiting != own_.waiting) {
            return std::to_string(waiting) + " boards wait, not " + std::to_string(own_.waiting);
        }
        if (own_.has_begun != 0 && left != known_solutions) {
            return std::to_string(left) + " solutions were found or lie ahead, not " + std::to_string(known_solutions);
        }
        return {};
    }
    std::uint64_t digest() const override {
        std::uint64_t all = mix(own_.solutions + 1) + own_.sections;
        for (const board* each = own_.top; each != nullptr; each = each->below) {
            for (unsigned row = 0; row < each->rows; ++row) {
                all = mix(all + each->columns[row] + 1);
            }
            all = mix(all);
        }
        return all;
    }
    std::uint64_t blocks() const override { return own_.waiting + 1; }
    std::string answer() const override { return std::to_string(own_.solutions) + " solutions"; }

private:
    void push(const board& filled) {
        board* const made = blocks_.make<board>(filled);
        made->below = own_.top;
        own_.top = made;
        ++own_.waiting;
    }
    void expand(const board& taken) {
        for (unsigned column = 0; column < queens; ++column) {
            if (!taken.may_have(column)) {
                continue;
            }
            board next = taken;
            next.place(column);
            if (next.rows == queens) {
                ++own_.solutions;
            } else {
                push(next);
            }
        }
    }

    memory& blocks_;
    search& own_;
};

}  // namespace

const std::size_t n_queens_bytes = sizeof(search);

std::unique_ptr<program> open_n_queens(memory& blocks, void* state) {
    return std::make_unique<n_queens>(blocks, state);
}

}  // namespace sections
