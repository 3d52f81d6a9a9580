#include "persist/machine.hpp"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/checksum.hpp"

namespace holdfast::persist {

namespace {

constexpr unsigned largest_number = 65'535;  ///< larger numbers are not believed
constexpr std::size_t bits_a_word = 8 * sizeof(unsigned long);
using node_mask = std::array<unsigned long, 1024 / bits_a_word>;

std::optional<unsigned> read_number(std::string_view text) {
    unsigned number = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
    return error == std::errc{} && end == text.end() && number <= largest_number ? std::optional(number) : std::nullopt;
}

/// Such as "0-3,8". Text of another form gives no numbers.
std::vector<unsigned> read_list(std::string_view text) {
    std::vector<unsigned> numbers;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        const std::size_t dash = part.find('-');
        const auto first = read_number(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : read_number(part.substr(dash + 1));
        for (unsigned number = first.value_or(1); first && last && number <= *last; ++number) {
            numbers.push_back(number);
        }
    }
    return numbers;
}

std::map<unsigned, std::vector<unsigned>> read_nodes(const std::string& directory) {
    constexpr std::string_view prefix = "node";
    std::map<unsigned, std::vector<unsigned>> nodes;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
        const std::string name = entry.path().filename().string();
        const auto number =
            name.starts_with(prefix) ? read_number(std::string_view(name).substr(prefix.size())) : std::nullopt;
        std::string list;
        if (number && std::getline(std::ifstream(entry.path() / "cpulist"), list)) {
            if (auto cpus = read_list(list); !cpus.empty()) {
                nodes.emplace(*number, std::move(cpus));
            }
        }
    }
    return nodes;
}

/// Nothing where the number does not fit the mask.
std::optional<node_mask> mask_of(unsigned kernel_number) {
    node_mask mask{};
    if (kernel_number >= mask.size() * bits_a_word) {
        return std::nullopt;
    }
    mask.at(kernel_number / bits_a_word) = 1UL << (kernel_number % bits_a_word);
    return mask;
}

thread_local unsigned node_of_this_thread = 0;  ///< on made-up machines

}  // namespace

topology::preference::preference(const topology& of, unsigned node) noexcept
    : of_(of.prefer_for_this_thread(node) ? &of : nullptr) {}

topology::preference::~preference() {
    if (of_ != nullptr) {
        of_->prefer_nothing_for_this_thread();
    }
}

machine_topology::machine_topology(const std::string& nodes_directory) {
    for (auto& [kernel_number, cpus] : read_nodes(nodes_directory)) {
        for (const unsigned cpu : cpus) {
            node_of_cpu_.resize(std::max<std::size_t>(node_of_cpu_.size(), cpu + 1U));
            node_of_cpu_[cpu] = static_cast<unsigned>(cpus_.size());
        }
        kernel_numbers_.push_back(kernel_number);
        cpus_.push_back(std::move(cpus));
    }
    if (cpus_.empty()) {  // the kernel tells nothing
        kernel_numbers_.push_back(0);
        auto& all = cpus_.emplace_back();
        const long configured = ::sysconf(_SC_NPROCESSORS_CONF);
        for (unsigned cpu = 0; cpu < static_cast<unsigned>(std::max(configured, 1L)); ++cpu) {
            all.push_back(cpu);
        }
    }
}

const machine_topology& machine_topology::here() noexcept {
    // Never destroyed: destructors of static objects may still close heaps.
    alignas(machine_topology) static std::array<std::byte, sizeof(machine_topology)> place;
    static const auto* const instance =
        std::construct_at(reinterpret_cast<machine_topology*>(place.data()), "/sys/devices/system/node");
    return *instance;
}

unsigned machine_topology::current_node() const noexcept {
    if (nodes() == 1) {
        return 0;
    }
    const int cpu = ::sched_getcpu();
    return cpu < 0 ? 0 : node_of_cpu(static_cast<unsigned>(cpu));
}

bool machine_topology::prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept {
    const auto mask = mask_of(kernel_numbers_[node]);
    return mask &&
           ::syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, mask->data(), mask->size() * bits_a_word, 0) == 0;
}

bool machine_topology::prefer_for_this_thread(unsigned node) const noexcept {
    int policy = MPOL_DEFAULT;
    const auto mask = mask_of(kernel_numbers_[node]);
    if (!mask || nodes() == 1 || ::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 ||
        policy != MPOL_DEFAULT) {
        return false;
    }
    return ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask->data(), mask->size() * bits_a_word) == 0;
}

void machine_topology::prefer_nothing_for_this_thread() const noexcept {
    ::syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0);
}

made_up_topology::made_up_topology(unsigned nodes, unsigned cpus_a_node) {
    unsigned next = 0;
    for (unsigned node = 0; node < std::max(nodes, 1U); ++node) {
        auto& cpus = cpus_.emplace_back();
        for (unsigned i = 0; i < std::max(cpus_a_node, 1U); ++i) {
            cpus.push_back(next++);
        }
    }
}

void made_up_topology::move_this_thread_to(unsigned node) noexcept { node_of_this_thread = node; }

unsigned made_up_topology::node_of_cpu(unsigned cpu) const noexcept {
    const std::size_t node = cpu / cpus_.front().size();
    return node < cpus_.size() ? static_cast<unsigned>(node) : 0;
}

unsigned made_up_topology::current_node() const noexcept { return node_of_this_thread % nodes(); }

bool made_up_topology::prefer_memory(unsigned /*node*/, std::byte* /*address*/,
                                     std::uint64_t /*bytes*/) const noexcept {
    return false;
}

bool made_up_topology::prefer_for_this_thread(unsigned /*node*/) const noexcept { return false; }

std::uint64_t this_boot() noexcept {
    static const std::uint64_t boot = []() noexcept -> std::uint64_t {
        const int file = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            return 0;
        }
        std::array<std::byte, 64> text{};
        const ssize_t size = ::read(file, text.data(), text.size());
        ::close(file);
        return size <= 0 ? 0 : base::checksum64(std::span(text).first(static_cast<std::size_t>(size))) | 1U;
    }();
    return boot;
}

}  // namespace holdfast::persist
