#include "powerloss/mounts.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

namespace holdfast::test {

namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

/// Claims a free loop device for the file; it lives as long as somebody has it open or mounted.
int attach_loop_device(int image, std::string& path) {
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) {
        fail("/dev/loop-control");
    }
    constexpr int attempts = 100;  // another may be quicker to take the one that was free
    for (int i = 0; i < attempts; ++i) {
        const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0) {
            break;
        }
        path = "/dev/loop" + std::to_string(number);
        const int device = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        if (device < 0) {
            break;
        }
        loop_config config{};
        config.fd = static_cast<std::uint32_t>(image);
        config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
        if (::ioctl(device, LOOP_CONFIGURE, &config) == 0) {
            ::close(control);
            return device;
        }
        const int reason = errno;
        ::close(device);
        errno = reason;
        if (reason != EBUSY) {
            break;
        }
    }
    const int reason = errno;
    ::close(control);
    errno = reason;
    fail("a loop device");
}

std::string new_directory() {
    const char* const parent = std::getenv("TMPDIR");
    std::string path = std::string(parent == nullptr ? "/tmp" : parent) + "/holdfast-mount-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) {
        fail(path);
    }
    return path;
}

std::string enter_own_mount_namespace() {
    const auto reason = [](const char* what) { return std::string(what) + ": " + std::strerror(errno); };
    if (::unshare(CLONE_NEWNS) != 0) {
        return reason("a mount namespace of our own (needs root)");
    }
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
        return reason("private mounts");
    }
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) {
        return reason("/dev/loop-control");
    }
    ::close(control);
    return {};
}

}  // namespace

const std::string& mounts_unavailable() {
    static const std::string why = enter_own_mount_namespace();
    return why;
}

void report_unavailable(const std::string& why) {
    const char* const required = std::getenv("HOLDFAST_REQUIRE_POWERLOSS");
    if (required != nullptr && std::string(required) == "1") {
        FAIL() << "file systems cannot be mounted here, as HOLDFAST_REQUIRE_POWERLOSS=1 asks for: " << why;
    }
    std::cerr << "\n*** NOT TESTED HERE: file systems cannot be mounted: " << why << "\n" << std::endl;
}

memory_file_system::memory_file_system(const std::string& options) : path_(new_directory()) {
    if (::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
        const int reason = errno;
        ::rmdir(path_.c_str());
        errno = reason;
        fail("mount a tmpfs");
    }
}

memory_file_system::~memory_file_system() {
    // Lazily: a process that is still dying must not leave the mount behind.
    ::umount2(path_.c_str(), MNT_DETACH);
    ::rmdir(path_.c_str());
}

const char* type_of(file_system_kind kind) noexcept {
    constexpr std::array types{"ext4", "xfs", "btrfs"};
    return types.at(static_cast<std::size_t>(kind));
}

const char* name_of(file_system_kind kind) noexcept {
    constexpr std::array names{"ext4", "XFS", "Btrfs"};
    return names.at(static_cast<std::size_t>(kind));
}

std::string unavailable(file_system_kind kind) {
    const std::string type = type_of(kind);
    if (std::system(("PATH=$PATH:/usr/sbin:/sbin command -v mkfs." + type + " >/dev/null").c_str()) != 0) {
        return "mkfs." + type + " is not installed";
    }
    // A module that is not loaded yet is not listed; mount() loads it.
    const bool known = std::system(("grep -qw " + type + " /proc/filesystems || modprobe -q " + type).c_str()) == 0;
    return known ? std::string() : "the kernel does not know " + type;
}

int image_file_system::new_image(std::uint64_t bytes) const {
    const int image = ::open(memory_.path().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (image < 0 || ::ftruncate(image, static_cast<off_t>(bytes)) != 0) {
        fail("an image in " + memory_.path());
    }
    return image;
}

image_file_system::image_file_system(file_system_kind kind, std::uint64_t bytes)
    : kind_(kind), memory_("mode=700"), path_(memory_.path() + "/mounted") {
    image_ = new_image(bytes);
    const std::string options = kind == file_system_kind::ext4 ? " -q -F -m 0 " : " -q -f ";
    const std::string command = std::string("PATH=$PATH:/usr/sbin:/sbin mkfs.") + type_of(kind) + options + "/proc/" +
                                std::to_string(::getpid()) + "/fd/" + std::to_string(image_) + " >/dev/null";
    if (std::system(command.c_str()) != 0) {
        throw std::runtime_error(command + ": failed");
    }
    device_ = attach_loop_device(image_, device_path_);
    if (::mkdir(path_.c_str(), 0755) != 0) {
        fail(path_);
    }
    mount();
}

image_file_system::~image_file_system() {
    ::umount2(path_.c_str(), MNT_DETACH);
    ::close(device_);
    ::close(image_);
}

void image_file_system::mount() {
    // Btrfs would write by itself after 30 s.
    const char* const options = kind_ == file_system_kind::btrfs ? "commit=300" : nullptr;
    if (::mount(device_path_.c_str(), path_.c_str(), type_of(kind_), 0, options) != 0) {
        fail("mount " + device_path_);
    }
}

void image_file_system::lose_power() {
    struct stat status {};
    if (::fstat(image_, &status) != 0) {
        fail("fstat of an image");
    }
    const int copy = new_image(static_cast<std::uint64_t>(status.st_size));
    for (off_t begin = ::lseek(image_, 0, SEEK_DATA); begin >= 0;) {
        const off_t end = ::lseek(image_, begin, SEEK_HOLE);
        off_t from = begin;
        off_t to = begin;
        while (from < end) {
            if (::copy_file_range(image_, &from, copy, &to, static_cast<std::size_t>(end - from), 0) <= 0) {
                fail("copy of an image");
            }
        }
        begin = ::lseek(image_, end, SEEK_DATA);
    }
    unmount();
    ::close(device_);
    ::close(std::exchange(image_, copy));
    device_ = attach_loop_device(image_, device_path_);
    mount();
}

void image_file_system::unmount() {
    constexpr int patience_ms = 5000;
    for (int waited = 0; ::umount2(path_.c_str(), 0) != 0; ++waited) {
        if (errno != EBUSY || waited == patience_ms) {
            fail("umount " + path_);
        }
        ::poll(nullptr, 0, 1);  // the kernel still closes what a killed process had open
    }
}

void image_file_system::shut_down() const {
    constexpr std::uint32_t without_log = 2;
    const int directory = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::uint32_t how = without_log;
    // XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN, which are one.
    const bool done = directory >= 0 && ::ioctl(directory, _IOR('X', 125, std::uint32_t), &how) == 0;
    const int error = errno;
    ::close(directory);
    if (!done) {
        throw std::system_error(error, std::generic_category(), "shutting down " + path_);
    }
}

void image_file_system::mount_again() {
    unmount();
    mount();
}

}  // namespace holdfast::test
