#include "simulator/recording_storage.hpp"

#include <utility>

#include "base/assert.hpp"
#include "simulator/decorated_file.hpp"

namespace holdfast::simulator {

using base::result;
using persist::file;
using persist::site;

namespace {

/// An empty machine on which all directories down to `directory` exist, durably.
storage_image machine_with(const std::string& directory) {
    storage_image start;
    auto names = std::make_shared<std::map<std::string, storage_image::node_id>>();
    const std::string path = normal_path(directory);
    for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
        names->emplace(path.substr(0, end), static_cast<storage_image::node_id>(start.nodes.size()));
        start.nodes.push_back({true, std::make_shared<sparse_content>(), {}});
        if (end == std::string::npos) {
            break;
        }
    }
    start.names = std::move(names);
    return start;
}

}  // namespace

/// A real file and its mirror. What succeeded on the one must succeed on the other.
class recording_file final : public file {
public:
    recording_file(recording_storage& owner, std::unique_ptr<file> real, std::unique_ptr<file> mirror)
        : owner_(owner), real_(std::move(real)), mirror_(std::move(mirror)) {}

    [[nodiscard]] file& inner() noexcept { return *real_; }
    [[nodiscard]] file& mirror() noexcept { return *mirror_; }
    [[nodiscard]] const std::string& path() const noexcept override { return real_->path(); }
    [[nodiscard]] int native_handle() const noexcept override { return real_->native_handle(); }
    result<std::uint64_t> size() override { return real_->size(); }
    result<std::uint64_t> charged() override { return real_->charged(); }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> buffer) override {
        return real_->read_at(offset, buffer);
    }

    result<void> write_at(std::uint64_t offset, std::span<const std::byte> data, site where) override {
        return both([&](file& one) { return one.write_at(offset, data, where); });
    }
    result<void> write_gather(std::uint64_t offset, std::span<const std::span<const std::byte>> parts,
                              site where) override {
        return both([&](file& one) { return one.write_gather(offset, parts, where); });
    }
    result<void> sync(site where) override {
        return both([&](file& one) { return one.sync(where); });
    }
    result<void> resize(std::uint64_t bytes, site where) override {
        return both([&](file& one) { return one.resize(bytes, where); });
    }
    result<void> allocate(std::uint64_t offset, std::uint64_t length, site where) override {
        return both([&](file& one) { return one.allocate(offset, length, where); });
    }
    result<void> punch_hole(std::uint64_t offset, std::uint64_t length, site where) override {
        return both([&](file& one) { return one.punch_hole(offset, length, where); });
    }

private:
    template <class Operation>
    result<void> both(Operation operation) {
        const std::lock_guard lock{owner_.mutex_};
        HF_TRY(operation(*real_));
        return operation(*mirror_);
    }

    recording_storage& owner_;
    std::unique_ptr<file> real_;
    std::unique_ptr<file> mirror_;
};

recording_storage::recording_storage(std::string directory, std::uint64_t atom_size)
    : directory_(std::move(directory)), real_(persist::posix_storage()), mirror_(machine_with(directory_), atom_size) {}

bool recording_storage::recorded(const std::string& path) const {
    const std::string below = normal_path(path);
    const std::string root = normal_path(directory_);
    return below == root || below.starts_with(root + "/");
}

result<std::unique_ptr<file>> recording_storage::open(const std::string& path, persist::access_mode mode) {
    const std::lock_guard lock{mutex_};
    HF_TRY_ASSIGN(auto real, real_.open(path, mode));
    if (!recorded(path)) {
        return real;
    }
    HF_TRY_ASSIGN(const bool there, mirror_.exists(path));
    if (!there) {
        return real;  // made past this storage: the lock
    }
    HF_TRY_ASSIGN(auto mirror, mirror_.open(path, mode));
    return std::unique_ptr<file>(std::make_unique<recording_file>(*this, std::move(real), std::move(mirror)));
}

result<std::unique_ptr<file>> recording_storage::create(const std::string& path, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY_ASSIGN(auto real, real_.create(path, where));
    if (!recorded(path)) {
        return real;
    }
    HF_TRY_ASSIGN(auto mirror, mirror_.create(path, where));
    return std::unique_ptr<file>(std::make_unique<recording_file>(*this, std::move(real), std::move(mirror)));
}

result<bool> recording_storage::exists(const std::string& path) { return real_.exists(path); }

result<void> recording_storage::make_directory(const std::string& path, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY(real_.make_directory(path, where));
    return recorded(path) ? mirror_.make_directory(path, where) : result<void>{};
}

result<void> recording_storage::make_link(const std::string& path, const std::string& target, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY(real_.make_link(path, target, where));
    return recorded(path) ? mirror_.make_link(path, target, where) : result<void>{};
}

result<std::string> recording_storage::link_target(const std::string& path) { return real_.link_target(path); }
result<std::string> recording_storage::identity(const std::string& path) { return real_.identity(path); }
result<std::uint64_t> recording_storage::birth(const std::string& path) {
    HF_TRY_ASSIGN(const std::uint64_t birth, real_.birth(path));
    return birth + copies_;
}
result<std::vector<std::string>> recording_storage::list(const std::string& directory) { return real_.list(directory); }

result<void> recording_storage::rename(const std::string& from, const std::string& to, site where) {
    const std::lock_guard lock{mutex_};
    HF_ASSERT(recorded(from) == recorded(to));
    HF_TRY(real_.rename(from, to, where));
    return recorded(from) ? mirror_.rename(from, to, where) : result<void>{};
}

result<void> recording_storage::remove(const std::string& path, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY(real_.remove(path, where));
    return recorded(path) ? mirror_.remove(path, where) : result<void>{};
}

result<void> recording_storage::sync_directory(const std::string& path, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY(real_.sync_directory(path, where));
    // The directory above the recorded one is outside: the name of the recorded one counts as durable from the start.
    return recorded(path) ? mirror_.sync_directory(path, where) : result<void>{};
}

result<void> recording_storage::copy_content(file& source, file& target, persist::shared_blocks blocks, site where) {
    const std::lock_guard lock{mutex_};
    HF_TRY(real_.copy_content(undecorated<recording_file>(source), undecorated<recording_file>(target), blocks, where));
    auto* to = dynamic_cast<recording_file*>(&target);
    return to == nullptr ? result<void>{} : mirror_.copy_content(source, to->mirror(), blocks, where);
}

}  // namespace holdfast::simulator
