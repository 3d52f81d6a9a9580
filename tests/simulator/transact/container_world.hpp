// What programs of transactions over containers change: containers of every kind and objects with names in a heap, and
// the same of the standard library beside it.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace holdfast::simulator {

struct container_model {
    std::vector<int> numbers;
    std::vector<std::uint64_t> numbers_of_std;
    std::map<std::string, std::vector<int>> table;
    std::unordered_map<int, std::string> hashed;
    std::deque<std::string> queue;
    std::list<std::string> chain;
    std::set<int> sorted;
    std::string text;
    std::map<std::string, std::string> named;
    bool operator==(const container_model&) const = default;
};

/// One change of one container, or of a name.
struct container_step {
    enum class kind : std::uint8_t { numbers, numbers_of_std, table, hashed, queue, chain, sorted, text, named, last };
    kind what = kind::numbers;
    unsigned how = 0;     ///< of the ways to change it
    unsigned where = 0;   ///< a key, or a position
    unsigned length = 0;  ///< of what is stored, or how many
    int value = 0;
};

/// Steps, and parts of a transaction that may be dropped alone.
struct container_program {
    std::vector<container_step> steps;
    /// Begin and end of a part among the steps; empty: none.
    std::pair<std::size_t, std::size_t> part{0, 0};
    bool drops_part = false;
};
[[nodiscard]] container_program random_program(std::mt19937_64& random);

void carry_out(const container_step& step, container_model& in);
void carry_out(const container_program& program, container_model& in);

/// The containers in a heap that is open.
class container_world {
public:
    explicit container_world(manager& heap) : heap_(heap) {}
    /// Makes them.
    void create() const;
    void carry_out(const container_step& step) const;
    [[nodiscard]] container_model content() const;

private:
    template <class T>
    [[nodiscard]] T& find(const char* name) const;
    [[nodiscard]] string make(const std::string& from) const;

    manager& heap_;
};

}  // namespace holdfast::simulator
