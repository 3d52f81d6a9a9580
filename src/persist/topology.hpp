// The nodes of the machine: groups of processors, each with memory that is nearer to them than to others (NUMA).
//
// Nodes are counted from 0 without gaps, in the order of the kernel's numbers; a node without processors (memory alone)
// is none. A topology never changes: processors that come later, and machines that do not tell, belong to node 0. That
// it is an interface lets tests have any number of nodes on any machine.
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
    /// The processors of a node, ascending.
    [[nodiscard]] virtual std::span<const unsigned> cpus_of(unsigned node) const noexcept = 0;
    /// Where the calling thread runs at this moment: a few loads. It may be elsewhere the next.
    [[nodiscard]] virtual unsigned current_node() const noexcept = 0;

    /// What the kernel allocates for these addresses from now on comes from the node's memory where there is some. An
    /// advice: false where it was not taken. Whole pages.
    virtual bool prefer_memory(unsigned node, std::byte* address, std::uint64_t bytes) const noexcept = 0;
    /// The same for what the kernel allocates on behalf of this thread, until the object goes: for fallocate() of files
    /// in memory.
    class preference {
    public:
        /// Nowhere in particular.
        preference() noexcept = default;
        preference(const topology& of, unsigned node) noexcept;
        preference(const preference&) = delete;
        preference& operator=(const preference&) = delete;
        ~preference();

    private:
        const topology* of_ = nullptr;  ///< null: nothing was changed
    };

protected:
    /// Of the calling thread: prefers the node, or goes back to the system's own policy. False where it could not, or
    /// where the thread has a policy of its own, which stays.
    virtual bool prefer_for_this_thread(unsigned node) const noexcept = 0;
    virtual void prefer_nothing_for_this_thread() const noexcept = 0;
};

/// As the kernel describes a machine in a directory of the form of /sys/devices/system/node.
class machine_topology final : public topology {
public:
    explicit machine_topology(const std::string& nodes_directory);
    /// This machine.
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

/// A machine that is not there: every node has as many processors as asked for, numbered from node 0 on, and a thread
/// runs where it says. Memory is where it is.
class made_up_topology final : public topology {
public:
    explicit made_up_topology(unsigned nodes, unsigned cpus_a_node = 1);

    /// From now on the calling thread is on this node, of all machines that are made up; before, on node 0.
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

}  // namespace holdfast::persist
