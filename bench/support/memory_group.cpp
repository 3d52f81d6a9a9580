#include "support/memory_group.hpp"

#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

namespace bench {

namespace {

namespace fs = std::filesystem;

bool write(const fs::path& file, std::uint64_t value) {
    std::ofstream out(file);
    out << value << std::flush;
    return out.good();
}

}  // namespace

memory_group::memory_group(std::uint64_t bytes) {
    const bool is_unified = fs::exists("/sys/fs/cgroup/cgroup.controllers");
    const fs::path path = fs::path(is_unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory") /
                          fmt::format("holdfast-bench.{}", ::getpid());
    std::error_code failed;
    if (!fs::create_directory(path, failed)) {
        return;
    }
    if (write(path / (is_unified ? "memory.max" : "memory.limit_in_bytes"), bytes)) {
        if (is_unified) {
            static_cast<void>(write(path / "memory.swap.max", 0));  // not there where the kernel knows no swap
        }
        path_ = path;
    } else {
        fs::remove(path, failed);
    }
}

memory_group::~memory_group() {
    std::error_code ignored;
    fs::remove(path_, ignored);
}

void memory_group::enter() const {
    if (!write(path_ / "cgroup.procs", static_cast<std::uint64_t>(::getpid()))) {
        throw std::runtime_error("cannot enter the control group " + path_.string());
    }
}

}  // namespace bench
