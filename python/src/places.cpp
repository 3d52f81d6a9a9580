#include "places.hpp"

#include <cstdint>
#include <utility>

namespace holdfast::python {

using values::dict;
using values::dict_entry;
using values::sequence;

namespace {

constexpr std::size_t most_values = 1'000'000;
constexpr std::size_t longest_key = 60;
constexpr std::size_t longest_place = 200;

struct step {
    std::size_t parent;
    value at;
    value key;            ///< in a dict
    std::uint64_t index;  ///< in a list or a tuple
    bool is_key = false;
};

std::string key_text(const contents& in, const value& key) {
    const document read = in.read(key, false);
    switch (read.what) {
        case kind::integer: return std::to_string(static_cast<std::int64_t>(read.number));
        case kind::text:
        case kind::bytes: {
            const std::string cut =
                read.bytes.size() > longest_key ? read.bytes.substr(0, longest_key) + "..." : read.bytes;
            return (read.what == kind::bytes ? "b'" : "'") + cut + "'";
        }
        default: return "...";
    }
}

std::string place_of(const contents& in, const std::vector<step>& steps, std::size_t at) {
    std::vector<std::string> parts;
    for (; at != 0; at = steps[at].parent) {
        const step& last = steps[at];
        parts.push_back("[" + (last.is_key ? key_text(in, last.key) : std::to_string(last.index)) + "]");
    }
    std::string place = "heap";
    for (std::size_t i = parts.size(); i-- > 0;) {
        place += parts[i];
        if (place.size() > longest_place) {
            return place + "...";
        }
    }
    return place;
}

/// Breadth first. Counts the values that it looks at, so that it ends in a damaged heap, too.
class place_finder {
public:
    place_finder(const contents& in, std::unordered_set<const void*> wanted) : in_(in), wanted_(std::move(wanted)) {}

    [[nodiscard]] std::vector<std::string> find(const value& from) {
        steps_.push_back({.parent = 0, .at = from, .key = {}, .index = 0});
        for (std::size_t next = 0; next < steps_.size() && goes_on(); ++next) {
            const value at = steps_[next].at;
            if (at.what == kind::dict) {
                const auto& place = *in_.space.object_of<dict>(at);
                for (const dict_entry* each = in_.step(place, nullptr, false); each != nullptr && goes_on();) {
                    const dict_entry& entry = in_.expect_entry(each);
                    inspect({.parent = next, .at = entry.content, .key = entry.key, .index = 0, .is_key = true});
                    each = entry.following.get();
                }
            } else if (sequence::holds(at.what)) {
                const auto& place = *in_.space.object_of<sequence>(at);
                const std::uint64_t size = in_.space.look(place).size;
                for (std::uint64_t i = 0; i < size && goes_on(); ++i) {
                    inspect({.parent = next, .at = in_.at(place, i), .key = {}, .index = i});
                }
            }
        }
        return std::move(found_);
    }

private:
    [[nodiscard]] bool goes_on() const noexcept { return !wanted_.empty() && seen_ < most_values; }
    void inspect(const step& part) {
        ++seen_;
        if (part.at.object == nullptr) {
            return;
        }
        const bool is_wanted = wanted_.erase(part.at.object.get()) != 0;
        if (is_wanted || part.at.what == kind::dict || sequence::holds(part.at.what)) {
            steps_.push_back(part);
        }
        if (is_wanted) {
            found_.push_back(place_of(in_, steps_, steps_.size() - 1));
        }
    }

    const contents& in_;
    std::unordered_set<const void*> wanted_;
    std::vector<step> steps_;
    std::vector<std::string> found_;
    std::size_t seen_ = 0;
};

}  // namespace

std::vector<std::string> find_places(const contents& in, const value& from, std::unordered_set<const void*> wanted) {
    return place_finder(in, std::move(wanted)).find(from);
}

}  // namespace holdfast::python
