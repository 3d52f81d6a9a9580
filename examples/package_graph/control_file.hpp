// The text format of Debian's package indexes (deb822, as in `Packages` files): stanzas of fields, and the relations in
// Depends, Pre-Depends and Provides. Views point into the text, which must outlive them.
#pragma once

#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace package_graph {

/// The input breaks the format; what() names the line.
class input_error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The fields of one package that the graph uses; absent ones are empty.
struct stanza {
    std::string_view package;
    std::string_view version;
    std::string_view depends;
    std::string_view pre_depends;
    std::string_view provides;
    std::uint64_t installed_kib = 0;
};

class control_reader {
public:
    explicit control_reader(std::string_view text) noexcept : rest_(text) {}
    /// Reads the next stanza; false at the end. Throws input_error.
    [[nodiscard]] bool next(stanza& into);
    /// Skips up to `count` stanzas and returns how many there were. Throws input_error.
    std::uint64_t skip(std::uint64_t count);

private:
    [[nodiscard]] std::string_view take_line() noexcept;
    [[nodiscard]] std::string_view take_field_value(std::string_view first_line) noexcept;

    std::string_view rest_;
    std::uint64_t line_ = 0;
};

enum class relation_kind : std::uint32_t { pre_depends = 0, depends = 1 };

/// One alternative of one relation: `libc6 (>= 2.34) | libc6.1` is a group of two.
struct relation {
    std::string_view name;        ///< without the qualifier (`:any`)
    std::string_view constraint;  ///< the text in the parentheses, "" where there are none
    std::uint32_t group = 0;      ///< index of the relation in the comma-separated field
};

/// Parses a relation field into `relations`, whose old content is removed. Ignores empty alternatives, as dpkg does.
void parse_relations(std::string_view field, std::vector<relation>& relations);

/// Debian's order of versions (epoch, upstream version, revision; `~` before everything).
[[nodiscard]] std::strong_ordering compare_versions(std::string_view a, std::string_view b) noexcept;

/// The concatenated text of the files, a blank line between them. Throws std::system_error that names the file.
[[nodiscard]] std::string read_inputs(const std::vector<std::string>& paths);

/// Identifies an input, so that an interrupted job is continued with the same one.
struct input_identity {
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;

    [[nodiscard]] friend bool operator==(const input_identity&, const input_identity&) = default;
};
[[nodiscard]] input_identity identify(std::string_view text) noexcept;

}  // namespace package_graph
