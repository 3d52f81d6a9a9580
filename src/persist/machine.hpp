// The machine: its nodes and processors, and when it was booted.
//
// Nodes are numbered without gaps in the order of the kernel's numbers; those without processors do not count.
// Processors that come online later belong to node 0, and so do all where the machine does not tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace holdfast::persist {

/// Thread-safe; nothing here fails.
class topology {
public:
    topology() = default;
    topology(const topology&) = delete;
    topology& operator=(const topology&) = delete;
    virtual ~topology() = default;

    /// At least 1.
    [[nodiscard]] virtual unsigned nodes() const noexcept = 0;
    [[nodiscard]] virtual unsigned node_of_cpu(unsigned cpu) const noexcept = 0;
    /// Ascending.
    [[nodiscard]] virtual std::span<const unsigned> cpus_of(unsigned node) const noexcept = 0;
    /// Costs a few loads, and may be out of date at once.
    [[nodiscard]] virtual unsigned current_node() const noexcept = 0;

    /// Advises the kernel to take memory for whole pages from the node. False where it refused.
    virtual bool prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept = 0;
    /// As long as it lives, the kernel takes this thread's memory from the node, if it can: for fallocate() of files in
    /// memory.
    class preference {
    public:
        preference() noexcept = default;
        preference(const topology& of, unsigned node) noexcept;
        preference(const preference&) = delete;
        preference& operator=(const preference&) = delete;
        ~preference();

    private:
        const topology* of_ = nullptr;  ///< null: nothing was changed
    };

protected:
    /// Sets the memory policy of the calling thread. False where the kernel refuses, or where the thread has a policy
    /// of its own, which stays.
    virtual bool prefer_for_this_thread(unsigned node) const noexcept = 0;
    virtual void prefer_nothing_for_this_thread() const noexcept = 0;
};

class machine_topology final : public topology {
public:
    explicit machine_topology(const std::string& nodes_directory);
    [[nodiscard]] static const machine_topology& here() noexcept;

    [[nodiscard]] unsigned nodes() const noexcept override { return static_cast<unsigned>(cpus_.size()); }
    [[nodiscard]] unsigned node_of_cpu(unsigned cpu) const noexcept override {
        return cpu < node_of_cpu_.size() ? node_of_cpu_[cpu] : 0;
    }
    [[nodiscard]] std::span<const unsigned> cpus_of(unsigned node) const noexcept override { return cpus_[node]; }
    [[nodiscard]] unsigned current_node() const noexcept override;
    bool prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept override;

protected:
    bool prefer_for_this_thread(unsigned node) const noexcept override;
    void prefer_nothing_for_this_thread() const noexcept override;

private:
    std::vector<std::vector<unsigned>> cpus_;  ///< by node
    std::vector<unsigned> node_of_cpu_;
    std::vector<unsigned> kernel_numbers_;  ///< by node
};

/// For tests: processors are numbered from node 0 on. Preferences have no effect.
class made_up_topology final : public topology {
public:
    explicit made_up_topology(unsigned nodes, unsigned cpus_a_node = 1);

    /// On all made-up machines.
    static void move_this_thread_to(unsigned node) noexcept;

    [[nodiscard]] unsigned nodes() const noexcept override { return static_cast<unsigned>(cpus_.size()); }
    [[nodiscard]] unsigned node_of_cpu(unsigned cpu) const noexcept override;
    [[nodiscard]] std::span<const unsigned> cpus_of(unsigned node) const noexcept override { return cpus_[node]; }
    [[nodiscard]] unsigned current_node() const noexcept override;
    bool prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept override;

protected:
    bool prefer_for_this_thread(unsigned node) const noexcept override;
    void prefer_nothing_for_this_thread() const noexcept override {}

private:
    std::vector<std::vector<unsigned>> cpus_;
};

/// Of this boot, from the kernel's random identity; 0: unknown. What was not synced is gone in a later one, unless the
/// machine was shut down in order. Thread-safe.
[[nodiscard]] std::uint64_t this_boot() noexcept;

}  // namespace holdfast::persist
