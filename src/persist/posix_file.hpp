#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/units.hpp"
#include "persist/descriptor.hpp"
#include "persist/domain.hpp"
#include "persist/posix_io.hpp"
#include "persist/storage.hpp"

namespace holdfast::persist {

class posix_file final : public file {
public:
    /// `notes` may be null.
    posix_file(std::string path, descriptor fd, std::shared_ptr<noted_descriptors> notes) noexcept
        : path_(std::move(path)), fd_(std::move(fd)), notes_(std::move(notes)) {
        if (notes_ != nullptr) {
            notes_->add(fd_.get());
        }
    }
    posix_file(const posix_file&) = delete;
    posix_file& operator=(const posix_file&) = delete;
    ~posix_file() override {
        if (notes_ != nullptr) {
            notes_->remove(fd_.get());
        }
    }

    [[nodiscard]] const std::string& path() const noexcept override { return path_; }
    [[nodiscard]] int native_handle() const noexcept override { return fd_.get(); }
    base::result<std::uint64_t> size() override { return size_of(fd_.get(), path_); }

    base::result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        return read_fully(fd_.get(), offset, buffer, path_);
    }
    base::result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site /*where*/) override {
        return write_fully(fd_.get(), offset, data, path_);
    }
    base::result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                                    site /*where*/) override {
        return write_parts_fully(fd_.get(), offset, parts, path_);
    }

    void start_writeback() noexcept override { ::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE); }
    void write_back(std::uint64_t offset, std::uint64_t length) noexcept override {
        ::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(length),
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    base::result<void> sync(site /*where*/) override {
        return sync_by("fdatasync", [this] { return ::fdatasync(fd_.get()); });
    }
    base::result<void> sync_mapped(std::uint64_t offset, std::span<const std::byte> mapped, site /*where*/) override {
        const std::uint64_t before = offset % base::page_size;  // msync() begins with a page
        auto* const begin = const_cast<std::byte*>(mapped.data()) - before;
        return sync_by("msync", [&] { return ::msync(begin, mapped.size() + before, MS_SYNC); });
    }
    void flush_mapped(std::uint64_t /*offset*/, std::span<const std::byte> mapped, site where) noexcept override {
        static const dax_domain memory;
        memory.flush(mapped.data(), mapped.size(), where);
    }
    void fence_mapped(site where) noexcept override { dax_domain::fence(where); }

    base::result<void> write_through(std::uint64_t offset, std::span<const std::byte> data, site /*where*/) override {
        return write_durably(fd_.get(), offset, data, path_);
    }
    void bypass_page_cache() noexcept override {
        const int flags = ::fcntl(fd_.get(), F_GETFL);
        static_cast<void>(::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT));
    }

    base::result<void> resize(std::uint64_t bytes, site /*where*/) override {
        return set_size(fd_.get(), bytes, path_);
    }
    base::result<void> allocate(std::uint64_t offset, std::uint64_t length, site /*where*/) override {
        return reserve_space(fd_.get(), offset, length, path_);
    }
    base::result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site /*where*/) override {
        return punch(fd_.get(), offset, length, path_);
    }
    bool is_in_memory() noexcept override {
        struct statfs numbers {};
        return ::fstatfs(fd_.get(), &numbers) == 0 && (numbers.f_type == TMPFS_MAGIC || numbers.f_type == RAMFS_MAGIC);
    }
    base::result<std::uint64_t> charged() override {
        struct stat status {};
        if (::fstat(fd_.get(), &status) != 0) {
            return base::os_failure(errno, "fstat", path_);
        }
        return static_cast<std::uint64_t>(status.st_blocks) * stat_block_size;
    }

private:
    // The kernel reports a lost write once; the next sync returns 0.
    template <class Call>
    base::result<void> sync_by(const char* operation, Call call) {
        if (sync_failure_) {
            return *sync_failure_;
        }
        int answer = 0;
        do {
            answer = call();
        } while (answer != 0 && errno == EINTR);
        if (answer != 0) {
            sync_failure_ = base::os_failure(errno, operation, path_);
            return *sync_failure_;
        }
        return {};
    }

    static constexpr std::uint64_t stat_block_size = 512;

    std::string path_;
    descriptor fd_;
    std::shared_ptr<noted_descriptors> notes_;
    std::optional<base::failure> sync_failure_;
};

}  // namespace holdfast::persist
