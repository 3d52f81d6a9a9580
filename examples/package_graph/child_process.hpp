// Another process, started, watched and killed.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace package_graph {

class child_process {
public:
    /// Starts the program (looked up in PATH where it has no slash); `output`: a file that takes its standard output,
    /// "" to share ours. It dies with us. Throws std::system_error.
    explicit child_process(const std::vector<std::string>& command, const std::string& output = "");
    child_process(const child_process&) = delete;
    child_process& operator=(const child_process&) = delete;
    /// Kills it if it still runs.
    ~child_process();

    [[nodiscard]] pid_t id() const noexcept { return id_; }
    [[nodiscard]] bool running();
    void kill() noexcept;
    /// Its exit status, 128 plus the signal's number where it was killed, 127 where the program could not be started.
    [[nodiscard]] int wait();

private:
    [[nodiscard]] bool collect(int options);

    pid_t id_ = -1;
    std::optional<int> status_;
};

/// Runs it to its end.
[[nodiscard]] int run(const std::vector<std::string>& command, const std::string& output = "");

}  // namespace package_graph
