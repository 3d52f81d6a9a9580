// Barnes and Hut's method for the gravity of many bodies. Each step of time builds an octree, finds the forces by it,
// moves the bodies and frees the tree, in sections of some bodies each: what a crash leaves may be half a tree.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <new>
#include <string>

#include "sections/program.hpp"

namespace sections {

namespace {

constexpr std::uint64_t bodies = 192;
constexpr std::uint64_t bodies_a_section = 32;
constexpr std::uint64_t steps = 12;
constexpr double mass_of_body = 1.0 / bodies;
constexpr double opening_angle = 0.5;
constexpr double softening_square = 1e-4;
constexpr double step_seconds = 2e-3;

struct vector3 {
    double x = 0;
    double y = 0;
    double z = 0;

    friend vector3 operator+(vector3 a, vector3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
    friend vector3 operator-(vector3 a, vector3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
    friend vector3 operator*(vector3 a, double by) { return {a.x * by, a.y * by, a.z * by}; }
    [[nodiscard]] double square() const { return x * x + y * y + z * z; }
    [[nodiscard]] double largest() const { return std::max({std::abs(x), std::abs(y), std::abs(z)}); }
};

struct body {
    vector3 place;
    vector3 speed;
    vector3 force;  ///< by mass
};

/// A cell of the tree, or a leaf, which has one body and no children.
struct node {
    double mass = 0;
    vector3 centre;
    double width = 0;  ///< 0: a leaf
    std::array<node*, 8> children{};
};

enum phase : std::uint64_t { begin, build, attract, move };

struct simulation {
    body* all = nullptr;
    node* tree = nullptr;
    double half = 0;            ///< of the tree's width
    std::uint64_t now = begin;  ///< a phase
    std::uint64_t next = 0;     ///< body in it
    std::uint64_t step = 0;
    std::uint64_t sections = 0;
};

/// The octant of a place; middle and half become those of the octant.
std::size_t descend(const vector3& place, vector3& middle, double& half) {
    const bool x = place.x >= middle.x;
    const bool y = place.y >= middle.y;
    const bool z = place.z >= middle.z;
    half /= 2;
    middle = middle + vector3{x ? half : -half, y ? half : -half, z ? half : -half};
    return (x ? 4U : 0U) + (y ? 2U : 0U) + (z ? 1U : 0U);
}

struct counted {
    std::uint64_t nodes = 0;
    std::uint64_t leaves = 0;
    std::uint64_t digest = 0;
};
void count(const node* from, counted& found) {
    if (from == nullptr) {
        return;
    }
    ++found.nodes;
    found.leaves += from->width == 0 ? 1 : 0;
    for (const double each : {from->mass, from->centre.x, from->centre.y, from->centre.z, from->width}) {
        found.digest = mix(found.digest + std::bit_cast<std::uint64_t>(each));
    }
    for (const node* const child : from->children) {
        found.digest = mix(found.digest + 1);
        count(child, found);
    }
}

class barnes_hut final : public program {
public:
    barnes_hut(memory& blocks, void* state) : blocks_(blocks), own_(*static_cast<simulation*>(state)) {}

    bool advance() override {
        if (own_.step == steps) {
            return false;
        }
        switch (own_.now) {
            case begin: draw(); break;
            case build: insert_some(); break;
            case attract: find_forces(); break;
            default: move_all(); break;
        }
        ++own_.sections;
        return true;
    }
    std::uint64_t sections() const override { return own_.sections; }
    std::string problem() const override {
        counted found;
        count(own_.tree, found);
        const std::uint64_t expected = own_.now == build                         ? own_.next
                                       : own_.now == attract || own_.now == move ? bodies
                                                                                 : 0;
        if (found.leaves != expected) {
            return std::to_string(found.leaves) + " leaves in the tree, not " + std::to_string(expected);
        }
        if (own_.now == attract && std::abs(own_.tree->mass - 1) > 1e-9) {
            return "the tree has not the mass of all bodies";
        }
        return (own_.all == nullptr) == (own_.now == begin) ? std::string() : "the bodies are missing";
    }
    std::uint64_t digest() const override {
        counted found;
        count(own_.tree, found);
        std::uint64_t all = mix(own_.sections) + found.digest;
        for (std::uint64_t i = 0; own_.all != nullptr && i < bodies; ++i) {
            const body& one = own_.all[i];
            for (const vector3& each : {one.place, one.speed, one.force}) {
                for (const double number : {each.x, each.y, each.z}) {
                    all = mix(all + std::bit_cast<std::uint64_t>(number));
                }
            }
        }
        return all;
    }
    std::uint64_t blocks() const override {
        counted found;
        count(own_.tree, found);
        return 1 + (own_.all == nullptr ? 0 : 1) + found.nodes;
    }
    std::string answer() const override {
        double energy = 0;
        for (std::uint64_t i = 0; own_.all != nullptr && i < bodies; ++i) {
            energy += own_.all[i].speed.square() * mass_of_body / 2;
        }
        return "the bodies' energy of motion is " + std::to_string(energy);
    }

private:
    void draw() {
        own_.all = static_cast<body*>(blocks_.allocate(bodies * sizeof(body)));
        for (std::uint64_t i = 0; i < bodies; ++i) {
            const auto drawn = [i](std::uint64_t which) { return 2 * fraction_of(i * 8 + which) - 1; };
            ::new (&own_.all[i]) body{{drawn(0), drawn(1), drawn(2)}, {drawn(3), drawn(4), drawn(5)}, {}};
        }
        begin_tree();
    }
    void begin_tree() {
        own_.half = 0;
        for (std::uint64_t i = 0; i < bodies; ++i) {
            own_.half = std::max(own_.half, own_.all[i].place.largest());
        }
        own_.now = build;
        own_.next = 0;
    }
    void insert_some() {
        for (std::uint64_t i = 0; i < bodies_a_section; ++i) {
            insert(own_.all[own_.next++].place);
        }
        if (own_.next == bodies) {
            sum_up(*own_.tree);
            own_.now = attract;
            own_.next = 0;
        }
    }
    void insert(const vector3& place) {
        node** link = &own_.tree;
        vector3 middle;
        double half = own_.half;
        while (*link != nullptr) {
            if ((*link)->width == 0) {
                node* const around = blocks_.make<node>();
                around->width = 2 * half;
                vector3 leaf_middle = middle;
                double leaf_half = half;
                around->children[descend((*link)->centre, leaf_middle, leaf_half)] = *link;
                *link = around;
            }
            link = &(*link)->children[descend(place, middle, half)];
        }
        *link = blocks_.make<node>();
        (*link)->mass = mass_of_body;
        (*link)->centre = place;
    }
    static void sum_up(node& one) {
        vector3 moment;
        if (one.width == 0) {
            return;
        }
        for (node* const child : one.children) {
            if (child != nullptr) {
                sum_up(*child);
                one.mass += child->mass;
                moment = moment + child->centre * child->mass;
            }
        }
        one.centre = moment * (1 / one.mass);
    }
    void find_forces() {
        for (std::uint64_t i = 0; i < bodies_a_section; ++i) {
            body& one = own_.all[own_.next++];
            one.force = {};
            pull(one, *own_.tree);
        }
        if (own_.next == bodies) {
            own_.now = move;
        }
    }
    static void pull(body& one, const node& by) {
        const vector3 way = by.centre - one.place;
        const double square = way.square();
        if (by.width * by.width >= opening_angle * opening_angle * square && by.width != 0) {
            for (const node* const child : by.children) {
                if (child != nullptr) {
                    pull(one, *child);
                }
            }
        } else if (square != 0) {
            const double inverse = 1 / std::sqrt(square + softening_square);
            one.force = one.force + way * (by.mass * inverse * inverse * inverse);
        }
    }
    void move_all() {
        for (std::uint64_t i = 0; i < bodies; ++i) {
            body& one = own_.all[i];
            one.speed = one.speed + one.force * step_seconds;
            one.place = one.place + one.speed * step_seconds;
        }
        free_tree(own_.tree);
        own_.tree = nullptr;
        ++own_.step;
        begin_tree();
    }
    void free_tree(node* from) {
        for (node* const child : from->children) {
            if (child != nullptr) {
                free_tree(child);
            }
        }
        blocks_.release(from);
    }

    memory& blocks_;
    simulation& own_;
};

}  // namespace

const std::size_t barnes_hut_bytes = sizeof(simulation);

std::unique_ptr<program> open_barnes_hut(memory& blocks, void* state) {
    return std::make_unique<barnes_hut>(blocks, state);
}

}  // namespace sections
