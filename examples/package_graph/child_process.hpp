// child_process: starts, watches and kills another process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace package_graph {

class child_process {
public:
    /// Starts a program, which is searched in PATH if its name has no slash. `output`: a file for its standard output;
    /// "": that of this process. The child is killed if this process dies. Throws std::system_error.
    explicit child_process(const std::vector<std::string>& command, const std::string& output = "");
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    /// Kills the child if it still runs.
    ~child_process();

    [[nodiscard]] pid_t id() const noexcept { return id_; }
    [[nodiscard]] bool running();
    void kill() noexcept;
    /// The exit status, or 128 plus the number of the signal that killed it, or 127 where it could not start.
    [[nodiscard]] int wait();

private:
    [[nodiscard]] bool collect(int options);

    pid_t id_ = -1;
    std::optional<int> status_;
};

/// Runs a command to its end; the result is that of wait().
[[nodiscard]] int run(const std::vector<std::string>& command, const std::string& output = "");

}  // namespace package_graph
