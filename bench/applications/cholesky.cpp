// Cholesky's decomposition of a matrix of tiles of 4 x 4 numbers (Makalu, thesis 2018, 5.12): A = L L^T. A tile is
// assigned once, as in Intel's Concurrent Collections: each step writes its result to a new block and frees the old.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

constexpr std::size_t side = 4;
constexpr double tolerance = 1e-9;  ///< of a product with the matrix, relative

struct tile {
    std::array<std::array<double, side>, side> rows;
};

/// The lower triangle of a symmetric matrix, in tiles.
class tiled_matrix {
public:
    tiled_matrix(application_memory& memory, std::size_t tiles)
        : memory_(memory), tiles_(tiles), places_(tiles * (tiles + 1) / 2), spare_(places_.size()) {
        for (std::size_t i = 0; i < places_.size(); ++i) {
            places_[i] = {static_cast<tile*>(memory_.allocate(i, sizeof(tile))), i};
        }
        calls_ = places_.size();
    }
    tiled_matrix(const tiled_matrix&) = delete;
    tiled_matrix& operator=(const tiled_matrix&) = delete;
    ~tiled_matrix() {
        for (const place& one : places_) {
            memory_.release(one.block);
        }
    }

    [[nodiscard]] std::size_t tiles() const noexcept { return tiles_; }
    [[nodiscard]] const tile& at(std::size_t row, std::size_t column) const { return *at_place(row, column).content; }
    /// `make` fills the new tile from the old one.
    template <class Make>
    void assign(std::size_t row, std::size_t column, Make make) {
        place& changed = places_[row * (row + 1) / 2 + column];
        auto* const made = static_cast<tile*>(memory_.allocate(spare_, sizeof(tile)));
        make(*made, *changed.content);
        memory_.release(changed.block);
        spare_ = std::exchange(changed.block, spare_);
        changed.content = made;
        calls_ += 2;
    }
    template <class Fill>
    void fill(Fill fill) {
        for (std::size_t row = 0; row < tiles_; ++row) {
            for (std::size_t column = 0; column <= row; ++column) {
                fill(row, column, *at_place(row, column).content);
            }
        }
    }
    /// With those of the destructor.
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_ + places_.size(); }

private:
    struct place {
        tile* content = nullptr;
        std::size_t block = 0;
    };
    [[nodiscard]] const place& at_place(std::size_t row, std::size_t column) const {
        return places_[row * (row + 1) / 2 + column];
    }

    application_memory& memory_;
    std::size_t tiles_;
    std::vector<place> places_;
    std::size_t spare_;  ///< the number of no tile
    std::uint64_t calls_ = 0;
};

/// Of the matrix that is decomposed: symmetric, in [0, 1), and larger than a row's sum on the diagonal.
double element(std::uint64_t seed, std::size_t row, std::size_t column, std::size_t order) {
    const std::uint64_t drawn = mix(seed + std::max(row, column) * order + std::min(row, column));
    return static_cast<double>(drawn >> 11U) * 0x1p-53 + (row == column ? static_cast<double>(order) : 0);
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
            double sum = from.rows[row][column];
            for (std::size_t k = 0; k < side; ++k) {
                sum -= a.rows[row][k] * b.rows[column][k];
            }
            made.rows[row][column] = sum;
        }
    }
}

void decompose(tiled_matrix& of) {
    for (std::size_t k = 0; k < of.tiles(); ++k) {
        of.assign(k, k, decompose_tile);
        for (std::size_t i = k + 1; i < of.tiles(); ++i) {
            of.assign(i, k, [&](tile& made, const tile& from) { solve_tile(made, from, of.at(k, k)); });
        }
        for (std::size_t i = k + 1; i < of.tiles(); ++i) {
            for (std::size_t j = k + 1; j <= i; ++j) {
                of.assign(i, j, [&](tile& made, const tile& from) {
                    subtract_product(made, from, of.at(i, k), of.at(j, k));
                });
            }
        }
    }
}

/// Multiplies a vector with A and with L L^T, and compares.
void prove(const tiled_matrix& l, std::uint64_t seed) {
    const std::size_t order = l.tiles() * side;
    const auto lower = [&](std::size_t row, std::size_t column) {
        return l.at(row / side, column / side).rows[row % side][column % side];
    };
    std::vector<double> vector(order);
    for (std::size_t i = 0; i < order; ++i) {
        vector[i] = element(seed + 1, i, i, order) - static_cast<double>(order);
    }
    std::vector<double> transposed(order);
    for (std::size_t row = 0; row < order; ++row) {
        for (std::size_t column = 0; column <= row; ++column) {
            transposed[column] += lower(row, column) * vector[row];
        }
    }
    for (std::size_t row = 0; row < order; ++row) {
        double by_l = 0;
        double by_a = 0;
        for (std::size_t column = 0; column < order; ++column) {
            by_l += column <= row ? lower(row, column) * transposed[column] : 0;
            by_a += element(seed, row, column, order) * vector[column];
        }
        require_answer(std::abs(by_l - by_a) <= tolerance * std::max(1.0, std::abs(by_a)),
                       "cholesky: L times its transpose is not the matrix");
    }
}

application_demand demand(const allocation_run& run) {
    const std::size_t blocks = run.tiles * (run.tiles + 1) / 2 + 1;
    return {blocks, blocks * 2 * sizeof(tile) + (1U << 16U)};
}

application_outcome work(application_memory& memory, const allocation_run& run, unsigned thread, std::uint64_t calls) {
    const std::size_t order = run.tiles * side;
    std::uint64_t done = 0;
    std::uint64_t checksum = thread;
    for (std::uint64_t round = 0; round == 0 || done < calls; ++round) {
        const std::uint64_t seed = mix(run.seed + thread) + round;
        tiled_matrix matrix(memory, run.tiles);
        matrix.fill([&](std::size_t tile_row, std::size_t tile_column, tile& filled) {
            for (std::size_t i = 0; i < side * side; ++i) {
                filled.rows[i / side][i % side] =
                    element(seed, tile_row * side + i / side, tile_column * side + i % side, order);
            }
        });
        decompose(matrix);
        prove(matrix, seed);
        checksum = mix(checksum + std::bit_cast<std::uint64_t>(matrix.at(run.tiles - 1, 0).rows[side - 1][side - 1]));
        done += matrix.calls();
    }
    return {done, checksum};
}

}  // namespace

const application cholesky{"cholesky", demand, work};

}  // namespace bench
