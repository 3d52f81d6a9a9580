// The package graph in a heap: five named objects of Holdfast's containers and holdfast::ptr, so that it is valid
// wherever the heap is mapped.
//
//     "packages"  deque of package, one for each name; a package never moves, so others point to it
//     "by_name"   hash table from names to packages
//     "input"     which text is being read
//     "stanzas"   how many stanzas of it have been read
//     "commits"   a summary of the graph at each commit, written in the same commit
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

#include "control_file.hpp"
#include "summary.hpp"

namespace package_graph {

struct package;

/// One alternative of one relation of a package.
struct dependency {
    dependency(package& needed, relation_kind how, const relation& parsed, const holdfast::allocator<char>& memory)
        : target(&needed),
          constraint(parsed.constraint.data(), parsed.constraint.size(), memory),
          group(parsed.group),
          kind(how) {}

    holdfast::ptr<package> target;
    holdfast::string constraint;
    std::uint32_t group;
    relation_kind kind;
};

/// A name, and what the index says about it.
struct package {
    package(std::string_view called, std::uint64_t position, const holdfast::allocator<char>& memory)
        : name(called.data(), called.size(), memory),
          version(memory),
          number(position),
          dependencies(memory),
          provides(memory),
          providers(memory),
          dependents(memory) {}

    holdfast::string name;
    holdfast::string version;
    std::uint64_t number;  ///< the position in "packages"
    std::uint64_t installed_kib = 0;
    bool is_package = false;
    holdfast::vector<dependency> dependencies;
    holdfast::vector<holdfast::ptr<package>> provides;
    holdfast::vector<holdfast::ptr<package>> providers;   ///< each once, in no order
    holdfast::vector<holdfast::ptr<package>> dependents;  ///< each once, in no order
};

/// A summary of the graph at one commit.
struct commit_record {
    std::uint64_t number = 0;  ///< from 1
    summary graph;
    std::uint64_t base_address = 0;  ///< where the heap was mapped at that time

    [[nodiscard]] friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// A view of the graph in an open heap, for as long as the heap is open. Not thread-safe.
class persistent_graph {
public:
    /// nullopt where the heap holds no graph yet. Throws holdfast::error.
    [[nodiscard]] static std::optional<persistent_graph> find(const holdfast::manager& heap);
    /// Throws holdfast::error, holdfast::bad_alloc.
    [[nodiscard]] static persistent_graph create(holdfast::manager& heap, const input_identity& input);

    /// Adds a stanza; a newer version of a package replaces an older one. Throws holdfast::bad_alloc: the change is
    /// then incomplete, and the program must go back to the last commit.
    void add(const stanza& described);
    [[nodiscard]] std::uint64_t stanzas() const noexcept { return *stanzas_; }
    /// Walks the whole graph.
    [[nodiscard]] summary summarise() const;
    /// Appends the record of the commit that the caller is about to make, and returns it.
    const commit_record& record_commit(const holdfast::manager& heap);
    [[nodiscard]] const holdfast::vector<commit_record>& commits() const noexcept { return *commits_; }
    [[nodiscard]] const input_identity& input() const noexcept { return *input_; }

    [[nodiscard]] bool contains(std::string_view name) const { return find_package(name) != nullptr; }
    [[nodiscard]] std::string first_package() const;
    [[nodiscard]] answers answer(const question& asked) const;

private:
    using packages_type = holdfast::deque<package>;
    using names_type = holdfast::unordered_map<holdfast::string, holdfast::ptr<package>>;

    persistent_graph() = default;
    [[nodiscard]] package* find_package(std::string_view name) const;
    [[nodiscard]] package& package_of(std::string_view name);
    static void clear(package& outdated);
    void add_dependencies(package& dependent, std::string_view field, relation_kind kind);
    void add_provides(package& provider, std::string_view field);
    [[nodiscard]] std::vector<ranked_name> rank() const;
    [[nodiscard]] std::vector<std::string> shortest_path(const package& from, const package& to) const;
    void reach_all(const package& start, closure& into) const;
    void choose_first(const package& start, closure& into) const;

    packages_type* packages_ = nullptr;
    names_type* by_name_ = nullptr;
    input_identity* input_ = nullptr;
    holdfast::vector<commit_record>* commits_ = nullptr;
    std::uint64_t* stanzas_ = nullptr;
    std::vector<relation> parsed_;  // reused, to save allocations
};

}  // namespace package_graph
