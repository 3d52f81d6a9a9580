// Barnes and Hut's method for the gravity of many bodies: in each step an octree is built, node by node from the
// allocator, and freed when the forces are known. G, the radius and the whole mass are 1.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "applications/application.hpp"
#include "support/random.hpp"

namespace bench {

namespace {

struct vector3 {
    double x = 0;
    double y = 0;
    double z = 0;

    friend vector3 operator+(vector3 a, vector3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
    friend vector3 operator-(vector3 a, vector3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
    friend vector3 operator*(vector3 a, double by) { return {a.x * by, a.y * by, a.z * by}; }
    [[nodiscard]] double square() const { return x * x + y * y + z * z; }
};

constexpr double opening_angle = 0.5;      ///< a cell whose width by distance is below this counts as one body
constexpr double softening_square = 1e-4;  ///< keeps close encounters finite
constexpr double step_seconds = 2e-3;
constexpr double energy_tolerance = 0.02;     ///< of the whole energy, from the first step to the last
constexpr double potential_tolerance = 0.02;  ///< of a body's potential, tree against sum over all bodies
constexpr std::size_t proved_bodies = 16;
constexpr std::size_t nodes_a_body = 3;  ///< there are about 1.6
constexpr std::size_t spare_nodes = 64;

struct body {
    vector3 place;
    vector3 speed;
    vector3 force;  ///< by mass
    double potential = 0;
};

/// A leaf is a node alone and has one body.
struct node {
    double mass = 0;
    vector3 centre;
    bool is_leaf = true;
};
struct cell : node {
    double width = 0;
    std::array<node*, 8> children{};
};

class octree {
public:
    octree(application_memory& memory, const std::vector<body>& bodies, double mass_of_body)
        : memory_(memory), limit_(bodies.size() * nodes_a_body + spare_nodes), mass_of_body_(mass_of_body) {
        for (const body& one : bodies) {
            half_ = std::max({half_, std::abs(one.place.x), std::abs(one.place.y), std::abs(one.place.z)});
        }
        for (const body& one : bodies) {
            insert(one.place);
        }
        if (root_ != nullptr) {
            sum_up(*root_);
        }
    }
    octree(const octree&) = delete;
    octree& operator=(const octree&) = delete;
    ~octree() {
        while (used_ > 0) {
            memory_.release(--used_);
        }
    }
    [[nodiscard]] std::size_t nodes() const noexcept { return used_; }
    void attract(body& one) const {
        one.force = {};
        one.potential = 0;
        if (root_ != nullptr) {
            attract(one, *root_);
        }
    }

private:
    template <class Node>
    Node* make() {
        require_answer(used_ < limit_, "barnes-hut: two bodies are too close to each other");
        return new (memory_.allocate(used_++, sizeof(Node))) Node;
    }
    void insert(const vector3& place) {
        node** link = &root_;
        vector3 middle;
        double half = half_;
        while (*link != nullptr) {
            cell* const around = (*link)->is_leaf ? split(**link, middle, half) : static_cast<cell*>(*link);
            *link = around;
            link = &around->children[descend(place, middle, half)];
        }
        *link = make<node>();
        (*link)->mass = mass_of_body_;
        (*link)->centre = place;
    }
    /// A cell in the place of a leaf, which becomes its child.
    cell* split(node& leaf, vector3 middle, double half) {
        cell* const around = make<cell>();
        around->is_leaf = false;
        around->width = 2 * half;
        around->children[descend(leaf.centre, middle, half)] = &leaf;
        return around;
    }
    /// The octant of a place; middle and half become those of the octant.
    static std::size_t descend(const vector3& place, vector3& middle, double& half) {
        const bool x = place.x >= middle.x;
        const bool y = place.y >= middle.y;
        const bool z = place.z >= middle.z;
        half /= 2;
        middle = middle + vector3{x ? half : -half, y ? half : -half, z ? half : -half};
        return (x ? 4U : 0U) + (y ? 2U : 0U) + (z ? 1U : 0U);
    }
    static void sum_up(node& one) {
        if (one.is_leaf) {
            return;
        }
        vector3 moment;
        for (node* const child : static_cast<cell&>(one).children) {
            if (child != nullptr) {
                sum_up(*child);
                one.mass += child->mass;
                moment = moment + child->centre * child->mass;
            }
        }
        one.centre = moment * (1 / one.mass);
    }
    static void attract(body& one, const node& by) {
        const vector3 way = by.centre - one.place;
        const double square = way.square();
        if (!by.is_leaf) {
            const auto& open = static_cast<const cell&>(by);
            if (open.width * open.width >= opening_angle * opening_angle * square) {
                for (const node* const child : open.children) {
                    if (child != nullptr) {
                        attract(one, *child);
                    }
                }
                return;
            }
        } else if (square == 0) {
            return;  // the body itself
        }
        const double inverse = 1 / std::sqrt(square + softening_square);
        one.force = one.force + way * (by.mass * inverse * inverse * inverse);
        one.potential -= by.mass * inverse;
    }

    application_memory& memory_;
    std::size_t limit_;
    double mass_of_body_;
    double half_ = 0;
    node* root_ = nullptr;
    std::size_t used_ = 0;
};

/// A ball of bodies, evenly spread, with about the speeds that keep it from collapsing.
std::vector<body> draw_bodies(std::size_t count, random_source random) {
    const auto in_ball = [&random] {
        const auto side = [&random] { return static_cast<double>(random.next() >> 11U) * 0x1p-52 - 1; };
        vector3 drawn{side(), side(), side()};
        while (drawn.square() > 1) {
            drawn = {side(), side(), side()};
        }
        return drawn;
    };
    std::vector<body> bodies(count);
    for (body& one : bodies) {
        one.place = in_ball();
        one.speed = in_ball();
    }
    return bodies;
}

class simulation {
public:
    simulation(application_memory& memory, std::size_t count, random_source random)
        : memory_(memory), bodies_(draw_bodies(count, random)), mass_(1 / static_cast<double>(count)) {
        find_forces();
    }
    void step() {
        for (body& one : bodies_) {
            one.speed = one.speed + one.force * (step_seconds / 2);
            one.place = one.place + one.speed * step_seconds;
        }
        find_forces();
        for (body& one : bodies_) {
            one.speed = one.speed + one.force * (step_seconds / 2);
        }
    }
    [[nodiscard]] double energy() const {
        double twice = 0;
        for (const body& one : bodies_) {
            twice += mass_ * (one.speed.square() + one.potential);
        }
        return twice / 2;
    }
    /// The potential of some bodies, summed up over all others.
    void prove_potentials() const {
        for (std::size_t i = 0; i < std::min(proved_bodies, bodies_.size()); ++i) {
            double sum = 0;
            for (std::size_t j = 0; j < bodies_.size(); ++j) {
                const double square = (bodies_[j].place - bodies_[i].place).square();
                sum -= i == j ? 0 : mass_ / std::sqrt(square + softening_square);
            }
            require_answer(std::abs(bodies_[i].potential - sum) <= potential_tolerance * std::abs(sum),
                           "barnes-hut: the tree's potential is not that of all bodies");
        }
    }
    [[nodiscard]] std::uint64_t calls() const noexcept { return calls_; }

private:
    void find_forces() {
        const octree tree(memory_, bodies_, mass_);
        for (body& one : bodies_) {
            tree.attract(one);
        }
        calls_ += 2 * tree.nodes();
    }

    application_memory& memory_;
    std::vector<body> bodies_;
    double mass_;
    std::uint64_t calls_ = 0;
};

application_demand demand(const allocation_run& run) {
    const std::size_t nodes = run.bodies * nodes_a_body + spare_nodes;
    return {nodes, nodes * 2 * sizeof(cell)};
}

application_outcome work(application_memory& memory, const allocation_run& run, unsigned thread, std::uint64_t calls) {
    simulation bodies(memory, run.bodies, random_source(mix(run.seed + thread)));
    const double energy = bodies.energy();
    do {
        bodies.step();
    } while (bodies.calls() < calls);
    bodies.prove_potentials();
    const double last = bodies.energy();
    require_answer(std::abs(last - energy) <= energy_tolerance * std::abs(energy),
                   "barnes-hut: the energy did not stay");
    return {bodies.calls(), mix(std::bit_cast<std::uint64_t>(last))};
}

}  // namespace

const application barnes_hut{"barnes-hut", demand, work};

}  // namespace bench
