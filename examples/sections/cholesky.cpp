// Cholesky's decomposition A = L L^T of a matrix of tiles of 4 x 4 numbers. A section makes one tile: a new block that
// takes the place of the old one, which is freed.
#include <array>
#include <bit>
#include <cmath>
#include <new>
#include <string>
#include <vector>

#include "sections/program.hpp"

namespace sections {

namespace {

constexpr std::uint64_t side = 4;
constexpr std::uint64_t tiles = 10;  ///< in a row
constexpr std::uint64_t order = tiles * side;
constexpr double tolerance = 1e-9;

struct tile {
    std::array<std::array<double, side>, side> rows;
};

struct matrix {
    std::uint64_t sections = 0;
    std::uint64_t step = 0;                            ///< the column of tiles that is eliminated; `tiles`: all are
    std::uint64_t row = 0;                             ///< of the next tile
    std::uint64_t column = 0;                          ///< of the next tile
    std::array<tile*, tiles*(tiles + 1) / 2> lower{};  ///< null before the first section
};

double element(std::uint64_t row, std::uint64_t column) {
    const std::uint64_t place = row < column ? column * order + row : row * order + column;
    return fraction_of(place) + (row == column ? static_cast<double>(order) : 0);
}

void decompose_tile(tile& made, const tile& from) {
    for (std::size_t row = 0; row < side; ++row) {
        for (std::size_t column = 0; column < side; ++column) {
            double left = column <= row ? from.rows[row][column] : 0;
            for (std::size_t k = 0; k < column && column <= row; ++k) {
                left -= made.rows[row][k] * made.rows[column][k];
            }
            made.rows[row][column] = row == column  ? std::sqrt(left)
                                     : column < row ? left / made.rows[column][column]
                                                    : 0;
        }
    }
}
/// X with X D^T = from, for the lower triangle D.
void solve_tile(tile& made, const tile& from, const tile& diagonal) {
    for (std::size_t row = 0; row < side; ++row) {
        for (std::size_t column = 0; column < side; ++column) {
            double left = from.rows[row][column];
            for (std::size_t k = 0; k < column; ++k) {
                left -= made.rows[row][k] * diagonal.rows[column][k];
            }
            made.rows[row][column] = left / diagonal.rows[column][column];
        }
    }
}
/// from - A B^T.
void subtract_product(tile& made, const tile& from, const tile& a, const tile& b) {
    for (std::size_t row = 0; row < side; ++row) {
        for (std::size_t column = 0; column < side; ++column) {
            double left = from.rows[row][column];
            for (std::size_t k = 0; k < side; ++k) {
                left -= a.rows[row][k] * b.rows[column][k];
            }
            made.rows[row][column] = left;
        }
    }
}

class cholesky final : public program {
public:
    cholesky(memory& blocks, void* state) : blocks_(blocks), own_(*static_cast<matrix*>(state)) {}

    bool advance() override {
        if (own_.sections == 0) {
            fill();
        } else if (own_.step == tiles) {
            return false;
        } else {
            assign();
            go_on();
        }
        ++own_.sections;
        return true;
    }
    std::uint64_t sections() const override { return own_.sections; }
    std::string problem() const override {
        for (const tile* const each : own_.lower) {
            if ((each == nullptr) != (own_.sections == 0)) {
                return "a tile is missing";
            }
        }
        return own_.step == tiles ? compare_product() : std::string();
    }
    std::uint64_t digest() const override {
        std::uint64_t all = mix(own_.sections);
        for (const tile* const each : own_.lower) {
            for (std::size_t i = 0; each != nullptr && i < side * side; ++i) {
                all = mix(all + std::bit_cast<std::uint64_t>(each->rows[i / side][i % side]));
            }
        }
        return all;
    }
    std::uint64_t blocks() const override { return 1 + (own_.sections == 0 ? 0 : own_.lower.size()); }
    std::string answer() const override {
        double logarithm = 0;
        for (std::uint64_t i = 0; i < order && own_.step == tiles; ++i) {
            logarithm += 2 * std::log(at(i / side, i / side).rows[i % side][i % side]);
        }
        return "the logarithm of the determinant is " + std::to_string(logarithm);
    }

private:
    [[nodiscard]] tile*& place(std::uint64_t row, std::uint64_t column) const {
        return own_.lower[row * (row + 1) / 2 + column];
    }
    [[nodiscard]] const tile& at(std::uint64_t row, std::uint64_t column) const { return *place(row, column); }

    void fill() {
        for (std::uint64_t row = 0; row < tiles; ++row) {
            for (std::uint64_t column = 0; column <= row; ++column) {
                tile* const made = blocks_.make<tile>();
                for (std::uint64_t i = 0; i < side * side; ++i) {
                    made->rows[i / side][i % side] = element(row * side + i / side, column * side + i % side);
                }
                place(row, column) = made;
            }
        }
    }
    void assign() {
        const std::uint64_t k = own_.step;
        tile*& changed = place(own_.row, own_.column);
        tile* const made = blocks_.make<tile>();
        if (own_.row == k) {
            decompose_tile(*made, *changed);
        } else if (own_.column == k) {
            solve_tile(*made, *changed, at(k, k));
        } else {
            subtract_product(*made, *changed, at(own_.row, k), at(own_.column, k));
        }
        blocks_.release(changed);
        changed = made;
    }
    /// Column k from its diagonal down, then what lies to the right of it, row by row.
    void go_on() {
        const std::uint64_t k = own_.step;
        if (own_.column == k && own_.row + 1 < tiles) {
            ++own_.row;
        } else if (own_.column == k) {
            own_.row = own_.column = k + 1;
        } else if (own_.column < own_.row) {
            ++own_.column;
        } else {
            ++own_.row;
            own_.column = k + 1;
        }
        if (own_.row == tiles || k + 1 == tiles) {
            own_.step = own_.row = own_.column = k + 1;
        }
    }
    /// Multiplies a vector with A and with L L^T.
    [[nodiscard]] std::string compare_product() const {
        const auto lower = [this](std::uint64_t row, std::uint64_t column) {
            return column > row ? 0 : at(row / side, column / side).rows[row % side][column % side];
        };
        std::vector<double> transposed(order);
        for (std::uint64_t row = 0; row < order; ++row) {
            for (std::uint64_t column = 0; column <= row; ++column) {
                transposed[column] += lower(row, column) * fraction_of(row);
            }
        }
        for (std::uint64_t row = 0; row < order; ++row) {
            double by_l = 0;
            double by_a = 0;
            for (std::uint64_t column = 0; column < order; ++column) {
                by_l += lower(row, column) * transposed[column];
                by_a += element(row, column) * fraction_of(column);
            }
            if (std::abs(by_l - by_a) > tolerance * std::abs(by_a)) {
                return "L times its transpose is not the matrix";
            }
        }
        return {};
    }

    memory& blocks_;
    matrix& own_;
};

}  // namespace

const std::size_t cholesky_bytes = sizeof(matrix);

std::unique_ptr<program> open_cholesky(memory& blocks, void* state) {
    return std::make_unique<cholesky>(blocks, state);
}

}  // namespace sections
