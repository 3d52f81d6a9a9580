// By pread(), so that a file that is cut meanwhile gives an error.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lmdb_file/lmdb_file_reader.hpp"

namespace holdfast_lmdb_file {
namespace {

class opened_file : public byte_source {
public:
    explicit opened_file(std::string path) : path_(std::move(path)) {
        struct stat status {};
        file_ = ::open(path_.c_str(), flags);
        if (file_ >= 0 && ::fstat(file_, &status) == 0 && S_ISDIR(status.st_mode)) {
            ::close(file_);
            path_ += "/data.mdb";
            file_ = ::open(path_.c_str(), flags);
        }
        if (file_ < 0 || ::fstat(file_, &status) != 0) {
            fail();
        }
        if (!S_ISREG(status.st_mode)) {
            ::close(file_);
            throw file_error(path_ + ": it is no regular file");
        }
        size_ = static_cast<std::uint64_t>(status.st_size);
    }
    opened_file(const opened_file&) = delete;
    opened_file& operator=(const opened_file&) = delete;
    ~opened_file() override { ::close(file_); }

    [[nodiscard]] std::uint64_t size() const override { return size_; }

    void read(std::uint64_t offset, std::span<std::byte> to) const override {
        while (!to.empty()) {
            const ssize_t got = ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) {
                continue;
            }
            if (got < 0) {
                fail();
            }
            if (got == 0) {
                throw file_error(path_ + ": it was cut while it was read");
            }
            offset += static_cast<std::uint64_t>(got);
            to = to.subspan(static_cast<std::size_t>(got));
        }
    }

private:
    static constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // no waiting for who writes to a pipe

    [[noreturn]] void fail() const { throw file_error(path_ + ": " + std::strerror(errno)); }

    std::string path_;
    int file_ = -1;
    std::uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<byte_source> open_file(const std::string& path) { return std::make_unique<opened_file>(path); }

}  // namespace holdfast_lmdb_file
