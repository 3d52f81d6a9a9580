#include "dax/virtual_machine.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

namespace holdfast::dax {

namespace {

std::vector<std::string> command_of(const machine_options& options) {
    const std::string size = std::to_string(options.nvdimm_size);
    const std::string domain = options.persistent_caches ? "cpu" : "mem-ctrl";
    return {"qemu-system-x86_64",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
            "-smp",
            "2",
            "-machine",
            "q35,nvdimm=on,nvdimm-persistence=" + domain,
            "-m",
            "512M,slots=2,maxmem=4G",
            "-object",
            "memory-backend-file,id=media,share=on,mem-path=" + options.nvdimm + ",size=" + size,
            "-device",
            "nvdimm,memdev=media",
            "-nodefaults",
            "-no-reboot",
            "-display",
            "none",
            "-monitor",
            "none",
            "-serial",
            "stdio",
            "-kernel",
            options.kernel,
            "-initrd",
            options.initramfs,
            "-append",
            "console=ttyS0 quiet loglevel=0 panic=-1 " + options.kernel_command_line};
}

}  // namespace

virtual_machine::virtual_machine(const machine_options& options) {
    std::vector<std::string> words = command_of(options);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
        arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe");
    }
    process_ = ::fork();  // lint-allow(fork): becomes another program
    if (process_ == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // must not outlive the test
        ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), STDIN_FILENO);
        ::dup2(ends[1], STDOUT_FILENO);
        ::dup2(ends[1], STDERR_FILENO);
        ::execvp(arguments.front(), arguments.data());
        ::_exit(127);
    }
    ::close(ends[1]);
    console_ = ends[0];
    if (process_ < 0) {
        ::close(console_);
        throw std::system_error(errno, std::generic_category(), "fork");
    }
}

virtual_machine::~virtual_machine() {
    kill();
    ::close(console_);
}

std::optional<std::string> virtual_machine::next_line() {
    constexpr int patience_ms = 60'000;
    for (;;) {
        if (const auto end = buffer_.find('\n'); end != std::string::npos) {
            std::string line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            if (line.ends_with('\r')) {
                line.pop_back();
            }
            return line;
        }
        pollfd console{console_, POLLIN, 0};
        std::array<char, 4096> bytes{};
        if (::poll(&console, 1, patience_ms) <= 0) {
            return std::nullopt;
        }
        const ssize_t count = ::read(console_, bytes.data(), bytes.size());
        if (count <= 0) {
            return std::nullopt;
        }
        buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

void virtual_machine::kill() {
    if (process_ > 0) {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        process_ = -1;
    }
}

}  // namespace holdfast::dax
