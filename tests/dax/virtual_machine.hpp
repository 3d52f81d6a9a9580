// A guest with an NVDIMM, and its console.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast::dax {

struct machine_options {
    std::string kernel;
    std::string initramfs;
    std::string nvdimm;               ///< a file; it keeps the guest's stores however the machine ends
    std::uint64_t nvdimm_size = 0;    ///< bytes
    bool persistent_caches = false;   ///< caches survive a power loss, as the platform reports
    std::string kernel_command_line;  ///< words name=value reach the guest's first process
};

/// Runs at most as long as the object lives. Not thread-safe.
class virtual_machine {
public:
    explicit virtual_machine(const machine_options& options);
    virtual_machine(const virtual_machine&) = delete;
    virtual_machine& operator=(const virtual_machine&) = delete;
    ~virtual_machine();

    /// The next line of the console; nothing if the machine ended or was silent for a minute.
    [[nodiscard]] std::optional<std::string> next_line();
    /// SIGKILL; returns when the machine has ended.
    void kill();

private:
    pid_t process_ = -1;
    int console_ = -1;
    std::string buffer_;
};

}  // namespace holdfast::dax
