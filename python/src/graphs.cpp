// check_graph(): whether bytes of a heap are a graph as usearch writes it. usearch follows the numbers of neighbours
// that it finds there without a look, so that damage would make it read elsewhere.
//
// Little-endian, packed: two u32, how many vectors and bytes of each; the vectors; a head of 64 bytes; five u64, which
// are vectors, neighbours, neighbours on level 0, the highest level and where a search begins; an i16 for each vector,
// its level; the nodes. A node has a u64, its key, an i16, its level, and for each level a u32, how many neighbours it
// has there, and room for all that it may have, each a u32.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"

namespace holdfast::python {

namespace nb = nanobind;

namespace {

/// What is known of the graph.
struct graph_form {
    std::string_view head;  ///< of an empty graph
    std::uint64_t bytes_of_vector = 0;
    std::uint64_t connectivity = 0;
    std::uint64_t first = 0;  ///< the least key
    std::uint64_t end = 0;    ///< behind the greatest key
};

constexpr std::uint64_t head_bytes = 64;
constexpr std::uint64_t magic_bytes = 7;
constexpr std::uint64_t kinds_at = 13;  ///< of the metric, numbers, keys and neighbours, behind a version
constexpr std::uint64_t kinds_bytes = 4;

/// Reads on; `is_short` says that the bytes have ended.
class byte_reader {
public:
    explicit byte_reader(std::string_view bytes) noexcept : left_(bytes) {}

    [[nodiscard]] std::string_view take(std::uint64_t bytes) noexcept {
        is_short_ = is_short_ || bytes > left_.size();
        if (is_short_) {
            return {};
        }
        const std::string_view taken = left_.substr(0, bytes);
        left_.remove_prefix(bytes);
        return taken;
    }
    template <class T>
    [[nodiscard]] T number() noexcept {
        T found{};
        const std::string_view bytes = take(sizeof found);
        if (!bytes.empty()) {
            std::memcpy(&found, bytes.data(), sizeof found);
        }
        return found;
    }
    [[nodiscard]] bool is_short() const noexcept { return is_short_; }
    [[nodiscard]] std::uint64_t left() const noexcept { return left_.size(); }

private:
    std::string_view left_;
    bool is_short_ = false;
};

class graph_checker {
public:
    graph_checker(std::string_view bytes, const graph_form& form) noexcept
        : rest_(bytes), form_(form), count_(form.end - form.first) {}

    /// What is wrong, and null where nothing is.
    [[nodiscard]] const char* fault() {
        if (const char* const wrong = fault_of_head()) {
            return wrong;
        }
        levels_ = rest_.take(sizeof(std::int16_t) * count_);
        if (rest_.is_short()) {
            return ends_early;
        }
        if (entry_ >= count_ || level(entry_) < 0 || static_cast<std::uint64_t>(level(entry_)) != highest_) {
            return "the search does not begin at the highest level";
        }
        for (std::uint64_t slot = 0; slot < count_; ++slot) {
            if (const char* const wrong = fault_of_node(level(slot))) {
                return wrong;
            }
        }
        return rest_.left() == 0 ? nullptr : "there are bytes behind its end";
    }

private:
    static constexpr const char* ends_early = "it ends early";

    [[nodiscard]] const char* fault_of_head() {
        const auto vectors = rest_.number<std::uint32_t>();
        const auto width = rest_.number<std::uint32_t>();
        if (vectors != count_ || width != form_.bytes_of_vector) {
            return "other vectors than the index says";
        }
        static_cast<void>(rest_.take(count_ * form_.bytes_of_vector));
        const std::string_view head = rest_.take(head_bytes);
        if (rest_.is_short()) {
            return ends_early;
        }
        if (form_.head.size() < head_bytes || head.substr(0, magic_bytes) != form_.head.substr(0, magic_bytes) ||
            head.substr(kinds_at, kinds_bytes) != form_.head.substr(kinds_at, kinds_bytes)) {
            return "another head than this version of usearch writes";
        }
        const auto size = rest_.number<std::uint64_t>();
        const auto neighbours = rest_.number<std::uint64_t>();
        const auto neighbours_below = rest_.number<std::uint64_t>();
        highest_ = rest_.number<std::uint64_t>();
        entry_ = rest_.number<std::uint64_t>();
        return size != count_ || neighbours != form_.connectivity || neighbours_below != 2 * form_.connectivity
                   ? "another number of vectors or neighbours than the index says"
                   : nullptr;
    }

    [[nodiscard]] const char* fault_of_node(std::int16_t its_level) {
        if (its_level < 0 || static_cast<std::uint64_t>(its_level) > highest_) {
            return "a level that is too high";
        }
        const auto key = rest_.number<std::uint64_t>();
        const auto its_own_level = rest_.number<std::int16_t>();
        if (rest_.is_short()) {
            return ends_early;
        }
        if (its_own_level != its_level || key < form_.first || key >= form_.end) {
            return "a vector with another level or key than it has elsewhere";
        }
        for (std::int16_t at = 0; at <= its_level; ++at) {
            if (const char* const wrong = fault_of_neighbours(at)) {
                return wrong;
            }
        }
        return nullptr;
    }

    [[nodiscard]] const char* fault_of_neighbours(std::int16_t on) {
        const std::uint64_t most = on == 0 ? 2 * form_.connectivity : form_.connectivity;
        const auto count = rest_.number<std::uint32_t>();
        const std::string_view slots = rest_.take(most * sizeof(std::uint32_t));
        if (rest_.is_short()) {
            return ends_early;
        }
        if (count > most) {
            return "a vector with more neighbours than there is room for";
        }
        std::uint32_t greatest = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            greatest = std::max(greatest, number_at<std::uint32_t>(slots, i));
        }
        if (count != 0 && greatest >= count_) {
            return "a neighbour that is not there";
        }
        for (std::uint64_t i = 0; on != 0 && i < count; ++i) {
            if (level(number_at<std::uint32_t>(slots, i)) < on) {
                return "a neighbour that is on a lower level";
            }
        }
        return nullptr;
    }

    template <class T>
    [[nodiscard]] static T number_at(std::string_view bytes, std::uint64_t index) noexcept {
        T found{};
        std::memcpy(&found, bytes.data() + index * sizeof found, sizeof found);
        return found;
    }
    [[nodiscard]] std::int16_t level(std::uint64_t slot) const noexcept {
        return number_at<std::int16_t>(levels_, slot);
    }

    byte_reader rest_;
    const graph_form& form_;
    std::uint64_t count_;
    std::uint64_t highest_ = 0;
    std::uint64_t entry_ = 0;
    std::string_view levels_;
};

/// None where the graph is sound. The bytes must be there while this runs.
std::optional<std::string> check_graph(std::uintptr_t at, std::uint64_t bytes, const nb::bytes& head,
                                       std::uint64_t bytes_of_vector, std::uint64_t connectivity, std::uint64_t first,
                                       std::uint64_t end) {
    constexpr std::uint64_t most = std::uint64_t{1} << 32U;
    if (first >= end || end - first >= most || bytes_of_vector >= most || connectivity >= most) {
        return "a number of vectors, bytes or neighbours that no graph has";
    }
    const graph_form form{std::string_view(head.c_str(), head.size()), bytes_of_vector, connectivity, first, end};
    const nb::gil_scoped_release released;
    const char* const fault = graph_checker(std::string_view(reinterpret_cast<const char*>(at), bytes), form).fault();
    return fault == nullptr ? std::nullopt : std::optional<std::string>(fault);
}

}  // namespace

void bind_graphs(nb::module_& into) { into.def("check_graph", &check_graph); }

}  // namespace holdfast::python
