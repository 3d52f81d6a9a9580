#include "support/scratch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "base/checksum.hpp"

namespace holdfast::support {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
    throw std::system_error(errno, std::generic_category(), what + " " + path);
}

std::string describe(const fs::path& path) {
    const fs::file_status status = fs::symlink_status(path);
    if (!fs::is_regular_file(status)) {
        return fs::is_directory(status) ? "directory" : "other";
    }
    // What processes say to one another.
    if (path.filename() == "lock" || path.filename() == "readers") {
        return path.filename().string();
    }
    const std::vector<char> bytes = read_bytes(path.string());
    return fmt::format("{} bytes, {:016x}", bytes.size(), base::checksum64(std::as_bytes(std::span(bytes))));
}

}  // namespace

std::map<std::string, std::string> files_under(const std::string& path) {
    std::map<std::string, std::string> found;
    if (!fs::exists(fs::symlink_status(path))) {
        return found;
    }
    found["."] = describe(path);
    if (fs::is_directory(path)) {
        for (const auto& entry : fs::recursive_directory_iterator(path)) {
            found[fs::relative(entry.path(), path).string()] = describe(entry.path());
        }
    }
    return found;
}

void copy_directory(const std::string& from, const std::string& to) {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive);
}

std::vector<char> read_bytes(const std::string& path) { return read_bytes(path, 0, fs::file_size(path)); }

std::vector<char> read_bytes(const std::string& path, std::uint64_t offset, std::size_t count) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes(count);
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(bytes.data(), static_cast<std::streamsize>(count));
    if (!file) {
        fail("read", path);
    }
    return bytes;
}

void write_bytes(const std::string& path, std::uint64_t offset, const std::vector<char>& bytes) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    const ssize_t put = fd < 0 ? -1 : ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (fd >= 0) {
        ::close(fd);
    }
    if (put != static_cast<ssize_t>(bytes.size())) {
        fail("write", path);
    }
}

void flip_bit(const std::string& path, std::uint64_t byte, unsigned bit) {
    std::vector<char> value = read_bytes(path, byte, 1);
    value[0] = static_cast<char>(static_cast<unsigned char>(value[0]) ^ (1U << bit));
    write_bytes(path, byte, value);
}

}  // namespace holdfast::support
