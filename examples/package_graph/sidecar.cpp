#include "sidecar.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "checksum.hpp"

namespace package_graph {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path) {
    throw std::system_error(errno, std::generic_category(), action + " " + path);
}

[[nodiscard]] std::uint64_t checksum_of(std::string_view line) { return checksum64{}.add(line).value(); }

/// Removes the checksum from the line; false where the line is damaged.
[[nodiscard]] bool unseal(std::string& line) {
    const std::size_t space = line.rfind(' ');
    if (space == std::string::npos) {
        return false;
    }
    const bool good = line.substr(space + 1) == fmt::format("{:016x}", checksum_of({line.data(), space}));
    line.resize(space);
    return good;
}

void take_line(const std::string& line, testimony& into) {
    std::istringstream fields(line);
    std::string kind;
    fields >> kind;
    if (kind == "open") {
        std::uint64_t process = 0;
        fields >> process >> std::hex >> into.base_address;
        ++into.opened;
    } else if (kind == "begin") {
        fields >> into.begun;
    } else if (kind == "done") {
        commit_record record;
        fields >> record.number >> record.graph.stanzas >> record.graph.packages >> record.graph.names >>
            record.graph.edges;
        fields >> std::hex >> record.graph.checksum >> record.base_address;
        into.done.push_back(record);
    } else {
        fields.setstate(std::ios::failbit);
    }
    if (!fields) {
        throw input_error(fmt::format("sidecar: found '{}', expected open, begin or done and their numbers", line));
    }
}

}  // namespace

std::string sidecar_path(const std::string& heap) {
    std::filesystem::path path(heap);
    if (!path.has_filename()) {
        path = path.parent_path();  // dir/heap.hf/ means dir/heap.hf
    }
    return path.string() + ".commits";
}

testimony read_sidecar(const std::string& path) {
    testimony result;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        if (errno != ENOENT) {
            fail("cannot read", path);
        }
        return result;
    }
    std::string line;
    while (std::getline(file, line) && !file.eof()) {  // at the end of the file: no newline, so the line was cut short
        const std::size_t length = line.size() + 1;
        if (!unseal(line)) {
            throw input_error(
                fmt::format("{}: byte {}: the line does not match its checksum", path, result.valid_bytes));
        }
        take_line(line, result);
        result.valid_bytes += length;
    }
    return result;
}

sidecar::sidecar(const std::string& path, const testimony& present)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) {
        fail("cannot open", path_);
    }
    if (::ftruncate(descriptor_, static_cast<off_t>(present.valid_bytes)) != 0) {
        const int reason = errno;
        ::close(descriptor_);
        errno = reason;
        fail("cannot truncate", path_);
    }
}

sidecar::~sidecar() { ::close(descriptor_); }

void sidecar::opened(std::uint64_t base_address) { append(fmt::format("open {} {:#x}", ::getpid(), base_address)); }

void sidecar::begun(std::uint64_t commit) { append(fmt::format("begin {}", commit)); }

void sidecar::done(const commit_record& record) {
    const summary& graph = record.graph;
    append(fmt::format("done {} {} {} {} {} {:016x} {:#x}", record.number, graph.stanzas, graph.packages, graph.names,
                       graph.edges, graph.checksum, record.base_address));
}

void sidecar::append(const std::string& line) {
    const std::string sealed = fmt::format("{} {:016x}\n", line, checksum_of(line));
    std::string_view rest = sealed;
    while (!rest.empty()) {
        const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
        if (written < 0 && errno != EINTR) {
            fail("cannot write", path_);
        }
        if (written > 0) {
            rest.remove_prefix(static_cast<std::size_t>(written));
        }
    }
    if (::fdatasync(descriptor_) != 0) {
        fail("cannot sync", path_);
    }
}

}  // namespace package_graph
