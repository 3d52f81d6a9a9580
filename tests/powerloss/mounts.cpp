#include "powerloss/mounts.hpp"

#include <fcntl.h>
#include <linux/loop.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <system_error>

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

}  // namespace

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

image_file_system::image_file_system(file_system_kind kind, std::uint64_t bytes)
    : kind_(kind), memory_("mode=700"), path_(memory_.path() + "/mounted") {
    const std::string image_path = memory_.path() + "/image";
    const int image = ::open(image_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (image < 0 || ::ftruncate(image, static_cast<off_t>(bytes)) != 0) {
        fail(image_path);
    }
    const std::string program = kind == file_system_kind::ext4 ? "mkfs.ext4 -q -F -m 0 " : "mkfs.xfs -q -f ";
    if (std::system(("PATH=$PATH:/usr/sbin:/sbin " + program + image_path).c_str()) != 0) {
        throw std::runtime_error(program + "failed");
    }
    device_ = attach_loop_device(image, device_path_);
    ::close(image);
    ::unlink(image_path.c_str());
    if (::mkdir(path_.c_str(), 0755) != 0) {
        fail(path_);
    }
    mount();
}

image_file_system::~image_file_system() {
    ::umount2(path_.c_str(), MNT_DETACH);
    ::close(device_);
}

void image_file_system::mount() {
    const char* const type = kind_ == file_system_kind::ext4 ? "ext4" : "xfs";
    if (::mount(device_path_.c_str(), path_.c_str(), type, 0, nullptr) != 0) {
        fail("mount " + device_path_);
    }
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

void image_file_system::mount_again() {
    unmount();
    mount();
}

}  // namespace holdfast::test
