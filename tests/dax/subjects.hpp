// What the guest keeps on DAX besides single calls: a table from numbers to numbers, by each of the ways in which
// Holdfast stores one. Operation n of a seed changes one entry; when it has returned, it is durable.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace holdfast::dax {

inline constexpr std::uint64_t keys = 300;

using table = std::map<std::uint64_t, std::uint64_t>;

struct change {
    std::uint64_t key;
    std::uint64_t value;  ///< 0: the entry goes, where there is one
};
/// Of operation `number`, from 1.
[[nodiscard]] change change_of(std::uint64_t seed, std::uint64_t number);
void add_change(const change& one, table& to);

class subject {
public:
    subject() = default;
    subject(const subject&) = delete;
    subject& operator=(const subject&) = delete;
    virtual ~subject() = default;
    virtual void carry_out(const change& one, std::uint64_t number) = 0;
    /// Throws std::runtime_error where what is there is not sound.
    [[nodiscard]] virtual table content() = 0;
    /// "dax", "eadr": what it found.
    [[nodiscard]] virtual std::string domain() const = 0;
    /// What its own check finds.
    [[nodiscard]] virtual std::size_t problems() = 0;
};

struct subject_kind {
    const char* name;
    std::unique_ptr<subject> (*open)(const std::string& path);
};
inline constexpr std::size_t subject_count = 7;
[[nodiscard]] const std::array<subject_kind, subject_count>& subjects();

}  // namespace holdfast::dax
