// File systems that a test mounts for itself: tmpfs of a given size, and ext4, XFS or Btrfs in an image on a loop
// device.
//
// All of it lies in a mount namespace that only this process and its children see; loop devices are made to vanish with
// their last user, and images are nameless. So however the process ends, the kernel cleans up, and runs side by side do
// not meet.
#pragma once

#include <cstdint>
#include <string>

namespace holdfast::test {

/// Moves this process into a mount namespace of its own, at the first call, which comes before threads are started.
/// Returns why that (or a loop device) is not to be had here; an empty string where all is well.
[[nodiscard]] const std::string& mounts_unavailable();

/// Says loudly that a test cannot run here, and fails it where HOLDFAST_REQUIRE_POWERLOSS=1 asks for that.
void report_unavailable(const std::string& why);

/// A tmpfs on a new directory. Unmounted, and the directory removed, at the end.
class memory_file_system {
public:
    /// `options` as mount -o takes them: "size=64m".
    explicit memory_file_system(const std::string& options);
    memory_file_system(const memory_file_system&) = delete;
    memory_file_system& operator=(const memory_file_system&) = delete;
    ~memory_file_system();
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
};

enum class file_system_kind : std::uint8_t { ext4, xfs, btrfs };

/// As mount(8) has it; and as people write it.
[[nodiscard]] const char* type_of(file_system_kind kind) noexcept;
[[nodiscard]] const char* name_of(file_system_kind kind) noexcept;
/// Whether the kernel knows it, and its mkfs is there; else why not.
[[nodiscard]] std::string unavailable(file_system_kind kind);

/// A file system in an image, which lies in memory.
class image_file_system {
public:
    image_file_system(file_system_kind kind, std::uint64_t bytes);
    image_file_system(const image_file_system&) = delete;
    image_file_system& operator=(const image_file_system&) = delete;
    ~image_file_system();
    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    /// The power goes: the file system writes nothing any more, its log included. Not for Btrfs.
    void shut_down() const;
    /// After a power loss: what the page cache had is forgotten, the log is replayed.
    void mount_again();
    /// A power loss of a file system that cannot be told to stop: what the device has now is all that is left. Its
    /// writers are dead.
    void lose_power();

private:
    [[nodiscard]] int new_image(std::uint64_t bytes) const;
    void mount();
    void unmount();

    file_system_kind kind_;
    memory_file_system memory_;
    int image_ = -1;
    int device_ = -1;
    std::string device_path_;
    std::string path_;
};

}  // namespace holdfast::test
